//! Queue of a block's executions in a thread that may still be found inside another of the same block.
//!
//! They are counted many at a time, so that the sums stay in the cache.

use super::shape::Shape;
use super::wait_sum::WaitSum;
use profile::TRACED_ARGUMENTS;
use std::sync::Arc;

/// Minimum number of others of its block and thread that an execution waits for before it counts,
/// in case an outer one of the same block contains it; [`PATIENCE_RECURSIVE`] where a block has
/// been seen to call itself.
const PATIENCE: usize = 16;
const PATIENCE_RECURSIVE: usize = 1024;
/// Number of executions that are counted together.
const TOGETHER: usize = 48;

/// An execution that is over. As small as can be: there is one for each.
#[derive(Clone, Copy, Debug)]
pub(super) struct Entry {
    pub enter: u64,
    pub leave: u64,
    /// Duration without the overhead of tracing.
    pub net: u64,
    /// Number of executions that it stands for.
    pub weight: u32,
    /// The cell of its kind in its thread; not known yet of one that has [`Details`].
    pub cell: u32,
    pub detailed: bool,
    /// True if it waited; it has [`Details`].
    pub waited: bool,
}

/// Details of an execution whose cell was not known at its end, or that needs more than an [`Entry`] has.
#[derive(Clone, Debug)]
pub(super) struct Details {
    pub shape: Shape,
    pub exact: u64,
    pub unwound: bool,
    pub waits: Option<Arc<WaitSum>>,
}

/// Executions in the order of their ends.
#[derive(Clone, Debug, Default)]
pub(super) struct Entries {
    pub all: Vec<Entry>,
    /// Details of the entries that are `detailed`.
    details: Vec<Details>,
    /// Arguments of each entry, if any are used for more than grouping.
    pub watched: Vec<[u64; TRACED_ARGUMENTS]>,
}

impl Entries {
    /// The first one alone.
    pub fn first(&self) -> Option<Self> {
        let first = self.all.first()?;
        Some(Self {
            all: vec![*first],
            details: self.details.get(..usize::from(first.detailed))?.to_vec(),
            watched: self.watched.iter().take(1).copied().collect(),
        })
    }

    /// The executions from `from` to `to`, and their details.
    pub fn part(&mut self, from: usize, to: usize) -> (&mut [Entry], &[Details]) {
        let detailed = |entries: Option<&[Entry]>| match (entries, self.details.is_empty()) {
            (Some(entries), false) => entries.iter().filter(|entry| entry.detailed).count(),
            _ => 0,
        };
        let skipped = detailed(self.all.get(..from));
        let taken = detailed(self.all.get(from..to));
        let details = self.details.get(skipped..skipped + taken);
        let entries = self.all.get_mut(from..to);
        (entries.unwrap_or_default(), details.unwrap_or_default())
    }

    /// Returns whether any of them waited.
    pub fn waits(&self) -> bool {
        self.details.iter().any(|details| details.waits.is_some())
    }

    /// Removes the first `n`.
    pub fn remove(&mut self, n: usize) {
        let detailed = self.part(0, n).1.len();
        self.details.drain(..detailed);
        self.all.drain(..n.min(self.all.len()));
        self.watched.drain(..n.min(self.watched.len()));
    }

    fn pop(&mut self) {
        if self.all.pop().is_some_and(|entry| entry.detailed) {
            self.details.pop();
        }
        self.watched.pop();
    }
}

/// Executions that have not been counted yet.
#[derive(Debug)]
pub(super) struct Queue {
    pub entries: Entries,
    patience: usize,
    /// Length from which on some executions are counted.
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
    /// Adds an execution that contains none of those that wait. Whether some are to be counted now.
    #[inline]
    pub fn push(&mut self, entry: Entry) -> bool {
        self.entries.all.push(entry);
        self.entries.all.len() >= self.full
    }

    /// Returns how many are to be counted when it is full; never the last one.
    pub fn excess(&self) -> usize {
        self.full - self.patience
    }

    /// Adds details to the last execution.
    pub fn say_more(&mut self, details: Details) {
        let Some(last) = self.entries.all.last_mut() else {
            return;
        };
        last.waited = details.waits.is_some();
        if std::mem::replace(&mut last.detailed, true) {
            self.entries.details.pop();
        }
        self.entries.details.push(details);
    }

    /// Drops those that an execution contains that began at `enter`. Whether none waits any more.
    #[cold]
    pub fn drop_since(&mut self, enter: u64) -> bool {
        while let Some(inner) = self.entries.all.last()
            && inner.enter >= enter
        {
            self.entries.pop();
            self.is_recursive();
        }
        self.entries.all.is_empty()
    }

    /// The block calls itself.
    pub fn is_recursive(&mut self) {
        self.patience = PATIENCE_RECURSIVE;
        self.full = 2 * PATIENCE_RECURSIVE;
    }
}
