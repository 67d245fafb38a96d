//! The parts of an ELF image that identify interpreters: symbols, bytes, thread-local data.

use object::elf::FileHeader64;
use object::read::elf::{ElfFile64, FileHeader, GnuHashTable, ProgramHeader, Sym, VersionTable};
use object::{Endianness, Object, ObjectSymbol, ReadRef};

/// A 64-bit ELF image.
pub struct ElfImage<'data, R: ReadRef<'data>> {
    pub(crate) elf: ElfFile64<'data, Endianness, R>,
    data: R,
}

impl<'data, R: ReadRef<'data>> ElfImage<'data, R> {
    /// Parses the image in these bytes; `None` if there is none.
    pub fn parse(data: R) -> Option<Self> {
        let elf = ElfFile64::<Endianness, R>::parse(data).ok()?;
        Some(Self { elf, data })
    }

    /// Returns the address and the size of an exported symbol.
    pub(crate) fn exported_symbol(&self, name: &str) -> Option<(u64, u64)> {
        if let Some(table) = self.symbol_hashes() {
            let endian = self.elf.endian();
            let symbols = self.elf.elf_dynamic_symbol_table();
            let hash = object::elf::gnu_hash(name.as_bytes());
            let any = VersionTable::default();
            let (_, symbol) = table.find(endian, name.as_bytes(), hash, None, symbols, &any)?;
            // Thread-local data are defined, too.
            return (symbol.st_shndx(endian) != object::elf::SHN_UNDEF)
                .then(|| (symbol.st_value(endian), symbol.st_size(endian)));
        }
        let mut all = self.elf.dynamic_symbols();
        let found = all.find(|symbol| symbol.name() == Ok(name) && !symbol.is_undefined())?;
        Some((found.address(), found.size()))
    }

    /// Returns the address and the size of any symbol that stripping has left.
    pub(crate) fn any_symbol(&self, name: &str) -> Option<(u64, u64)> {
        self.exported_symbol(name).or_else(|| {
            let endian = self.elf.endian();
            let symbols = self.elf.elf_symbol_table();
            let found = symbols.iter().find(|symbol| {
                symbol.name(endian, symbols.strings()) == Ok(name.as_bytes())
                    && symbol.st_shndx(endian) != object::elf::SHN_UNDEF
            })?;
            Some((found.st_value(endian), found.st_size(endian)))
        })
    }

    /// Returns the hash table of the exported symbols. Most images are no interpreters, and the
    /// table shows that without a look at each of their names, which is a read of the file.
    fn symbol_hashes(&self) -> Option<GnuHashTable<'data, FileHeader64<Endianness>>> {
        let (endian, sections) = (self.elf.endian(), self.elf.elf_section_table());
        let header = sections.gnu_hash_header(endian, self.data).ok()??;
        // A shift by more than a word's bits is impossible: such a table is damaged.
        if header.bloom_shift.get(endian) >= u32::BITS {
            return None;
        }
        Some(sections.gnu_hash(endian, self.data).ok()??.0)
    }

    /// Returns the link address of the code at an address, minus its offset in the file.
    pub(crate) fn code_distance(&self, address: u64) -> Option<u64> {
        let endian = self.elf.endian();
        let mut segments = self.elf.elf_program_headers().iter();
        let segment = segments.find(|segment| {
            let start = segment.p_vaddr(endian);
            segment.p_type(endian) == object::elf::PT_LOAD
                && (start..start.saturating_add(segment.p_memsz(endian))).contains(&address)
        })?;
        Some(
            segment
                .p_vaddr(endian)
                .wrapping_sub(segment.p_offset(endian)),
        )
    }

    /// Returns the file's bytes for an address. It reads only those: a segment may have 50 MB.
    pub(crate) fn bytes(&self, address: u64, length: u64) -> Option<&'data [u8]> {
        let endian = self.elf.endian();
        self.elf.elf_program_headers().iter().find_map(|segment| {
            let within = address.checked_sub(segment.p_vaddr(endian))?;
            let end = within.checked_add(length)?;
            if segment.p_type(endian) != object::elf::PT_LOAD || end > segment.p_filesz(endian) {
                return None;
            }
            let start = segment.p_offset(endian).checked_add(within)?;
            self.data.read_bytes_at(start, length).ok()
        })
    }

    /// Returns whether the image is a program, not a library.
    pub(crate) fn is_program(&self) -> bool {
        let kind = self.elf.elf_header().e_type(self.elf.endian());
        kind == object::elf::ET_EXEC || self.segment(object::elf::PT_INTERP).is_some()
    }

    /// Returns the first segment of a kind.
    pub(crate) fn segment(
        &self,
        kind: object::elf::ProgramType,
    ) -> Option<&'data <FileHeader64<Endianness> as FileHeader>::ProgramHeader> {
        let endian = self.elf.endian();
        let mut segments = self.elf.elf_program_headers().iter();
        segments.find(move |segment| segment.p_type(endian) == kind)
    }
}
