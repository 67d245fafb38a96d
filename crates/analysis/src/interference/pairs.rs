//! Sequences of siblings (§3.3): two executions that follow each other in the same caller, such as a lock
//! and its unlock, are one sequence, from the entry of the first to the leave of the second.

use super::node::{NO_BLOCK, Node};
use super::sketch::Smallest;
use profile::BlockId;
use rustc_hash::FxHashMap;

/// Maximum number of different sequences that are followed; later ones are not.
const SEQUENCES: usize = 4096;
const RECENT: usize = 256;
const ODD: u64 = 0x9e37_79b9_7f4a_7c15;

/// Executions of a sequence of two kinds.
#[derive(Clone, Debug)]
pub(super) struct Pair {
    pub first: BlockId,
    pub second: BlockId,
    pub n: u64,
    /// Durations from the entry of the first to the leave of the second.
    pub whole: Durations,
    /// Durations from the leave of the first to the entry of the second.
    pub between: Durations,
}

/// Their sum, and the smallest.
#[derive(Clone, Debug, Default)]
pub(super) struct Durations {
    pub sum: u64,
    pub smallest: Smallest,
}

impl Durations {
    #[inline]
    fn add(&mut self, duration: u64) {
        self.sum = self.sum.saturating_add(duration);
        self.smallest.add(duration);
    }
}

/// All sequences.
#[derive(Debug)]
pub(super) struct Pairs {
    pub all: Vec<Pair>,
    by_key: FxHashMap<u64, u32>,
    /// Keys that were looked up lately, with their numbers.
    recent: Box<[(u64, u32); RECENT]>,
    /// Sequences that there was no room for.
    pub ignored: u64,
}

impl Default for Pairs {
    fn default() -> Self {
        Self {
            all: Vec::new(),
            by_key: FxHashMap::default(),
            recent: Box::new([(0, u32::MAX); RECENT]),
            ignored: 0,
        }
    }
}

impl Pairs {
    /// Adds a sequence if both are single executions.
    pub fn add(&mut self, a: &Node, b: &Node) {
        if a.block < NO_BLOCK && b.block < NO_BLOCK {
            self.add_calls(a, b);
        }
    }

    /// Adds a sequence of two single executions.
    #[inline]
    pub fn add_calls(&mut self, a: &Node, b: &Node) {
        // Kinds are well mixed words.
        let key = a.exact.wrapping_mul(ODD).wrapping_add(b.exact);
        let place = (key >> 32) as usize % RECENT;
        let number = match self.recent.get(place) {
            Some((known, number)) if *known == key => *number,
            _ => self.look_up(key, place, a.block, b.block),
        };
        if let Some(pair) = self.all.get_mut(number as usize) {
            pair.n += 1;
            pair.whole.add(b.leave.saturating_sub(a.enter));
            pair.between.add(b.enter.saturating_sub(a.leave));
        }
    }

    /// The number of a sequence; one that there is none of if there is no room.
    #[cold]
    fn look_up(&mut self, key: u64, place: usize, first: BlockId, second: BlockId) -> u32 {
        let number = match self.by_key.get(&key) {
            Some(number) => *number,
            None if self.all.len() >= SEQUENCES => {
                self.ignored += 1;
                return u32::MAX;
            }
            None => {
                let number = self.all.len() as u32;
                self.by_key.insert(key, number);
                self.all.push(Pair {
                    first,
                    second,
                    n: 0,
                    whole: Durations::default(),
                    between: Durations::default(),
                });
                number
            }
        };
        if let Some(recent) = self.recent.get_mut(place) {
            *recent = (key, number);
        }
        number
    }
}
