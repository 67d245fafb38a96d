//! Names of variables, from symbol tables.

use crate::demangle::demangle_name;
use object::elf::FileHeader64;
use object::read::ReadCache;
use object::read::elf::ElfFile;
use object::{Endianness, Object, ObjectSymbol, SymbolKind};
use profile::ImageAddress;
use std::fs::File;
use std::path::Path;

/// Returns the name of the variable at an address of an image; `None` if its symbol tables have
/// none there, or cannot be read.
pub fn name_variable(path: &Path, at: ImageAddress) -> Option<String> {
    // Not to wait for a writer if the path is a pipe.
    path.metadata().ok().filter(|file| file.is_file())?;
    let file = ReadCache::new(File::open(path).ok()?);
    let elf = ElfFile::<FileHeader64<Endianness>, _>::parse(&file).ok()?;
    let mut symbols = elf.symbols().chain(elf.dynamic_symbols());
    let found = symbols.find(|symbol| {
        symbol.kind() == SymbolKind::Data
            && at.0.wrapping_sub(symbol.address()) < symbol.size().max(1)
    });
    Some(demangle_name(found?.name().ok()?).into_owned())
}
