//! Offsets to the labels of a goroutine in a Go program.

use crate::elf_image::ElfImage;
use crate::{LanguageRuntime, NotSupported};
use object::elf::PT_TLS;
use object::read::elf::ProgramHeader;
use object::{Object, ObjectSection, ObjectSymbol, ReadRef};

/// Offset of the thread in a goroutine, in all tested versions.
const GOROUTINE_THREAD: u16 = 48;
/// The beginning of the section with the version, and the offset at which the version follows.
pub(super) const BUILD_MAGIC: &[u8] = b"\xff Go buildinf:";
pub(super) const VERSION_AT: usize = 32;
/// The flag in that section for a version that follows.
const INLINE_VERSION: u8 = 2;
/// Bytes of thread-local data that contain only the goroutine.
const GOROUTINE_ONLY: u64 = 8;

/// Form of a goroutine's labels.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum GoLabelForm {
    /// A map, up to Go 1.23.
    Map,
    /// A list, from 1.24 on.
    List,
}

/// A Go program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GoProgram {
    /// Offset of the pointer to the running goroutine, from the thread pointer.
    pub goroutine: i32,
    /// Offset of the thread in a goroutine (`g.m`).
    pub goroutine_thread: u16,
    /// Offset of the program's own goroutine in a thread (`m.curg`).
    pub thread_goroutine: u16,
    /// Offset of the labels in a goroutine (`g.labels`).
    pub labels: u16,
    /// Form of the labels.
    pub form: GoLabelForm,
}

impl LanguageRuntime for GoProgram {
    const LOST: &'static str = "labels of its goroutines are not known";

    /// Finds a program only for x86-64. Refuses untested versions, and programs whose linking does
    /// not show where goroutines are.
    fn find_in_image<'data, R: ReadRef<'data>>(
        _name: &str,
        image: &ElfImage<'data, R>,
    ) -> Result<Option<Self>, NotSupported> {
        let elf = &image.elf;
        if elf.architecture() != object::Architecture::X86_64 {
            return Ok(None);
        }
        let section = elf.section_by_name(".go.buildinfo");
        let Some(version) = section.and_then(|section| version_of(section.data().ok()?)) else {
            return Ok(None);
        };
        let minor = minor_of(&version);
        let Some((thread_goroutine, labels, form)) = minor.and_then(offsets_of_version) else {
            return Err(NotSupported(format!(
                "was built by {version}, which was never tried"
            )));
        };
        let Some(goroutine) = goroutine_offset(image) else {
            return Err(NotSupported(
                "does not say where it has its goroutines".to_owned(),
            ));
        };
        Ok(Some(Self {
            goroutine,
            goroutine_thread: GOROUTINE_THREAD,
            thread_goroutine,
            labels,
            form,
        }))
    }
}

/// Returns the offsets `m.curg` and `g.labels` of a version, from the debug information of programs
/// that it built.
fn offsets_of_version(minor: u32) -> Option<(u16, u16, GoLabelForm)> {
    Some(match minor {
        20 => (192, 360, GoLabelForm::Map),
        21 | 22 => (192, 344, GoLabelForm::Map),
        23 => (192, 352, GoLabelForm::Map),
        24 => (192, 352, GoLabelForm::List),
        25 => (184, 344, GoLabelForm::List),
        26 => (184, 352, GoLabelForm::List),
        _ => return None,
    })
}

/// Returns the version in the section's bytes: `go1.26.8`. Before Go 1.18 it was elsewhere.
fn version_of(section: &[u8]) -> Option<String> {
    let flags = *section.strip_prefix(BUILD_MAGIC)?.get(1)?;
    if flags & INLINE_VERSION == 0 {
        return Some("Go older than 1.18".to_owned());
    }
    let (length, text) = section.get(VERSION_AT..)?.split_first()?;
    let text = text.get(..usize::from(*length)).filter(|_| *length < 128)?;
    Some(String::from_utf8_lossy(text).into_owned())
}

/// Returns the number after `go1.`; `None` for anything else, such as versions between releases.
fn minor_of(version: &str) -> Option<u32> {
    let rest = version.strip_prefix("go1.")?;
    let digits = rest.bytes().take_while(u8::is_ascii_digit).count();
    // A release candidate (`go1.27rc1`) may have another layout.
    let (number, rest) = rest.split_at(digits);
    (rest.is_empty() || rest.starts_with(['.', ' ', '-', 'X']))
        .then(|| number.parse().ok())
        .flatten()
}

/// Returns the offset of the thread-local pointer to the goroutine from the thread pointer. With
/// Go's linker it lies right before the thread pointer. With the system's linker and other
/// thread-local data, its symbol gives the offset.
fn goroutine_offset<'data, R: ReadRef<'data>>(image: &ElfImage<'data, R>) -> Option<i32> {
    // The thread-local data of a library may be anywhere.
    if !image.is_program() {
        return None;
    }
    let (elf, endian) = (&image.elf, image.elf.endian());
    let Some(local) = image.segment(PT_TLS) else {
        return Some(-(GOROUTINE_ONLY as i32));
    };
    let (size, align) = (local.p_memsz(endian), local.p_align(endian).max(1));
    if size == GOROUTINE_ONLY {
        return Some(-(GOROUTINE_ONLY as i32));
    }
    let symbol = elf
        .symbols()
        .find(|symbol| symbol.name() == Ok("runtime.tlsg"))?;
    let behind = size
        .checked_next_multiple_of(align)?
        .checked_sub(symbol.address())?;
    i32::try_from(behind).ok().map(|behind| -behind)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn releases_are_known_by_their_number() {
        assert_eq!(minor_of("go1.26.8"), Some(26));
        assert_eq!(minor_of("go1.20"), Some(20));
        assert_eq!(minor_of("go1.24.9 X:boringcrypto"), Some(24));
        assert_eq!(minor_of("go1.27rc1"), None);
        assert_eq!(minor_of("devel go1.27-abcdef"), None);
        assert_eq!(offsets_of_version(27), None);
    }

    #[test]
    fn what_is_no_go_program_is_none() {
        let own = std::fs::read(std::env::current_exe().unwrap()).unwrap();
        let own = ElfImage::parse(&own[..]).unwrap();
        assert_eq!(GoProgram::find_in_image("x", &own), Ok(None));
        let mut section = BUILD_MAGIC.to_vec();
        section.extend([8, INLINE_VERSION]);
        section.resize(VERSION_AT, 0);
        section.extend(b"\x04go1.");
        assert_eq!(version_of(&section).as_deref(), Some("go1."));
        section[VERSION_AT] = 90;
        assert_eq!(version_of(&section), None);
    }
}
