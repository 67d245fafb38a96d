//! Objects in the memory of a process with V8. All data may have been overwritten, or moved by the
//! garbage collector.

use std::cell::Cell;

/// Reads bytes at an address of a process; returns false if it cannot.
pub(super) type ReadMemory<'a> = dyn Fn(u64, &mut [u8]) -> bool + 'a;

/// Offsets of fields that every map and every string have.
const MAP_TYPE: u64 = 12;
const STRING_LENGTH: u64 = 12;
const STRING_DATA: u64 = 16;
const STRING_SECOND: u64 = 24;
/// First type that is no string; the lowest bits of a string's type give the representation of its
/// characters.
const FIRST_NO_STRING: u16 = 128;
const ONE_BYTE: u16 = 8;
const UNCACHED: u16 = 16;
/// Maximum number of objects that form one text.
const MOST_PIECES: u32 = 64;
/// Maximum number of characters of a text that are kept: the last ones of a longer text.
const MOST_TEXT: u64 = 1024;

/// A pointer to an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Object(u64);

impl Object {
    /// Returns the object that a word points to; `None` if it is a small integer or a weak pointer.
    pub fn of_word(word: u64) -> Option<Self> {
        (word & 3 == 1).then(|| Self(word - 1))
    }

    pub fn at(self, offset: u64) -> u64 {
        self.0.wrapping_add(offset)
    }
}

/// Returns the small integer in a word.
pub(super) fn small_integer(word: u64) -> Option<i32> {
    (word & 0xffff_ffff == 0).then_some((word >> 32) as u32 as i32)
}

/// Adjacent characters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Characters {
    pub address: u64,
    pub count: u64,
    pub is_one_byte: bool,
}

/// The memory of a process.
pub(super) struct Heap<'a> {
    pub read: &'a ReadMemory<'a>,
}

impl Heap<'_> {
    pub fn word(&self, address: u64) -> Option<u64> {
        let mut bytes = [0; 8];
        (self.read)(address, &mut bytes).then(|| u64::from_le_bytes(bytes))
    }

    pub fn half(&self, address: u64) -> Option<u32> {
        let mut bytes = [0; 4];
        (self.read)(address, &mut bytes).then(|| u32::from_le_bytes(bytes))
    }

    pub fn object(&self, address: u64) -> Option<Object> {
        Object::of_word(self.word(address)?)
    }

    pub fn type_of(&self, object: Object) -> Option<u16> {
        let map = self.object(object.at(0))?;
        Some(self.half(map.at(MAP_TYPE))? as u16)
    }

    /// Returns the text of a string, or its end if it is long; `None` if the object is no string.
    pub fn text(&self, string: Object) -> Option<String> {
        let pieces = Cell::new(MOST_PIECES);
        let count = u64::from(self.half(string.at(STRING_LENGTH))?);
        let skipped = count.saturating_sub(MOST_TEXT);
        let mut units = Vec::new();
        self.add_units(string, skipped, count, &pieces, &mut units)?;
        let text = String::from_utf16_lossy(&units);
        let text = text.replace(char::is_control, "\u{fffd}");
        Some(if skipped > 0 {
            format!("…{text}")
        } else {
            text
        })
    }

    /// Adds the characters of a string from one position to another.
    fn add_units(
        &self,
        string: Object,
        from: u64,
        to: u64,
        pieces: &Cell<u32>,
        units: &mut Vec<u16>,
    ) -> Option<()> {
        if from >= to {
            return Some(());
        }
        pieces.set(pieces.get().checked_sub(1)?);
        if let Some(flat) = self.flat(string, pieces)? {
            let to = to.min(flat.count);
            return self.add_flat(flat, from, to, units);
        }
        // Two halves.
        let first = self.object(string.at(STRING_DATA))?;
        let second = self.object(string.at(STRING_SECOND))?;
        let middle = u64::from(self.half(first.at(STRING_LENGTH))?);
        self.add_units(first, from, to.min(middle), pieces, units)?;
        let (from, to) = (from.saturating_sub(middle), to.saturating_sub(middle));
        self.add_units(second, from, to, pieces, units)
    }

    fn add_flat(&self, flat: Characters, from: u64, to: u64, units: &mut Vec<u16>) -> Option<()> {
        let count = usize::try_from(to.saturating_sub(from).min(MOST_TEXT)).ok()?;
        let size = if flat.is_one_byte { 1 } else { 2 };
        let mut bytes = vec![0; count * size];
        let start = flat.address.wrapping_add(from.wrapping_mul(size as u64));
        (self.read)(start, &mut bytes).then_some(())?;
        if flat.is_one_byte {
            units.extend(bytes.iter().map(|byte| u16::from(*byte)))
        } else {
            units.extend(
                bytes
                    .as_chunks()
                    .0
                    .iter()
                    .map(|two| u16::from_le_bytes(*two)),
            )
        }
        Some(())
    }

    /// Returns the characters of a string that is one piece.
    pub fn flat_characters(&self, string: Object) -> Option<Characters> {
        self.flat(string, &Cell::new(MOST_PIECES)).flatten()
    }

    /// Returns the characters of a string; `Some(None)` if it is the concatenation of two others.
    fn flat(&self, string: Object, pieces: &Cell<u32>) -> Option<Option<Characters>> {
        let kind = self.type_of(string)?;
        if kind >= FIRST_NO_STRING {
            return None;
        }
        let count = u64::from(self.half(string.at(STRING_LENGTH))?);
        let characters = |address| Characters {
            address,
            count,
            is_one_byte: kind & ONE_BYTE != 0,
        };
        let inner = || {
            pieces.set(pieces.get().checked_sub(1)?);
            let inner = self.object(string.at(STRING_DATA))?;
            self.flat(inner, pieces)?
        };
        match kind & 7 {
            0 => Some(Some(characters(string.at(STRING_DATA)))),
            1 => {
                let second = self.object(string.at(STRING_SECOND))?;
                // A flattened string has nothing in its second half.
                match self.half(second.at(STRING_LENGTH))? {
                    0 => inner().map(Some),
                    _ => Some(None),
                }
            }
            // Outside of the heap.
            2 if kind & UNCACHED == 0 => {
                Some(Some(characters(self.word(string.at(STRING_SECOND))?)))
            }
            3 => {
                let whole = inner()?;
                let start = small_integer(self.word(string.at(STRING_SECOND))?)?;
                let start = u64::try_from(start).ok()?;
                let size = if whole.is_one_byte { 1 } else { 2 };
                (start.checked_add(count)? <= whole.count).then_some(())?;
                Some(Some(Characters {
                    address: whole.address.wrapping_add(start * size),
                    count,
                    is_one_byte: whole.is_one_byte,
                }))
            }
            5 => inner().map(Some),
            _ => None,
        }
    }
}
