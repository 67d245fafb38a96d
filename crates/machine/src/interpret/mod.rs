//! Interpretation (section 7): predicts the next branches from the registers at a sample.
//!
//! It follows instructions from the program counter as long as their results depend on known
//! values: the registers and, for a stopped process, its memory. Everything else is unknown, and so
//! are all values computed from it. The walk ends at the first branch on an unknown value.

mod decoded;
mod execute;
mod lanes;
mod masks;
mod memory;
mod moves;
mod names;
mod numbers;
mod operation;
mod partly;
mod registers;
mod slice;
mod state;
mod vector;

use crate::x86_64::{MAX_LENGTH, is_read, is_written, parse_x86_64};
use decoded::Decoded;
use iced_x86::{FlowControl, Instruction, InstructionInfoFactory, Mnemonic, OpKind, UsedMemory};
use memory::{InterpretedMemory, Overlay, Pages};
use profile::ImageAddress;
use rustc_hash::FxHashMap;
use state::State;

pub use registers::Registers;
pub use slice::{MAX_OPERATIONS, Operation as SliceOperation, OperationKind as SliceKind, Slice};

/// A branch (conditional, or an indirect jump or call), and its target.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ObservedBranch {
    /// The branch.
    pub branch: ImageAddress,
    /// The instruction executed next.
    pub target: ImageAddress,
}

/// An event on the path after a sample.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WayObservation {
    /// A branch, with its target.
    Branch(ObservedBranch),
    /// An instruction accesses memory (other than the stack by pushes, pops and calls).
    Access(ObservedAccess),
    /// The instruction before the sample had accessed memory at this address, if it executed right
    /// before it, without a jump to the sample. Reported first.
    Before {
        /// The instruction.
        instruction: ImageAddress,
        /// Address of its first byte in the process.
        address: u64,
        /// True if it writes memory.
        writes: bool,
    },
}

/// A memory access on the path after a sample.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ObservedAccess {
    /// The instruction.
    pub instruction: ImageAddress,
    /// Address of its first byte in the process, if it follows from the registers.
    pub address: Option<u64>,
    /// True if it writes memory.
    pub writes: bool,
    /// True if the walk has not yet used the first half of its steps.
    pub has_room: bool,
}

/// The extent to which a process could be followed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WalkExtent {
    /// Number of instructions followed.
    pub steps: usize,
    /// The instruction that stopped the walk too early; `None` also if there is no code.
    pub blocked: Option<Blocked>,
}

/// An instruction with an unknown successor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Blocked {
    /// Its address.
    pub at: u64,
    /// Number of its executions on the path, without the path's first instruction.
    pub passed: u32,
    /// The address of the next instruction, if only that can follow: it is no jump, call or trap.
    /// Most system calls return, too.
    pub next: Option<u64>,
    /// True if it is a system call.
    pub calls_system: bool,
}

/// Maximum number of instructions followed from one sample.
const MAX_STEPS: usize = 96;

/// Maximum number of branches observed at one sample.
const MAX_BRANCHES: usize = 8;

/// Maximum number of remembered instructions.
const MAX_DECODED: usize = 1 << 18;

/// Interprets the code of one image, or one process, and caches decoded instructions.
#[derive(Debug, Default)]
pub struct CodeInterpreter {
    /// Index of the instruction at an address; `None` for addresses without code.
    places: FxHashMap<u64, Option<usize>>,
    decoded: Vec<Decoded>,
    /// Start of each followed instruction that accesses memory, by its end.
    ends: FxHashMap<u64, u64>,
    /// Last target of each branch on the paths after samples.
    went: FxHashMap<u64, u64>,
    /// Number of the last walk.
    walk: u64,
}

impl CodeInterpreter {
    /// Creates an interpreter with an empty cache.
    pub fn new() -> Self {
        Self::default()
    }

    /// Follows the code after `start` and passes its branches and memory accesses to `each`, as far
    /// as they follow from the registers and known memory. `code` fills a buffer with the bytes at
    /// an address, and returns their number. `constants` returns the eight bytes at an aligned
    /// address of the process if they never change. Other memory is known only from the results of
    /// the slice, if there is one, at the sample; the slice gets the missing operations. A store to
    /// an unknown address is assumed to change nothing known.
    pub fn follow(
        &mut self,
        start: ImageAddress,
        registers: &Registers,
        slice: Option<(&mut Slice, &[Option<u64>])>,
        mut code: impl FnMut(ImageAddress, &mut [u8]) -> usize,
        constants: impl FnMut(u64) -> Option<u64>,
        each: impl FnMut(WayObservation),
    ) {
        self.make_room();
        let moved = registers.counter.wrapping_sub(start.0);
        let mut memory = Overlay::new(constants, false);
        if let Some((slice, values)) = &slice {
            slice.replay_loads(registers, values, |at, width, value| {
                memory.store_value(at, width, Some(value));
            });
        }
        let state = State::new(registers, moved);
        let mut way = self.follow_way(start, state, &mut memory, &mut code, each);
        if let Some((slice, _)) = slice.filter(|(slice, _)| memory.missed && slice.can_learn()) {
            self.guess_further(&mut way, code);
            let instructions = way.iter().filter_map(|place| self.decoded.get(*place));
            slice.learn_way(moved, instructions);
        }
    }

    /// Continues at the end of a path, as if branches went to their last targets. If they do, the
    /// memory read there is known the next time.
    fn guess_further(
        &mut self,
        way: &mut Vec<usize>,
        mut code: impl FnMut(ImageAddress, &mut [u8]) -> usize,
    ) {
        while way.len() < MAX_STEPS
            && let Some(one) = way.last().and_then(|place| self.decoded.get(*place))
        {
            let instruction = &one.instruction;
            let at = match instruction.flow_control() {
                FlowControl::Next => instruction.next_ip(),
                FlowControl::UnconditionalBranch | FlowControl::Call
                    if instruction.near_branch_target() != 0 =>
                {
                    instruction.near_branch_target()
                }
                FlowControl::ConditionalBranch => {
                    let last = self.went.get(&instruction.ip()).copied();
                    last.unwrap_or(instruction.next_ip())
                }
                FlowControl::IndirectBranch | FlowControl::IndirectCall => {
                    match self.went.get(&instruction.ip()) {
                        Some(last) => *last,
                        None => return,
                    }
                }
                _ => return,
            };
            let at = ImageAddress(at);
            match self.decode_index(at, |buffer| code(at, buffer)) {
                Some(place) => way.push(place),
                None => return,
            }
        }
    }

    /// Follows a path; returns its instructions by index.
    fn follow_way(
        &mut self,
        start: ImageAddress,
        mut state: State,
        memory: &mut impl InterpretedMemory,
        mut code: impl FnMut(ImageAddress, &mut [u8]) -> usize,
        mut each: impl FnMut(WayObservation),
    ) -> Vec<usize> {
        if let Some(before) = self.access_before(start)
            && let Some(address) = state.address(&before.instruction)
        {
            each(WayObservation::Before {
                instruction: ImageAddress(before.instruction.ip()),
                address,
                writes: before.stores,
            });
        }
        let mut way = Vec::with_capacity(MAX_STEPS);
        let (mut at, mut branches) = (start, 0);
        for step in 0..MAX_STEPS {
            let place = self.decode_index(at, |buffer| code(at, buffer));
            let Some((place, one)) = place.and_then(|at| Some((at, self.decoded.get(at)?))) else {
                break;
            };
            way.push(place);
            let (is_branch, end) = (one.branches, one.instruction.next_ip());
            let is_access = one.accesses;
            if is_access {
                each(WayObservation::Access(ObservedAccess {
                    instruction: at,
                    address: state.address(&one.instruction),
                    writes: one.stores,
                    has_room: step < MAX_STEPS / 2 && branches < MAX_BRANCHES / 2,
                }));
            }
            let Some(target) = state.step(one, memory) else {
                break;
            };
            if is_access {
                self.ends.insert(end, at.0);
            }
            if is_branch {
                let branch = at;
                each(WayObservation::Branch(ObservedBranch { branch, target }));
                self.went.insert(branch.0, target.0);
                branches += 1;
                if branches == MAX_BRANCHES {
                    break;
                }
            }
            at = target;
        }
        way
    }

    /// Follows the code through the memory of a stopped process, which leads further. Of `steps`
    /// instructions, passes the branches after the first `skipped` to `each`. Addresses are those
    /// of the process; `read` reads its memory, which is not changed.
    pub fn walk(
        &mut self,
        registers: &Registers,
        skipped: usize,
        steps: usize,
        read: impl FnMut(u64, &mut [u8]) -> bool,
        mut each: impl FnMut(ObservedBranch),
    ) -> WalkExtent {
        self.make_room();
        let mut state = State::new(registers, 0);
        let mut pages = Pages::new(read);
        let mut memory = Overlay::new(|at| pages.word(at), true);
        let mut at = ImageAddress(registers.counter);
        self.walk += 1;
        let walk = self.walk;
        let mut place = self.decode_index(at, |buffer| memory.code(at.0, buffer));
        for step in 0..steps {
            let Some((here, one)) = place.and_then(|at| Some((at, self.decoded.get_mut(at)?)))
            else {
                let blocked = None;
                return WalkExtent {
                    steps: step,
                    blocked,
                };
            };
            if one.passed.0 != walk {
                one.passed = (walk, 0);
            }
            let Some(target) = state.step(one, &mut memory) else {
                let blocked = Some(one.blocked_state());
                return WalkExtent {
                    steps: step,
                    blocked,
                };
            };
            if step > 0 {
                one.passed.1 += 1;
            }
            if one.branches && step >= skipped {
                each(ObservedBranch { branch: at, target });
            }
            let mut known = one.followers.iter().flatten();
            place = match known.find(|(follower, _)| *follower == target) {
                Some((_, follower)) => Some(*follower),
                None => self.find_follower(here, target, &mut memory),
            };
            at = target;
        }
        WalkExtent {
            steps,
            blocked: None,
        }
    }

    /// Returns the instruction that ends at a place, accesses memory and does not change the
    /// registers of its address, if one was followed. (Code cannot be decoded backwards reliably.)
    fn access_before(&self, at: ImageAddress) -> Option<&Decoded> {
        let place = (*self.places.get(self.ends.get(&at.0)?)?)?;
        let one = self.decoded.get(place)?;
        one.keeps_address.then_some(one)
    }

    /// Finds a successor that has not followed this instruction before, and records it.
    fn find_follower(
        &mut self,
        from: usize,
        at: ImageAddress,
        memory: &mut Overlay<impl FnMut(u64) -> Option<u64>>,
    ) -> Option<usize> {
        let place = self.decode_index(at, |buffer| memory.code(at.0, buffer))?;
        if let Some(one) = self.decoded.get_mut(from) {
            one.followers = [Some((at, place)), one.followers[0]];
        }
        Some(place)
    }

    /// Empties the cache if it is too large.
    fn make_room(&mut self) {
        if self.places.len() >= MAX_DECODED {
            self.places.clear();
            self.decoded.clear();
            self.ends.clear();
            self.went.clear();
        }
    }

    /// Returns the index of the instruction at an address.
    fn decode_index(
        &mut self,
        at: ImageAddress,
        code: impl FnOnce(&mut [u8]) -> usize,
    ) -> Option<usize> {
        *self.places.entry(at.0).or_insert_with(|| {
            let mut bytes = [0; MAX_LENGTH];
            let length = code(&mut bytes);
            let instruction = parse_x86_64(at, bytes.get(..length)?).ok()?;
            self.decoded.push(Decoded::new(instruction));
            Some(self.decoded.len() - 1)
        })
    }
}

impl Decoded {
    fn new(instruction: Instruction) -> Self {
        let mut factory = InstructionInfoFactory::new();
        let info = factory.info(&instruction);
        let (mut integer, mut vector, mut masks) = (0, 0, 0);
        for used in info
            .used_registers()
            .iter()
            .filter(|used| is_written(used.access()))
        {
            if let Some(index) = names::integer_index(used.register()) {
                integer |= 1 << index;
            }
            if let Some(index) = names::vector_index(used.register()) {
                vector |= 1 << index;
            }
            if let Some(index) = masks::mask_index(used.register()) {
                masks |= 1 << index;
            }
        }
        let is_vector = (0..instruction.op_count()).any(|operand| {
            let name = instruction.op_register(operand);
            names::vector_index(name)
                .or(masks::mask_index(name))
                .is_some()
        }) || vector::truncates_float(&instruction);
        let stores = info
            .used_memory()
            .iter()
            .filter(|used| is_written(used.access()));
        let mut memory = info.used_memory().iter();
        let is_access = |used: &UsedMemory| is_read(used.access()) || is_written(used.access());
        let mut operands = (0..instruction.op_count()).map(|one| instruction.op_kind(one));
        let accesses = instruction.flow_control() == FlowControl::Next
            && operands.any(|kind| kind == OpKind::Memory)
            && memory.any(is_access);
        let of_address = [instruction.memory_base(), instruction.memory_index()];
        let of_address = of_address.into_iter().filter_map(names::integer_index);
        let keeps_address = of_address.clone().all(|index| integer >> index & 1 == 0);
        Self {
            accesses,
            keeps_address: accesses && keeps_address,
            integer,
            vector,
            masks,
            is_vector: is_vector || instruction.mnemonic() == Mnemonic::Vzeroupper,
            flags: names::flags_of(instruction.rflags_modified()),
            stores: stores.count() > 0,
            passed: (0, 0),
            followers: [None; 2],
            branches: matches!(
                instruction.flow_control(),
                FlowControl::ConditionalBranch
                    | FlowControl::IndirectBranch
                    | FlowControl::IndirectCall
            ),
            instruction,
        }
    }

    fn blocked_state(&self) -> Blocked {
        let calls_system = self.instruction.mnemonic() == Mnemonic::Syscall;
        let goes_on = calls_system || self.instruction.flow_control() == FlowControl::Next;
        Blocked {
            at: self.instruction.ip(),
            passed: self.passed.1,
            next: goes_on.then(|| self.instruction.next_ip()),
            calls_system,
        }
    }
}
