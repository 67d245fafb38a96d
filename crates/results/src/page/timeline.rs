//! Times of samples, and the threads that ended waits.

use ::profile::{NameId, Recording, Unit};
use formats::read::TimeAxis;
use rustc_hash::FxHashMap;
use serde::Serialize;

/// Number of slices above which they are joined: each slice costs a copy of its calling contexts.
const MOST_SLICES: u32 = 300;
/// Maximum number of waits by waker in the data: the longest ones.
const MOST_WAITS: usize = 20_000;

/// The time axis of a recording. The tree has a frame of the module `[slice]` below each thread.
#[derive(Clone, Debug, Serialize)]
pub struct PageTimeline {
    /// The length of a slice in nanoseconds.
    pub slice_ns: u64,
    /// The number of slices.
    pub slices: u32,
    /// The epochs of the slices, if slices are no equal parts of one recording.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub epochs: Vec<PageEpoch>,
}

/// Time span of an epoch.
#[derive(Clone, Debug, Serialize)]
pub struct PageEpoch {
    /// Start, in nanoseconds since 1970-01-01 UTC.
    pub start_unix_ns: u64,
    /// Length, in nanoseconds.
    pub duration_ns: u64,
}

/// Waits by slice, thread, and the thread that ended them, column by column.
#[derive(Clone, Debug, Default, Serialize)]
pub struct PageWakes {
    /// Names of threads.
    pub names: Vec<String>,
    /// The slice in which the wait ended; 0 without a time axis.
    pub slice: Vec<u32>,
    /// The thread that waited: a position in `names`.
    pub thread: Vec<usize>,
    /// The thread that ended the wait: a position in `names`.
    pub waker: Vec<usize>,
    /// The value in which it is counted.
    pub value: Vec<u16>,
    /// Sum of the waits, in nanoseconds.
    pub ns: Vec<u64>,
}

/// A name, and the thread id if threads are kept apart.
type WokenThread = (NameId, Option<u32>);

/// Joins slices until they are few enough for a page.
pub fn join_slices(recording: &mut Recording) {
    let Some(slice_ns) = recording.slice_ns else {
        return;
    };
    let slices = slice_count(recording);
    if slices == 0 {
        recording.slice_ns = None;
        return;
    }
    let factor = slices.div_ceil(MOST_SLICES);
    recording.slice_ns = Some(slice_ns.saturating_mul(factor.into()));
    for sample in &mut recording.samples {
        sample.slice = sample.slice.map(|slice| slice / factor);
    }
}

fn slice_count(recording: &Recording) -> u32 {
    let slices = recording.samples.iter().filter_map(|sample| sample.slice);
    slices.max().map_or(0, |last| last.saturating_add(1))
}

impl PageTimeline {
    /// Makes the time axis of another tool's profile.
    pub fn of_axis(axis: TimeAxis) -> Self {
        Self {
            slice_ns: axis.slice_ns,
            slices: axis.slices,
            epochs: Vec::new(),
        }
    }

    /// Returns the time axis, if times were kept.
    pub fn of_recording(recording: &Recording) -> Option<Self> {
        Some(Self {
            slice_ns: recording.slice_ns?,
            slices: slice_count(recording),
            epochs: Vec::new(),
        })
    }

    /// Sets the epochs of the slices.
    #[must_use]
    pub fn with_epochs(mut self, epochs: Vec<PageEpoch>) -> Self {
        self.slices = u32::try_from(epochs.len()).unwrap_or(u32::MAX);
        self.epochs = epochs;
        self
    }
}

impl PageWakes {
    /// Adds up waits; `None` if the recording names no waker.
    pub fn of_recording(recording: &Recording) -> Option<Self> {
        type WakeKey = (u32, WokenThread, WokenThread, u16);
        let mut sums: FxHashMap<WakeKey, u64> = FxHashMap::default();
        for sample in &recording.samples {
            let Some(waker) = sample.waker else {
                continue;
            };
            if recording.event(sample.event).unit == Unit::Nanoseconds {
                // Without ids for threads, wakers get none either.
                let by = (waker.process, sample.tid.map(|_| waker.tid));
                let thread = (sample.process, sample.tid);
                let key = (sample.slice.unwrap_or(0), thread, by, sample.event.0);
                let sum = sums.entry(key).or_default();
                *sum = sum.saturating_add(sample.weight);
            }
        }
        let mut rows: Vec<(WakeKey, u64)> = sums.into_iter().collect();
        rows.sort_by_key(|(key, ns)| (std::cmp::Reverse(*ns), *key));
        rows.truncate(MOST_WAITS);
        rows.sort_unstable();
        let mut wakes = Self::default();
        let mut numbers: FxHashMap<WokenThread, usize> = FxHashMap::default();
        for ((slice, thread, waker, value), ns) in rows {
            let mut number = |wakes: &mut Self, one: WokenThread| {
                *numbers.entry(one).or_insert_with(|| {
                    // The same names as in the tree's frames for threads.
                    let name = match recording.names.get(one.0) {
                        "" => "[unknown]",
                        name => name,
                    };
                    wakes.names.push(match one.1 {
                        Some(tid) => format!("{name} ({tid})"),
                        None => name.to_owned(),
                    });
                    wakes.names.len() - 1
                })
            };
            let (thread, waker) = (number(&mut wakes, thread), number(&mut wakes, waker));
            wakes.slice.push(slice);
            wakes.thread.push(thread);
            wakes.waker.push(waker);
            wakes.value.push(value);
            wakes.ns.push(ns);
        }
        (!wakes.ns.is_empty()).then_some(wakes)
    }
}
