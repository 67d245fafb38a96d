//! Names of code that will be unreadable later: of deleted files, of files in another mount
//! namespace, and of generated code.
//!
//! Searching a large program's symbol table takes tens of megabytes. A daemon that must stay small
//! lets a child process do it, hence the request that can be handed over.

use profile::ImageOffset;
use serde::{Deserialize, Serialize};
use std::fs::File;
use std::io::Read;
use std::os::fd::AsRawFd;
use std::path::Path;
use symbols::{ImageSymbols, ProcessSymbol};

/// The largest perf map or jitdump that is read.
const LARGEST_MAP: u64 = 256 << 20;

/// Kind of the file with the names.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Names {
    /// The image itself, an ELF file.
    Elf,
    /// A perf map: a process's list of the code that it generates.
    PerfMap,
    /// A jitdump, likewise.
    JitDump,
}

/// Places of an image whose names are needed now.
#[derive(Debug)]
pub struct Unreadable {
    /// The file with the names.
    pub file: File,
    /// Kind of that file.
    pub kind: Names,
    /// The places: offsets in the image, ascending; addresses for generated code.
    pub offsets: Vec<ImageOffset>,
}

/// A procedure that contains one of the places.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Named {
    /// First byte.
    pub start: ImageOffset,
    /// First byte behind it.
    pub end: ImageOffset,
    /// Its name, not demangled.
    pub name: String,
}

/// Finds the names for each of several images: those of the procedures that contain the places,
/// each once; `None` for an image whose file is not of its kind.
pub type FindNames = dyn Fn(&[Unreadable]) -> Vec<Option<Vec<Named>>>;

/// Finds names as [`FindNames`] describes, in this process.
pub fn find_names(images: &[Unreadable]) -> Vec<Option<Vec<Named>>> {
    images.iter().map(names_of).collect()
}

fn names_of(image: &Unreadable) -> Option<Vec<Named>> {
    let path = format!("/proc/self/fd/{}", image.file.as_raw_fd());
    let path = Path::new(&path);
    let mut found: Vec<Named> = match image.kind {
        Names::Elf => {
            let elf = ImageSymbols::open_image(path, &symbols::SymbolOptions::default()).ok()?;
            let named = |offset: &ImageOffset| elf_name(&elf, *offset);
            image.offsets.iter().filter_map(named).collect()
        }
        Names::PerfMap => {
            let text = read_limited(path)?;
            let (list, _) = symbols::parse_perf_map(&String::from_utf8_lossy(&text));
            listed_symbols(&image.offsets, &list)?
        }
        Names::JitDump => {
            let list = symbols::parse_jitdump(path, &read_limited(path)?).ok()?;
            listed_symbols(&image.offsets, &list)?
        }
    };
    found.dedup();
    Some(found)
}

/// Returns the procedure of an image at a place: by its symbols, or by its unwind table if it is
/// stripped, as programs in containers mostly are.
pub(crate) fn elf_name(elf: &ImageSymbols, offset: ImageOffset) -> Option<Named> {
    let named = |start: ImageOffset, size: u64, name: String| Named {
        start,
        end: ImageOffset(start.0.saturating_add(size)),
        name,
    };
    match elf.procedure_at(offset) {
        Some(procedure) => {
            let name = String::from_utf8_lossy(procedure.name).into_owned();
            Some(named(procedure.start, procedure.size, name))
        }
        None => {
            let procedure = elf.unwind_procedure(offset)?;
            Some(named(
                procedure.start,
                procedure.size,
                procedure.name.to_string(),
            ))
        }
    }
}

/// Returns the symbols of a list, sorted by start, that contain the places; `None` if the list is
/// empty.
fn listed_symbols(offsets: &[ImageOffset], list: &[ProcessSymbol]) -> Option<Vec<Named>> {
    let at = |offset: &ImageOffset| {
        let after = list.partition_point(|symbol| symbol.start.0 <= offset.0);
        let symbol = list.get(after.checked_sub(1)?)?;
        (offset.0 < symbol.end.0).then(|| Named {
            start: ImageOffset(symbol.start.0),
            end: ImageOffset(symbol.end.0),
            name: symbol.name.clone(),
        })
    };
    (!list.is_empty()).then(|| offsets.iter().filter_map(at).collect())
}

fn read_limited(path: &Path) -> Option<Vec<u8>> {
    let mut bytes = Vec::new();
    let file = File::open(path).ok()?;
    file.take(LARGEST_MAP).read_to_end(&mut bytes).ok()?;
    Some(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;

    fn unreadable(kind: Names, contents: &[u8], offsets: &[u64]) -> Unreadable {
        let mut file = tempfile::tempfile().unwrap();
        file.write_all(contents).unwrap();
        let offsets = offsets.iter().copied().map(ImageOffset).collect();
        Unreadable {
            file,
            kind,
            offsets,
        }
    }

    #[test]
    fn each_procedure_is_named_once() {
        let map = b"1000 10 first\n1010 10 second\n2000 8 third\n";
        let at = [0xfff, 0x1000, 0x1001, 0x101f, 0x1020, 0x2008];
        let found = find_names(&[unreadable(Names::PerfMap, map, &at)]);
        let names: Vec<_> = found[0].as_ref().unwrap().iter().collect();
        assert_eq!(names.len(), 2);
        assert_eq!((names[0].start.0, names[0].end.0), (0x1000, 0x1010));
        assert_eq!((&*names[0].name, &*names[1].name), ("first", "second"));
    }

    #[test]
    fn this_program_names_its_own_code() {
        let own = std::fs::read("/proc/self/exe").unwrap();
        let elf = ImageSymbols::open_image(
            Path::new("/proc/self/exe"),
            &symbols::SymbolOptions::default(),
        );
        let some = elf
            .unwrap()
            .all_procedures()
            .find(|p| p.size > 8)
            .map(|p| (p.start, p.name.to_vec()));
        let (start, name) = some.unwrap();
        let found = find_names(&[unreadable(Names::Elf, &own, &[start.0, start.0 + 4])]);
        let [named] = found[0].as_deref().unwrap() else {
            panic!("{found:?}")
        };
        assert_eq!(named.name.as_bytes(), name);
    }

    #[test]
    fn what_is_no_such_file_names_nothing() {
        for kind in [Names::Elf, Names::PerfMap, Names::JitDump] {
            for garbage in [&b""[..], b"\x7fELF", &[0xff; 100]] {
                assert_eq!(find_names(&[unreadable(kind, garbage, &[0, 5])]), [None]);
            }
        }
    }
}
