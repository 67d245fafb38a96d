//! The executions of a block in a thread that may still be found inside another of the same block.
//!
//! They are counted many at a time, which keeps what they are added to close at hand.

use super::waits::WaitSum;
use profile::TRACED_ARGUMENTS;
use std::sync::Arc;

/// An execution waits for at least so many others of its block and thread before it counts, in case an outer
/// one of the same block contains it; and for so many where a block has been seen to call itself.
const PATIENCE: usize = 16;
const PATIENCE_RECURSIVE: usize = 1024;
/// So many are counted together.
const TOGETHER: usize = 48;

/// An execution that is over.
#[derive(Clone, Copy, Debug)]
pub(super) struct Entry {
    pub enter: u64,
    pub leave: u64,
    /// How long it took, without what tracing added to it.
    pub net: u64,
    pub exact: u64,
    pub collapsed: u64,
    /// Executions of traced blocks inside.
    pub inside: u64,
    /// It stands for so many.
    pub weight: u32,
    pub unwound: bool,
    /// There was waiting in it.
    pub waited: bool,
    pub arguments: [u64; TRACED_ARGUMENTS],
}

/// What an execution is compared by that contains others.
pub(super) struct Caller {
    pub net: u64,
    pub exact: u64,
    pub collapsed: u64,
    pub inside: u64,
    pub waits: Option<Arc<WaitSum>>,
}

/// Executions in the order of their ends.
#[derive(Clone, Debug, Default)]
pub(super) struct Entries {
    pub all: Vec<Entry>,
    /// Of those that waited.
    pub waits: Vec<Arc<WaitSum>>,
}

impl Entries {
    /// The first one alone.
    pub fn first(&self) -> Option<Self> {
        let first = self.all.first()?;
        Some(Self {
            all: vec![*first],
            waits: self.waits_of(0, 1).cloned().collect(),
        })
    }

    /// What those from `from` to `to` waited for.
    pub fn waits_of(&self, from: usize, to: usize) -> impl Iterator<Item = &Arc<WaitSum>> {
        let waited = |entries: Option<&[Entry]>| match (entries, self.waits.is_empty()) {
            (Some(entries), false) => entries.iter().filter(|entry| entry.waited).count(),
            _ => 0,
        };
        let skipped = waited(self.all.get(..from));
        let taken = waited(self.all.get(from..to));
        self.waits.iter().skip(skipped).take(taken)
    }

    /// Removes the first `n`.
    pub fn remove(&mut self, n: usize) {
        let waited = self.waits_of(0, n).count();
        self.waits.drain(..waited);
        self.all.drain(..n.min(self.all.len()));
    }
}

/// Those that have not been counted yet.
#[derive(Debug)]
pub(super) struct Queue {
    pub entries: Entries,
    patience: usize,
    /// When there are so many, some are counted.
    full: usize,
}

impl Default for Queue {
    fn default() -> Self {
        Self {
            entries: Entries::default(),
            patience: PATIENCE,
            full: PATIENCE + TOGETHER,
        }
    }
}

impl Queue {
    /// Adds an execution that contains none of those that wait. How many are to be counted now.
    #[inline]
    pub fn push(&mut self, entry: Entry) -> usize {
        self.entries.all.push(entry);
        if self.entries.all.len() < self.full {
            return 0;
        }
        self.full - self.patience
    }

    /// Says what the last execution contains.
    pub fn last_called(&mut self, caller: Caller) {
        let Some(last) = self.entries.all.last_mut() else {
            return;
        };
        last.net = caller.net;
        last.exact = caller.exact;
        last.collapsed = caller.collapsed;
        last.inside = caller.inside;
        if let Some(waits) = caller.waits {
            last.waited = true;
            self.entries.waits.push(waits);
        }
    }

    /// Drops those that an execution contains that began at `enter`. Whether none waits any more.
    #[cold]
    pub fn drop_since(&mut self, enter: u64) -> bool {
        while let Some(inner) = self.entries.all.last()
            && inner.enter >= enter
        {
            self.drop_last();
        }
        self.entries.all.is_empty()
    }

    fn drop_last(&mut self) {
        if self.entries.all.pop().is_some_and(|entry| entry.waited) {
            self.entries.waits.pop();
        }
        self.is_recursive();
    }

    /// The block calls itself.
    pub fn is_recursive(&mut self) {
        self.patience = PATIENCE_RECURSIVE;
        self.full = 2 * PATIENCE_RECURSIVE;
    }
}
