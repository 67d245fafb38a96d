//! The bytes of an image after loading, for decoders of its code.

use crate::elf::Elf;
use profile::ImageAddress;

/// `r_info` of a relocation that adds the load address: on x86-64, on AArch64.
const RELATIVE: [u64; 2] = [8, 1027];

/// Relative relocations by address, with the loader's value without the load address.
pub(crate) struct Relocations(Vec<(u64, u64)>);

impl std::fmt::Debug for Relocations {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} relocations", self.0.len())
    }
}

impl Relocations {
    /// Reads the relocations of a 64-bit little-endian image (`.rela.dyn`; those of `.relr.dyn`
    /// have their values in place). Unreadable relocations are left out: the bytes then stay as in
    /// the file.
    pub fn relocations_of(elf: &Elf) -> Self {
        // Go's linker uses the shorter name.
        let section = [".rela.dyn", ".rela"]
            .iter()
            .find_map(|name| elf.section_named(name))
            .filter(|_| elf.little_endian);
        let bytes =
            section.and_then(|section| elf.input.read_range(section.offset, section.size).ok());
        let word = |entry: &[u8], at: usize| {
            let bytes = entry.get(at..).and_then(|bytes| bytes.first_chunk::<8>());
            bytes.map(|bytes| u64::from_le_bytes(*bytes))
        };
        let entries = bytes.as_deref().unwrap_or_default().chunks_exact(24);
        let mut all: Vec<(u64, u64)> = entries
            .filter_map(|entry| {
                let info = word(entry, 8).filter(|info| RELATIVE.contains(info));
                info.and(word(entry, 0).zip(word(entry, 16)))
            })
            .collect();
        all.sort_unstable();
        Self(all)
    }

    fn apply_relocations(&self, address: u64, buffer: &mut [u8]) {
        let first = self
            .0
            .partition_point(|(at, _)| at.saturating_add(8) <= address);
        for (at, value) in self.0.get(first..).unwrap_or_default() {
            for (index, byte) in value.to_le_bytes().into_iter().enumerate() {
                let place = at
                    .checked_add(index as u64)
                    .and_then(|at| at.checked_sub(address));
                let place = place.and_then(|place| usize::try_from(place).ok());
                if let Some(there) = place.and_then(|place| buffer.get_mut(place)) {
                    *there = byte;
                }
            }
            if at.saturating_sub(address) >= buffer.len() as u64 {
                break;
            }
        }
    }
}

/// Fills the buffer with the bytes loaded at the address; returns false if the file does not have
/// all of them.
pub(crate) fn read_loaded(
    elf: &Elf,
    relocations: &Relocations,
    address: ImageAddress,
    buffer: &mut [u8],
) -> bool {
    let size = buffer.len() as u64;
    let holding = elf.segments.iter().find_map(|segment| {
        let into = address.0.checked_sub(segment.address)?;
        (into.checked_add(size)? <= segment.file_size).then(|| segment.offset.checked_add(into))?
    });
    let Some(Ok(bytes)) = holding.map(|offset| elf.input.read_range(offset, size)) else {
        return false;
    };
    buffer.copy_from_slice(&bytes);
    relocations.apply_relocations(address.0, buffer);
    true
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_overlaps_is_relocated() {
        let relocations = Relocations(vec![(0, 1), (16, 0x1122_3344_5566_7788), (40, 2)]);
        let mut buffer = [0xff_u8; 8];
        relocations.apply_relocations(20, &mut buffer);
        assert_eq!(buffer, [0x44, 0x33, 0x22, 0x11, 0xff, 0xff, 0xff, 0xff]);
        let mut buffer = [0xff_u8; 6];
        relocations.apply_relocations(12, &mut buffer);
        assert_eq!(buffer, [0xff, 0xff, 0xff, 0xff, 0x88, 0x77]);
        let mut buffer = [0xff_u8; 8];
        relocations.apply_relocations(24, &mut buffer);
        assert_eq!(buffer, [0xff; 8]);
    }
}
