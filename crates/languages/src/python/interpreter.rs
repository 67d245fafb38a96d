//! Finding an interpreter in an image.

use super::moved_parts::moved_parts;
use super::offsets::{Offsets, PUBLISHED, Version};
use crate::NotSupported;
use object::elf::FileHeader64;
use object::read::elf::{ElfFile64, GnuHashTable, ProgramHeader, Sym, VersionTable};
use object::{Endianness, Object, ObjectSymbol, ReadRef};
use std::ops::Range;

/// The function that evaluates code, and what the names of its parts that were moved away begin with.
const EVALUATION: &str = "_PyEval_EvalFrameDefault";

/// The most ranges of the evaluation function that are used.
const MOST_RANGES: usize = 4;

/// An interpreter in an image.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Interpreter {
    /// Its version.
    pub version: Version,
    /// The parts of the evaluation function, by offset in the file.
    pub evaluation: Vec<Range<u64>>,
    /// The address of the runtime, less that of the first byte of the file.
    pub runtime: u64,
    /// The address of the type of code objects, less that of the first byte of the file.
    pub code_type: u64,
    /// Where its structures have what.
    pub offsets: Offsets,
}

impl Interpreter {
    /// Returns the interpreter that an image has, `None` if it has none. `name` is the image's file name.
    ///
    /// # Errors
    /// If the interpreter is none of the versions that were tried.
    pub fn find<'data, R: ReadRef<'data>>(
        name: &str,
        data: R,
    ) -> Result<Option<Self>, NotSupported> {
        let Ok(elf) = ElfFile64::<Endianness, R>::parse(data) else {
            return Ok(None);
        };
        Image { elf, data }.interpreter(name)
    }
}

struct Image<'data, R: ReadRef<'data>> {
    elf: ElfFile64<'data, Endianness, R>,
    data: R,
}

impl<'data, R: ReadRef<'data>> Image<'data, R> {
    fn interpreter(&self, name: &str) -> Result<Option<Interpreter>, NotSupported> {
        let (Some((first, size)), Some((runtime, _))) =
            (self.symbol(EVALUATION), self.symbol("_PyRuntime"))
        else {
            return Ok(None);
        };
        // What is defined elsewhere has no address here.
        if first == 0 || size == 0 || runtime == 0 {
            return Ok(None);
        }
        let found = || -> Option<(Version, u64, u64)> {
            let version = self.version(name)?;
            let (code_type, _) = self.symbol("PyCode_Type")?;
            Some((version, code_type, self.code_distance(first)?))
        };
        let (version, code_type, distance) = found()
            .ok_or_else(|| NotSupported(format!("{name} is a Python of unknown version")))?;
        let offsets = Offsets::of_version(version).or_else(|| {
            let bytes = self.bytes(runtime, PUBLISHED as u64)?;
            Offsets::published(bytes)
        });
        let offsets = offsets.ok_or_else(|| {
            let Version { major, minor } = version;
            NotSupported(format!(
                "{name} is a build of Python {major}.{minor} that was never tried"
            ))
        })?;
        let in_file = |range: Range<u64>| {
            range.start.wrapping_sub(distance)..range.end.wrapping_sub(distance)
        };
        let mut evaluation = vec![in_file(first..first.saturating_add(size))];
        evaluation.extend(self.moved_parts(first).into_iter().map(in_file));
        evaluation.truncate(MOST_RANGES);
        Ok(Some(Interpreter {
            version,
            evaluation,
            runtime: runtime.wrapping_sub(distance),
            code_type: code_type.wrapping_sub(distance),
            offsets,
        }))
    }

    /// The address and the size of a symbol that every build exports, for modules written in C.
    fn symbol(&self, name: &str) -> Option<(u64, u64)> {
        if let Some(table) = self.symbol_hashes() {
            let endian = self.elf.endian();
            let symbols = self.elf.elf_dynamic_symbol_table();
            let hash = object::elf::gnu_hash(name.as_bytes());
            let any = VersionTable::default();
            let (_, symbol) = table.find(endian, name.as_bytes(), hash, None, symbols, &any)?;
            return symbol
                .is_definition(endian, symbols.strings())
                .then(|| (symbol.st_value(endian), symbol.st_size(endian)));
        }
        let mut all = self.elf.dynamic_symbols();
        let found = all.find(|symbol| symbol.name() == Ok(name) && symbol.is_definition())?;
        Some((found.address(), found.size()))
    }

    /// The hash table of the exported symbols. Most images are no interpreter, and it says so without a look at
    /// each of their names, which is a read of the file.
    fn symbol_hashes(&self) -> Option<GnuHashTable<'data, FileHeader64<Endianness>>> {
        let (endian, sections) = (self.elf.endian(), self.elf.elf_section_table());
        let header = sections.gnu_hash_header(endian, self.data).ok()??;
        // By more than a word's bits nothing can be shifted: such a table is none.
        if header.bloom_shift.get(endian) >= u32::BITS {
            return None;
        }
        Some(sections.gnu_hash(endian, self.data).ok()??.0)
    }

    /// Parts of the evaluation function that lie elsewhere: by the unwind table, which knows them in stripped builds, else by name.
    fn moved_parts(&self, first: u64) -> Vec<Range<u64>> {
        let parts = moved_parts(&self.elf, first);
        if !parts.is_empty() {
            return parts;
        }
        let named = self.elf.symbols().filter(|symbol| {
            let name = symbol.name().unwrap_or_default();
            let rest = name.strip_prefix(EVALUATION);
            rest.is_some_and(|rest| rest.starts_with('.')) && symbol.size() > 0
        });
        named
            .map(|symbol| symbol.address()..symbol.address().saturating_add(symbol.size()))
            .collect()
    }

    /// Where code is linked to lie, less where it lies in the file.
    fn code_distance(&self, address: u64) -> Option<u64> {
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

    fn bytes(&self, address: u64, length: u64) -> Option<&'data [u8]> {
        let endian = self.elf.endian();
        self.elf.elf_program_headers().iter().find_map(|segment| {
            segment
                .data_range(endian, self.data, address, length)
                .ok()
                .flatten()
        })
    }

    /// The version that the interpreter says (`Py_Version`, since 3.11), else that of its name.
    fn version(&self, name: &str) -> Option<Version> {
        let said = self.symbol("Py_Version").and_then(|(address, _)| {
            let bytes = self.bytes(address, 8)?;
            Some(u64::from_le_bytes(bytes.try_into().ok()?))
        });
        match said {
            Some(number) => Some(Version {
                major: (number >> 24) as u8,
                minor: (number >> 16) as u8,
            }),
            None => version_of_name(name),
        }
    }
}

/// `python3.9`, `libpython3.8.so.1.0`. A `d` behind the version is a build for debugging, whose objects differ.
fn version_of_name(name: &str) -> Option<Version> {
    let (_, rest) = name.split_once("python3.")?;
    let digits = rest.bytes().take_while(u8::is_ascii_digit).count();
    let minor = rest[..digits].parse().ok()?;
    (!rest[digits..].starts_with('d')).then_some(Version { major: 3, minor })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn old_versions_are_known_by_their_names() {
        let minor = |name| version_of_name(name).map(|version| version.minor);
        assert_eq!(minor("python3.9"), Some(9));
        assert_eq!(minor("libpython3.8.so.1.0"), Some(8));
        assert_eq!(minor("python3.9d"), None);
        assert_eq!(minor("python2.7"), None);
        assert_eq!(minor("python3"), None);
    }

    #[test]
    fn what_is_no_interpreter_has_none() {
        assert_eq!(Interpreter::find("x", &b"no image"[..]), Ok(None));
        let own = std::fs::read(std::env::current_exe().unwrap()).unwrap();
        assert_eq!(Interpreter::find("python3.9", &own[..]), Ok(None));
    }

    #[test]
    fn a_hash_table_that_lies_finds_nothing_and_harms_nobody() {
        use object::ObjectSection;
        let mut image = std::fs::read("/usr/bin/python3").expect("python3 is installed");
        let found = Interpreter::find("python3", &image[..]);
        assert!(
            found != Ok(None),
            "it is an interpreter, if not one that is known"
        );
        let elf = ElfFile64::<Endianness>::parse(&*image).unwrap();
        let section = elf.section_by_name(".gnu.hash").expect("is there");
        let (start, _) = section.file_range().expect("is in the file");
        for byte in start as usize..start as usize + 20 {
            let kept = std::mem::replace(&mut image[byte], 0xff);
            let _ = Interpreter::find("python3", &image[..]);
            image[byte] = kept;
        }
    }
}
