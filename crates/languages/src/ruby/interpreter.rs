//! Lookup of Ruby in an image.

use crate::elf_image::ElfImage;
use crate::function_parts::function_parts;
use crate::{LanguageRuntime, NotSupported};
use object::read::elf::ProgramHeader;
use object::{Object, ReadRef};
use std::ops::Range;

/// The function that executes Ruby, and the thread-local pointer to the execution context.
const EVALUATION: &str = "rb_vm_exec";
const CONTEXT: &str = "ruby_current_ec";

/// Place of a thread's pointer to its execution context.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ContextPlace {
    /// Offset from the thread pointer, in a program.
    FromThread(i32),
    /// Place in the thread-local data of a library.
    InModule {
        /// The address of the word with the library's number, minus that of the first byte of the
        /// file.
        module: u64,
        /// Offset in these data.
        offset: u32,
    },
}

/// Layout of strings.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum TextLayout {
    /// The flags of a short string contain its length (3.1).
    LengthInFlags = 1,
    /// All strings have a length field (3.2 and later).
    Length = 2,
}

/// Offsets of fields, in bytes. Those of the execution context, of frames and of instruction
/// sequences are the same in all tested versions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RubyOffsets {
    /// Bytes of a frame (`rb_control_frame_t`).
    pub frame_size: u16,
    /// A sequence's location in its body (`location.pathobj`).
    pub location: u16,
    /// A sequence's table of lines in its body (`insns_info.body`).
    pub lines: u16,
    /// Layout of strings.
    pub text: TextLayout,
    /// True if the first line is an object whose lowest bit marks it as a number.
    pub tagged_line: bool,
}

/// Ruby in an image.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RubyInterpreter {
    /// The parts of the function that executes Ruby, by offset in the file.
    pub evaluation: Vec<Range<u64>>,
    /// Place of a thread's pointer to its execution context.
    pub context: ContextPlace,
    /// Layout of its structures.
    pub offsets: RubyOffsets,
}

impl LanguageRuntime for RubyInterpreter {
    const LOST: &'static str =
        "its methods are not named, stacks have the interpreter's own functions";

    fn find_in_image<'data, R: ReadRef<'data>>(
        _name: &str,
        image: &ElfImage<'data, R>,
    ) -> Result<Option<Self>, NotSupported> {
        // Every build exports both, for modules written in C.
        let (Some(version), Some(_)) = (
            image.exported_symbol("ruby_api_version"),
            image.exported_symbol("rb_yield"),
        ) else {
            return Ok(None);
        };
        let Some(version) = image.bytes(version.0, 8) else {
            return Ok(None);
        };
        let number = |at: usize| version.get(at).copied().unwrap_or_default();
        let (major, minor) = (number(0), number(4));
        let Some(offsets) = offsets_of_version(major, minor) else {
            return Err(NotSupported(format!(
                "is Ruby {major}.{minor}, which was never tried"
            )));
        };
        if image.elf.architecture() != object::Architecture::X86_64 {
            return Err(NotSupported(
                "is Ruby for another processor than x86-64".to_owned(),
            ));
        }
        let found = || -> Option<Self> {
            let (first, size) = image.any_symbol(EVALUATION)?;
            let distance = image.code_distance(first)?;
            Some(Self {
                evaluation: function_parts(
                    image,
                    EVALUATION,
                    first..first.checked_add(size)?,
                    distance,
                ),
                context: context_place(image)?,
                offsets,
            })
        };
        found().map(Some).ok_or_else(|| {
            NotSupported(format!(
                "is a stripped Ruby {major}.{minor} that does not say where it has its frames"
            ))
        })
    }
}

/// Returns the offsets of a version, from its headers.
fn offsets_of_version(major: u8, minor: u8) -> Option<RubyOffsets> {
    match (major, minor) {
        (3, 1) => Some(RubyOffsets {
            frame_size: 64,
            location: 64,
            lines: 120,
            text: TextLayout::LengthInFlags,
            tagged_line: true,
        }),
        (3, 3) => Some(RubyOffsets {
            frame_size: 56,
            location: 64,
            lines: 112,
            text: TextLayout::Length,
            tagged_line: false,
        }),
        _ => None,
    }
}

fn context_place<'data, R: ReadRef<'data>>(image: &ElfImage<'data, R>) -> Option<ContextPlace> {
    let endian = image.elf.endian();
    let (offset, _) = image.any_symbol(CONTEXT)?;
    let local = image.segment(object::elf::PT_TLS)?;
    if image.is_program() {
        let align = local.p_align(endian).max(1);
        let size = local.p_memsz(endian).checked_next_multiple_of(align)?;
        let behind = i32::try_from(size.checked_sub(offset)?).ok()?;
        return Some(ContextPlace::FromThread(-behind));
    }
    let module = module_word(image)?;
    Some(ContextPlace::InModule {
        module: module.wrapping_sub(image.code_distance(module)?),
        offset: u32::try_from(offset).ok()?,
    })
}

/// Returns the address of a word that the loader fills with the library's number among those with
/// thread-local data.
fn module_word<'data, R: ReadRef<'data>>(image: &ElfImage<'data, R>) -> Option<u64> {
    let mut relocations = image.elf.dynamic_relocations()?;
    // A relocation for another library's data would name a symbol.
    let found = relocations.find(|(_, relocation)| {
        let kind = object::RelocationFlags::Elf {
            r_type: object::elf::R_X86_64_DTPMOD64,
        };
        relocation.flags() == kind
            && !matches!(relocation.target(), object::RelocationTarget::Symbol(_))
    });
    found.map(|(address, _)| address)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_that_were_never_tried_have_no_offsets() {
        for (major, minor) in [(2, 7), (3, 0), (3, 2), (3, 4), (4, 0)] {
            assert_eq!(offsets_of_version(major, minor), None);
        }
        for minor in [1, 3] {
            let offsets = offsets_of_version(3, minor).unwrap();
            // The part of a body that the kernel half reads at once.
            assert!(offsets.lines + 32 <= 160 && offsets.location + 28 <= 160);
        }
    }

    #[test]
    fn other_images_have_none() {
        let own = std::fs::read(std::env::current_exe().unwrap()).unwrap();
        let own = ElfImage::parse(&own[..]).unwrap();
        assert_eq!(RubyInterpreter::find_in_image("ruby", &own), Ok(None));
    }
}
