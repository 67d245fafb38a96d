//! Vector operations, eight bytes at a time.

use super::names::width_mask;

/// Number of lanes of a vector of 64 bytes, the lowest first. Narrower registers are the first of
/// them.
pub(super) const LANES: usize = 8;

/// A vector, as far as it is known.
pub(super) type Vector = [Option<u64>; LANES];

/// A vector whose bits are all 0.
pub(super) const ZERO: Vector = [Some(0); LANES];

/// Applies `of` to each pair of elements of `width` bytes.
pub(super) fn each_element(a: u64, b: u64, width: usize, of: impl Fn(u64, u64) -> u64) -> u64 {
    let (bits, mask) = (8 * width, width_mask(width));
    (0..8 / width).fold(0, |all, index| {
        let at = bits * index;
        all | (of(a >> at & mask, b >> at & mask) & mask) << at
    })
}

/// Applies `of` lane by lane.
pub(super) fn each_lane(a: &Vector, b: &Vector, of: impl Fn(u64, u64) -> u64) -> Vector {
    std::array::from_fn(|lane| a[lane].zip(b[lane]).map(|(a, b)| of(a, b)))
}

fn vector_bytes([low, high]: [u64; 2]) -> [u8; 16] {
    (u128::from(low) | u128::from(high) << 64).to_le_bytes()
}

/// Applies `of` to sixteen bytes at a time.
pub(super) fn each_sixteen_bytes(
    a: &Vector,
    b: &Vector,
    of: impl Fn(&[u8; 16], &[u8; 16]) -> [u8; 16],
) -> Vector {
    let mut result = [None; LANES];
    let bytes = |of: &[Option<u64>]| match of {
        [Some(low), Some(high)] => Some(vector_bytes([*low, *high])),
        _ => None,
    };
    let pairs = a
        .chunks(2)
        .zip(b.chunks(2))
        .map(|(a, b)| bytes(a).zip(bytes(b)));
    for (result, pair) in result.chunks_mut(2).zip(pairs) {
        if let Some((a, b)) = pair {
            let value = u128::from_le_bytes(of(&a, &b));
            result.copy_from_slice(&[Some(value as u64), Some((value >> 64) as u64)]);
        }
    }
    result
}

/// Returns the elements of one vector that a mask selects, each of `width` bytes, and elsewhere
/// those of another.
pub(super) fn blend_by_mask(new: &Vector, old: &Vector, elements: u64, width: usize) -> Vector {
    let count = 8 / width;
    std::array::from_fn(|lane| {
        let chosen = elements >> (lane * count) & ((1 << count) - 1);
        let bits = (0..count)
            .filter(|index| chosen >> index & 1 == 1)
            .fold(0, |all, index| {
                all | width_mask(width) << (8 * width * index)
            });
        match bits {
            0 => old[lane],
            u64::MAX => new[lane],
            bits => new[lane]
                .zip(old[lane])
                .map(|(new, old)| new & bits | old & !bits),
        }
    })
}

/// Compares elements; the result has a bit for each that satisfies `of`. `within` selects the
/// elements.
pub(super) fn compare_elements(
    a: &Vector,
    b: &Vector,
    lanes: usize,
    width: usize,
    within: u64,
    of: impl Fn(u64, u64) -> bool,
) -> Option<u64> {
    let (bits, mask, count) = (8 * width, width_mask(width), 8 / width);
    let mut all = 0;
    for (lane, (a, b)) in a.iter().zip(b).take(lanes).enumerate() {
        if within >> (lane * count) & ((1 << count) - 1) == 0 {
            continue;
        }
        let (a, b) = ((*a)?, (*b)?);
        for index in 0..count {
            let at = bits * index;
            let bit = u64::from(of(a >> at & mask, b >> at & mask));
            all |= bit << (lane * count + index);
        }
    }
    Some(all & within)
}

/// Returns, for each bit, the entry of a table of eight that the bits of three vectors select.
pub(super) fn ternary_logic(a: u64, b: u64, c: u64, table: u8) -> u64 {
    (0..8)
        .filter(|row| table >> row & 1 == 1)
        .fold(0, |all, row| {
            let of = |bit: u32, value: u64| if row >> bit & 1 == 1 { value } else { !value };
            all | of(2, a) & of(1, b) & of(0, c)
        })
}

/// Computes `pcmpistri` on two 16-byte vectors and its immediate; returns the index, and the flags
/// carry, zero, sign and overflow.
pub(super) fn string_index(a: [u64; 2], b: [u64; 2], control: u8) -> (u64, [bool; 4]) {
    let width = if control & 1 == 1 { 2 } else { 1 };
    let count = 16 / width;
    let elements = |of: [u64; 2]| -> Vec<i32> {
        let one = |bytes: &[u8]| match (bytes, control & 2 != 0) {
            ([low, high], true) => i16::from_le_bytes([*low, *high]).into(),
            ([low, high], false) => u16::from_le_bytes([*low, *high]).into(),
            ([byte], true) => i32::from(byte.cast_signed()),
            ([byte], false) => i32::from(*byte),
            _ => 0,
        };
        vector_bytes(of).chunks(width).map(one).collect()
    };
    let (a, b) = (elements(a), elements(b));
    let length = |of: &[i32]| of.iter().position(|one| *one == 0).unwrap_or(count);
    let (long_a, long_b) = (length(&a), length(&b));
    let matches = |at: usize| match control >> 2 & 3 {
        // Any of these, in one of these ranges.
        0 => at < long_b && a[..long_a].contains(&b[at]),
        1 => {
            let range =
                |pair: &[i32]| matches!(pair, [low, high] if (*low..=*high).contains(&b[at]));
            at < long_b && a[..long_a].chunks(2).any(range)
        }
        // Equal at the same position; beyond both ends they are equal.
        2 if at < long_a && at < long_b => a[at] == b[at],
        2 => at >= long_a && at >= long_b,
        // Positions where the one begins in the other.
        _ => (0..long_a.min(count - at)).all(|on| at + on < long_b && a[on] == b[at + on]),
    };
    let result = (0..count).fold(0_u64, |all, at| {
        let valid = at < long_b;
        let turned = match control >> 4 & 3 {
            1 => true,
            3 => valid,
            _ => false,
        };
        all | u64::from(matches(at) != turned) << at
    });
    let index = match result {
        0 => count as u64,
        result if control & 0x40 != 0 => 63 - u64::from(result.leading_zeros()),
        result => result.trailing_zeros().into(),
    };
    let flags = [result != 0, long_b < count, long_a < count, result & 1 == 1];
    (index, flags)
}

/// Returns a vector with other 16 bytes at its low end.
pub(super) fn with_low(of: &Vector, [low, high]: [Option<u64>; 2]) -> Vector {
    let mut all = *of;
    (all[0], all[1]) = (low, high);
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tables_of_three() {
        let (a, b, c) = (0xf0, 0xcc, 0xaa);
        for table in 0..=255 {
            assert_eq!(ternary_logic(a, b, c, table) & 0xff, u64::from(table));
        }
    }

    /// Exercises the instructions that `strcspn`, `strspn`, `strstr` and comparisons use.
    #[test]
    fn strings() {
        let text = |of: &str| {
            let mut bytes = [0; 16];
            bytes[..of.len()].copy_from_slice(of.as_bytes());
            let half = |from: usize| {
                bytes[from..]
                    .first_chunk()
                    .map_or(0, |half| u64::from_le_bytes(*half))
            };
            [half(0), half(8)]
        };
        let index = |a: &str, b: &str, control| string_index(text(a), text(b), control);
        // The first one of a set; the first one outside of it; and whether either text ends.
        assert_eq!(
            index("xyz", "some text, yes", 0x02),
            (7, [true, true, true, false])
        );
        assert_eq!(
            index("some", "mesoscale", 0x12),
            (5, [true, true, true, false])
        );
        assert_eq!(
            index("abc", "0123456789abcdef", 0x00),
            (10, [true, false, true, false])
        );
        assert_eq!(
            index("abc", "0123456789", 0x00),
            (16, [false, true, true, false])
        );
        // Within ranges.
        assert_eq!(index("09af", "xyz7", 0x04), (3, [true, true, true, false]));
        // Positions where they differ, within the longer one; positions where one begins in the
        // other, even if it continues beyond the end.
        assert_eq!(
            index("same then", "same thing", 0x18),
            (7, [true, true, true, false])
        );
        assert_eq!(
            index("text", "context and text", 0x0c),
            (3, [true, false, true, false])
        );
        assert_eq!(
            index("text", "context and text", 0x4c),
            (15, [true, false, true, false])
        );
        assert_eq!(
            index("and more", "context and mor", 0x0c),
            (16, [false, true, true, false])
        );
        // Words.
        assert_eq!(
            string_index([0x0002_0001, 0], [0x0005_0004_0003_0002, 0], 0x01).0,
            0
        );
    }
}
