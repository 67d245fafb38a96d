//! Procedures of a stripped image: the ranges of its unwind table (`.eh_frame`), which stays
//! because it is needed at run time. Parts into which a compiler splits a procedure are ranges of
//! their own.

use crate::elf::Elf;
use crate::tables::SectionCompression;
use gimli::{BaseAddresses, CieOrFde, EhFrame, EndianSlice, RunTimeEndian, UnwindSection};
use rustc_hash::FxHashMap;
use std::ops::Range;

/// Size of the largest table that is read. The largest known ones (browsers') have 30 MiB.
const MAX_TABLE: u64 = 128 << 20;

/// Returns the ranges of addresses with an entry, by start, without damaged entries.
pub(crate) fn unwind_ranges(elf: &Elf) -> Vec<Range<u64>> {
    let table = elf.section_named(".eh_frame");
    let Some(table) = table.filter(|one| one.size <= MAX_TABLE && one.address > 0) else {
        return Vec::new();
    };
    if table.compression != SectionCompression::None {
        return Vec::new();
    }
    let Ok(bytes) = elf.input.read_range(table.offset, table.size) else {
        return Vec::new();
    };
    let endian = if elf.little_endian {
        RunTimeEndian::Little
    } else {
        RunTimeEndian::Big
    };
    let mut ranges = parse_frame_ranges(&bytes, endian, elf.address_size, table.address);
    let in_code = |range: &Range<u64>| {
        elf.segments.iter().any(|segment| {
            let end = segment.address.saturating_add(segment.file_size);
            segment.executable && range.start >= segment.address && range.end <= end
        })
    };
    ranges.retain(|range| range.start < range.end && in_code(range));
    ranges.sort_unstable_by_key(|range| (range.start, range.end));
    ranges.dedup_by_key(|range| range.start);
    ranges
}

fn parse_frame_ranges(
    bytes: &[u8],
    endian: RunTimeEndian,
    address_size: u8,
    at: u64,
) -> Vec<Range<u64>> {
    let mut frames = EhFrame::from(EndianSlice::new(bytes, endian));
    frames.set_address_size(address_size);
    let bases = BaseAddresses::default().set_eh_frame(at);
    // Each entry refers to a common one, which must come before it. Looking it up anywhere in the
    // table would let a damaged table cost the square of its size.
    let mut common = FxHashMap::default();
    let mut ranges = Vec::new();
    let mut entries = frames.entries(&bases);
    while let Ok(Some(entry)) = entries.next() {
        match entry {
            CieOrFde::Cie(cie) => {
                common.insert(cie.offset(), cie);
            }
            CieOrFde::Fde(partial) => {
                let parsed = partial.parse(|_, _, offset| {
                    let known = common.get(&offset.0).cloned();
                    known.ok_or(gimli::Error::NoEntryAtGivenOffset(offset.0 as u64))
                });
                if let Ok(one) = parsed {
                    let end = one.initial_address().saturating_add(one.len());
                    ranges.push(one.initial_address()..end);
                }
            }
        }
    }
    ranges
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Returns a table of one common entry (`zR`, four-byte addresses relative to their place) and
    /// an entry of 0x40 bytes at 0x1100.
    fn table() -> Vec<u8> {
        let mut bytes = vec![
            0x14, 0, 0, 0, 0, 0, 0, 0, 1, b'z', b'R', 0, 1, 0x78, 16, 1, 0x1b,
        ];
        bytes.extend([0; 7]);
        bytes.extend([0x10, 0, 0, 0, 0x1c, 0, 0, 0]);
        // The entry's address field is at 0x2020.
        bytes.extend((0x1100_i32 - 0x2020).to_le_bytes());
        bytes.extend(0x40_i32.to_le_bytes());
        bytes.extend([0; 4]);
        bytes.extend([0; 4]);
        bytes
    }

    #[test]
    fn entries_are_procedures() {
        let found = parse_frame_ranges(&table(), RunTimeEndian::Little, 8, 0x2000);
        assert_eq!(found.first(), Some(&(0x1100..0x1140)));
        assert_eq!(found.len(), 1);
    }

    proptest! {
        #[test]
        fn damaged_tables_are_survived(at in 0_usize..48, byte in any::<u8>(), length in 0_usize..49) {
            let mut bytes = table();
            if let Some(there) = bytes.get_mut(at) {
                *there = byte;
            }
            bytes.truncate(length);
            prop_assert!(parse_frame_ranges(&bytes, RunTimeEndian::Little, 8, 0x2000).len() <= 2);
        }
    }
}
