//! Instructions as the interpreter keeps them.

use iced_x86::Instruction;
use profile::ImageAddress;

/// A decoded instruction, and its properties that are needed before it is executed.
#[derive(Clone, Debug)]
pub(super) struct Decoded {
    pub instruction: Instruction,
    /// The integer registers, vector registers and masks that it writes, as bits.
    pub integer: u16,
    pub vector: u32,
    pub masks: u8,
    /// True if vectors, masks or numbers are among its operands.
    pub is_vector: bool,
    /// True if it is a conditional branch, or an indirect jump or call.
    pub branches: bool,
    /// The flags that it changes.
    pub flags: u8,
    /// True if it writes memory other than by its first operand.
    pub stores: bool,
    /// True if it accesses memory by an operand.
    pub accesses: bool,
    /// True if it leaves the registers of that address as they are.
    pub keeps_address: bool,
    /// The last walk that came by, and how often it did.
    pub passed: (u64, u32),
    /// The instructions that followed it lately: address and index.
    pub followers: [Option<(ImageAddress, usize)>; 2],
}
