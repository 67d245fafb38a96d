//! What of an ELF file is read when it is opened: where it is mapped, who it is, its symbol
//! tables, and where its debug information stands.

use crate::error::Error;
use crate::input::{Input, Tables};
use crate::plt;
use crate::symtab::{Binding, Candidate, Extent};
use object::Endianness;
use object::elf;
use object::read::elf::{
    CompressionHeader, FileHeader, ProgramHeader, SectionHeader, SectionTable, Sym,
};
use object::read::{ReadCache, ReadRef};
use profile::BuildId;
use std::path::Path;
use std::sync::Arc;

/// Notes longer than this are none of ours.
const MAX_NOTES: u64 = 1 << 16;

/// Linkers make four at most; each is read whole.
const MAX_PLT_SECTIONS: usize = 8;

/// A loaded range: `PT_LOAD`.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Segment {
    pub offset: u64,
    pub address: u64,
    pub file_size: u64,
    pub executable: bool,
}

/// How a section is compressed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Compression {
    None,
    Zlib,
    Zstd,
    Other,
}

/// A section that is not code: debug information and links to it.
#[derive(Clone, Debug)]
pub(crate) struct DataSection {
    /// Without the `z` of `.zdebug_`.
    pub name: String,
    pub offset: u64,
    pub size: u64,
    pub compression: Compression,
    /// Size when uncompressed, as the file claims.
    pub full_size: u64,
}

#[derive(Debug)]
pub(crate) struct Elf {
    pub input: Arc<Input>,
    pub little_endian: bool,
    pub segments: Vec<Segment>,
    pub build_id: Option<BuildId>,
    pub data: Vec<DataSection>,
    /// Whether there is a `.symtab`: the full symbol table.
    pub has_symtab: bool,
    /// Whether the code itself is in the file (a separate debug file has only its headers).
    pub has_code: bool,
}

/// The symbols of a file, not yet sorted.
#[derive(Debug, Default)]
pub(crate) struct RawSymbols {
    pub candidates: Vec<Candidate>,
    /// String tables, one behind the other; names point into it and end with a zero.
    pub names: Vec<u8>,
}

impl Elf {
    /// Reads the headers, the build-id and (into `symbols`) the symbol tables.
    pub fn read(path: &Path, input: Arc<Input>, symbols: &mut RawSymbols) -> Result<Self, Error> {
        let shared = Arc::clone(&input);
        with_data(
            path,
            &input,
            Parse {
                path,
                input: shared,
                symbols,
            },
        )
    }

    /// The section of this name.
    pub fn section(&self, name: &str) -> Option<&DataSection> {
        self.data.iter().find(|section| section.name == name)
    }

    pub fn has_dwarf(&self) -> bool {
        self.section(".debug_info")
            .is_some_and(|section| section.size > 0)
    }
}

/// The build-id of an ELF file, from its program headers or, if those have none, its sections.
pub(crate) fn build_id(path: &Path, input: &Input) -> Result<Option<BuildId>, Error> {
    with_data(path, input, ReadBuildId { path })
}

/// Something to do with the bytes of a file, whichever way they are held.
trait Visitor {
    type Output;
    fn visit<'d, Elf: FileHeader<Endian = Endianness>, R: ReadRef<'d>>(
        self,
        data: R,
    ) -> Result<Self::Output, Error>;
}

fn with_data<V: Visitor>(path: &Path, input: &Input, visitor: V) -> Result<V::Output, Error> {
    match input {
        Input::Bytes(bytes) => with_class(path, bytes.as_slice(), visitor),
        Input::File { file, len } => {
            let cache = ReadCache::new(file);
            let left = Tables::allowance(*len);
            with_class(path, Tables::new(&cache, &left), visitor)
        }
    }
}

fn with_class<'d, R: ReadRef<'d>, V: Visitor>(
    path: &Path,
    data: R,
    visitor: V,
) -> Result<V::Output, Error> {
    match data.read_bytes_at(0, 16) {
        Ok([0x7f, b'E', b'L', b'F', 1, ..]) => {
            visitor.visit::<elf::FileHeader32<Endianness>, R>(data)
        }
        Ok([0x7f, b'E', b'L', b'F', 2, ..]) => {
            visitor.visit::<elf::FileHeader64<Endianness>, R>(data)
        }
        _ => Err(Error::NotElf {
            path: path.to_owned(),
        }),
    }
}

fn malformed(path: &Path, what: &str, offset: u64) -> impl FnOnce(object::read::Error) -> Error {
    let (path, what) = (path.to_owned(), what.to_owned());
    move |error| Error::Malformed {
        path,
        what,
        offset,
        reason: error.to_string(),
    }
}

struct ReadBuildId<'a> {
    path: &'a Path,
}

impl Visitor for ReadBuildId<'_> {
    type Output = Option<BuildId>;

    fn visit<'d, Elf: FileHeader<Endian = Endianness>, R: ReadRef<'d>>(
        self,
        data: R,
    ) -> Result<Self::Output, Error> {
        let header = Elf::parse(data).map_err(malformed(self.path, "ELF header", 0))?;
        let endian = header
            .endian()
            .map_err(malformed(self.path, "ELF header", 0))?;
        find_build_id(self.path, header, endian, data)
    }
}

fn find_build_id<'d, Elf: FileHeader<Endian = Endianness>, R: ReadRef<'d>>(
    path: &Path,
    header: &Elf,
    endian: Endianness,
    data: R,
) -> Result<Option<BuildId>, Error> {
    let phoff = header.e_phoff(endian).into();
    let segments =
        header
            .program_headers(endian, data)
            .map_err(malformed(path, "program headers", phoff))?;
    for segment in segments {
        let (_, size) = segment.file_range(endian);
        if size > MAX_NOTES {
            continue;
        }
        if let Ok(Some(mut notes)) = segment.notes(endian, data)
            && let Some(id) = gnu_build_id(endian, || notes.next())
        {
            return Ok(Some(id));
        }
    }
    let shoff = header.e_shoff(endian).into();
    let sections =
        header
            .section_headers(endian, data)
            .map_err(malformed(path, "section headers", shoff))?;
    for section in sections {
        if section.sh_size(endian).into() > MAX_NOTES {
            continue;
        }
        if let Ok(Some(mut notes)) = section.notes(endian, data)
            && let Some(id) = gnu_build_id(endian, || notes.next())
        {
            return Ok(Some(id));
        }
    }
    Ok(None)
}

fn gnu_build_id<'d, Elf: FileHeader<Endian = Endianness>>(
    endian: Endianness,
    mut next: impl FnMut() -> object::read::Result<Option<object::read::elf::Note<'d, Elf>>>,
) -> Option<BuildId> {
    while let Ok(Some(note)) = next() {
        if note.name() == elf::ELF_NOTE_GNU && note.n_type(endian) == elf::NT_GNU_BUILD_ID {
            return BuildId::new(note.desc());
        }
    }
    None
}

struct Parse<'a> {
    path: &'a Path,
    input: Arc<Input>,
    symbols: &'a mut RawSymbols,
}

impl Visitor for Parse<'_> {
    type Output = Elf;

    fn visit<'d, H: FileHeader<Endian = Endianness>, R: ReadRef<'d>>(
        self,
        data: R,
    ) -> Result<Elf, Error> {
        let path = self.path;
        let header = H::parse(data).map_err(malformed(path, "ELF header", 0))?;
        let endian = header.endian().map_err(malformed(path, "ELF header", 0))?;
        if !matches!(header.e_type(endian), elf::ET_EXEC | elf::ET_DYN) {
            // Split DWARF objects are relocatable by type, but nothing in them is relocated.
            let sections = header.sections(endian, data);
            let is_dwo = sections.is_ok_and(|sections| {
                sections
                    .section_by_name(endian, b".debug_info.dwo")
                    .is_some()
            });
            if !is_dwo {
                return Err(Error::NotLinked {
                    path: path.to_owned(),
                });
            }
        }
        let build_id = find_build_id(path, header, endian, data)?;
        let phoff = header.e_phoff(endian).into();
        let segments = header
            .program_headers(endian, data)
            .map_err(malformed(path, "program headers", phoff))?
            .iter()
            .filter(|segment| segment.p_type(endian) == elf::PT_LOAD)
            .map(|segment| Segment {
                offset: segment.p_offset(endian).into(),
                address: segment.p_vaddr(endian).into(),
                file_size: segment.p_filesz(endian).into(),
                executable: segment.p_flags(endian).contains(elf::PF_X),
            })
            .collect();
        let shoff = header.e_shoff(endian).into();
        let sections =
            header
                .sections(endian, data)
                .map_err(malformed(path, "section headers", shoff))?;
        let mut parse = Sections::<H, R> {
            path,
            endian,
            data,
            header,
            input: &self.input,
            sections: &sections,
            symbols: self.symbols,
        };
        let debug_sections = parse.data_sections()?;
        let has_symtab = parse.symbols(elf::SHT_SYMTAB)?;
        parse.symbols(elf::SHT_DYNSYM)?;
        parse.plt_stubs()?;
        let has_code = !sections.iter().any(|section| {
            section.sh_flags(endian).contains(elf::SHF_EXECINSTR)
                && section.sh_type(endian) == elf::SHT_NOBITS
        });
        Ok(Elf {
            little_endian: endian == Endianness::Little,
            segments,
            build_id,
            data: debug_sections,
            has_symtab,
            has_code,
            input: self.input,
        })
    }
}

struct Sections<'a, 'd, H: FileHeader<Endian = Endianness>, R: ReadRef<'d>> {
    path: &'a Path,
    endian: Endianness,
    data: R,
    header: &'d H,
    input: &'a Input,
    sections: &'a SectionTable<'d, H, R>,
    symbols: &'a mut RawSymbols,
}

impl<'d, H: FileHeader<Endian = Endianness>, R: ReadRef<'d>> Sections<'_, 'd, H, R> {
    fn error(&self, what: &str, section: &H::SectionHeader, reason: impl ToString) -> Error {
        Error::Malformed {
            path: self.path.to_owned(),
            what: what.to_owned(),
            offset: section.sh_offset(self.endian).into(),
            reason: reason.to_string(),
        }
    }

    fn name(&self, section: &H::SectionHeader) -> String {
        let name = self.sections.section_name(self.endian, section);
        String::from_utf8_lossy(name.unwrap_or_default()).into_owned()
    }

    /// Where debug information and links to it stand.
    fn data_sections(&self) -> Result<Vec<DataSection>, Error> {
        let mut found = Vec::new();
        for section in self.sections.iter() {
            let name = self.name(section);
            if !name.starts_with(".debug_")
                && !name.starts_with(".zdebug_")
                && !name.starts_with(".gnu_debug")
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
                compression: Compression::None,
                full_size: size,
            };
            self.compression(section, &mut entry)?;
            found.push(entry);
        }
        Ok(found)
    }

    fn compression(
        &self,
        section: &H::SectionHeader,
        entry: &mut DataSection,
    ) -> Result<(), Error> {
        if let Some(name) = entry.name.strip_prefix(".z") {
            // The older GNU form: "ZLIB" and the size in big-endian order before the stream.
            let start = self.input.read(entry.offset, 12);
            let Some((b"ZLIB", size)) =
                start.as_ref().ok().and_then(|s| s.split_first_chunk::<4>())
            else {
                return Err(self.error(&entry.name, section, "no ZLIB header"));
            };
            entry.full_size = size.iter().fold(0, |sum, byte| sum << 8 | u64::from(*byte));
            entry.name = format!(".{name}");
            entry.offset += 12;
            entry.size -= 12;
            entry.compression = Compression::Zlib;
            return Ok(());
        }
        if !section.sh_flags(self.endian).contains(elf::SHF_COMPRESSED) {
            return Ok(());
        }
        // Only the header of the section: the debug information itself is read when it is needed.
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
            elf::ELFCOMPRESS_ZLIB => Compression::Zlib,
            elf::ELFCOMPRESS_ZSTD => Compression::Zstd,
            _ => Compression::Other,
        };
        Ok(())
    }

    /// Takes over one symbol table; false if there is none.
    fn symbols(&mut self, kind: elf::SectionType) -> Result<bool, Error> {
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
            .read(offset, size)
            .map_err(|error| self.error("string table", strings, error))?;
        self.symbols.names.extend_from_slice(&strings);
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
            self.symbols.candidates.push(Candidate {
                start: symbol.st_value(self.endian).into(),
                size: symbol.st_size(self.endian).into(),
                limit: home_end,
                name: base + name,
                extent: Extent::of(typed, symbol.st_size(self.endian).into()),
                binding: if symbol.is_local() {
                    Binding::Local
                } else {
                    Binding::Global
                },
            });
        }
        Ok(true)
    }

    /// Names the stubs through which other images are called.
    fn plt_stubs(&mut self) -> Result<(), Error> {
        let machine = self.header.e_machine(self.endian);
        if !matches!(machine, elf::EM_X86_64 | elf::EM_AARCH64) {
            return Ok(());
        }
        let slots = self.got_slots();
        let is_plt = |name: &str| matches!(name, ".plt" | ".plt.sec" | ".plt.got" | ".iplt");
        let named = self
            .sections
            .iter()
            .map(|section| (section, self.name(section)));
        let plts: Vec<_> = named.filter(|(_, name)| is_plt(name)).collect();
        for (section, name) in plts.into_iter().take(MAX_PLT_SECTIONS) {
            let Some((offset, size)) = section.file_range(self.endian) else {
                continue;
            };
            let code = self
                .input
                .read(offset, size)
                .map_err(|error| self.error(&name, section, error))?;
            let address = section.sh_addr(self.endian).into();
            for stub in plt::stubs(machine == elf::EM_AARCH64, address, &code) {
                let Some(target) = slots.get(&stub.slot) else {
                    continue;
                };
                let name = self.symbols.names.len() as u64;
                self.symbols.names.extend_from_slice(target);
                self.symbols.names.extend_from_slice(b"@plt\0");
                self.symbols.candidates.push(Candidate {
                    start: stub.start,
                    size: stub.size,
                    limit: stub.start + stub.size,
                    name,
                    extent: Extent::Known,
                    binding: Binding::Local,
                });
            }
        }
        Ok(())
    }

    /// Whose address the dynamic linker writes into which slot of the global offset table.
    fn got_slots(&self) -> plt::Slots {
        let mut slots = plt::Slots::default();
        // Only the relocations that are applied at run time: they refer to `.dynsym`, or (in a
        // static executable) to no symbol at all.
        let dynamic = self.sections.iter().filter(|section| {
            section.sh_type(self.endian) == elf::SHT_RELA
                && section.sh_flags(self.endian).contains(elf::SHF_ALLOC)
        });
        for section in dynamic.take(MAX_PLT_SECTIONS) {
            let Ok(Some((relocations, link))) = section.rela(self.endian, self.data) else {
                continue;
            };
            let table = self
                .sections
                .symbol_table_by_index(self.endian, self.data, link)
                .unwrap_or_default();
            self.add_slots(relocations, &table, &mut slots);
        }
        slots
    }

    fn add_slots(
        &self,
        relocations: &[H::Rela],
        table: &object::read::elf::SymbolTable<'d, H, R>,
        slots: &mut plt::Slots,
    ) {
        use object::read::elf::Rela as _;
        let strings = self
            .sections
            .section(table.string_section())
            .ok()
            .and_then(|section| section.file_range(self.endian))
            .and_then(|(offset, size)| self.input.read(offset, size).ok())
            .unwrap_or_default();
        for relocation in relocations {
            let slot = relocation.r_offset(self.endian).into();
            let symbol = relocation
                .symbol(self.endian, false)
                .and_then(|index| table.symbol(index).ok());
            let name = match symbol {
                Some(symbol) => {
                    let name = strings.get(symbol.st_name(self.endian) as usize..);
                    let name = name.and_then(|rest| rest.split(|byte| *byte == 0).next());
                    name.unwrap_or_default().to_vec()
                }
                // IRELATIVE: the addend is the function that chooses, which has the name.
                None => {
                    let address = relocation.r_addend(self.endian).into() as u64;
                    self.symbols.ifunc_name(address).unwrap_or_default()
                }
            };
            if !name.is_empty() {
                slots.insert(slot, name);
            }
        }
    }
}

impl RawSymbols {
    fn ifunc_name(&self, address: u64) -> Option<Vec<u8>> {
        let symbol = self
            .candidates
            .iter()
            .filter(|candidate| candidate.start == address && candidate.extent == Extent::Known)
            .max_by_key(|candidate| candidate.binding)?;
        Some(crate::symtab::name_at(&self.names, symbol.name).to_vec())
    }
}
