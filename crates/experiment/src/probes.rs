//! Static probes for tracers (USDT), found by the notes in a file.

use crate::Error;
use crate::code::TargetCode;
use crate::search::Spot;
use object::elf::NoteType;
use object::read::elf::{ElfFile64, SectionHeader};
use object::{Object, ObjectSection};
use profile::ImageOffset;
use std::path::PathBuf;

/// Larger files are not searched for probes.
const LARGEST: u64 = 1 << 30;
/// The kind of note.
const STAPSDT: NoteType = NoteType(3);

/// Returns the places of a probe in the mapped files, each with the file offset of its semaphore
/// (0: none).
pub(crate) fn find_probes(
    code: &mut TargetCode,
    provider: &str,
    name: &str,
) -> Result<Vec<(Spot, u64)>, Error> {
    let mut near = Vec::new();
    let mut paths: Vec<String> = code.mappings().iter().map(|m| m.path.clone()).collect();
    paths.dedup();
    for path in paths.iter().filter(|path| path.starts_with('/')) {
        let all = std::fs::metadata(path).ok().filter(|m| m.len() <= LARGEST);
        let Some(bytes) = all.and_then(|_| std::fs::read(path).ok()) else {
            continue;
        };
        let probes = parse_probes(&bytes).unwrap_or_default();
        let mut found = Vec::new();
        for probe in probes {
            if probe.provider != provider || probe.name != name {
                near.push(format!("usdt:{}:{}", probe.provider, probe.name));
                continue;
            }
            let mapping = code.mappings().iter().find(|mapping| {
                let length = mapping.range.end - mapping.range.start;
                let at = probe.offset.checked_sub(mapping.offset);
                mapping.path == *path && at.is_some_and(|at| at < length)
            });
            found.extend(mapping.map(|mapping| {
                let spot = Spot {
                    path: path.clone(),
                    offset: ImageOffset(probe.offset),
                    address: mapping.range.start + (probe.offset - mapping.offset),
                };
                (spot, probe.semaphore)
            }));
        }
        if !found.is_empty() {
            return Ok(found);
        }
    }
    near.sort();
    near.dedup();
    near.truncate(5);
    Err(Error::NoSuchPlace {
        what: format!("probe {provider}:{name}"),
        program: PathBuf::from(code.executable()),
        near,
    })
}

struct UsdtProbe {
    provider: String,
    name: String,
    offset: u64,
    semaphore: u64,
}

/// Parses the probes of an ELF file; `None` if it is damaged.
fn parse_probes(bytes: &[u8]) -> Option<Vec<UsdtProbe>> {
    let file = ElfFile64::<object::Endianness>::parse(bytes).ok()?;
    let offset_of = |address: u64| {
        use object::read::elf::ProgramHeader;
        let endian = file.endian();
        file.elf_program_headers().iter().find_map(|segment| {
            let inside = address.checked_sub(segment.p_vaddr(endian))?;
            let loaded = segment.p_type(endian) == object::elf::PT_LOAD;
            let within = loaded && inside < segment.p_filesz(endian);
            within
                .then(|| segment.p_offset(endian).checked_add(inside))
                .flatten()
        })
    };
    let base = file
        .section_by_name(".stapsdt.base")
        .map_or(0, |section| section.address());
    let mut probes = Vec::new();
    for section in file.sections().filter(|s| s.name() == Ok(".note.stapsdt")) {
        let endian = file.endian();
        let notes = section.elf_section_header().notes(endian, bytes).ok()??;
        let mut notes = notes;
        while let Ok(Some(note)) = notes.next() {
            if note.name() != b"stapsdt" || note.n_type(endian) != STAPSDT {
                continue;
            }
            let description = note.desc();
            let word = |n: usize| -> Option<u64> {
                let word = description.get(8 * n..8 * n + 8)?.try_into().ok()?;
                Some(u64::from_le_bytes(word))
            };
            let mut texts = description.get(24..)?.split(|byte| *byte == 0);
            let mut text = || Some(String::from_utf8_lossy(texts.next()?).into_owned());
            // A linked file may have been moved after the note was written.
            let moved = base.wrapping_sub(word(1)?);
            let at = |address: u64| offset_of(address.wrapping_add(moved));
            let semaphore = word(2).filter(|address| *address != 0);
            probes.push(UsdtProbe {
                provider: text()?,
                name: text()?,
                offset: at(word(0)?)?,
                semaphore: semaphore.map_or(Some(0), at)?,
            });
        }
    }
    Some(probes)
}
