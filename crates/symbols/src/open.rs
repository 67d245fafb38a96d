//! Opening images and debug files.

use crate::elf::Elf;
use crate::error::Error;
use crate::input::ImageInput;
use crate::tables::RawSymbols;
use std::fs::File;
use std::path::Path;
use std::sync::Arc;

/// Opens an image or debug file.
pub(crate) fn open_elf(path: &Path, symbols: &mut RawSymbols) -> Result<Elf, Error> {
    Elf::read_headers(path, Arc::new(open_input(path)?), symbols)
}

pub(crate) fn open_input(path: &Path) -> Result<ImageInput, Error> {
    // Not to wait for a writer if the path is a pipe.
    let metadata = path.metadata().map_err(Error::wrap_io(path))?;
    if !metadata.is_file() {
        return Err(Error::NotElf {
            path: path.to_owned(),
        });
    }
    let file = File::open(path).map_err(Error::wrap_io(path))?;
    ImageInput::from_file(file).map_err(Error::wrap_io(path))
}
