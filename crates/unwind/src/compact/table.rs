//! The rules of a whole image, sorted and packed for a search of few and bounded steps.

use super::rule::{CompactKind, CompactRule, RULE_SIZE};
use rustc_hash::FxHashMap;

/// Size of code that shares an index entry, as a power of two of bytes.
const BLOCK_BITS: u32 = 8;
/// Words of a page. The rows of a block lie within one page.
pub(crate) const PAGE_WORDS: usize = 1024;
/// Maximum number of words of a table: an index entry has 24 bits for a position.
const MOST_WORDS: usize = 1 << 24;
/// Maximum number of different rules of an image.
const MOST_RULES: usize = u16::MAX as usize;

const MAGIC: [u8; 8] = *b"vfrows4\n";

/// The unwind rules of one image, by offset in its file.
///
/// Code is cut into blocks of 256 bytes. The table begins with a word for each block: the position
/// of the block's first row, and the number of its rows minus one in the low 8 bits. A row is a
/// word: its start offset in the block in the high half, the number of its rule in the low half.
/// Each block's first row begins with the block, so that a search never leaves it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CompactTable {
    start: u64,
    blocks: u32,
    rules: Vec<CompactRule>,
    words: Vec<u32>,
}

/// Error of a table that is too large to be packed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct TableFull;

impl CompactTable {
    /// Packs changes of the rule, sorted by their start offsets. The last one ends the table.
    pub(crate) fn pack_changes(changes: &[(u64, CompactRule)]) -> Result<Self, TableFull> {
        let (Some(first), Some(last)) = (changes.first(), changes.last()) else {
            return Ok(Self::default());
        };
        let start = first.0 >> BLOCK_BITS << BLOCK_BITS;
        let blocks = (last.0 - start).div_ceil(1 << BLOCK_BITS);
        if blocks > MOST_WORDS as u64 / 2 {
            return Err(TableFull);
        }
        let mut packer = TablePacker::new(start, blocks as usize);
        let mut rest = changes;
        for block in 0..blocks {
            let end = start + ((block + 1) << BLOCK_BITS);
            let count = rest.partition_point(|(offset, _)| *offset < end);
            packer.pack_block(block as usize, &rest[..count])?;
            rest = &rest[count..];
        }
        Ok(Self {
            start,
            blocks: blocks as u32,
            rules: packer.rules,
            words: packer.words,
        })
    }

    /// Returns the first offset in the file that the table covers.
    pub fn start(&self) -> u64 {
        self.start
    }

    /// Returns the number of blocks of 256 bytes that it covers.
    pub fn blocks(&self) -> u32 {
        self.blocks
    }

    /// Returns the rules that its rows number.
    pub fn rules(&self) -> &[CompactRule] {
        &self.rules
    }

    /// Returns the index and the rows, in the form that the kernel half reads.
    pub fn words(&self) -> &[u32] {
        &self.words
    }

    /// Returns whether it is empty.
    pub fn is_empty(&self) -> bool {
        self.blocks == 0
    }

    /// Returns the words with other numbers for the rules: `numbers` has one for each.
    pub fn renumbered<'a>(&'a self, numbers: &'a [u16]) -> impl Iterator<Item = u32> + 'a {
        let index = self.blocks as usize;
        self.words.iter().enumerate().map(move |(n, word)| {
            let number = numbers.get((*word & 0xffff) as usize).copied();
            if n < index {
                *word
            } else {
                *word & !0xffff | u32::from(number.unwrap_or(0))
            }
        })
    }

    /// Returns the rule at an offset of the file.
    pub fn find_rule(&self, file_offset: u64) -> CompactRule {
        let uncovered = CompactRule::bare(CompactKind::Uncovered);
        let Some(distance) = file_offset.checked_sub(self.start) else {
            return uncovered;
        };
        let block = distance >> BLOCK_BITS;
        if block >= u64::from(self.blocks) {
            return uncovered;
        }
        let entry = self.words[block as usize];
        let (first, count) = ((entry >> 8) as usize, (entry & 0xff) as usize + 1);
        let rows = &self.words[first..first + count];
        let within = (distance & ((1 << BLOCK_BITS) - 1)) as u32;
        let behind = rows.partition_point(|row| row >> 16 <= within);
        self.rules[(rows[behind - 1] & 0xffff) as usize]
    }

    /// Returns the table as bytes for a file.
    pub fn to_bytes(&self) -> Vec<u8> {
        let mut bytes = MAGIC.to_vec();
        bytes.extend(self.start.to_le_bytes());
        for number in [
            self.blocks,
            self.rules.len() as u32,
            self.words.len() as u32,
        ] {
            bytes.extend(number.to_le_bytes());
        }
        for rule in &self.rules {
            bytes.extend(rule.to_bytes());
        }
        for word in &self.words {
            bytes.extend(word.to_le_bytes());
        }
        bytes
    }

    /// Parses the bytes of [`Self::to_bytes`]; `None` if they are incomplete or inconsistent.
    pub fn from_bytes(bytes: &[u8]) -> Option<Self> {
        let rest = bytes.strip_prefix(&MAGIC)?;
        let (start, rest) = rest.split_first_chunk::<8>()?;
        let (numbers, rest) = rest.split_first_chunk::<12>()?;
        let number = |n: usize| u32::from_le_bytes([0, 1, 2, 3].map(|i| numbers[4 * n + i]));
        let (blocks, rules, words) = (number(0), number(1) as usize, number(2) as usize);
        if rest.len()
            != rules
                .checked_mul(RULE_SIZE)?
                .checked_add(words.checked_mul(4)?)?
        {
            return None;
        }
        let (rules, words) = rest.split_at(rules * RULE_SIZE);
        let rule = |bytes: &[u8]| CompactRule::from_bytes(bytes.try_into().ok()?);
        let word = |bytes: &[u8]| bytes.try_into().map(u32::from_le_bytes).unwrap_or(0);
        let new = Self {
            start: u64::from_le_bytes(*start),
            blocks,
            rules: rules
                .chunks_exact(RULE_SIZE)
                .map(rule)
                .collect::<Option<_>>()?,
            words: words.chunks_exact(4).map(word).collect(),
        };
        new.is_sound().then_some(new)
    }

    /// Returns whether every search ends at a rule.
    fn is_sound(&self) -> bool {
        let blocks = self.blocks as usize;
        let Some((index, rows)) = self.words.split_at_checked(blocks) else {
            return false;
        };
        let sound = |entry: &u32| {
            let (first, last) = (entry >> 8, (entry >> 8) + (entry & 0xff));
            let (first, last) = (first as usize, last as usize);
            let starts_block = |word: &u32| word >> 16 == 0;
            blocks <= first
                && first / PAGE_WORDS == last / PAGE_WORDS
                && last < self.words.len()
                && self.words.get(first).is_some_and(starts_block)
        };
        self.words.len() <= MOST_WORDS
            && index.iter().all(sound)
            && rows
                .iter()
                .all(|row| ((row & 0xffff) as usize) < self.rules.len())
    }
}

/// Builder of a table's words, block by block.
struct TablePacker {
    start: u64,
    words: Vec<u32>,
    rules: Vec<CompactRule>,
    numbers: FxHashMap<CompactRule, u16>,
    /// Positions of rows that cover their whole block, by their rule.
    alone: FxHashMap<u16, usize>,
    /// The rule at the start of the next block.
    rule: CompactRule,
}

impl TablePacker {
    fn new(start: u64, blocks: usize) -> Self {
        Self {
            start,
            words: vec![0; blocks],
            rules: Vec::new(),
            numbers: FxHashMap::default(),
            alone: FxHashMap::default(),
            rule: CompactRule::bare(CompactKind::Uncovered),
        }
    }

    fn number_of(&mut self, rule: CompactRule) -> u16 {
        let rule = if self.rules.len() < MOST_RULES - 1 || self.numbers.contains_key(&rule) {
            rule
        } else {
            CompactRule::bare(CompactKind::Unsupported)
        };
        let next = self.rules.len() as u16;
        *self.numbers.entry(rule).or_insert_with(|| {
            self.rules.push(rule);
            next
        })
    }

    fn pack_block(
        &mut self,
        block: usize,
        changes: &[(u64, CompactRule)],
    ) -> Result<(), TableFull> {
        let begin = self.start + ((block as u64) << BLOCK_BITS);
        let mut rows: Vec<(u32, CompactRule)> = vec![(0, self.rule)];
        for (offset, rule) in changes {
            let within = (offset - begin) as u32;
            match rows.last_mut() {
                Some(last) if last.0 == within => last.1 = *rule,
                Some(last) if last.1 == *rule => {}
                _ => rows.push((within, *rule)),
            }
            self.rule = *rule;
        }
        rows.dedup_by_key(|(_, rule)| *rule);
        let rows: Vec<u32> = rows
            .into_iter()
            .map(|(within, rule)| within << 16 | u32::from(self.number_of(rule)))
            .collect();
        let position = self.place_rows(&rows)?;
        self.words[block] = (position as u32) << 8 | (rows.len() as u32 - 1);
        Ok(())
    }

    /// Returns the position of the rows of a block, within one page. Adds them unless they are
    /// already there.
    fn place_rows(&mut self, rows: &[u32]) -> Result<usize, TableFull> {
        let alone = match rows {
            [row] => Some((row & 0xffff) as u16),
            _ => None,
        };
        if let Some(position) = alone.and_then(|rule| self.alone.get(&rule)) {
            return Ok(*position);
        }
        let left = PAGE_WORDS - self.words.len() % PAGE_WORDS;
        if left < rows.len() {
            // Filled with a row of an existing rule.
            self.words.resize(self.words.len() + left, 0);
        }
        let position = self.words.len();
        if position + rows.len() > MOST_WORDS {
            return Err(TableFull);
        }
        self.words.extend(rows);
        if let Some(rule) = alone {
            self.alone.insert(rule, position);
        }
        Ok(position)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn rule(number: i32) -> CompactRule {
        CompactRule {
            cfa_offset: number,
            ..CompactRule::bare(CompactKind::StackPointer)
        }
    }

    fn changes() -> impl Strategy<Value = Vec<(u64, CompactRule)>> {
        let step = prop_oneof![1u64..4, 1u64..40, 200u64..3000];
        let change = (step, 0i32..9);
        (0u64..5000, prop::collection::vec(change, 1..300)).prop_map(|(start, steps)| {
            let mut at = start;
            let next = |(step, number)| {
                at += step;
                (at, rule(number))
            };
            steps.into_iter().map(next).collect()
        })
    }

    proptest! {
        #[test]
        fn a_search_finds_the_last_change_before(changes in changes(), asked in 0u64..20_000) {
            let table = CompactTable::pack_changes(&changes).unwrap();
            prop_assert!(table.is_sound());
            let behind = changes.partition_point(|(offset, _)| *offset <= asked);
            let end = changes.last().unwrap().0;
            // The table continues to the end of its last block.
            if behind > 0 && asked < end {
                prop_assert_eq!(table.find_rule(asked), changes[behind - 1].1);
            } else if behind == 0 {
                prop_assert_eq!(table.find_rule(asked).kind, CompactKind::Uncovered);
            }
            let read = CompactTable::from_bytes(&table.to_bytes());
            prop_assert_eq!(read, Some(table));
        }

        #[test]
        fn damaged_bytes_are_refused_or_sound(
            changes in changes(), at in any::<prop::sample::Index>(), byte: u8, asked in 0u64..20_000,
        ) {
            let mut bytes = CompactTable::pack_changes(&changes).unwrap().to_bytes();
            let at = at.index(bytes.len());
            bytes[at] = byte;
            if let Some(table) = CompactTable::from_bytes(&bytes) {
                table.find_rule(asked);
                table.find_rule(table.start() + asked);
            }
            prop_assert_eq!(CompactTable::from_bytes(&bytes[..at]), None);
        }
    }

    #[test]
    fn rows_of_a_block_stay_on_a_page() {
        let changes: Vec<_> = (0..40_000u64)
            .map(|n| (3 * n, rule((n % 7) as i32)))
            .collect();
        let table = CompactTable::pack_changes(&changes).unwrap();
        assert!(table.is_sound());
        assert!(table.words().len() > 10 * PAGE_WORDS);
        for (offset, expected) in &changes[..39_999] {
            assert_eq!(table.find_rule(*offset + 1), *expected);
        }
    }
}
