//! The packed numbers of HotSpot (`UNSIGNED5`): six bits in each byte, up to a byte small enough to
//! be the last.

/// A byte below this ends a number; so does the fifth byte.
const LAST: u8 = 192;
const MOST_BYTES: u32 = 5;
const BITS: u32 = 6;

/// A sequence of packed numbers.
pub(super) struct PackedNumbers<'a> {
    bytes: std::slice::Iter<'a, u8>,
    excess: u8,
}

impl<'a> PackedNumbers<'a> {
    /// Creates a sequence. `excess` is the number added to each byte: 1 if no byte may be 0.
    pub fn new(bytes: &'a [u8], excess: u8) -> Self {
        let bytes = bytes.iter();
        Self { bytes, excess }
    }

    pub fn byte(&mut self) -> Option<u8> {
        self.bytes.next().copied()
    }

    /// Returns the next number; `None` at the end, or if a byte is too small.
    pub fn unsigned(&mut self) -> Option<u32> {
        let mut number = 0_u32;
        for place in 0..MOST_BYTES {
            let byte = self.byte()?;
            let part = u32::from(byte.checked_sub(self.excess)?);
            number = number.wrapping_add(part << (BITS * place));
            if byte < LAST {
                break;
            }
        }
        Some(number)
    }

    /// Returns the next number, whose lowest bit is its sign.
    pub fn signed(&mut self) -> Option<i32> {
        let number = self.unsigned()?;
        let sign = (number & 1).wrapping_neg();
        Some(((number >> 1) ^ sign) as i32)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Packs a number like HotSpot.
    fn pack(mut number: u32, excess: u8) -> Vec<u8> {
        let last = u32::from(LAST) - u32::from(excess);
        let mut bytes = Vec::new();
        while number >= last && bytes.len() + 1 < MOST_BYTES as usize {
            number -= last;
            bytes.push((last + (number & 63)) as u8 + excess);
            number >>= BITS;
        }
        bytes.push(number as u8 + excess);
        bytes
    }

    proptest! {
        #[test]
        fn what_was_packed_is_read(numbers in prop::collection::vec(any::<u32>(), 0..9), excess in 0..2_u8) {
            let bytes: Vec<u8> = numbers.iter().flat_map(|number| pack(*number, excess)).collect();
            let mut packed = PackedNumbers::new(&bytes, excess);
            for number in numbers {
                prop_assert_eq!(packed.unsigned(), Some(number));
            }
            prop_assert_eq!(packed.unsigned(), None);
        }
    }

    #[test]
    fn the_lowest_bit_is_the_sign() {
        let mut packed = PackedNumbers::new(&[0, 1, 2, 3, 191], 0);
        let numbers: Vec<i32> = std::iter::from_fn(|| packed.signed()).collect();
        assert_eq!(numbers, [0, -1, 1, -2, -96]);
        assert_eq!(PackedNumbers::new(&[0], 1).unsigned(), None);
    }
}
