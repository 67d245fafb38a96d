//! Memory contents known during interpretation.

use rustc_hash::FxHashMap;

/// Partly known memory.
pub(super) trait InterpretedMemory {
    /// Returns a little-endian value of 1, 2, 4 or 8 bytes.
    fn load_value(&mut self, at: u64, width: usize) -> Option<u64>;

    /// Stores a value, or an unknown one.
    fn store_value(&mut self, at: u64, width: usize, value: Option<u64>);

    /// Returns whether a store to an unknown address makes all memory unknown. Otherwise it is
    /// assumed to change nothing known.
    fn is_whole(&self) -> bool;
}

const PAGE: usize = 4096;

/// Eight aligned bytes: their value, and the known ones among them (`0xff` for each).
#[derive(Clone, Copy, Default)]
struct Word {
    value: u64,
    known: u64,
}

/// The memory of a stopped process, page by page.
pub(super) struct Pages<R> {
    read: R,
    pages: FxHashMap<u64, Option<Box<[u8; PAGE]>>>,
}

impl<R: FnMut(u64, &mut [u8]) -> bool> Pages<R> {
    pub fn new(read: R) -> Self {
        Self {
            read,
            pages: FxHashMap::default(),
        }
    }

    /// Returns eight bytes at an aligned address.
    pub fn word(&mut self, at: u64) -> Option<u64> {
        let (number, from) = (at / PAGE as u64, (at % PAGE as u64) as usize);
        let read = &mut self.read;
        let page = self.pages.entry(number).or_insert_with(|| {
            let mut bytes = Box::new([0; PAGE]);
            read(number * PAGE as u64, bytes.as_mut_slice()).then_some(bytes)
        });
        let bytes = page.as_deref()?.get(from..)?.first_chunk()?;
        Some(u64::from_le_bytes(*bytes))
    }
}

/// Memory with the stores since the sample on top.
pub(super) struct Overlay<W> {
    /// Eight bytes at an aligned address.
    below: W,
    is_whole: bool,
    /// True if an unknown value was read.
    pub missed: bool,
    /// Stored words by address, with the bytes that were stored.
    stored: FxHashMap<u64, (Word, u64)>,
}

impl<W: FnMut(u64) -> Option<u64>> Overlay<W> {
    pub fn new(below: W, is_whole: bool) -> Self {
        Self {
            below,
            is_whole,
            missed: false,
            stored: FxHashMap::default(),
        }
    }

    /// Returns the word at an aligned address.
    fn overlay_word(&mut self, at: u64) -> Word {
        let (stored, mask) = self.stored.get(&at).copied().unwrap_or_default();
        if mask == u64::MAX {
            return stored;
        }
        let below = (self.below)(at);
        Word {
            value: below.unwrap_or(0) & !mask | stored.value & mask,
            known: below.map_or(0, |_| !mask) | stored.known & mask,
        }
    }

    /// Fills a buffer as far as memory is known; returns the number of bytes.
    pub fn code(&mut self, at: u64, buffer: &mut [u8]) -> usize {
        for (index, byte) in buffer.iter_mut().enumerate() {
            match self.load_value(at.wrapping_add(index as u64), 1) {
                Some(value) => *byte = value as u8,
                None => return index,
            }
        }
        buffer.len()
    }
}

/// Returns a mask of the low `width` bytes.
fn low_bytes(width: usize) -> u128 {
    (1 << (8 * width.min(8))) - 1
}

/// Splits an address into that of its word and the bit offset in the word.
fn split_address(at: u64) -> (u64, u64) {
    (at & !7, 8 * (at & 7))
}

impl<W: FnMut(u64) -> Option<u64>> InterpretedMemory for Overlay<W> {
    fn load_value(&mut self, at: u64, width: usize) -> Option<u64> {
        let (first, shift) = split_address(at);
        let one = self.overlay_word(first);
        let other = if shift as usize + 8 * width > 64 {
            self.overlay_word(first.wrapping_add(8))
        } else {
            Word::default()
        };
        let join = |high: u64, low: u64| (u128::from(high) << 64 | u128::from(low)) >> shift;
        let wanted = low_bytes(width);
        let value = join(other.value, one.value) & wanted;
        let is_known = join(other.known, one.known) & wanted == wanted;
        self.missed |= !is_known;
        is_known.then_some(value as u64)
    }

    fn store_value(&mut self, at: u64, width: usize, value: Option<u64>) {
        let (first, shift) = split_address(at);
        let mask = low_bytes(width) << shift;
        let moved = u128::from(value.unwrap_or(0)) << shift & mask;
        for (number, part) in [(0, 0), (1, 64)] {
            let (mask, moved) = ((mask >> part) as u64, (moved >> part) as u64);
            if mask != 0 {
                let word = self.stored.entry(first.wrapping_add(8 * number));
                let (word, stored) = word.or_default();
                word.value = word.value & !mask | moved;
                word.known &= !mask;
                word.known |= if value.is_some() { mask } else { 0 };
                *stored |= mask;
            }
        }
    }

    fn is_whole(&self) -> bool {
        self.is_whole
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        /// The overlay behaves like memory of single bytes, some of them unknown.
        #[test]
        fn it_is_memory(
            accesses in proptest::collection::vec(
                (4080_u64..4120, 0_u32..4, any::<Option<u64>>(), any::<bool>()), 1..60),
        ) {
            let read = |at: u64, page: &mut [u8]| {
                page.iter_mut().enumerate().for_each(|(index, byte)| *byte = index as u8);
                at == 0
            };
            let mut pages = Pages::new(read);
            let mut memory = Overlay::new(|at| pages.word(at), true);
            let mut bytes: Vec<Option<u8>> =
                (0..8192).map(|at| (at < 4096).then_some(at as u8)).collect();
            for (at, width, value, stores) in accesses {
                let width = 1 << width;
                let range = at as usize..at as usize + width;
                if stores {
                    memory.store_value(at, width, value);
                    for (index, byte) in bytes[range].iter_mut().enumerate() {
                        *byte = value.map(|value| value.to_le_bytes()[index]);
                    }
                } else {
                    let wanted: Option<Vec<u8>> = bytes[range].iter().copied().collect();
                    let found = memory.load_value(at, width);
                    prop_assert_eq!(found.map(|value| value.to_le_bytes()[..width].to_vec()), wanted);
                }
            }
        }
    }
}
