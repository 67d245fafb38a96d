//! The kinds of execution, and what is kept of each.

use super::cells::Cell;
use super::nesting::mix;
use super::sketch::{Histogram, Smallest, WINDOWS, Window, halve};
use profile::{BlockId, Level, TRACED_ARGUMENTS, TraceItem};
use rustc_hash::FxHashMap;

/// So many exact kinds, and as many collapsed ones, are told apart in a block.
const KINDS_OF_A_BLOCK: u32 = 256;
/// And so many magnitudes of arguments.
const BUCKETS_OF_A_BLOCK: u32 = 64;
/// And so many kinds in all, besides one for each block.
const KINDS: usize = 16_384;

/// What an execution is told apart by.
#[derive(Clone, Copy, Debug)]
pub(super) struct Shape {
    pub block: BlockId,
    pub exact: u64,
    pub collapsed: u64,
    /// The values of the arguments that count, 0 for others.
    pub arguments: [u64; TRACED_ARGUMENTS],
    /// Executions of traced blocks inside.
    pub inside: u64,
}

impl Shape {
    /// A hash of the arguments, to be mixed with something else.
    #[inline]
    fn argument_hash(&self) -> u64 {
        let odd = [
            0x9e37_79b9_7f4a_7c15u64,
            0xc2b2_ae3d_27d4_eb4f,
            0x1656_67b1_9e37_79f9,
        ];
        let terms = self
            .arguments
            .iter()
            .zip(odd)
            .map(|(value, odd)| value.wrapping_mul(odd));
        terms.fold(0, u64::wrapping_add)
    }

    /// The key of the exact kind.
    #[inline]
    pub fn key(&self) -> u64 {
        match self.argument_hash() {
            0 => self.exact,
            hash => mix(self.exact, hash),
        }
    }

    /// The arguments' magnitudes.
    fn bucket(&self) -> u64 {
        let magnitude = |value: &u64| u64::from(64 - value.leading_zeros());
        self.arguments
            .iter()
            .fold(0, |bucket, value| bucket << 8 | magnitude(value))
    }
}

/// What is kept of a kind.
#[derive(Clone, Debug)]
pub(super) struct Kind {
    pub block: BlockId,
    /// What all its executions have in common.
    pub level: Level,
    pub arguments: [u64; TRACED_ARGUMENTS],
    pub argument_hash: u64,
    pub bucket: u64,
    pub collapsed: u64,
    pub inside: u64,
    /// Executions that were recorded; those in the windows are weighted by the period of recording.
    pub recorded: u64,
    pub smallest: Smallest,
    pub histogram: Histogram,
    pub windows: Box<[Window; WINDOWS]>,
}

impl Kind {
    fn new(shape: &Shape, level: Level) -> Self {
        Self {
            block: shape.block,
            level,
            arguments: shape.arguments,
            argument_hash: shape.argument_hash(),
            bucket: shape.bucket(),
            collapsed: shape.collapsed,
            inside: shape.inside,
            recorded: 0,
            smallest: Smallest::default(),
            histogram: Histogram::default(),
            windows: Box::default(),
        }
    }
}

/// How many kinds of a block there are, by level.
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
    /// When the first window begins.
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
        let key = mix(mix(shape.collapsed, shape.argument_hash()), 1);
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

    /// Adds an execution of a kind that stands for so many, which took `total` together.
    #[inline]
    pub fn add(&mut self, kind: u32, leave: u64, (duration, total): (u64, u64), weight: u64) {
        let window = self.window(leave);
        if let Some(kind) = self.all.get_mut(kind as usize) {
            kind.recorded += 1;
            kind.smallest.add(duration);
            kind.histogram.add(duration, weight);
            if let Some(window) = kind.windows.get_mut(window) {
                window.add((duration, total), weight);
            }
        }
    }

    /// Adds executions of a kind in one window: these sums and durations, each of which stands for `weight`.
    #[inline]
    pub fn add_all(
        &mut self,
        together: &Cell,
        window: usize,
        durations: impl Iterator<Item = u64>,
        weight: u64,
    ) {
        let Some(kind) = self.all.get_mut(together.kind as usize) else {
            return;
        };
        kind.recorded += together.recorded;
        for duration in durations {
            kind.smallest.add(duration);
            kind.histogram.add(duration, weight);
        }
        if let Some(window) = kind.windows.get_mut(window) {
            window.merge(&Window {
                n: together.n,
                sum: together.sum,
                min: together.min,
            });
        }
    }

    /// The first window begins with an execution.
    #[cold]
    pub fn begin(&mut self, item: &TraceItem) {
        if let TraceItem::Execution(execution) = item {
            self.origin = Some(execution.leave);
            self.shift = FIRST_SHIFT;
        }
    }

    /// Whether it is known when the first window begins.
    pub fn has_begun(&self) -> bool {
        self.origin.is_some()
    }

    /// The window that a moment falls into; makes all windows longer if it is behind the last.
    #[inline]
    pub fn window(&mut self, at: u64) -> usize {
        let since = at.saturating_sub(self.origin.unwrap_or(at));
        while (since >> self.shift) as usize >= WINDOWS {
            self.lengthen();
        }
        (since >> self.shift) as usize
    }

    #[cold]
    fn lengthen(&mut self) {
        self.shift += 1;
        for kind in &mut self.all {
            halve(&mut kind.windows);
        }
    }
}
