//! The module that a Go program was built from.

use super::program::{BUILD_MAGIC, VERSION_AT};
use crate::ElfImage;
use object::{Object, ObjectSection, ReadRef};

/// Bytes that mark the begin, and others the end, of the list of modules.
const MARKER: usize = 16;
/// The package of every program's own `main` function.
const MAIN_PACKAGE: &str = "main";

/// The main module of a Go program, which was built, without the modules that it requires and
/// without the standard library.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GoModule {
    path: String,
}

impl GoModule {
    /// Makes the module of this path.
    pub fn new(path: impl Into<String>) -> Self {
        Self { path: path.into() }
    }

    /// Reads it from a program; `None` if it is no Go program, or does not list its modules.
    pub fn find_in_image<'data, R: ReadRef<'data>>(image: &ElfImage<'data, R>) -> Option<Self> {
        let section = image.elf.section_by_name(".go.buildinfo")?;
        main_path(&module_list(section.data().ok()?)?).map(Self::new)
    }

    /// Returns whether a function, by its name in the symbol table, belongs to this module; `None`
    /// if it has no package, as in C code.
    pub fn has_function(&self, name: &str) -> Option<bool> {
        let package = package_of(name)?;
        let rest = package.strip_prefix(&*self.path);
        let inside = rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('/'));
        Some(package == MAIN_PACKAGE || inside)
    }
}

/// Returns the text that lists the modules, from the section's bytes.
fn module_list(section: &[u8]) -> Option<String> {
    section.strip_prefix(BUILD_MAGIC)?;
    let (_, rest) = split_text(section.get(VERSION_AT..)?)?;
    let (list, _) = split_text(rest)?;
    let list = list.get(MARKER..list.len().checked_sub(MARKER)?)?;
    Some(String::from_utf8_lossy(list).into_owned())
}

/// Splits off a text that follows its length, a number of 7 bits a byte.
fn split_text(bytes: &[u8]) -> Option<(&[u8], &[u8])> {
    let mut length = 0usize;
    for (shift, byte) in (0..28).step_by(7).zip(0..) {
        let byte = *bytes.get(byte)?;
        length |= usize::from(byte & 0x7f) << shift;
        if byte & 0x80 == 0 {
            return bytes.get(shift / 7 + 1..)?.split_at_checked(length);
        }
    }
    None
}

/// Returns the path of the main module; for a program of single files, that of its package.
fn main_path(list: &str) -> Option<String> {
    let value = |key: &str| {
        let mut lines = list.lines().map(|line| line.split('\t'));
        let mut line = lines.find_map(|mut words| (words.next() == Some(key)).then_some(words))?;
        line.next().filter(|path| !path.is_empty())
    };
    value("mod").or_else(|| value("path")).map(str::to_owned)
}

/// Returns the path of a function's package: the last of its components ends with the first dot.
/// Dots in it are escaped.
fn package_of(name: &str) -> Option<String> {
    let plain = name.split('[').next().unwrap_or(name);
    let last = plain.rfind('/').map_or(0, |slash| slash + 1);
    let dot = plain.get(last..)?.find('.')?;
    Some(plain.get(..last + dot)?.replace("%2e", "."))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn section_of(version: &str, list: &str) -> Vec<u8> {
        let mut section = BUILD_MAGIC.to_vec();
        section.resize(VERSION_AT, 0);
        let list = [&[7; MARKER], list.as_bytes(), &[9; MARKER]].concat();
        for text in [version.as_bytes(), &list] {
            section.push(text.len() as u8 | 0x80);
            section.push((text.len() >> 7) as u8);
            section.extend(text);
        }
        section
    }

    #[test]
    fn the_main_module_is_read() {
        let list = "path\texample.com/tool/cmd/x\nmod\texample.com/tool\tv1.2.0\th1:abc=\ndep\texample.com/other\tv0.1.0\t\n";
        let section = section_of("go1.26.8", list);
        let read = module_list(&section).unwrap();
        assert_eq!(main_path(&read).as_deref(), Some("example.com/tool"));
        let alone = "path\tcommand-line-arguments\nbuild\t-compiler=gc\n";
        assert_eq!(main_path(alone).as_deref(), Some("command-line-arguments"));
        assert_eq!(main_path(""), None);
        assert_eq!(main_path("mod\t\n"), None);
    }

    #[test]
    fn cut_sections_have_no_list() {
        let section = section_of("go1.26.8", "path\tx\n");
        for length in 0..section.len() {
            assert_eq!(module_list(&section[..length]), None, "{length}");
        }
        let endless = [BUILD_MAGIC, &[0xff; 64]].concat();
        assert_eq!(module_list(&endless), None);
    }

    #[test]
    fn functions_are_of_their_packages() {
        let module = GoModule::new("example.com/tool.v3");
        for (name, own) in [
            ("main.main", Some(true)),
            ("main.Map[go.shape.int].func1", Some(true)),
            ("example.com/tool%2ev3.(*Reader).Read", Some(true)),
            (
                "example.com/tool.v3/inner.Sum[example.com/other.T]",
                Some(true),
            ),
            ("example.com/tool.v30/inner.Sum", Some(false)),
            ("example.com/other.New", Some(false)),
            ("runtime.mallocgc", Some(false)),
            ("type:.eq.main.T", Some(false)),
            ("compress_block", None),
            ("", None),
        ] {
            assert_eq!(module.has_function(name), own, "{name}");
        }
    }
}
