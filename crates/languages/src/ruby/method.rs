//! Instruction sequences of Ruby, and their names.

/// Number of positions whose ranks are in separate words, nine in each.
const IMMEDIATE: u32 = 54;
const RANKS_IN_WORD: u32 = 9;
const IMMEDIATE_WORDS: usize = (IMMEDIATE / RANKS_IN_WORD) as usize;
/// Words of a block of 512 further positions: the rank before it, the ranks of its eights, its
/// bits.
const BLOCK_WORDS: usize = 10;
const BLOCK_POSITIONS: u32 = 512;

/// A method, a block or the body of a class or file, from its instruction sequence.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct RubyMethod {
    /// Its file.
    pub file: String,
    /// Its label: `descend`, `block in rounds`, `<main>`; from 3.4 on with its class.
    pub label: String,
    /// Its first line.
    pub first_line: u32,
    /// The lines of its parts, in order.
    pub part_lines: Vec<u32>,
    /// Start of each part: the interpreter's table of ranks (`succ_index_table`).
    pub ranks: Vec<u64>,
}

impl RubyMethod {
    /// Returns the line of an instruction, by its position; the first line of the method if the
    /// table lacks it.
    pub fn line(&self, position: u32) -> u32 {
        let line = match self.part_lines.as_slice() {
            [only] => Some(*only),
            lines => self
                .part_at(position)
                .and_then(|part| lines.get(part.checked_sub(1)? as usize))
                .copied(),
        };
        line.unwrap_or(self.first_line)
    }

    /// Returns the number of parts that begin at or before a position (`succ_index_lookup` in
    /// iseq.c).
    fn part_at(&self, position: u32) -> Option<u32> {
        let Some(further) = position.checked_sub(IMMEDIATE) else {
            let word = self.ranks.get((position / RANKS_IN_WORD) as usize)?;
            return Some((word >> (7 * (position % RANKS_IN_WORD))) as u32 & 0x7f);
        };
        let (block, bit) = (further / BLOCK_POSITIONS, further % BLOCK_POSITIONS);
        let start = IMMEDIATE_WORDS + BLOCK_WORDS * block as usize;
        let [before, eights, bits @ ..] = self.ranks.get(start..start + BLOCK_WORDS)? else {
            return None;
        };
        let (eighth, bit) = (bit / 64, bit % 64);
        let in_block = match eighth {
            0 => 0,
            _ => (eights >> (9 * (eighth - 1))) & 0x1ff,
        };
        let here = (bits.get(eighth as usize)? << (63 - bit)).count_ones();
        (*before as u32).checked_add(in_block as u32 + here)
    }

    /// Returns the method's name in reports: `block in rounds (app.rb:12)`.
    pub fn display_name(&self) -> String {
        // Code of Ruby itself is `<internal:/usr/lib/…/kernel_require.rb>`.
        let file = self.file.rsplit('/').next().unwrap_or_default();
        let file = if file.starts_with('<') {
            file
        } else {
            file.trim_end_matches('>')
        };
        format!("{} ({file}:{})", self.label, self.first_line)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Returns a method with a part at each of these positions; part n has line 100 + n.
    fn method(starts: &[u32], positions: u32) -> RubyMethod {
        let rank = |position: u32| starts.iter().filter(|start| **start <= position).count() as u64;
        let mut ranks: Vec<u64> = (0..IMMEDIATE_WORDS as u32)
            .map(|word| {
                let in_word = 0..RANKS_IN_WORD;
                in_word.fold(0, |all, i| all | rank(word * RANKS_IN_WORD + i) << (7 * i))
            })
            .collect();
        for block in 0..positions
            .saturating_sub(IMMEDIATE)
            .div_ceil(BLOCK_POSITIONS)
        {
            let first = IMMEDIATE + block * BLOCK_POSITIONS;
            let before = rank(first - 1);
            let eights = (1..8).fold(0, |all, i| {
                all | (rank(first + 64 * i - 1) - before) << (9 * (i - 1))
            });
            ranks.extend([before, eights]);
            ranks.extend((0..8).map(|eighth| {
                let starts_at = |bit: u32| starts.contains(&(first + 64 * eighth + bit));
                (0..64).fold(0, |bits, bit| bits | u64::from(starts_at(bit)) << bit)
            }));
        }
        RubyMethod {
            file: "/srv/app.rb".to_owned(),
            label: "block in rounds".to_owned(),
            first_line: 9,
            part_lines: (0..starts.len() as u32).map(|n| 100 + n).collect(),
            ranks,
        }
    }

    #[test]
    fn names_have_file_and_line() {
        let method = method(&[0], 10);
        assert_eq!(method.display_name(), "block in rounds (app.rb:9)");
        assert_eq!(method.line(5), 100, "there is one part only");
        let mut method = method;
        method.file = "<internal:/usr/lib/ruby/kernel_require.rb>".to_owned();
        let named = "block in rounds (kernel_require.rb:9)";
        assert_eq!(method.display_name(), named);
    }

    #[test]
    fn what_the_table_does_not_say_is_the_first_line() {
        let mut method = method(&[0, 4], 10);
        assert_eq!(
            (method.line(3), method.line(4), method.line(600)),
            (100, 101, 9)
        );
        method.ranks.clear();
        assert_eq!(method.line(4), 9);
    }

    proptest! {
        #[test]
        fn each_position_has_the_line_of_its_part(starts in prop::collection::btree_set(1_u32..1500, 1..120)) {
            let starts: Vec<u32> = std::iter::once(0).chain(starts).collect();
            let method = method(&starts, 1500);
            for position in 0..1500 {
                let part = starts.iter().filter(|start| **start <= position).count() as u32;
                prop_assert_eq!(method.line(position), 99 + part, "at {}", position);
            }
        }

        #[test]
        fn damaged_tables_are_survived(ranks in prop::collection::vec(any::<u64>(), 0..40), position in any::<u32>()) {
            let mut method = method(&[0, 5], 20);
            method.ranks = ranks;
            let _ = method.line(position);
        }
    }
}
