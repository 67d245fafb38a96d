//! The sums of a thread by kind.

use super::kinds::{Kinds, Shape};
use rustc_hash::FxHashMap;

/// So many keys that were looked up lately are found again at once.
const RECENT: usize = 512;

/// The executions of a kind in a thread.
#[derive(Clone, Copy, Debug)]
pub(super) struct Cell {
    pub kind: u32,
    pub n: u64,
    pub recorded: u64,
    pub sum: u64,
    pub min: u64,
}

impl Cell {
    pub fn new(kind: u32) -> Self {
        Self {
            kind,
            n: 0,
            recorded: 0,
            sum: 0,
            min: u64::MAX,
        }
    }

    /// An execution that stands for so many, and all of them together.
    #[inline]
    pub fn add(&mut self, (duration, total): (u64, u64), weight: u64) {
        self.n += weight;
        self.recorded += 1;
        self.sum = self.sum.saturating_add(total);
        self.min = self.min.min(duration);
    }

    pub fn merge(&mut self, other: &Self) {
        self.n += other.n;
        self.recorded += other.recorded;
        self.sum = self.sum.saturating_add(other.sum);
        self.min = self.min.min(other.min);
    }
}

/// Those of a thread.
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
            recent: vec![(0, u32::MAX); RECENT].into(),
        }
    }
}

impl Cells {
    /// The cell of the executions that have a key.
    #[inline]
    pub fn of(&mut self, key: u64, kinds: &mut Kinds, shape: &Shape) -> Option<&mut Cell> {
        // Keys are well mixed.
        let place = (key >> 32) as usize % RECENT;
        let at = match self.recent.get(place) {
            Some((known, at)) if *known == key => *at,
            _ => self.look_up(key, place, kinds, shape),
        };
        self.all.get_mut(at as usize)
    }

    #[cold]
    fn look_up(&mut self, key: u64, place: usize, kinds: &mut Kinds, shape: &Shape) -> u32 {
        let at = match self.by_key.get(&key) {
            Some(at) => *at,
            None => {
                let (known_as, kind) = match kinds.exact(key) {
                    Some(kind) => (key, kind),
                    None => kinds.make(shape, key),
                };
                let next = self.all.len() as u32;
                let at = *self.by_key.entry(known_as).or_insert(next);
                if at == next {
                    self.all.push(Cell::new(kind));
                }
                at
            }
        };
        if let Some(recent) = self.recent.get_mut(place) {
            *recent = (key, at);
        }
        at
    }
}
