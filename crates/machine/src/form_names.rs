//! Forms of instructions by name.

use crate::x86_64;
use crate::{Architecture, InstructionForm};

impl InstructionForm {
    /// Returns its name in the tables. For x86-64, that is the decoder's, followed by `+m` if an
    /// operand is in memory and `+3` for an address of three parts; for AArch64, its fixed bits in
    /// hexadecimal.
    pub fn name(self, architecture: Architecture) -> String {
        match architecture {
            Architecture::X86_64 => x86_64::form_name(self.0),
            Architecture::Aarch64 => format!("{:08x}", self.0),
        }
    }
}
