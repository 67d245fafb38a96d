//! What is known of the registers, and how an instruction changes it.

use super::lanes::{LANES, Vector};
use super::memory::Memory;
use super::moves::Partly;
use super::operation::{Outcome, extend, mask, merge};
use super::{Decoded, Registers};
use iced_x86::{
    ConditionCode, FlowControl, Instruction, Mnemonic, OpKind, Register as Name, RflagsBits,
};
use profile::ImageAddress;

/// The index of an integer register of any width.
pub(super) fn integer(name: Name) -> Option<usize> {
    let index = (name.full_register() as usize).checked_sub(Name::RAX as usize)?;
    (index < 16).then_some(index)
}

/// The index of a vector register of any width.
pub(super) fn vector(name: Name) -> Option<usize> {
    let index = (name.full_register() as usize).checked_sub(Name::ZMM0 as usize)?;
    (index < 32).then_some(index)
}

/// The flags that conditions are about, as bits of a mask.
pub(super) const CARRY: u8 = 1;
pub(super) const PARITY: u8 = 2;
pub(super) const ZERO: u8 = 4;
pub(super) const SIGN: u8 = 8;
pub(super) const OVERFLOW: u8 = 16;

/// And their places in `rflags`.
const PLACES: [(u8, u32, u32); 5] = [
    (CARRY, 0, RflagsBits::CF),
    (PARITY, 2, RflagsBits::PF),
    (ZERO, 6, RflagsBits::ZF),
    (SIGN, 7, RflagsBits::SF),
    (OVERFLOW, 11, RflagsBits::OF),
];

pub(super) fn flags_of(bits: u32) -> u8 {
    let of = |(flag, _, bit): (u8, u32, u32)| if bits & bit != 0 { flag } else { 0 };
    PLACES.into_iter().map(of).sum()
}

/// What is known.
pub(super) struct State {
    /// By how much the process sees addresses moved.
    moved: u64,
    thread: Option<u64>,
    pub integer: [Option<u64>; 16],
    pub vector: [Vector; 32],
    pub masks: [Option<u64>; 8],
    pub partly: Option<Partly>,
    pub flags: u8,
    pub known: u8,
    /// Where calls return to, where memory does not say.
    callers: Vec<ImageAddress>,
    /// Whether floating-point numbers are rounded as they are here.
    pub rounds: bool,
    /// Whether strings go upwards.
    forward: bool,
}

/// The place in `rflags` of what says that strings go downwards.
const DOWN: u32 = 10;

impl State {
    pub fn new(registers: &Registers, moved: u64) -> Self {
        let set = |(flag, place, _): (u8, u32, u32)| {
            if registers.flags >> place & 1 == 1 {
                flag
            } else {
                0
            }
        };
        Self {
            moved,
            thread: registers.thread,
            integer: registers.integer.map(Some),
            vector: std::array::from_fn(|index| {
                let known = registers.vector.and_then(|all| all.get(index).copied());
                let mut all = [None; LANES];
                if let Some([low, high]) = known {
                    (all[0], all[1]) = (Some(low), Some(high));
                }
                all
            }),
            masks: [None; 8],
            partly: None,
            flags: PLACES.into_iter().map(set).sum(),
            known: CARRY | PARITY | ZERO | SIGN | OVERFLOW,
            callers: Vec::new(),
            rounds: registers.vector.is_some(),
            forward: registers.flags >> DOWN & 1 == 0,
        }
    }

    /// Executes an instruction; gives where execution goes on, if that is known.
    pub fn step(&mut self, one: &Decoded, memory: &mut impl Memory) -> Option<ImageAddress> {
        let instruction = &one.instruction;
        let next = ImageAddress(instruction.next_ip());
        let target = ImageAddress(instruction.near_branch_target());
        match instruction.flow_control() {
            FlowControl::Next => {
                self.execute(one, memory)?;
                Some(next)
            }
            FlowControl::UnconditionalBranch => Some(target),
            FlowControl::ConditionalBranch => {
                let taken = self.condition(instruction.condition_code())?;
                Some(if taken { target } else { next })
            }
            FlowControl::IndirectBranch => self.indirect(instruction, memory),
            FlowControl::Call if instruction.is_call_near() => {
                self.call(next, memory);
                Some(target)
            }
            FlowControl::IndirectCall => {
                let target = self.indirect(instruction, memory)?;
                self.call(next, memory);
                Some(target)
            }
            FlowControl::Return if instruction.op_count() == 0 => self.leave(memory),
            _ => None,
        }
    }

    fn indirect(
        &self,
        instruction: &Instruction,
        memory: &mut impl Memory,
    ) -> Option<ImageAddress> {
        let target = self.operand(instruction, 0, memory)?;
        Some(ImageAddress(target.wrapping_sub(self.moved)))
    }

    fn call(&mut self, next: ImageAddress, memory: &mut impl Memory) {
        self.push(Some(next.0.wrapping_add(self.moved)), memory);
        self.callers.push(next);
    }

    /// What a call stores is read by nothing but its return.
    fn leave(&mut self, memory: &mut impl Memory) -> Option<ImageAddress> {
        let caller = self.callers.pop();
        let stored = self.pop(memory);
        caller.or(stored.map(|to| ImageAddress(to.wrapping_sub(self.moved))))
    }

    pub fn push(&mut self, value: Option<u64>, memory: &mut impl Memory) {
        if let Some(top) = &mut self.integer[STACK] {
            *top = top.wrapping_sub(8);
            memory.store(*top, 8, value);
        }
    }

    pub fn pop(&mut self, memory: &mut impl Memory) -> Option<u64> {
        let top = self.integer[STACK].as_mut()?;
        let value = memory.load(*top, 8);
        *top = top.wrapping_add(8);
        value
    }

    pub fn flag(&self, flag: u8) -> Option<bool> {
        (self.known & flag != 0).then_some(self.flags & flag != 0)
    }

    pub fn condition(&self, code: ConditionCode) -> Option<bool> {
        use ConditionCode as C;
        let or = |a: Option<bool>, b: Option<bool>| match (a, b) {
            (Some(true), _) | (_, Some(true)) => Some(true),
            (Some(false), Some(false)) => Some(false),
            _ => None,
        };
        let less = || Some(self.flag(SIGN)? != self.flag(OVERFLOW)?);
        let (value, negated) = match code {
            C::o => (self.flag(OVERFLOW), false),
            C::no => (self.flag(OVERFLOW), true),
            C::b => (self.flag(CARRY), false),
            C::ae => (self.flag(CARRY), true),
            C::e => (self.flag(ZERO), false),
            C::ne => (self.flag(ZERO), true),
            C::be => (or(self.flag(CARRY), self.flag(ZERO)), false),
            C::a => (or(self.flag(CARRY), self.flag(ZERO)), true),
            C::s => (self.flag(SIGN), false),
            C::ns => (self.flag(SIGN), true),
            C::p => (self.flag(PARITY), false),
            C::np => (self.flag(PARITY), true),
            C::l => (less(), false),
            C::ge => (less(), true),
            C::le => (or(less(), self.flag(ZERO)), false),
            C::g => (or(less(), self.flag(ZERO)), true),
            // `jrcxz` and `loop` are on no flag.
            C::None => (None, false),
        };
        value.map(|value| value != negated)
    }

    /// `None` if nothing can be known from here on.
    fn execute(&mut self, one: &Decoded, memory: &mut impl Memory) -> Option<()> {
        let instruction = &one.instruction;
        match instruction.mnemonic() {
            Mnemonic::Push if instruction.stack_pointer_increment() == -8 => {
                let value = self.operand(instruction, 0, memory);
                self.push(value, memory);
                return Some(());
            }
            Mnemonic::Pop if instruction.op0_kind() == OpKind::Register => {
                let value = self.pop(memory);
                if let Some(index) = integer(instruction.op0_register()) {
                    self.integer[index] = value;
                }
                return Some(());
            }
            Mnemonic::Leave => {
                self.integer[STACK] = self.integer[FRAME];
                self.integer[FRAME] = self.pop(memory);
                return Some(());
            }
            Mnemonic::Cld => {
                self.forward = true;
                return Some(());
            }
            Mnemonic::Std | Mnemonic::Syscall => return None,
            _ if instruction.is_string_instruction() => return self.string(instruction, memory),
            _ => {}
        }
        if self
            .partly
            .as_ref()
            .is_some_and(|part| part.is_written(one))
        {
            self.partly = None;
        }
        if one.is_vector && self.execute_vector(one, memory)? {
            return Some(());
        }
        let result = self.evaluate(instruction, memory);
        let first = (instruction.op0_kind() == OpKind::Register)
            .then(|| instruction.op0_register())
            .filter(|name| name.is_gpr());
        let before = first.and_then(|name| self.integer[integer(name)?]);
        self.forget(one, result.is_some(), memory)?;
        let Some(result) = result else {
            return Some(());
        };
        self.known |= result.known;
        self.flags = self.flags & !result.known | result.flags & result.known;
        for (index, value) in result.others.into_iter().flatten() {
            self.integer[index] = value;
        }
        if !result.writes {
            return Some(());
        }
        match first.and_then(|name| Some((name, integer(name)?))) {
            Some((name, index)) => self.integer[index] = merge(name, before, result.value),
            None => self.store(instruction, result.value, memory)?,
        }
        Some(())
    }

    /// Copies or fills memory; `None` for other instructions on strings, and for long ones.
    fn string(&mut self, instruction: &Instruction, memory: &mut impl Memory) -> Option<()> {
        let copies = match instruction.mnemonic() {
            Mnemonic::Movsb | Mnemonic::Movsw | Mnemonic::Movsd | Mnemonic::Movsq => true,
            Mnemonic::Stosb | Mnemonic::Stosw | Mnemonic::Stosd | Mnemonic::Stosq => false,
            _ => return None,
        };
        let width = instruction.memory_size().size();
        let repeats = instruction.has_rep_prefix() || instruction.has_repne_prefix();
        let count = if repeats { self.integer[COUNTER]? } else { 1 };
        let length = count.checked_mul(width as u64)?;
        let plain = self.forward && instruction.segment_prefix() == Name::None;
        if !plain || length > LONGEST || instruction.op0_kind() != OpKind::MemoryESRDI {
            return None;
        }
        let (from, to) = (self.integer[SOURCE], self.integer[TARGET]?);
        let value = self.register(Name::RAX).map(|value| value & mask(width));
        for at in (0..length).step_by(width) {
            let value = match copies {
                true => memory.load(from?.wrapping_add(at), width),
                false => value,
            };
            memory.store(to.wrapping_add(at), width, value);
        }
        self.integer[TARGET] = Some(to.wrapping_add(length));
        if copies {
            self.integer[SOURCE] = from.map(|from| from.wrapping_add(length));
        }
        if repeats {
            self.integer[COUNTER] = Some(0);
        }
        Some(())
    }

    /// What an instruction writes is unknown, unless it is modelled and will be set.
    fn forget(&mut self, one: &Decoded, modelled: bool, memory: &mut impl Memory) -> Option<()> {
        for index in bits(one.integer.into()) {
            self.integer[index] = None;
        }
        for index in bits(one.masks.into()) {
            self.masks[index] = None;
        }
        for index in bits(one.vector) {
            self.vector[index] = [None; LANES];
        }
        self.known &= !one.flags;
        if one.stores && !modelled {
            self.store(&one.instruction, None, memory)?;
        }
        Some(())
    }

    /// Stores to the memory operand.
    fn store(
        &self,
        instruction: &Instruction,
        value: Option<u64>,
        memory: &mut impl Memory,
    ) -> Option<()> {
        let width = instruction.memory_size().size();
        match self.address(instruction) {
            Some(at) => {
                for from in (0..width).step_by(8) {
                    let value = value.filter(|_| width <= 8);
                    memory.store(at.wrapping_add(from as u64), (width - from).min(8), value);
                }
                Some(())
            }
            // It may be anywhere.
            None => (!memory.is_whole()).then_some(()),
        }
    }

    /// The value of an integer register or a part of it.
    pub fn register(&self, name: Name) -> Option<u64> {
        let value = self.integer[integer(name)?]?;
        Some(match name {
            Name::AH | Name::BH | Name::CH | Name::DH => value >> 8 & 0xff,
            name => value & mask(name.size()),
        })
    }

    pub fn operand(
        &self,
        instruction: &Instruction,
        operand: u32,
        memory: &mut impl Memory,
    ) -> Option<u64> {
        match instruction.try_op_kind(operand).ok()? {
            OpKind::Register => self.register(instruction.op_register(operand)),
            OpKind::Memory => {
                let width = instruction.memory_size().size();
                let at = self.address(instruction)?;
                matches!(width, 1 | 2 | 4 | 8).then(|| memory.load(at, width))?
            }
            _ => instruction.try_immediate(operand).ok(),
        }
    }

    /// The address of the memory operand.
    pub fn address(&self, instruction: &Instruction) -> Option<u64> {
        let segment = match instruction.segment_prefix() {
            Name::FS => self.thread?,
            Name::GS => return None,
            _ => 0,
        };
        Some(self.sum(instruction)?.wrapping_add(segment))
    }

    /// The same without its segment.
    pub fn sum(&self, instruction: &Instruction) -> Option<u64> {
        let part = |name: Name| match name {
            Name::None => Some(0),
            // The displacement has the program counter in it already.
            Name::RIP => Some(self.moved),
            name if name.is_gpr64() => self.register(name),
            _ => None,
        };
        let base = part(instruction.memory_base())?;
        let index = part(instruction.memory_index())?;
        let scaled = index.wrapping_mul(instruction.memory_index_scale().into());
        let sum = base.wrapping_add(scaled);
        Some(sum.wrapping_add(instruction.memory_displacement64()))
    }

    /// What an instruction computes; `None` if it is not modelled.
    fn evaluate(&self, instruction: &Instruction, memory: &mut impl Memory) -> Option<Outcome> {
        let width = match instruction.op0_kind() {
            // As `cdqe` has it.
            _ if instruction.op_count() == 0 => 8,
            OpKind::Register => instruction.op0_register().size(),
            OpKind::Memory => instruction.memory_size().size(),
            _ => 8,
        };
        if !matches!(width, 1 | 2 | 4 | 8) {
            return None;
        }
        let mut operands = [None; 3];
        for (number, operand) in (0..instruction.op_count().min(3)).zip(&mut operands) {
            *operand = match instruction.mnemonic() {
                Mnemonic::Lea => None,
                _ => self.operand(instruction, number, memory),
            };
        }
        super::operation::evaluate(self, instruction, width, operands)
    }
}

/// The places of the bits that are set.
fn bits(mut of: u32) -> impl Iterator<Item = usize> {
    std::iter::from_fn(move || {
        let lowest = (of != 0).then(|| of.trailing_zeros() as usize)?;
        of &= of - 1;
        Some(lowest)
    })
}

/// Bytes of the longest string: longer ones the process had better copy itself.
const LONGEST: u64 = 4096;

/// `rcx`, `rsi` and `rdi`.
const COUNTER: usize = 1;
const SOURCE: usize = 6;
const TARGET: usize = 7;

/// `rsp` and `rbp`.
const STACK: usize = 4;
const FRAME: usize = 5;

/// Widens a part of a register.
pub(super) fn signed(state: &State, name: Name) -> Option<u64> {
    state.register(name).map(|value| extend(value, name.size()))
}
