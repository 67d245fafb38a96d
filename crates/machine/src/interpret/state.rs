//! Partly known register contents.

use super::lanes::{LANES, Vector};
use super::memory::InterpretedMemory;
use super::names::{
    CARRY, OVERFLOW, PARITY, PLACES, SIGN, ZERO, integer_index, sign_extend, width_mask,
};
use super::partly::Partly;
use super::registers::Registers;
use iced_x86::{ConditionCode, Instruction, OpKind, Register as Name};
use profile::ImageAddress;

/// Known register contents and flags.
pub(super) struct State {
    /// Load bias of the process.
    pub moved: u64,
    thread: Option<u64>,
    pub integer: [Option<u64>; 16],
    pub vector: [Vector; 32],
    pub masks: [Option<u64>; 8],
    pub partly: Option<Partly>,
    pub flags: u8,
    pub known: u8,
    /// Return addresses of calls, for returns whose address is not known from memory.
    pub callers: Vec<ImageAddress>,
    /// True if the process rounds floating-point numbers like this program.
    pub rounds: bool,
    /// True if string instructions go upwards.
    pub forward: bool,
}

/// The bit in `rflags` that makes string instructions go downwards.
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
            // `jrcxz` and `loop` depend on no flag.
            C::None => (None, false),
        };
        value.map(|value| value != negated)
    }

    /// Returns the value of an integer register or a part of it.
    pub fn register(&self, name: Name) -> Option<u64> {
        let value = self.integer[integer_index(name)?]?;
        Some(match name {
            Name::AH | Name::BH | Name::CH | Name::DH => value >> 8 & 0xff,
            name => value & width_mask(name.size()),
        })
    }

    pub fn operand(
        &self,
        instruction: &Instruction,
        operand: u32,
        memory: &mut impl InterpretedMemory,
    ) -> Option<u64> {
        match instruction.try_op_kind(operand).ok()? {
            OpKind::Register => self.register(instruction.op_register(operand)),
            OpKind::Memory => {
                let width = instruction.memory_size().size();
                let at = self.address(instruction)?;
                matches!(width, 1 | 2 | 4 | 8).then(|| memory.load_value(at, width))?
            }
            _ => instruction.try_immediate(operand).ok(),
        }
    }

    /// Returns the address of the memory operand.
    pub fn address(&self, instruction: &Instruction) -> Option<u64> {
        let segment = match instruction.segment_prefix() {
            Name::FS => self.thread?,
            Name::GS => return None,
            _ => 0,
        };
        Some(self.sum(instruction)?.wrapping_add(segment))
    }

    /// Returns the address of the memory operand without its segment.
    pub fn sum(&self, instruction: &Instruction) -> Option<u64> {
        let part = |name: Name| match name {
            Name::None => Some(0),
            // The displacement already includes the program counter.
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
}

/// Returns a part of a register, sign-extended.
pub(super) fn signed_value(state: &State, name: Name) -> Option<u64> {
    state
        .register(name)
        .map(|value| sign_extend(value, name.size()))
}
