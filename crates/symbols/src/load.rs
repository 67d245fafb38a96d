//! Loading of debug information from the file into [`gimli::Dwarf`].

use crate::abbreviations;
use crate::elf::Elf;
use crate::error::Error;
use crate::section::{Meter, MeteredSection, SectionReader};
use crate::tables::{DataSection, SectionCompression};
use gimli::{Dwarf, DwarfPackage, RunTimeEndian, SectionId};
use std::io::Read;
use std::path::Path;
use std::sync::Arc;

/// Maximum compression ratio: zlib's best is 1032; debug information compresses to about a fifth.
const MAX_RATIO: u64 = 1032;

/// Size to which a section of any size may be unpacked. zstd packs repetition, such as units of one
/// template, better than [`MAX_RATIO`].
const MAX_FREE: u64 = 256 << 20;

/// Maximum size of unpacked `.gnu_debugdata`.
const MAX_MINI: u64 = 256 << 20;

fn elf_endian(elf: &Elf) -> RunTimeEndian {
    if elf.little_endian {
        RunTimeEndian::Little
    } else {
        RunTimeEndian::Big
    }
}

/// Loads the debug information of a file.
pub(crate) fn load_dwarf(
    path: &Path,
    elf: &Elf,
    meter: &Arc<Meter>,
) -> Result<Dwarf<SectionReader>, Error> {
    let dwarf = Dwarf::load(|id| section_reader(path, elf, id.name(), meter))?;
    check_dwarf(path, dwarf, meter)
}

fn check_dwarf(
    path: &Path,
    dwarf: Dwarf<SectionReader>,
    meter: &Meter,
) -> Result<Dwarf<SectionReader>, Error> {
    meter.start();
    abbreviations::check_abbreviations(&dwarf, meter)
        .map_err(|error| debug_error(path, meter, error))?;
    Ok(dwarf)
}

/// Loads the debug information of a `.dwo` file, for the program with the debug information
/// `parent`.
pub(crate) fn load_split_dwarf(
    path: &Path,
    elf: &Elf,
    parent: &Dwarf<SectionReader>,
    meter: &Arc<Meter>,
) -> Result<Dwarf<SectionReader>, Error> {
    let mut dwarf = Dwarf::load(|id| match id.dwo_name() {
        Some(name) => section_reader(path, elf, name, meter),
        None => Ok(empty_reader(elf, meter)),
    })?;
    dwarf.make_dwo(parent);
    check_dwarf(path, dwarf, meter)
}

/// Loads a `.dwp` file: many `.dwo` files in one.
pub(crate) fn load_dwarf_package(
    path: &Path,
    elf: &Elf,
    meter: &Arc<Meter>,
) -> Result<DwarfPackage<SectionReader>, Error> {
    let load = |id: SectionId| match id.dwo_name() {
        Some(name) => section_reader(path, elf, name, meter).map_err(Failure::Ours),
        None => Ok(empty_reader(elf, meter)),
    };
    DwarfPackage::load(load, empty_reader(elf, meter)).map_err(|failure| match failure {
        Failure::Ours(error) => error,
        Failure::Dwarf(error) => debug_error(path, meter, error),
    })
}

enum Failure {
    Ours(Error),
    Dwarf(gimli::Error),
}

impl From<gimli::Error> for Failure {
    fn from(error: gimli::Error) -> Self {
        Self::Dwarf(error)
    }
}

/// Adds the place read last to an error of the parser.
pub(crate) fn debug_error(path: &Path, meter: &Meter, error: gimli::Error) -> Error {
    let (section, offset, reason) = meter.blame(error);
    Error::Debug {
        path: path.to_owned(),
        section,
        offset,
        reason,
    }
}

fn empty_reader(elf: &Elf, meter: &Arc<Meter>) -> SectionReader {
    SectionReader::new(
        MeteredSection::from_bytes("", Vec::new(), meter),
        elf_endian(elf),
    )
}

/// Returns a section by name; empty if there is none.
fn section_reader(
    path: &Path,
    elf: &Elf,
    name: &'static str,
    meter: &Arc<Meter>,
) -> Result<SectionReader, Error> {
    let Some(section) = elf.section_named(name) else {
        return Ok(empty_reader(elf, meter));
    };
    let loaded = match section.compression {
        // The size fits, because the range lies in the file.
        SectionCompression::None => MeteredSection::from_file(
            name,
            &elf.input,
            section.offset,
            section.size as usize,
            meter,
        ),
        _ => MeteredSection::from_bytes(name, decompress_section(path, elf, section)?, meter),
    };
    Ok(SectionReader::new(loaded, elf_endian(elf)))
}

fn decompress_section(path: &Path, elf: &Elf, section: &DataSection) -> Result<Vec<u8>, Error> {
    let error = |reason: String| Error::Malformed {
        path: path.to_owned(),
        what: format!("compressed section {}", section.name),
        offset: section.offset,
        reason,
    };
    if section.full_size > MAX_FREE.max(section.size.saturating_mul(MAX_RATIO)) {
        return Err(error(format!(
            "{} bytes cannot come of {}",
            section.full_size, section.size
        )));
    }
    let packed = elf
        .input
        .read_range(section.offset, section.size)
        .map_err(Error::wrap_io(path))?;
    // One byte more, to notice a stream that is longer than the header says.
    let mut bytes = Vec::new();
    let limit = section.full_size + 1;
    let done = match section.compression {
        SectionCompression::Zlib => {
            let stream = flate2::read::ZlibDecoder::new(packed.as_slice());
            stream.take(limit).read_to_end(&mut bytes)
        }
        SectionCompression::Zstd => zstd::stream::read::Decoder::with_buffer(packed.as_slice())
            .and_then(|stream| stream.take(limit).read_to_end(&mut bytes)),
        _ => {
            return Err(error(
                "compressed in a way that is not known here".to_owned(),
            ));
        }
    };
    done.map_err(|reason| error(reason.to_string()))?;
    if bytes.len() as u64 != section.full_size {
        return Err(error(format!(
            "not the {} bytes it should have",
            section.full_size
        )));
    }
    Ok(bytes)
}

/// Reads `.gnu_debugdata`: a small ELF file with the names of local procedures, compressed.
pub(crate) fn mini_debug_info(path: &Path, elf: &Elf) -> Result<Option<Vec<u8>>, Error> {
    let Some(section) = elf.section_named(".gnu_debugdata") else {
        return Ok(None);
    };
    let packed = elf
        .input
        .read_range(section.offset, section.size)
        .map_err(Error::wrap_io(path))?;
    let limit = MAX_MINI.min(section.size.saturating_mul(MAX_RATIO));
    let mut bytes = Vec::new();
    lzma_rust2::XzReader::new(packed.as_slice(), false)
        .take(limit)
        .read_to_end(&mut bytes)
        .map_err(|reason| Error::Malformed {
            path: path.to_owned(),
            what: "compressed section .gnu_debugdata".to_owned(),
            offset: section.offset,
            reason: reason.to_string(),
        })?;
    Ok(Some(bytes))
}
