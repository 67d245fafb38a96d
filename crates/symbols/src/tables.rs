//! The sections of an ELF file: its debug information and its symbol tables.

use crate::error::Error;
use crate::input::ImageInput;
use crate::symtab::{Binding, SymbolCandidate, SymbolExtent};
use languages::go::TABLE_SECTIONS;
use object::Endianness;
use object::elf;
use object::read::ReadRef;
use object::read::elf::{CompressionHeader, FileHeader, SectionHeader, SectionTable, Sym};
use std::path::Path;

/// The compression of a section.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SectionCompression {
    None,
    Zlib,
    Zstd,
    Other,
}

/// A section that is not code: debug information, links to it, relocations, unwind tables.
#[derive(Clone, Debug)]
pub(crate) struct DataSection {
    /// Name, without the `z` of `.zdebug_`.
    pub name: String,
    pub offset: u64,
    pub size: u64,
    /// Load address; 0 if it is not loaded.
    pub address: u64,
    pub compression: SectionCompression,
    /// Uncompressed size, as the file claims.
    pub full_size: u64,
}

/// The unsorted symbols of a file.
#[derive(Debug, Default)]
pub(crate) struct RawSymbols {
    pub candidates: Vec<SymbolCandidate>,
    /// Concatenated string tables; names point into them and end with a zero.
    pub names: Vec<u8>,
}

pub(crate) struct Sections<'a, 'd, H: FileHeader<Endian = Endianness>, R: ReadRef<'d>> {
    pub path: &'a Path,
    pub endian: Endianness,
    pub data: R,
    pub header: &'d H,
    pub input: &'a ImageInput,
    pub sections: &'a SectionTable<'d, H, R>,
    pub symbols: &'a mut RawSymbols,
}

impl<'d, H: FileHeader<Endian = Endianness>, R: ReadRef<'d>> Sections<'_, 'd, H, R> {
    pub fn error(&self, what: &str, section: &H::SectionHeader, reason: impl ToString) -> Error {
        Error::Malformed {
            path: self.path.to_owned(),
            what: what.to_owned(),
            offset: section.sh_offset(self.endian).into(),
            reason: reason.to_string(),
        }
    }

    pub fn name(&self, section: &H::SectionHeader) -> String {
        let name = self.sections.section_name(self.endian, section);
        String::from_utf8_lossy(name.unwrap_or_default()).into_owned()
    }

    /// Returns the sections with debug information, links to it, relocations and unwind tables.
    pub fn data_sections(&self) -> Result<Vec<DataSection>, Error> {
        let mut found = Vec::new();
        for section in self.sections.iter() {
            let name = self.name(section);
            if !name.starts_with(".debug_")
                && !name.starts_with(".zdebug_")
                && !name.starts_with(".gnu_debug")
                && name != ".rela.dyn"
                && name != ".rela"
                && name != ".eh_frame"
                && !TABLE_SECTIONS.contains(&name.as_str())
            {
                continue;
            }
            let Some((offset, size)) = section.file_range(self.endian) else {
                continue;
            };
            if offset
                .checked_add(size)
                .is_none_or(|end| end > self.input.len())
            {
                return Err(self.error(&format!("section {name}"), section, "it leaves the file"));
            }
            let mut entry = DataSection {
                name,
                offset,
                size,
                address: section.sh_addr(self.endian).into(),
                compression: SectionCompression::None,
                full_size: size,
            };
            self.read_compression(section, &mut entry)?;
            found.push(entry);
        }
        Ok(found)
    }

    fn read_compression(
        &self,
        section: &H::SectionHeader,
        entry: &mut DataSection,
    ) -> Result<(), Error> {
        if let Some(name) = entry.name.strip_prefix(".z") {
            // The older GNU form: "ZLIB" and the size in big-endian order before the stream.
            let start = self
                .input
                .read_range(entry.offset, entry.size.min(12))
                .unwrap_or_default();
            let Some((b"ZLIB", size @ &[_, _, _, _, _, _, _, _])) = start.split_first_chunk()
            else {
                return Err(self.error(&entry.name, section, "no ZLIB header"));
            };
            entry.full_size = size.iter().fold(0, |sum, byte| sum << 8 | u64::from(*byte));
            entry.name = format!(".{name}");
            entry.offset += 12;
            entry.size -= 12;
            entry.compression = SectionCompression::Zlib;
            return Ok(());
        }
        if !section.sh_flags(self.endian).contains(elf::SHF_COMPRESSED) {
            return Ok(());
        }
        // Only the section's header; the debug information itself is read on demand.
        let header_len = size_of::<H::CompressionHeader>() as u64;
        let header = self
            .data
            .read_at::<H::CompressionHeader>(entry.offset)
            .ok()
            .filter(|_| entry.size >= header_len)
            .ok_or_else(|| self.error(&entry.name, section, "no compression header"))?;
        entry.full_size = header.ch_size(self.endian).into();
        entry.offset += header_len;
        entry.size -= header_len;
        entry.compression = match header.ch_type(self.endian) {
            elf::ELFCOMPRESS_ZLIB => SectionCompression::Zlib,
            elf::ELFCOMPRESS_ZSTD => SectionCompression::Zstd,
            _ => SectionCompression::Other,
        };
        Ok(())
    }

    /// Takes over one symbol table; returns false if there is none.
    pub fn symbols(&mut self, kind: elf::SectionType) -> Result<bool, Error> {
        let Some(section) = self
            .sections
            .iter()
            .find(|section| section.sh_type(self.endian) == kind)
        else {
            return Ok(false);
        };
        let what = if kind == elf::SHT_SYMTAB {
            "symbol table"
        } else {
            "dynamic symbol table"
        };
        let table = self
            .sections
            .symbols(self.endian, self.data, kind)
            .map_err(|error| self.error(what, section, error))?;
        if table.len() < 2 {
            return Ok(false);
        }
        let base = self.symbols.names.len() as u64;
        let strings = self
            .sections
            .section(table.string_section())
            .map_err(|error| self.error(what, section, error))?;
        let (offset, size) = strings.file_range(self.endian).unwrap_or_default();
        let strings = self
            .input
            .read_range(offset, size)
            .map_err(|error| self.error("string table", strings, error))?;
        if self.symbols.names.is_empty() {
            self.symbols.names = strings
        } else {
            self.symbols.names.extend_from_slice(&strings)
        }
        self.symbols.names.push(0);
        for (index, symbol) in table.enumerate() {
            let name = u64::from(symbol.st_name(self.endian));
            if name == 0 || name >= size || symbol.is_undefined(self.endian) {
                continue;
            }
            let typed = match symbol.st_type() {
                elf::STT_FUNC | elf::STT_GNU_IFUNC => true,
                elf::STT_NOTYPE => false,
                _ => continue,
            };
            let Ok(Some(home)) = table.symbol_section(self.endian, symbol, index) else {
                continue;
            };
            let Ok(home) = self.sections.section(home) else {
                continue;
            };
            if !home.sh_flags(self.endian).contains(elf::SHF_EXECINSTR) {
                continue;
            }
            let start: u64 = home.sh_addr(self.endian).into();
            let home_end = start.saturating_add(home.sh_size(self.endian).into());
            self.symbols.candidates.push(SymbolCandidate {
                start: symbol.st_value(self.endian).into(),
                size: symbol.st_size(self.endian).into(),
                limit: home_end,
                name: base + name,
                extent: SymbolExtent::of(typed, symbol.st_size(self.endian).into()),
                binding: if symbol.is_local() {
                    Binding::Local
                } else {
                    Binding::Global
                },
            });
        }
        Ok(true)
    }
}
