//! Lines of instructions, by the table of a code object.

use super::offsets::Version;

/// Returns the line of an instruction (counted as in the version's frames), if the table has it.
pub(super) fn line_at(version: Version, table: &[u8], first_line: u32, index: u32) -> Option<u32> {
    let first = i64::from(first_line);
    let line = match version.minor {
        ..=9 => line_by_increments(table, first, i64::from(index)),
        10 => line_by_ranges(table, first, 2 * i64::from(index))?,
        _ => line_by_locations(table, first, i64::from(index))?,
    };
    u32::try_from(line).ok()
}

/// Finds a line in 3.8 and 3.9: pairs of distances to the next line, in bytes and in lines.
fn line_by_increments(table: &[u8], first_line: i64, offset: i64) -> i64 {
    let (mut at, mut line) = (0, first_line);
    for pair in table.chunks_exact(2) {
        at += i64::from(pair[0]);
        if at > offset {
            break;
        }
        line += i64::from(pair[1] as i8);
    }
    line
}

/// Finds a line in 3.10: pairs of a range's length and its line difference; -128 means no line.
fn line_by_ranges(table: &[u8], first_line: i64, offset: i64) -> Option<i64> {
    let (mut at, mut line) = (0, first_line);
    for pair in table.chunks_exact(2) {
        let has_line = pair[1] != 0x80;
        if has_line {
            line += i64::from(pair[1] as i8);
        }
        at += i64::from(pair[0]);
        if at > offset {
            return has_line.then_some(line);
        }
    }
    None
}

/// Finds a line in 3.11 and later: entries of a kind, of 1 to 8 code units.
fn line_by_locations(table: &[u8], first_line: i64, index: i64) -> Option<i64> {
    let (mut at, mut line) = (0, first_line);
    let mut bytes = table.iter().copied().peekable();
    while let Some(head) = bytes.next() {
        let kind = (head >> 3) & 15;
        let mut has_line = true;
        match kind {
            10..=12 => line += i64::from(kind) - 10,
            13 | 14 => line += signed_number(&mut bytes)?,
            15 => has_line = false,
            _ => {}
        }
        at += i64::from(head & 7) + 1;
        if at > index {
            return has_line.then_some(line);
        }
        // Columns follow, up to the next head.
        while bytes.next_if(|byte| byte & 0x80 == 0).is_some() {}
    }
    None
}

/// Reads a number of six bits a byte, the lowest first; its lowest bit is the sign.
fn signed_number(bytes: &mut impl Iterator<Item = u8>) -> Option<i64> {
    let mut number = 0_i64;
    for shift in (0..48).step_by(6) {
        let byte = bytes.next()?;
        number |= i64::from(byte & 63) << shift;
        if byte & 64 == 0 {
            return Some(if number & 1 == 1 {
                -(number >> 1)
            } else {
                number >> 1
            });
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn version(minor: u8) -> Version {
        Version { major: 3, minor }
    }

    /// def f(n):            # line 5
    ///     t = 0            # 4 bytes
    ///     for i in n:      # 6 bytes
    #[test]
    fn increments_are_added_up_to_the_instruction() {
        let table = [0, 1, 4, 1, 6, 0xff];
        let line = |offset| line_at(version(8), &table, 5, offset);
        assert_eq!((line(0), line(3), line(4)), (Some(6), Some(6), Some(7)));
        assert_eq!(line(10), Some(6), "lines go back, too");
    }

    #[test]
    fn ranges_without_a_line_have_none() {
        let table = [4, 1, 2, 0x80, 4, 1];
        let line = |index| line_at(version(10), &table, 5, index);
        assert_eq!((line(0), line(1)), (Some(6), Some(6)));
        assert_eq!((line(2), line(3)), (None, Some(7)));
        assert_eq!(line(5), None, "behind the table");
    }

    #[test]
    fn locations_of_each_kind_are_read() {
        // Short form of 2 units; one line on, 1 unit; long form 3 lines back, 4 units; none.
        let table = [0x81, 0x00, 0xd8, 1, 2, 0xf3, 7, 0, 1, 1, 0xf8];
        let line = |index| line_at(version(12), &table, 10, index);
        assert_eq!((line(0), line(1), line(2)), (Some(10), Some(10), Some(11)));
        assert_eq!((line(3), line(6), line(7)), (Some(8), Some(8), None));
    }

    proptest! {
        #[test]
        fn damaged_tables_are_survived(table in prop::collection::vec(any::<u8>(), 0..64),
                                       first in any::<u32>(), index in 0_u32..1 << 20) {
            for minor in [8, 10, 13] {
                let _ = line_at(version(minor), &table, first, index);
            }
        }
    }
}
