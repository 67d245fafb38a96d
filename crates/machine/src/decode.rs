use crate::effect::RegisterEffect;
use crate::{Architecture, Error, Instruction, aarch64, x86_64};
use profile::ImageAddress;

/// Turns bytes into [`Instruction`]s.
#[derive(Debug)]
pub struct InstructionDecoder {
    architecture: Architecture,
    x86_64: x86_64::X86_64,
}

impl InstructionDecoder {
    /// Makes a decoder for this architecture.
    pub fn new(architecture: Architecture) -> Self {
        Self {
            architecture,
            x86_64: x86_64::X86_64::new(),
        }
    }

    /// Returns the architecture.
    pub fn architecture(&self) -> Architecture {
        self.architecture
    }

    /// Decodes the instruction at the start of `bytes`, which is at `address`. More bytes may
    /// follow.
    ///
    /// # Errors
    /// [`Error::Invalid`] if the bytes are no instruction, [`Error::Truncated`] if they end too
    /// early.
    pub fn decode(&mut self, address: ImageAddress, bytes: &[u8]) -> Result<Instruction, Error> {
        match self.architecture {
            Architecture::X86_64 => self.x86_64.decode(address, bytes),
            Architecture::Aarch64 => aarch64::decode_aarch64(address, bytes),
        }
    }

    /// Returns the instruction in the assembler's notation: AT&T's for x86-64, Arm's for AArch64.
    ///
    /// # Errors
    /// As [`decode`](Self::decode).
    pub fn text(&self, address: ImageAddress, bytes: &[u8]) -> Result<String, Error> {
        match self.architecture {
            Architecture::X86_64 => x86_64::format_x86_64(address, bytes),
            Architecture::Aarch64 => aarch64::format_aarch64(address, bytes),
        }
    }

    pub(crate) fn effect_of(
        &self,
        address: ImageAddress,
        bytes: &[u8],
    ) -> Result<RegisterEffect, Error> {
        match self.architecture {
            Architecture::X86_64 => x86_64::register_effect(address, bytes),
            Architecture::Aarch64 => aarch64::register_effect(address, bytes),
        }
    }
}
