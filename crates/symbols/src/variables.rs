//! Names of variables, from symbol tables.

use crate::demangle::demangle_name;
use crate::input::{ImageInput, TableBudget};
use crate::open::open_input;
use object::elf::FileHeader64;
use object::read::ReadCache;
use object::read::elf::ElfFile;
use object::{Endianness, Object, ObjectSymbol, SymbolKind};
use profile::ImageAddress;
use std::path::Path;

/// Returns the name of the variable at an address of an image; `None` if its symbol tables have
/// none there, or cannot be read.
pub fn name_variable(path: &Path, at: ImageAddress) -> Option<String> {
    let ImageInput::File { file, len } = open_input(path).ok()? else {
        return None;
    };
    let (cache, left) = (ReadCache::new(&file), TableBudget::table_allowance(len));
    let data = TableBudget::new(&cache, &left);
    let elf = ElfFile::<FileHeader64<Endianness>, _>::parse(data).ok()?;
    let mut symbols = elf.symbols().chain(elf.dynamic_symbols());
    let found = symbols.find(|symbol| {
        symbol.kind() == SymbolKind::Data
            && at.0.wrapping_sub(symbol.address()) < symbol.size().max(1)
    });
    Some(demangle_name(found?.name().ok()?).into_owned())
}
