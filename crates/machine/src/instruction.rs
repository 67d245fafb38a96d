use crate::{Register, RegisterSet};
use profile::ImageAddress;

/// One instruction as data: what the analyses ask about it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Instruction {
    /// Where it starts.
    pub address: ImageAddress,
    /// Its length in bytes, 1 to 15.
    pub length: u8,
    /// Where execution goes on.
    pub flow: Flow,
    /// The registers that it reads, also for addresses.
    pub reads: RegisterSet,
    /// The registers that it writes (or may write).
    pub writes: RegisterSet,
    /// Properties that can make the instruction slow.
    pub kind: InstructionKind,
    /// The instruction form, among those that take the same resources.
    pub form: InstructionForm,
    /// Where the memory is that it accesses, if that is all at one place (x86-64).
    pub place: Option<MemoryOperand>,
    /// The register to which it adds a constant, and does nothing else but set flags (x86-64).
    pub advances: Option<(Register, i64)>,
}

/// A place in memory: what the registers say, and a constant.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct MemoryOperand {
    /// The register that is added as it is.
    pub base: Option<Register>,
    /// The register that is added so many times.
    pub index: Option<(Register, u8)>,
    /// The constant.
    pub displacement: i64,
    /// Bytes accessed; 0 if the number is not known.
    pub bytes: u32,
}

impl Instruction {
    /// The address after it.
    pub fn end(&self) -> ImageAddress {
        ImageAddress(self.address.0.wrapping_add(self.length.into()))
    }
}

/// The form of an instruction: its opcode with the size and kind of its operands, but not which
/// ones they are. Instructions of one form cost the same in a [`crate::Model`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct InstructionForm(pub(crate) u32);

/// Where execution goes on after an instruction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Flow {
    /// At the next instruction.
    Next,
    /// At the target or at the next instruction.
    Branch(ImageAddress),
    /// At the target.
    Jump(ImageAddress),
    /// Where a register or memory says.
    IndirectJump,
    /// At the target, and if that returns at the next instruction.
    Call(ImageAddress),
    /// Where a register or memory says, and if that returns at the next instruction.
    IndirectCall,
    /// At the caller.
    Return,
    /// Nowhere in this program: it traps, or stops the processor.
    Stop,
}

impl Flow {
    /// Returns whether the next instruction may be executed next (for calls: when they return).
    pub fn falls_through(self) -> bool {
        matches!(
            self,
            Self::Next | Self::Branch(_) | Self::Call(_) | Self::IndirectCall
        )
    }

    /// Returns whether it is a call.
    pub fn is_call(self) -> bool {
        matches!(self, Self::Call(_) | Self::IndirectCall)
    }

    /// Returns whether a basic block ends here (a call does not end one, as long as it returns).
    pub fn ends_block(self) -> bool {
        !matches!(self, Self::Next | Self::Call(_) | Self::IndirectCall)
    }
}

/// Properties of an instruction that can make it slow.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct InstructionKind {
    /// It reads memory.
    pub load: bool,
    /// It writes memory.
    pub store: bool,
    /// It divides or takes a square root, integer or floating point.
    pub divide: bool,
    /// It multiplies integers.
    pub multiply: bool,
    /// It computes with floating-point numbers or vectors.
    pub vector: bool,
    /// It is atomic: a locked x86 instruction, an exclusive or atomic one of Arm.
    pub locked: bool,
    /// It waits for what came before it: fences, `cpuid`, barriers, system calls.
    pub serialising: bool,
    /// It enters the kernel.
    pub system_call: bool,
    /// It is repeated by the processor (x86's string instructions with a prefix).
    pub repeated: bool,
    /// It only fetches into the cache.
    pub prefetch: bool,
    /// All memory that it accesses is at an address that the code itself says (x86-64).
    pub fixed_address: bool,
    /// It does nothing.
    pub nop: bool,
    /// Its first flag-writing partner and it may be executed as one: a conditional branch of x86.
    pub fusible_branch: bool,
    /// It may be executed as one with a conditional branch right after it.
    pub fusible_flags: bool,
    /// Renaming the registers is all that has to be done: it sets a register to zero by an
    /// operation with itself, or copies one.
    pub renamed: bool,
}
