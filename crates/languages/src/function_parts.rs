//! Parts of a function, some of which the compiler moved to rarely executed code.

use crate::elf_image::ElfImage;
use gimli::{BaseAddresses, CieOrFde, EhFrame, EndianSlice, FrameDescriptionEntry};
use gimli::{LittleEndian, UnwindContext, UnwindSection};
use object::{Object, ObjectSection, ObjectSymbol, ReadRef};
use std::ops::Range;

/// Maximum number of parts of a function that are used.
const MOST_PARTS: usize = 4;

type Slice<'data> = EndianSlice<'data, LittleEndian>;

/// Returns the parts of a function, by offset in the file. `whole` is the part that its symbol
/// covers. The unwind table lists the others, also in stripped builds; else they are symbols whose
/// names begin with the function's. `distance` is the difference between addresses and offsets.
pub(crate) fn function_parts<'data, R: ReadRef<'data>>(
    image: &ElfImage<'data, R>,
    name: &str,
    whole: Range<u64>,
    distance: u64,
) -> Vec<Range<u64>> {
    let mut elsewhere = parts_by_table(image, whole.start);
    if elsewhere.is_empty() {
        elsewhere = parts_by_name(image, name);
    }
    std::iter::once(whole)
        .chain(elsewhere)
        .take(MOST_PARTS)
        .map(|part| part.start.wrapping_sub(distance)..part.end.wrapping_sub(distance))
        .collect()
}

fn parts_by_name<'data, R: ReadRef<'data>>(
    image: &ElfImage<'data, R>,
    function: &str,
) -> Vec<Range<u64>> {
    let named = image.elf.symbols().filter(|symbol| {
        let name = symbol.name().unwrap_or_default();
        let rest = name.strip_prefix(function);
        rest.is_some_and(|rest| rest.starts_with('.')) && symbol.size() > 0
    });
    named
        .map(|symbol| symbol.address()..symbol.address().saturating_add(symbol.size()))
        .collect()
}

fn parts_by_table<'data, R: ReadRef<'data>>(
    image: &ElfImage<'data, R>,
    function: u64,
) -> Vec<Range<u64>> {
    let address = |name| Some(image.elf.section_by_name(name)?.address());
    let section = image.elf.section_by_name(".eh_frame");
    let Some((section, data)) =
        section.and_then(|section| Some((section.address(), section.data().ok()?)))
    else {
        return Vec::new();
    };
    let bases = BaseAddresses::default()
        .set_eh_frame(section)
        .set_text(address(".text").unwrap_or_default());
    parts_behind(&EhFrame::new(data, LittleEndian), &bases, function)
}

/// Returns the parts of a function that lie elsewhere. Compilers write their entries of the unwind
/// table after that of the function. Such a part begins with the function's frame in place, while a
/// function begins without one.
fn parts_behind(
    table: &EhFrame<Slice<'_>>,
    bases: &BaseAddresses,
    function: u64,
) -> Vec<Range<u64>> {
    let mut entries = table.entries(bases);
    let mut context = UnwindContext::new();
    // The first rule of the function itself, which begins without a frame.
    let mut called = None;
    let mut parts = Vec::new();
    // A damaged table ends here: then the parts are unknown.
    while let Ok(Some(entry)) = entries.next() {
        let CieOrFde::Fde(entry) = entry else {
            continue;
        };
        let Ok(entry) = entry.parse(EhFrame::cie_from_offset) else {
            break;
        };
        let first = first_rule(&entry, table, bases, &mut context);
        if entry.initial_address() == function {
            called = first;
        } else if called.is_some() {
            if first.is_none() || first == called {
                break;
            }
            let start = entry.initial_address();
            parts.push(start..start.saturating_add(entry.len()));
        }
    }
    parts
}

/// Returns the rule for the frame's address (CFA) at the first instruction of an entry.
fn first_rule<'data>(
    entry: &FrameDescriptionEntry<Slice<'data>>,
    table: &EhFrame<Slice<'data>>,
    bases: &BaseAddresses,
    context: &mut UnwindContext<usize>,
) -> Option<gimli::CfaRule<usize>> {
    let mut rows = entry.rows(table, bases, context).ok()?;
    Some(rows.next_row().ok()??.cfa().clone())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns a table of x86-64 with entries of 16 bytes of code each, at these addresses: those
    /// that begin with a frame on `rbp`, and those that begin like functions.
    fn table(entries: &[(u32, bool)]) -> Vec<u8> {
        // Version 1, augmentation "zR" with absolute 4-byte addresses; the frame is at rsp + 8.
        let common = [
            1, b'z', b'R', 0, 1, 0x78, 16, 1, 0x03, 0x0c, 7, 8, 0x90, 1, 0, 0,
        ];
        let mut bytes = (4 + common.len() as u32).to_le_bytes().to_vec();
        bytes.extend([0; 4]);
        bytes.extend(common);
        for (start, in_frame) in entries {
            // DW_CFA_def_cfa rbp + 16, or nothing.
            let program: [u8; 3] = if *in_frame { [0x0c, 6, 16] } else { [0; 3] };
            bytes.extend(16_u32.to_le_bytes());
            bytes.extend((bytes.len() as u32).to_le_bytes());
            bytes.extend(start.to_le_bytes());
            bytes.extend(16_u32.to_le_bytes());
            bytes.push(0);
            bytes.extend(program);
        }
        bytes.extend([0; 4]);
        bytes
    }

    fn parts(bytes: &[u8], function: u64) -> Vec<Range<u64>> {
        let table = EhFrame::new(bytes, LittleEndian);
        parts_behind(&table, &BaseAddresses::default(), function)
    }

    #[test]
    fn parts_stand_behind_their_function() {
        let (function, part) = (false, true);
        let bytes = table(&[
            (0x100, function),
            (0x900, function),
            (0x200, part),
            (0x400, part),
            (0xa00, function),
            (0x500, part),
        ]);
        assert_eq!(parts(&bytes, 0x900), [0x200..0x210, 0x400..0x410]);
        assert_eq!(parts(&bytes, 0x100), []);
        assert_eq!(parts(&bytes, 0xa00).len(), 1);
        assert_eq!(parts(&bytes, 0xb00), [], "there is no such function");
    }

    #[test]
    fn damaged_tables_are_survived() {
        let bytes = table(&[(0x900, false), (0x200, true)]);
        for at in 0..bytes.len() {
            for value in [0, 1, 0x7f, 0xff] {
                let mut damaged = bytes.clone();
                damaged[at] = value;
                assert!(parts(&damaged, 0x900).len() <= 2);
                parts(&bytes[..at], 0x900);
            }
        }
    }
}
