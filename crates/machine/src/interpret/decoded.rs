//! The interpreter's form of instructions.

use iced_x86::Instruction;
use profile::ImageAddress;

/// A decoded instruction, with the properties that are needed before its execution.
#[derive(Clone, Debug)]
pub(super) struct Decoded {
    pub instruction: Instruction,
    /// The integer registers, vector registers and masks that it writes, as bits.
    pub integer: u16,
    pub vector: u32,
    pub masks: u8,
    /// True if its operands include vectors, masks or floating-point numbers.
    pub is_vector: bool,
    /// True if it is a conditional branch, or an indirect one or call.
    pub branches: bool,
    /// The flags that it changes.
    pub flags: u8,
    /// True if it writes memory.
    pub stores: bool,
    /// True if it accesses memory by an operand.
    pub accesses: bool,
    /// True if it does not change the registers of that address.
    pub keeps_address: bool,
    /// The last walk that passed it, and how often.
    pub passed: (u64, u32),
    /// Its recent successors: address and index.
    pub followers: [Option<(ImageAddress, usize)>; 2],
}
