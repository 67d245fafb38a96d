//! The sums of a thread by kind.

use super::kinds::{Kinds, Shape, exact_key};
use super::queue::Entry;
use super::sketch::Window;
use profile::{BlockId, TRACED_ARGUMENTS};
use rustc_hash::FxHashMap;

/// So many keys that were looked up lately are found again at once.
const RECENT: usize = 512;

/// The executions of a kind in a thread.
#[derive(Clone, Copy, Debug)]
pub(super) struct Cell {
    pub kind: u32,
    pub recorded: u64,
    /// All, but for those of the window that was counted last.
    pub sums: Window,
    pub lately: Window,
    /// When that window ends.
    pub until: u64,
}

impl Cell {
    pub fn new(kind: u32) -> Self {
        Self {
            kind,
            recorded: 0,
            sums: Window::default(),
            lately: Window::default(),
            until: 0,
        }
    }

    /// Adds one that is settled.
    pub fn merge(&mut self, other: &Self) {
        self.recorded += other.recorded;
        self.sums.merge(&other.sums);
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
    /// The cell of an execution of a block with these arguments that count.
    #[inline]
    pub fn of(
        &mut self,
        block: BlockId,
        entry: &Entry,
        arguments: &[u64; TRACED_ARGUMENTS],
        kinds: &mut Kinds,
    ) -> Option<&mut Cell> {
        // Keys are well mixed.
        let key = exact_key(entry.exact, arguments);
        let place = (key >> 32) as usize % RECENT;
        let at = match self.recent.get(place) {
            Some((known, at)) if *known == key => *at,
            _ => {
                let shape = Shape {
                    block,
                    collapsed: entry.collapsed,
                    arguments: *arguments,
                    inside: entry.inside,
                };
                self.look_up(key, place, kinds, &shape)
            }
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
