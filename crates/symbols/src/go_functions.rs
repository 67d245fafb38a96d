//! Functions of a Go program by its own table, which stripping keeps.

use crate::elf::Elf;
use crate::symtab::{Binding, SymbolCandidate, SymbolExtent};
use crate::tables::{DataSection, RawSymbols, SectionCompression};
use languages::go::{FunctionTable, GoImage, MAX_TABLE, TABLE_SECTIONS};
use std::ops::Range;

/// Reads the function table of an image; `None` if it is no Go program, or one older than 1.18.
pub(crate) fn read_functions(elf: &Elf) -> Option<FunctionTable> {
    let section = |names: &[&str], limit: u64| -> Option<(&DataSection, Vec<u8>)> {
        let section = names.iter().find_map(|name| elf.section_named(name))?;
        let plain = section.compression == SectionCompression::None && section.size <= limit;
        let bytes = elf.input.read_range(section.offset, section.size);
        plain.then_some((section, bytes.ok()?))
    };
    let (table, bytes) = section(&TABLE_SECTIONS, MAX_TABLE).filter(|_| elf.little_endian)?;
    let relocations = section(&[".rela.dyn", ".rela"], MAX_TABLE);
    let data: Vec<Range<u64>> = elf
        .segments
        .iter()
        .filter(|segment| !segment.executable)
        .map(|segment| segment.address..segment.address.saturating_add(segment.file_size))
        .collect();
    let image = GoImage {
        table_address: table.address,
        relocations: relocations.as_ref().map_or(&[], |(_, bytes)| bytes),
        data: &data,
        read: &|address, buffer| read_stored(elf, address, buffer),
    };
    FunctionTable::of_image(&image, bytes)
}

/// Fills the buffer with the file's bytes for an address.
pub(crate) fn read_stored(elf: &Elf, address: u64, buffer: &mut [u8]) -> bool {
    let size = buffer.len() as u64;
    let offset = elf.segments.iter().find_map(|segment| {
        let into = address.checked_sub(segment.address)?;
        (into.checked_add(size)? <= segment.file_size).then(|| segment.offset.checked_add(into))?
    });
    match offset.map(|offset| elf.input.read_range(offset, size)) {
        Some(Ok(bytes)) => {
            buffer.copy_from_slice(&bytes);
            true
        }
        _ => false,
    }
}

/// Adds the functions to the symbols of an image.
pub(crate) fn add_symbols(table: &FunctionTable, symbols: &mut RawSymbols) {
    let base = symbols.names.len() as u64;
    symbols.names.extend(table.names());
    symbols.names.push(0);
    for function in table.functions() {
        let Some(name) = table.name_offset(&function) else {
            continue;
        };
        let Range { start, end } = function.addresses;
        symbols.candidates.push(SymbolCandidate {
            start,
            size: end - start,
            limit: end,
            name: base + u64::from(name),
            extent: SymbolExtent::Known,
            binding: Binding::Global,
        });
    }
}
