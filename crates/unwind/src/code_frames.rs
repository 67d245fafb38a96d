//! Frames of code without unwind tables, from the effects of its instructions on the stack pointer
//! and the frame pointer.

use crate::caller_rule::CallerRule;
use crate::elf::ElfBytes;
use iced_x86::{
    Code, Decoder, DecoderOptions, FlowControl, Instruction, InstructionInfoFactory, Mnemonic,
    OpKind, Register,
};
use rustc_hash::{FxHashMap, FxHashSet};
use std::ops::Range;

/// Alignment of functions, unless they were built for size.
const ALIGNMENT: u64 = 16;

/// The rule to the caller, as far as the instructions show it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum CodeRule {
    Caller(CallerRule),
    /// The function has no caller: it cleared the frame pointer without saving it, as the ABI
    /// requires of the first function.
    Root,
    /// A signal handler returns to this code, which asks the kernel to restore the interrupted
    /// function's registers.
    SignalReturn,
    Unknown,
}

/// The rules of an image's code without tables.
#[derive(Debug, Default)]
pub(crate) struct CodeFrames {
    /// Addresses at which rules begin to hold, sorted.
    changes: Vec<(u64, CodeRule)>,
}

impl CodeFrames {
    /// Follows the instructions of code from the functions' beginnings: targets of calls, pointers
    /// in the code, and unreached code after the end of another function. The parts of `code` are
    /// sorted; the program starts at `entry`.
    pub(crate) fn follow_code(code: &[ElfBytes], entry: u64) -> Self {
        if code.is_empty() {
            return Self::default();
        }
        let mut flow = StackFlow {
            code,
            sweep: CodeSweep::default(),
            met: FxHashMap::default(),
            open: Vec::new(),
            returning: FxHashSet::default(),
            untold: Vec::new(),
            waiting: FxHashMap::default(),
            switches: FxHashMap::default(),
            factory: InstructionInfoFactory::new(),
        };
        for part in code {
            flow.sweep.take_code(part, code);
        }
        flow.follow_functions(entry);
        flow.rule_changes()
    }

    pub(crate) fn rule_at(&self, address: u64) -> CodeRule {
        let behind = self.changes.partition_point(|(from, _)| *from <= address);
        let last = self.changes[..behind].last();
        last.map_or(CodeRule::Unknown, |(_, rule)| *rule)
    }

    /// Returns the address range of each rule. The last one, at the end of the code, is
    /// [`CodeRule::Unknown`].
    pub(crate) fn rules(&self) -> impl Iterator<Item = (Range<u64>, CodeRule)> {
        let pairs = self.changes.windows(2);
        pairs.map(|pair| (pair[0].0..pair[1].0, pair[0].1))
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.changes.is_empty()
    }

    pub(crate) fn size(&self) -> usize {
        self.changes.capacity() * size_of::<(u64, CodeRule)>()
    }
}

/// Offsets between the canonical frame address, the stack pointer and the frame pointer before an
/// instruction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct StackFrame {
    /// Canonical frame address minus the stack pointer.
    above_stack: Option<i64>,
    /// Canonical frame address minus the frame pointer, if the function has set it.
    above_pointer: Option<i64>,
    /// Place of the caller's frame pointer, from the canonical frame address.
    saved_pointer: Option<i64>,
    is_root: bool,
}

impl StackFrame {
    /// The frame right after a call.
    const ENTERED: Self = Self {
        above_stack: Some(8),
        above_pointer: None,
        saved_pointer: None,
        is_root: false,
    };
    const ROOT: Self = Self {
        is_root: true,
        ..Self::ENTERED
    };

    fn rule(self) -> CodeRule {
        let (from_frame_pointer, cfa) = match (self.above_stack, self.above_pointer) {
            _ if self.is_root => return CodeRule::Root,
            (Some(above), _) => (false, above),
            (None, Some(above)) => (true, above),
            (None, None) => return CodeRule::Unknown,
        };
        CodeRule::Caller(CallerRule {
            from_frame_pointer,
            cfa,
            return_address: Some(-8),
            frame_pointer: self.saved_pointer,
        })
    }

    fn move_stack(&mut self, bytes: i64) {
        self.above_stack = self.above_stack.and_then(|above| above.checked_sub(bytes));
    }

    /// Reads the frame pointer from the stack.
    fn load_pointer(&mut self, from: Option<i64>) -> Option<()> {
        if self.saved_pointer != from || from.is_none() {
            return self.set_pointer(None);
        }
        (self.saved_pointer, self.above_pointer) = (None, None);
        Some(())
    }

    /// Gives the frame pointer another value; `None` if that loses the caller's.
    fn set_pointer(&mut self, above: Option<i64>) -> Option<()> {
        self.above_pointer = above;
        (self.saved_pointer.is_some() || self.is_root).then_some(())
    }

    /// Returns the frame after an instruction; `None` if unknown.
    fn follow(mut self, at: &Instruction, factory: &mut InstructionInfoFactory) -> Option<Self> {
        let first = (at.op_count() > 0 && at.op0_kind() == OpKind::Register)
            .then(|| at.op0_register().full_register());
        let second = (at.op_count() > 1 && at.op1_kind() == OpKind::Register)
            .then(|| at.op1_register().full_register());
        let immediate = || {
            at.try_immediate(1)
                .ok()
                .map(|immediate| immediate.cast_signed())
        };
        let place = match at.memory_base() {
            _ if at.memory_index() != Register::None => None,
            Register::RSP => self.above_stack,
            Register::RBP => self.above_pointer,
            _ => None,
        };
        // Place of a memory operand, from the canonical frame address.
        let place =
            place.map(|above| (at.memory_displacement64().cast_signed()).wrapping_sub(above));
        match (at.mnemonic(), first) {
            (Mnemonic::Push, _) => {
                self.move_stack(-at.stack_pointer_increment().unsigned_abs().cast_signed() as i64);
                if first == Some(Register::RBP)
                    && (self.saved_pointer, self.above_pointer) == (None, None)
                {
                    self.saved_pointer = self.above_stack.map(|above| -above);
                }
            }
            (Mnemonic::Pop, _) => {
                let from = self.above_stack.map(|above| -above);
                self.move_stack(at.stack_pointer_increment().into());
                match first {
                    Some(Register::RBP) => self.load_pointer(from)?,
                    Some(Register::RSP) => self.above_stack = None,
                    _ => {}
                }
            }
            (Mnemonic::Leave, _) => {
                let from = self.above_pointer.map(|above| -above);
                self.above_stack = self.above_pointer.map(|above| above - 8);
                self.load_pointer(from)?;
            }
            (Mnemonic::Sub, Some(Register::RSP)) if second.is_none() => {
                self.move_stack(-immediate()?)
            }
            (Mnemonic::Add, Some(Register::RSP)) if second.is_none() => {
                self.move_stack(immediate()?)
            }
            (Mnemonic::Lea, Some(Register::RSP)) => self.above_stack = place.map(|place| -place),
            (Mnemonic::Lea, Some(Register::RBP)) => self.set_pointer(place.map(|place| -place))?,
            (Mnemonic::Mov, Some(Register::RSP)) if second == Some(Register::RBP) => {
                self.above_stack = self.above_pointer;
            }
            (Mnemonic::Mov, Some(Register::RBP)) if second == Some(Register::RSP) => {
                self.set_pointer(self.above_stack)?;
            }
            (Mnemonic::Mov, Some(Register::RBP)) if second.is_none() && place.is_some() => {
                self.load_pointer(place)?;
            }
            (Mnemonic::Mov, None) if second == Some(Register::RBP) => {
                if (self.saved_pointer, self.above_pointer) == (None, None) {
                    self.saved_pointer = place.filter(|place| *place < 0);
                }
            }
            (Mnemonic::Xor, Some(Register::RBP))
                if second == first && self.saved_pointer.is_none() =>
            {
                self.is_root = true;
            }
            (Mnemonic::Call, _) => {}
            _ => {
                let info = factory.info(at);
                let written = |register: Register| {
                    let used = info.used_registers().iter();
                    let mut same = used.filter(|used| used.register().full_register() == register);
                    same.any(|used| is_write(used.access()))
                };
                if written(Register::RSP) {
                    self.above_stack = None;
                }
                if written(Register::RBP) {
                    self.set_pointer(None)?;
                }
            }
        }
        Some(self)
    }
}

fn is_write(access: iced_x86::OpAccess) -> bool {
    use iced_x86::OpAccess::{CondWrite, ReadCondWrite, ReadWrite, Write};
    matches!(access, Write | CondWrite | ReadWrite | ReadCondWrite)
}

/// Number of the system call that returns from a signal handler.
const SIGNAL_RETURN: u64 = 15;

/// Facts from all instructions, collected in one pass.
#[derive(Default)]
struct CodeSweep {
    /// Addresses of instructions, and whether each is only padding.
    instructions: Vec<(u64, bool)>,
    /// Targets of calls, and pointers to code.
    functions: FxHashSet<u64>,
    /// Targets of jumps.
    labels: FxHashSet<u64>,
    /// Instructions that return from a signal handler, and those before them, where a call would
    /// be.
    signal_returns: FxHashSet<u64>,
}

impl CodeSweep {
    fn take_code(&mut self, part: &ElfBytes, code: &[ElfBytes]) {
        let mut decoder = Decoder::with_ip(64, &part.bytes, part.address, DecoderOptions::NONE);
        let mut before = [Instruction::default(); 2];
        for at in &mut decoder {
            let [_, number] = before;
            if at.mnemonic() == Mnemonic::Syscall
                && number.mnemonic() == Mnemonic::Mov
                && number.op0_register().full_register() == Register::RAX
                && number.try_immediate(1).ok() == Some(SIGNAL_RETURN)
            {
                let all = before.iter().chain([&at]).map(Instruction::ip);
                self.signal_returns.extend(all);
            }
            before = [number, at];
            let fills = matches!(at.mnemonic(), Mnemonic::Nop | Mnemonic::Int3);
            self.instructions.push((at.ip(), fills || at.is_invalid()));
            let pointer = match at.mnemonic() {
                Mnemonic::Lea if at.is_ip_rel_memory_operand() => at.ip_rel_memory_address(),
                Mnemonic::Mov => at.try_immediate(1).unwrap_or(0),
                _ => 0,
            };
            if part_at(code, pointer).is_some() {
                self.functions.insert(pointer);
            }
            match at.flow_control() {
                FlowControl::Call => self.functions.insert(at.near_branch_target()),
                FlowControl::UnconditionalBranch | FlowControl::ConditionalBranch => {
                    self.labels.insert(at.near_branch_target())
                }
                _ => false,
            };
        }
    }
}

/// A point from which code is followed.
#[derive(Clone, Copy)]
struct FlowPoint {
    address: u64,
    frame: StackFrame,
    /// Start of its function.
    function: u64,
}

/// Code that continues if a function returns.
enum Waiting {
    /// The code after a call of it.
    Caller(FlowPoint),
    /// A function that ends with a jump to it.
    Function(u64),
}

fn part_at(code: &[ElfBytes], address: u64) -> Option<&ElfBytes> {
    let behind = code.partition_point(|part| part.address <= address);
    code[..behind].last().filter(|part| part.contains(address))
}

struct StackFlow<'a> {
    code: &'a [ElfBytes],
    sweep: CodeSweep,
    /// The frame before each instruction reached so far.
    met: FxHashMap<u64, FlowPoint>,
    open: Vec<FlowPoint>,
    /// Functions that return, and those whose callers are still to be continued.
    returning: FxHashSet<u64>,
    untold: Vec<u64>,
    /// Code that waits for functions that may never return.
    waiting: FxHashMap<u64, Vec<Waiting>>,
    /// The frames at jumps through tables, whose targets are unknown.
    switches: FxHashMap<u64, StackFrame>,
    factory: InstructionInfoFactory,
}

impl StackFlow<'_> {
    fn follow_functions(&mut self, entry: u64) {
        self.meet_function(entry, StackFrame::ROOT);
        let instructions = &self.sweep.instructions;
        let begins = |at: &&u64| {
            instructions
                .binary_search_by_key(*at, |(at, _)| *at)
                .is_ok()
        };
        let functions: Vec<u64> = self
            .sweep
            .functions
            .iter()
            .filter(begins)
            .copied()
            .collect();
        for function in functions {
            self.meet_function(function, StackFrame::ENTERED);
        }
        self.follow_all();
        // In the first pass, targets of jumps from unreached code wait until that code is reached.
        for is_last in [false, true] {
            let mut switch = None;
            for index in 0..self.sweep.instructions.len() {
                let (at, fills) = self.sweep.instructions[index];
                if self.met.contains_key(&at) {
                    let begins = self.sweep.functions.contains(&at) || at == entry;
                    switch = switch.filter(|_| !begins);
                    switch = self.switches.get(&at).copied().or(switch);
                    continue;
                }
                let waits =
                    self.sweep.labels.contains(&at) && !(is_last && at.is_multiple_of(ALIGNMENT));
                if !fills && !waits {
                    let block = switch.filter(|_| !self.is_prologue(at));
                    self.meet_function(at, block.unwrap_or(StackFrame::ENTERED));
                    self.follow_all();
                }
            }
        }
    }

    /// Returns whether the code there looks like the beginning of a function.
    fn is_prologue(&self, address: u64) -> bool {
        let first = self.decode(address);
        first.is_some_and(|at| match at.mnemonic() {
            Mnemonic::Push | Mnemonic::Endbr64 => true,
            Mnemonic::Sub => at.op0_register() == Register::RSP,
            _ => false,
        })
    }

    fn decode(&self, address: u64) -> Option<Instruction> {
        let part = part_at(self.code, address)?;
        let bytes = &part.bytes[(address - part.address) as usize..];
        let at = Decoder::with_ip(64, bytes, address, DecoderOptions::NONE).decode();
        (!at.is_invalid()).then_some(at)
    }

    fn meet_function(&mut self, address: u64, frame: StackFrame) {
        self.meet(FlowPoint {
            address,
            frame,
            function: address,
        });
    }

    fn meet(&mut self, point: FlowPoint) {
        let known = self.met.get(&point.address).map(|known| known.function);
        match known {
            None => {
                self.met.insert(point.address, point);
                self.open.push(point);
            }
            Some(other) if other != point.function => {
                self.wait_for(other, Waiting::Function(point.function));
            }
            Some(_) => {}
        }
    }

    fn wait_for(&mut self, function: u64, waiting: Waiting) {
        if self.returning.contains(&function) || !self.met.contains_key(&function) {
            self.go_on(waiting);
        } else {
            self.waiting.entry(function).or_default().push(waiting);
        }
    }

    fn go_on(&mut self, waiting: Waiting) {
        match waiting {
            Waiting::Caller(point) => self.meet(point),
            Waiting::Function(function) => self.untold.push(function),
        }
    }

    fn follow_all(&mut self) {
        loop {
            if let Some(function) = self.untold.pop() {
                if self.returning.insert(function) {
                    let waiting = self.waiting.remove(&function);
                    waiting
                        .into_iter()
                        .flatten()
                        .for_each(|one| self.go_on(one));
                }
                continue;
            }
            let Some(point) = self.open.pop() else {
                return;
            };
            let at = self.decode(point.address);
            let next = at.and_then(|at| point.frame.follow(&at, &mut self.factory));
            let (Some(at), Some(frame)) = (at, next) else {
                self.untold.push(point.function);
                continue;
            };
            let to = |address: u64| FlowPoint {
                address,
                frame,
                ..point
            };
            let behind = to(at.next_ip());
            match at.flow_control() {
                FlowControl::UnconditionalBranch => self.meet(to(at.near_branch_target())),
                FlowControl::ConditionalBranch => {
                    self.meet(to(at.near_branch_target()));
                    self.meet(behind);
                }
                FlowControl::IndirectBranch => {
                    self.switches.insert(point.address, point.frame);
                    self.untold.push(point.function);
                }
                FlowControl::Return => self.untold.push(point.function),
                FlowControl::Call => {
                    self.wait_for(at.near_branch_target(), Waiting::Caller(behind));
                }
                FlowControl::Exception | FlowControl::Interrupt => {}
                _ if at.code() == Code::Hlt => {}
                _ => self.meet(behind),
            }
        }
    }

    fn rule_changes(&self) -> CodeFrames {
        let mut changes: Vec<(u64, CodeRule)> = Vec::new();
        let mut change = |from: u64, rule: CodeRule| {
            if changes.last().is_none_or(|(_, last)| *last != rule) {
                changes.push((from, rule));
            }
        };
        let mut end = 0;
        for (at, _) in &self.sweep.instructions {
            if *at >= end {
                change(end, CodeRule::Unknown);
                let part = part_at(self.code, *at);
                end = part.map_or(end, |part| part.address + part.bytes.len() as u64);
            }
            let point = self.met.get(at);
            let rule = if self.sweep.signal_returns.contains(at) {
                CodeRule::SignalReturn
            } else {
                point.map_or(CodeRule::Unknown, |point| point.frame.rule())
            };
            change(*at, rule);
        }
        change(end, CodeRule::Unknown);
        changes.shrink_to_fit();
        CodeFrames { changes }
    }
}

#[cfg(test)]
mod tests;
