//! The kinds of execution, and what is kept of each.

use super::cell::Cell;
use super::queue::Entry;
use super::sequences::mix;
use super::shape::{Shape, Waited, argument_hash};
use super::sketch::{Histogram, Smallest, WINDOWS, Window, halve};
use profile::{BlockId, CauseKind, Level, TRACED_ARGUMENTS, TraceItem};
use rustc_hash::FxHashMap;

/// Maximum number of exact kinds, and of collapsed ones, that are distinguished in a block.
const KINDS_OF_A_BLOCK: u32 = 256;
/// Maximum number of argument magnitudes that are distinguished in a block.
const BUCKETS_OF_A_BLOCK: u32 = 64;
/// Maximum number of kinds in all, besides one for each block.
const KINDS: usize = 16_384;

/// A kind of execution, with its sums.
#[derive(Clone, Debug)]
pub(super) struct Kind {
    pub block: BlockId,
    /// The properties that all its executions share.
    pub level: Level,
    pub arguments: [u64; TRACED_ARGUMENTS],
    pub argument_hash: u64,
    pub bucket: u64,
    pub collapsed: u64,
    pub inside: u64,
    /// Executions that were recorded; those in the windows are weighted by the period of recording.
    pub recorded: u64,
    /// The smallest durations without waiting for others.
    pub smallest: Smallest,
    /// Durations of the executions that did not wait.
    pub histogram: Histogram,
    /// Durations of the executions that waited: whole, and without waiting for others.
    pub waited: Histogram,
    pub unhindered: Histogram,
    pub windows: Box<[Window; WINDOWS]>,
    /// Threads take turns in it, though it waits for work by its name: like a lock, or like a barrier.
    pub turn: Option<CauseKind>,
    /// True if it does nothing but let others run.
    pub yields: bool,
}

impl Kind {
    fn new(shape: &Shape, level: Level) -> Self {
        Self {
            block: shape.block,
            level,
            arguments: shape.arguments,
            argument_hash: argument_hash(&shape.arguments),
            bucket: shape.bucket(),
            collapsed: shape.collapsed,
            inside: shape.inside,
            recorded: 0,
            smallest: Smallest::default(),
            histogram: Histogram::default(),
            waited: Histogram::default(),
            unhindered: Histogram::default(),
            windows: Box::default(),
            turn: None,
            yields: false,
        }
    }
}

/// Executions that were added: how many, how long they took, and their kind.
pub(super) struct Added<'a> {
    pub n: usize,
    pub sum: u64,
    pub kind: &'a Kind,
}

/// Number of kinds of a block, by level.
#[derive(Clone, Copy, Debug, Default)]
struct Counts {
    exact: u32,
    collapsed: u32,
    buckets: u32,
}

/// All kinds.
#[derive(Debug, Default)]
pub(super) struct Kinds {
    pub all: Vec<Kind>,
    by_key: FxHashMap<u64, u32>,
    counts: Vec<Counts>,
    /// Start of the first window, in ticks.
    origin: Option<u64>,
    /// A window is `2^shift` ticks long.
    shift: u32,
}

/// The shortest windows, in ticks: some hundred microseconds.
const FIRST_SHIFT: u32 = 20;

impl Kinds {
    /// The number of the kind of an exact shape, if there is one.
    pub fn exact(&self, key: u64) -> Option<u32> {
        self.by_key.get(&key).copied()
    }

    /// The kind of a shape that has none of its own yet: a new one, or the finest that there is room for.
    /// Also says under which key it is found again.
    pub fn make(&mut self, shape: &Shape, key: u64) -> (u64, u32) {
        let block = shape.block as usize;
        if block >= self.counts.len() {
            self.counts.resize(block + 1, Counts::default());
        }
        let room = self.all.len() < KINDS;
        let Some(counts) = self.counts.get_mut(block) else {
            return self.find_or_add(shape, key, Level::Exact);
        };
        if room && counts.exact < KINDS_OF_A_BLOCK {
            counts.exact += 1;
            return self.find_or_add(shape, key, Level::Exact);
        }
        let key = mix(mix(shape.collapsed, argument_hash(&shape.arguments)), 1);
        let known = self.by_key.contains_key(&key);
        if known || room && counts.collapsed < KINDS_OF_A_BLOCK {
            counts.collapsed += u32::from(!known);
            return self.find_or_add(shape, key, Level::Collapsed);
        }
        let key = mix(mix(shape.block.into(), shape.bucket()), 2);
        let known = self.by_key.contains_key(&key);
        if known || room && counts.buckets < BUCKETS_OF_A_BLOCK {
            counts.buckets += u32::from(!known);
            return self.find_or_add(shape, key, Level::Arguments);
        }
        self.find_or_add(shape, mix(shape.block.into(), 3), Level::Block)
    }

    fn find_or_add(&mut self, shape: &Shape, key: u64, level: Level) -> (u64, u32) {
        let next = self.all.len() as u32;
        let number = *self.by_key.entry(key).or_insert(next);
        if number == next {
            self.all.push(Kind::new(shape, level));
        }
        (key, number)
    }

    /// Adds the first of these executions to its cell, and those behind it that are of the same, stand for as many, end in
    /// the same window and waited for nothing.
    #[inline]
    pub fn add(&mut self, cell: &mut Cell, entries: &[Entry]) -> Option<Added<'_>> {
        let (first, kind) = (entries.first()?, self.all.get_mut(cell.kind as usize)?);
        let weight = u64::from(first.weight);
        let (mut n, mut sum, mut min) = (0, 0u64, u64::MAX);
        for entry in entries {
            let alike = entry.cell == first.cell && entry.weight == first.weight;
            if n > 0 && !(alike && entry.leave < cell.until && !entry.waited) {
                break;
            }
            n += 1;
            sum = sum.saturating_add(entry.net);
            min = min.min(entry.net);
            kind.smallest.add(entry.net);
            kind.histogram.add(entry.net, weight);
        }
        kind.recorded += n as u64;
        cell.recorded += n as u64;
        cell.lately.merge(&Window {
            n: n as u64 * weight,
            sum: sum.saturating_mul(weight),
            asked: 0,
            min,
        });
        Some(Added { n, sum, kind })
    }

    /// Adds one execution that waited.
    pub fn add_waited(
        &mut self,
        cell: &mut Cell,
        entry: &Entry,
        waited: Waited,
    ) -> Option<Added<'_>> {
        let kind = self.all.get_mut(cell.kind as usize)?;
        let weight = u64::from(entry.weight);
        kind.smallest.add(waited.unhindered);
        kind.waited.add(waited.whole, weight);
        kind.unhindered.add(waited.unhindered, weight);
        kind.recorded += 1;
        cell.recorded += 1;
        cell.lately.merge(&Window {
            n: weight,
            sum: waited.taken.saturating_mul(weight),
            asked: (waited.whole - waited.taken).saturating_mul(weight),
            min: waited.unhindered,
        });
        Some(Added {
            n: 1,
            sum: waited.whole,
            kind,
        })
    }

    /// Begins a cell's window that has a moment in it, behind that of now.
    #[cold]
    pub fn next_window(&mut self, cell: &mut Cell, at: u64) {
        let until = self.until(at);
        self.settle(cell);
        cell.until = until;
    }

    /// Moves what a cell has of the window that was counted last to its kind, and to its sums.
    #[cold]
    pub fn settle(&mut self, cell: &mut Cell) {
        let lately = std::mem::take(&mut cell.lately);
        if lately.n == 0 {
            return;
        }
        cell.sums.merge(&lately);
        // Windows may be longer by now: one that ended there is part of one that has that moment in it.
        let window = self.window(cell.until - 1);
        let kind = self.all.get_mut(cell.kind as usize);
        if let Some(window) = kind.and_then(|kind| kind.windows.get_mut(window)) {
            window.merge(&lately);
        }
    }

    /// The first window begins with an execution.
    #[cold]
    pub fn begin(&mut self, items: &[TraceItem]) {
        self.shift = FIRST_SHIFT;
        self.origin = items.iter().find_map(|item| match item {
            TraceItem::Execution(execution) => Some(execution.leave),
            _ => None,
        });
    }

    /// Returns whether it is known when the first window begins.
    pub fn has_begun(&self) -> bool {
        self.origin.is_some()
    }

    /// The window that a moment falls into; makes all windows longer if it is behind the last.
    fn window(&mut self, at: u64) -> usize {
        let since = at.saturating_sub(self.origin.unwrap_or(at));
        while (since >> self.shift) as usize >= WINDOWS {
            self.lengthen();
        }
        (since >> self.shift) as usize
    }

    /// Returns the end of the window that a moment falls into.
    fn until(&mut self, at: u64) -> u64 {
        let window = self.window(at) as u64;
        let since = (window + 1).saturating_mul(1 << self.shift);
        self.origin.unwrap_or(at).saturating_add(since)
    }

    #[cold]
    fn lengthen(&mut self) {
        self.shift += 1;
        for kind in &mut self.all {
            halve(&mut kind.windows);
        }
    }
}
