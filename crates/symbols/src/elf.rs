//! The parts of an ELF file that opening reads: its mappings, its identity, its symbol tables, and
//! the place of its debug information.

use crate::error::Error;
use crate::input::{ImageInput, TableBudget};
use crate::tables::{DataSection, RawSymbols, Sections};
use object::Endianness;
use object::elf;
use object::read::elf::{FileHeader, ProgramHeader, SectionHeader};
use object::read::{ReadCache, ReadRef};
use profile::BuildId;
use std::path::Path;
use std::sync::Arc;

/// Length above which notes are none of those we read.
const MAX_NOTES: u64 = 1 << 16;

/// A loaded range: `PT_LOAD`.
#[derive(Clone, Copy, Debug)]
pub(crate) struct LoadedSegment {
    pub offset: u64,
    pub address: u64,
    pub file_size: u64,
    pub executable: bool,
}

#[derive(Debug)]
pub(crate) struct Elf {
    pub input: Arc<ImageInput>,
    pub little_endian: bool,
    /// Size of an address in bytes.
    pub address_size: u8,
    pub machine: u16,
    pub segments: Vec<LoadedSegment>,
    pub build_id: Option<BuildId>,
    pub data: Vec<DataSection>,
    /// True if there is a `.symtab`: the full symbol table.
    pub has_symtab: bool,
    /// True if the file contains the code itself (a separate debug file has only its headers).
    pub has_code: bool,
}

impl Elf {
    /// Reads the headers, the build-id and (into `symbols`) the symbol tables.
    pub fn read_headers(
        path: &Path,
        input: Arc<ImageInput>,
        symbols: &mut RawSymbols,
    ) -> Result<Self, Error> {
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

    /// Returns the section of this name.
    pub fn section_named(&self, name: &str) -> Option<&DataSection> {
        self.data.iter().find(|section| section.name == name)
    }

    pub fn has_dwarf(&self) -> bool {
        self.section_named(".debug_info")
            .is_some_and(|section| section.size > 0)
    }
}

/// Returns the build-id of an ELF file, from its program headers or, if those have none, its
/// sections.
pub(crate) fn build_id(path: &Path, input: &ImageInput) -> Result<Option<BuildId>, Error> {
    with_data(path, input, ReadBuildId { path })
}

/// An operation on the bytes of a file, in any storage.
trait ElfVisitor {
    type Output;
    fn visit<'d, Elf: FileHeader<Endian = Endianness>, R: ReadRef<'d>>(
        self,
        data: R,
    ) -> Result<Self::Output, Error>;
}

fn with_data<V: ElfVisitor>(
    path: &Path,
    input: &ImageInput,
    visitor: V,
) -> Result<V::Output, Error> {
    match input {
        ImageInput::Bytes(bytes) => with_class(path, bytes.as_slice(), visitor),
        ImageInput::File { file, len } => {
            let cache = ReadCache::new(file);
            let left = TableBudget::table_allowance(*len);
            with_class(path, TableBudget::new(&cache, &left), visitor)
        }
    }
}

fn with_class<'d, R: ReadRef<'d>, V: ElfVisitor>(
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

fn malformed_elf(
    path: &Path,
    what: &str,
    offset: u64,
) -> impl FnOnce(object::read::Error) -> Error {
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

impl ElfVisitor for ReadBuildId<'_> {
    type Output = Option<BuildId>;

    fn visit<'d, Elf: FileHeader<Endian = Endianness>, R: ReadRef<'d>>(
        self,
        data: R,
    ) -> Result<Self::Output, Error> {
        let header = Elf::parse(data).map_err(malformed_elf(self.path, "ELF header", 0))?;
        let endian = header
            .endian()
            .map_err(malformed_elf(self.path, "ELF header", 0))?;
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
    let segments = header.program_headers(endian, data).map_err(malformed_elf(
        path,
        "program headers",
        phoff,
    ))?;
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
    let sections = header.section_headers(endian, data).map_err(malformed_elf(
        path,
        "section headers",
        shoff,
    ))?;
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
    input: Arc<ImageInput>,
    symbols: &'a mut RawSymbols,
}

impl ElfVisitor for Parse<'_> {
    type Output = Elf;

    fn visit<'d, H: FileHeader<Endian = Endianness>, R: ReadRef<'d>>(
        self,
        data: R,
    ) -> Result<Elf, Error> {
        let path = self.path;
        let header = H::parse(data).map_err(malformed_elf(path, "ELF header", 0))?;
        let endian = header
            .endian()
            .map_err(malformed_elf(path, "ELF header", 0))?;
        if !matches!(header.e_type(endian), elf::ET_EXEC | elf::ET_DYN) {
            // Split debug information and the part shared by several programs (`dwz`) are
            // relocatable by type, but have no relocations.
            let sections = header.sections(endian, data);
            let is_debug_file = sections.is_ok_and(|sections| {
                let has = |name| sections.section_by_name(endian, name).is_some();
                let is_relocated = || {
                    let mut types = sections.iter().map(|section| section.sh_type(endian));
                    types.any(|kind| matches!(kind, elf::SHT_REL | elf::SHT_RELA))
                };
                has(b".debug_info.dwo") || has(b".debug_info") && !is_relocated()
            });
            if !is_debug_file {
                return Err(Error::NotLinked {
                    path: path.to_owned(),
                });
            }
        }
        let build_id = find_build_id(path, header, endian, data)?;
        let phoff = header.e_phoff(endian).into();
        let segments = header
            .program_headers(endian, data)
            .map_err(malformed_elf(path, "program headers", phoff))?
            .iter()
            .filter(|segment| segment.p_type(endian) == elf::PT_LOAD)
            .map(|segment| LoadedSegment {
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
                .map_err(malformed_elf(path, "section headers", shoff))?;
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
            address_size: if header.is_class_64() { 8 } else { 4 },
            machine: header.e_machine(endian).0,
            segments,
            build_id,
            data: debug_sections,
            has_symtab,
            has_code,
            input: self.input,
        })
    }
}
