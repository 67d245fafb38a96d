//! Access of the decoder to an image.

use machine::{Architecture, LoadedImage};
use profile::ImageAddress;
use symbols::ImageSymbols;

/// The bytes and names of an image.
pub struct ProcedureCode<'a>(pub &'a ImageSymbols);

impl ProcedureCode<'_> {
    /// Returns the image's architecture; `None` if it cannot be decoded.
    pub fn architecture(&self) -> Option<Architecture> {
        match self.0.elf_machine() {
            62 => Some(Architecture::X86_64),
            183 => Some(Architecture::Aarch64),
            _ => None,
        }
    }

    /// Returns the bytes from an address on.
    pub fn bytes(&self, start: ImageAddress, size: usize) -> Option<Vec<u8>> {
        let mut bytes = vec![0; size];
        self.0.read_loaded(start, &mut bytes).then_some(bytes)
    }
}

impl LoadedImage for ProcedureCode<'_> {
    fn read_loaded(&self, address: ImageAddress, buffer: &mut [u8]) -> bool {
        self.0.read_loaded(address, buffer)
    }

    fn never_returns(&self, target: ImageAddress) -> bool {
        let offset = self.0.offset_of(target);
        let procedure = offset.and_then(|offset| self.0.procedure_at(offset));
        procedure.is_some_and(|procedure| {
            machine::is_never_returning(&String::from_utf8_lossy(procedure.name))
        })
    }
}
