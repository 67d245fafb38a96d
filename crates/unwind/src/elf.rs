//! Reader of the unwind tables of an ELF image. It reads only the headers and those tables, never
//! the whole file, and does not trust their sizes.

use crate::{Error, UnwindMachine};
use languages::go::{FunctionTable, GoImage};
use object::elf::{
    ELFCLASS64, ELFDATA2LSB, EM_AARCH64, EM_X86_64, FileHeader64, PF_X, PT_GNU_EH_FRAME, PT_INTERP,
    PT_LOAD, ProgramHeader64, SHF_COMPRESSED, SHT_NOBITS, SectionHeader64,
};
use object::pod;
use object::{LittleEndian as LE, U32, U64};
use std::fs::File;
use std::io;
use std::ops::Range;
use std::os::unix::fs::FileExt;

/// Size of the largest unwind table that is read. The largest known ones (browsers') have 30 MiB.
const MAX_TABLE: u64 = 256 << 20;
/// Size of the largest header table that is read: 64 bytes for each of 65,535 sections.
const MAX_HEADERS: u64 = 4 << 20;
/// Size of the largest table of section names that is read.
const MAX_NAMES: u64 = 1 << 20;

/// Maximum size of code without tables that is followed, which takes 30 times its memory for a
/// moment.
const MAX_CODE: u64 = 8 << 20;

type Header = FileHeader64<LE>;
type Program = ProgramHeader64<LE>;
type Section = SectionHeader64<LE>;

/// Source of the bytes of an image.
pub(crate) enum ElfSource<'a> {
    File(&'a File),
    Bytes(&'a [u8]),
}

/// A part of the file that is mapped into the process.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ElfSegment {
    pub(crate) offset: u64,
    pub(crate) size: u64,
    pub(crate) address: u64,
    pub(crate) executable: bool,
}

/// The bytes of a section, and its address in the image.
#[derive(Debug, Default)]
pub(crate) struct ElfBytes {
    pub(crate) address: u64,
    pub(crate) bytes: Vec<u8>,
}

impl ElfBytes {
    pub(crate) fn contains(&self, address: u64) -> bool {
        let into = address.checked_sub(self.address);
        into.is_some_and(|into| into < self.bytes.len() as u64)
    }
}

/// The parts of an image that unwinding needs.
#[derive(Debug)]
pub(crate) struct ElfLayout {
    pub(crate) machine: UnwindMachine,
    pub(crate) segments: Vec<ElfSegment>,
    pub(crate) eh_frame: Option<ElfBytes>,
    pub(crate) eh_frame_hdr: Option<ElfBytes>,
    pub(crate) debug_frame: Option<ElfBytes>,
    /// The function table of a Go program.
    pub(crate) go_functions: Option<FunctionTable>,
    pub(crate) text: u64,
    pub(crate) got: u64,
    /// Address of the program's first instruction, if it has one.
    pub(crate) entry: u64,
    /// True if it starts without a dynamic linker.
    pub(crate) is_static: bool,
}

/// Reader of parts of one image, which names the image in errors.
pub(crate) struct ElfReader<'a> {
    pub(crate) name: &'a str,
    pub(crate) source: ElfSource<'a>,
}

impl ElfReader<'_> {
    fn unsupported_elf(&self, offset: u64, reason: &'static str) -> Error {
        Error::Unsupported {
            name: self.name.to_owned(),
            offset,
            reason,
        }
    }

    /// Reads `size` bytes; `limit` is the maximum.
    pub(crate) fn read_bytes(
        &self,
        what: &'static str,
        offset: u64,
        size: u64,
        limit: u64,
    ) -> Result<Vec<u8>, Error> {
        if size > limit {
            let name = self.name.to_owned();
            return Err(Error::TooBig {
                name,
                what,
                offset,
                size,
                limit,
            });
        }
        self.read_exact(offset, size).map_err(|source| Error::Read {
            name: self.name.to_owned(),
            what,
            offset,
            size,
            source,
        })
    }

    fn read_exact(&self, offset: u64, size: u64) -> io::Result<Vec<u8>> {
        let end = offset.checked_add(size);
        let ends = || io::Error::from(io::ErrorKind::UnexpectedEof);
        match self.source {
            ElfSource::Bytes(bytes) => {
                let range = usize::try_from(offset)
                    .ok()
                    .zip(end.and_then(|end| usize::try_from(end).ok()));
                let slice = range.and_then(|(start, end)| bytes.get(start..end));
                slice.map(<[u8]>::to_vec).ok_or_else(ends)
            }
            ElfSource::File(file) => {
                // Check the length first, because a damaged size must not cost the memory.
                if end.is_none_or(|end| file.metadata().is_ok_and(|m| m.len() < end)) {
                    return Err(ends());
                }
                let mut bytes = vec![0; usize::try_from(size).map_err(|_| ends())?];
                file.read_exact_at(&mut bytes, offset)?;
                Ok(bytes)
            }
        }
    }

    fn read_header(&self) -> Result<(Header, UnwindMachine), Error> {
        let bytes =
            self.read_bytes("the ELF header", 0, size_of::<Header>() as u64, MAX_HEADERS)?;
        let not_elf = || self.unsupported_elf(0, "not a 64-bit little-endian ELF image");
        let (header, _) = pod::from_bytes::<Header>(&bytes).map_err(|()| not_elf())?;
        let ident = &header.e_ident;
        if (ident.magic, ident.class, ident.data) != (*b"\x7fELF", ELFCLASS64, ELFDATA2LSB) {
            return Err(not_elf());
        }
        let machine = match header.e_machine.get(LE) {
            EM_X86_64 => UnwindMachine::X86_64,
            EM_AARCH64 => UnwindMachine::Aarch64,
            _ => return Err(self.unsupported_elf(18, "neither x86-64 nor AArch64")),
        };
        Ok((*header, machine))
    }

    /// Reads a table of headers; empty if the image has none, or entries of another size.
    fn read_table<T: pod::Pod>(
        &self,
        what: &'static str,
        offset: u64,
        count: u64,
        entry: u16,
    ) -> Result<Vec<T>, Error> {
        if offset == 0 || count == 0 {
            return Ok(Vec::new());
        }
        if usize::from(entry) != size_of::<T>() {
            return Err(self.unsupported_elf(offset, "header table with entries of a strange size"));
        }
        let size = count.saturating_mul(u64::from(entry));
        let bytes = self.read_bytes(what, offset, size, MAX_HEADERS)?;
        let table = pod::slice_from_all_bytes::<T>(&bytes);
        Ok(table
            .map_err(|()| self.unsupported_elf(offset, "bad header table"))?
            .to_vec())
    }

    /// Reads the headers and the unwind tables.
    pub(crate) fn read_layout(&self) -> Result<ElfLayout, Error> {
        let (header, machine) = self.read_header()?;
        let programs: Vec<Program> = self.read_table(
            "the program headers",
            header.e_phoff.get(LE),
            header.e_phnum.get(LE).into(),
            header.e_phentsize.get(LE),
        )?;
        let mut layout = ElfLayout {
            machine,
            segments: programs.iter().filter_map(loaded_segment).collect(),
            eh_frame: None,
            eh_frame_hdr: None,
            debug_frame: None,
            go_functions: None,
            text: 0,
            got: 0,
            entry: header.e_entry.get(LE),
            is_static: !programs.iter().any(|p| p.p_type.get(LE) == PT_INTERP),
        };
        self.read_sections(&header, &mut layout)?;
        if layout.eh_frame.is_none() {
            self.eh_frame_by_segments(&programs, &mut layout)?;
        }
        Ok(layout)
    }

    fn read_sections(&self, header: &Header, layout: &mut ElfLayout) -> Result<(), Error> {
        let sections: Vec<Section> = self.read_table(
            "the section headers",
            header.e_shoff.get(LE),
            header.e_shnum.get(LE).into(),
            header.e_shentsize.get(LE),
        )?;
        let Some(names) = sections.get(usize::from(header.e_shstrndx.get(LE).0)) else {
            return Ok(());
        };
        let (offset, size) = (names.sh_offset.get(LE), names.sh_size.get(LE));
        let names = self.read_bytes("the section names", offset, size, MAX_NAMES)?;
        let (mut go_functions, mut relocations) = (None, None);
        for section in &sections {
            match name_at(&names, section.sh_name) {
                b".eh_frame" => layout.eh_frame = self.read_section(".eh_frame", section)?,
                b".eh_frame_hdr" => {
                    layout.eh_frame_hdr = self.read_section(".eh_frame_hdr", section)?
                }
                b".debug_frame" => {
                    layout.debug_frame = self.read_section(".debug_frame", section)?
                }
                b".gopclntab" | b".data.rel.ro.gopclntab" => go_functions = Some(section),
                b".rela.dyn" | b".rela" => relocations = Some(section),
                b".text" => layout.text = section.sh_addr.get(LE),
                b".got" => layout.got = section.sh_addr.get(LE),
                _ => {}
            }
        }
        if let Some(section) = go_functions {
            layout.go_functions = self.read_go_functions(section, relocations, layout)?;
        }
        Ok(())
    }

    fn read_go_functions(
        &self,
        table: &Section,
        relocations: Option<&Section>,
        layout: &ElfLayout,
    ) -> Result<Option<FunctionTable>, Error> {
        let relocations = match relocations {
            Some(section) => self.read_section("relocations", section)?,
            None => None,
        };
        let Some(table) = self.read_section("the functions of Go", table)? else {
            return Ok(None);
        };
        let data = layout.segments.iter().filter(|segment| !segment.executable);
        let data: Vec<Range<u64>> = data
            .map(|s| s.address..s.address.saturating_add(s.size))
            .collect();
        let image = GoImage {
            table_address: table.address,
            relocations: relocations.as_ref().map_or(&[], |section| &section.bytes),
            data: &data,
            read: &|address, buffer| self.read_stored(layout, address, buffer),
        };
        Ok(FunctionTable::of_image(&image, table.bytes))
    }

    /// Fills the buffer with the file's bytes for an address; returns false if it lacks any of
    /// them.
    fn read_stored(&self, layout: &ElfLayout, address: u64, buffer: &mut [u8]) -> bool {
        let size = buffer.len() as u64;
        let offset = layout.segments.iter().find_map(|segment| {
            let into = address.checked_sub(segment.address)?;
            (into.checked_add(size)? <= segment.size).then(|| segment.offset.checked_add(into))?
        });
        match offset.map(|offset| self.read_exact(offset, size)) {
            Some(Ok(bytes)) => {
                buffer.copy_from_slice(&bytes);
                true
            }
            _ => false,
        }
    }

    /// Reads the code at some addresses, as far as the file contains it; none if it is too much.
    pub(crate) fn read_code(
        &self,
        segments: &[ElfSegment],
        addresses: &[Range<u64>],
    ) -> Vec<ElfBytes> {
        let sizes = addresses.iter().map(|range| range.end - range.start);
        if sizes.fold(0, u64::saturating_add) > MAX_CODE {
            return Vec::new();
        }
        let read = |range: &Range<u64>| {
            let inside = |s: &&ElfSegment| {
                let into = range.start.checked_sub(s.address);
                s.executable && into.is_some_and(|into| into < s.size)
            };
            let segment = segments.iter().find(inside)?;
            let offset = segment.offset.checked_add(range.start - segment.address)?;
            Some(ElfBytes {
                address: range.start,
                bytes: self.read_exact(offset, range.end - range.start).ok()?,
            })
        };
        addresses.iter().filter_map(read).collect()
    }

    /// Reads the section's bytes, if it has any here: `objcopy --only-keep-debug` leaves none, and
    /// compressed sections belong to Go, whose programs have the same data in another table.
    fn read_section(
        &self,
        what: &'static str,
        section: &Section,
    ) -> Result<Option<ElfBytes>, Error> {
        let size = section.sh_size.get(LE);
        let compressed = section.sh_flags.get(LE).0 & SHF_COMPRESSED.0 != 0;
        if section.sh_type.get(LE) == SHT_NOBITS || compressed || size == 0 {
            return Ok(None);
        }
        Ok(Some(ElfBytes {
            address: section.sh_addr.get(LE),
            bytes: self.read_bytes(what, section.sh_offset.get(LE), size, MAX_TABLE)?,
        }))
    }

    /// Finds `.eh_frame` without section headers: the program headers still lead to
    /// `.eh_frame_hdr`, and that to `.eh_frame`. The end is unknown, so that it is read to the end
    /// of its segment.
    fn eh_frame_by_segments(
        &self,
        programs: &[Program],
        layout: &mut ElfLayout,
    ) -> Result<(), Error> {
        let Some(program) = programs
            .iter()
            .find(|p| p.p_type.get(LE) == PT_GNU_EH_FRAME)
        else {
            return Ok(());
        };
        let (offset, size) = (program.p_offset.get(LE), program.p_filesz.get(LE));
        let hdr = ElfBytes {
            address: program.p_vaddr.get(LE),
            bytes: self.read_bytes(".eh_frame_hdr", offset, size, MAX_TABLE)?,
        };
        let bases = gimli::BaseAddresses::default().set_eh_frame_hdr(hdr.address);
        let parsed = gimli::EhFrameHdr::new(&hdr.bytes, gimli::LittleEndian).parse(&bases, 8);
        let Some(address) = parsed.ok().and_then(|p| p.eh_frame_ptr().direct().ok()) else {
            return Ok(());
        };
        let inside = |s: &&ElfSegment| address.checked_sub(s.address).is_some_and(|o| o < s.size);
        if let Some(segment) = layout.segments.iter().find(inside) {
            let skip = address - segment.address;
            let (offset, size) = (segment.offset.saturating_add(skip), segment.size - skip);
            let bytes = self.read_bytes(".eh_frame", offset, size, MAX_TABLE)?;
            layout.eh_frame = Some(ElfBytes { address, bytes });
            layout.eh_frame_hdr = Some(hdr);
        }
        Ok(())
    }
}

fn loaded_segment(program: &Program) -> Option<ElfSegment> {
    let number = |field: U64<LE>| field.get(LE);
    (program.p_type.get(LE) == PT_LOAD).then(|| ElfSegment {
        offset: number(program.p_offset),
        size: number(program.p_filesz),
        address: number(program.p_vaddr),
        executable: program.p_flags.get(LE).0 & PF_X.0 != 0,
    })
}

fn name_at(names: &[u8], offset: U32<LE>) -> &[u8] {
    let rest = names.get(offset.get(LE) as usize..).unwrap_or_default();
    rest.split(|byte| *byte == 0).next().unwrap_or_default()
}
