//! Lookup of an interpreter in an image.

use super::offsets::{Offsets, PUBLISHED, Version};
use crate::elf_image::ElfImage;
use crate::function_parts::function_parts;
use crate::{LanguageRuntime, NotSupported};
use object::ReadRef;
use std::ops::Range;

/// The function that evaluates code.
const EVALUATION: &str = "_PyEval_EvalFrameDefault";

/// An interpreter in an image.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Interpreter {
    /// Its version.
    pub version: Version,
    /// The parts of the evaluation function, by offset in the file.
    pub evaluation: Vec<Range<u64>>,
    /// The address of the runtime, minus that of the first byte of the file.
    pub runtime: u64,
    /// The address of the type of code objects, minus that of the first byte of the file.
    pub code_type: u64,
    /// Layout of its structures.
    pub offsets: Offsets,
}

impl LanguageRuntime for Interpreter {
    const LOST: &'static str = "its functions are not named, stacks have the interpreter's own";

    /// Finds an interpreter. `name` gives the version of interpreters before 3.11.
    fn find_in_image<'data, R: ReadRef<'data>>(
        name: &str,
        image: &ElfImage<'data, R>,
    ) -> Result<Option<Self>, NotSupported> {
        let (Some((first, size)), Some((runtime, _))) = (
            image.exported_symbol(EVALUATION),
            image.exported_symbol("_PyRuntime"),
        ) else {
            return Ok(None);
        };
        // A symbol defined elsewhere has no address here.
        if first == 0 || size == 0 || runtime == 0 {
            return Ok(None);
        }
        let found = || -> Option<(Version, u64, u64)> {
            let version = version_of_image(name, image)?;
            let (code_type, _) = image.exported_symbol("PyCode_Type")?;
            Some((version, code_type, image.code_distance(first)?))
        };
        let (version, code_type, distance) =
            found().ok_or_else(|| NotSupported("is a Python of unknown version".to_owned()))?;
        let offsets = Offsets::of_version(version).or_else(|| {
            let bytes = image.bytes(runtime, PUBLISHED as u64)?;
            Offsets::published(bytes)
        });
        let offsets = offsets.ok_or_else(|| {
            let Version { major, minor } = version;
            NotSupported(format!(
                "is a build of Python {major}.{minor} that was never tried"
            ))
        })?;
        let whole = first..first.saturating_add(size);
        Ok(Some(Interpreter {
            version,
            evaluation: function_parts(image, EVALUATION, whole, distance),
            runtime: runtime.wrapping_sub(distance),
            code_type: code_type.wrapping_sub(distance),
            offsets,
        }))
    }
}

/// Returns the version that the interpreter exports (`Py_Version`, since 3.11), else that in its
/// name.
fn version_of_image<'data, R: ReadRef<'data>>(
    name: &str,
    image: &ElfImage<'data, R>,
) -> Option<Version> {
    let said = image
        .exported_symbol("Py_Version")
        .and_then(|(address, _)| {
            let bytes = image.bytes(address, 8)?;
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

/// Returns the version in a name: `python3.9`, `libpython3.8.so.1.0`. A `d` after the version means
/// a debug build, whose objects differ.
fn version_of_name(name: &str) -> Option<Version> {
    let (_, rest) = name.split_once("python3.")?;
    let digits = rest.bytes().take_while(u8::is_ascii_digit).count();
    let minor = rest[..digits].parse().ok()?;
    (!rest[digits..].starts_with('d')).then_some(Version { major: 3, minor })
}

#[cfg(test)]
mod tests {
    use super::*;
    use object::Endianness;
    use object::read::elf::ElfFile64;

    fn find(name: &str, bytes: &[u8]) -> Result<Option<Interpreter>, NotSupported> {
        let image = ElfImage::parse(bytes);
        image.map_or(Ok(None), |image| Interpreter::find_in_image(name, &image))
    }

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
        assert_eq!(find("x", &b"no image"[..]), Ok(None));
        let own = std::fs::read(std::env::current_exe().unwrap()).unwrap();
        assert_eq!(find("python3.9", &own[..]), Ok(None));
    }

    #[test]
    fn a_hash_table_that_lies_finds_nothing_and_harms_nobody() {
        use object::{Object, ObjectSection};
        let mut image = std::fs::read("/usr/bin/python3").expect("python3 is installed");
        let found = find("python3", &image[..]);
        assert!(
            found != Ok(None),
            "it is an interpreter, if not one that is known"
        );
        let elf = ElfFile64::<Endianness>::parse(&*image).unwrap();
        let section = elf.section_by_name(".gnu.hash").expect("is there");
        let (start, _) = section.file_range().expect("is in the file");
        for byte in start as usize..start as usize + 20 {
            let kept = std::mem::replace(&mut image[byte], 0xff);
            let _ = find("python3", &image[..]);
            image[byte] = kept;
        }
    }
}
