use crate::{Register, RegisterSet};
use profile::ImageAddress;

/// One instruction as data, for the analyses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Instruction {
    /// Its start.
    pub address: ImageAddress,
    /// Its length in bytes, 1 to 15.
    pub length: u8,
    /// Its successors in the control flow.
    pub flow: Flow,
    /// The registers that it reads, also for addresses.
    pub reads: RegisterSet,
    /// The registers that it writes (or may write).
    pub writes: RegisterSet,
    /// Properties that can make the instruction slow.
    pub kind: InstructionKind,
    /// Its form, among instructions with the same costs.
    pub form: InstructionForm,
    /// Address of the accessed memory, if it is one place (x86-64).
    pub place: Option<MemoryOperand>,
    /// The register to which it adds a constant, if it only sets flags besides (x86-64).
    pub advances: Option<(Register, i64)>,
}

/// A place in memory: a sum of registers and a constant.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct MemoryOperand {
    /// The register that is added once.
    pub base: Option<Register>,
    /// The register that is added several times, and that number (its scale).
    pub index: Option<(Register, u8)>,
    /// The constant.
    pub displacement: i64,
    /// Number of bytes accessed; 0 if unknown.
    pub bytes: u32,
}

impl Instruction {
    /// Returns the address after it.
    pub fn end(&self) -> ImageAddress {
        ImageAddress(self.address.0.wrapping_add(self.length.into()))
    }
}

/// The form of an instruction: its opcode with the size and kind of its operands, but not the
/// operands themselves. Instructions of one form cost the same in a [`crate::ProcessorModel`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct InstructionForm(pub(crate) u32);

/// Successors of an instruction in the control flow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Flow {
    /// The next instruction follows.
    Next,
    /// The target or the next instruction follows.
    Branch(ImageAddress),
    /// The target follows.
    Jump(ImageAddress),
    /// The jump goes to an address in a register or in memory.
    IndirectJump,
    /// The target follows; when it returns, the next instruction.
    Call(ImageAddress),
    /// The call goes to an address in a register or in memory; when it returns, the next
    /// instruction follows.
    IndirectCall,
    /// Control returns to the caller.
    Return,
    /// Nothing in this program follows: the instruction traps, or stops the processor.
    Stop,
}

impl Flow {
    /// Returns whether the next instruction may execute next (for calls: after they return).
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

    /// Returns whether a basic block ends here (a returning call does not end one).
    pub fn ends_block(self) -> bool {
        !matches!(self, Self::Next | Self::Call(_) | Self::IndirectCall)
    }
}

/// Properties of an instruction that can make it slow.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct InstructionKind {
    /// Reads memory.
    pub load: bool,
    /// Writes memory.
    pub store: bool,
    /// Divides or takes a square root, integer or floating point.
    pub divide: bool,
    /// Multiplies integers.
    pub multiply: bool,
    /// Computes with floating-point numbers or vectors.
    pub vector: bool,
    /// Is atomic: a locked x86 instruction, an exclusive or atomic one of Arm.
    pub locked: bool,
    /// Waits for earlier instructions: fences, `cpuid`, barriers, system calls.
    pub serialising: bool,
    /// Enters the kernel.
    pub system_call: bool,
    /// Is repeated by the processor (x86's string instructions with a prefix).
    pub repeated: bool,
    /// Only fetches into the cache.
    pub prefetch: bool,
    /// Accesses memory only at an address that is in the code itself (x86-64).
    pub fixed_address: bool,
    /// Does nothing.
    pub nop: bool,
    /// May be fused with the preceding instruction that writes flags: a conditional branch of x86.
    pub fusible_branch: bool,
    /// May be fused with a conditional branch right after it.
    pub fusible_flags: bool,
    /// Needs only the renaming of registers: it sets a register to zero by an operation with
    /// itself, or copies one.
    pub renamed: bool,
}
