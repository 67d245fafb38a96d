//! The sums of a thread by kind.

use super::cell::Cell;
use super::kinds::Kinds;
use super::shape::Shape;
use rustc_hash::FxHashMap;

/// Size of the cache of recently used keys.
const RECENT: usize = 512;

/// No cell.
pub(super) const NO_CELL: u32 = u32::MAX;

/// Cells of a thread.
#[derive(Debug)]
pub(super) struct Cells {
    pub all: Vec<Cell>,
    by_key: FxHashMap<u64, u32>,
    recent: Box<[(u64, u32)]>,
}

impl Default for Cells {
    fn default() -> Self {
        Self {
            all: Vec::new(),
            by_key: FxHashMap::default(),
            // No key belongs to the place that it stands at.
            recent: (1..=RECENT as u64).map(|n| (n << 32, 0)).collect(),
        }
    }
}

impl Cells {
    /// The number of the cell of executions with this key, [`NO_CELL`] if there is none.
    #[inline]
    pub fn known(&mut self, key: u64) -> u32 {
        // Keys are well mixed.
        match self.recent.get((key >> 32) as usize % RECENT) {
            Some((known, at)) if *known == key => *at,
            _ => self.known_longer(key),
        }
    }

    #[cold]
    fn known_longer(&mut self, key: u64) -> u32 {
        let Some(at) = self.by_key.get(&key).copied() else {
            return NO_CELL;
        };
        self.remember(key, at);
        at
    }

    fn remember(&mut self, key: u64, at: u32) {
        if let Some(recent) = self.recent.get_mut((key >> 32) as usize % RECENT) {
            *recent = (key, at);
        }
    }

    /// The number of the cell of executions with this key and shape; a new one if there is none.
    pub fn find(&mut self, key: u64, shape: &Shape, kinds: &mut Kinds) -> u32 {
        let known = self.known(key);
        if known != NO_CELL {
            return known;
        }
        let (known_as, kind) = match kinds.exact(key) {
            Some(kind) => (key, kind),
            None => kinds.make(shape, key),
        };
        let next = self.all.len() as u32;
        let at = *self.by_key.entry(known_as).or_insert(next);
        if at == next {
            self.all.push(Cell::new(kind));
        }
        self.remember(key, at);
        at
    }
}
