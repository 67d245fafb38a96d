//! Facts about a run and a block, as the search for causes and doubts needs them.

use super::blocks::{BlockState, Regression};
use super::cell::Cell;
use super::floor::Group;
use profile::{
    Between, BlockId, CauseKind, EventScore, Floor, ThreadIndex, TraceHead, TracedBlock,
};
use rustc_hash::FxHashMap;

/// Rule of three: if none of `n` executions shows something, fewer than this many of another `n` do, with 95 %
/// confidence.
pub(super) const UNSEEN: f64 = 3.0;

/// Times that executions may stand for more than their threads had: sampling varies by chance.
pub(super) const BELIEVABLE: f64 = 1.1;

/// Facts about a run that all its blocks share.
pub(super) struct AnalysedRun<'a> {
    pub head: &'a TraceHead,
    /// Nanoseconds in a tick.
    pub ns: f64,
    /// Duration of all threads, in ticks.
    pub thread_time: f64,
    pub enough: u64,
    /// The part of each thread's duration for which it was neither blocked nor held up by other processes.
    pub busy: Vec<f64>,
    /// The part of the time ready without a CPU in which a control group's limit held the program up.
    pub throttled: f64,
    /// For how long all threads had no CPU because of other processes, in ticks.
    pub taken: f64,
    /// For each block, the lock or barrier that threads take turns at, if they do.
    pub turns: Vec<Option<CauseKind>>,
    /// See [`super::Options::aarch64`].
    pub aarch64: bool,
}

impl AnalysedRun<'_> {
    pub fn thread_ticks(&self, thread: ThreadIndex) -> f64 {
        let thread = self.head.threads.get(thread as usize);
        thread.map_or(0.0, |t| t.end.saturating_sub(t.start) as f64)
    }
}

/// A kind in a thread.
pub(super) type Cells = FxHashMap<u32, Vec<(ThreadIndex, Cell)>>;

/// Loss by what the threads did meanwhile, in ticks.
#[derive(Clone, Copy, Debug)]
pub(super) struct Parts {
    pub scheduler: f64,
    pub blocked: f64,
    pub running: f64,
}

/// Facts about a block, as the search for causes and doubts needs them; times in ticks.
pub(super) struct Known<'a> {
    pub number: BlockId,
    pub block: &'a TracedBlock,
    pub state: &'a BlockState,
    /// The one with most time first.
    pub groups: &'a [Group],
    /// Floor of the first group.
    pub floor: Option<&'a Floor>,
    pub excess: f64,
    /// Duration of the threads that executed the block.
    pub time: f64,
    /// Factor that scales sums over recorded executions to all executions.
    pub exact: f64,
    /// Ratio of the time that the recorded executions stand for to the time of the block's threads. More than 1 is
    /// impossible.
    pub overstated: f64,
    pub threads: usize,
    /// Fraction of the loss that the thread has that lost most.
    pub largest_loser: f64,
    pub parts: Parts,
    pub events: &'a [EventScore],
    /// Samples of these events in all blocks.
    pub event_samples: &'a [u64],
    pub ns: f64,
    pub waits: bool,
    /// Threads take turns in it, like with a lock or a barrier.
    pub turn: Option<CauseKind>,
    /// The same of all blocks.
    pub turns: &'a [Option<CauseKind>],
    /// The part of the time ready without a CPU in which a control group's limit held the program up.
    pub throttled: f64,
    /// For how long all threads of the run had no CPU because of other processes, in ticks.
    pub taken: f64,
    /// See [`super::Options::aarch64`].
    pub aarch64: bool,
}

/// Minimum ratio of the duration of executions while others are in the block to that of executions
/// alone: below it the others do not disturb.
pub(super) const DISTURBED: f64 = 1.1;

/// Returns whether durations follow an argument, by R² and slope.
pub(super) fn is_followed((r_squared, slope): (f64, f64)) -> bool {
    r_squared >= 0.5 && slope > 0.0
}

/// Fewer executions say nothing about whether others were there.
const ENOUGH_MET: u64 = 30;

impl Known<'_> {
    /// Returns how many times as long executions run, without their waits, if another thread is in the block; `None`: not known.
    pub fn slower_with_others(&self) -> Option<f64> {
        let instants = &self.state.instants;
        let (alone, others) = (&instants.alone, &instants.with_others);
        let met = alone.n + others.n;
        // Items of different threads came too far apart.
        let late = instants.late * 20 > met;
        let enough = alone.n >= ENOUGH_MET && others.n >= ENOUGH_MET;
        (enough && !late).then(|| others.mean_running() / alone.mean_running())
    }

    /// Returns whether the duration follows an argument that executions are not told apart by.
    pub fn follows_argument(&self) -> bool {
        let follows = self.state.follows.iter();
        follows.filter_map(Regression::r_squared).any(is_followed)
    }

    /// Returns whether executions run longer while another thread is in the block. Where an argument sets the amount of work, long
    /// executions meet others more often, so the ratio proves nothing (`rust mutex, repaired` in benches/interference_cases.py).
    pub fn disturbed(&self) -> bool {
        let slower = self.slower_with_others();
        slower.is_some_and(|ratio| ratio >= DISTURBED) && !self.follows_argument()
    }

    /// Returns what a recorded tick ready without a CPU stands for in the score.
    pub fn ready_scale(&self) -> f64 {
        self.parts.scheduler / (self.state.fates.ready as f64).max(1.0)
    }

    /// Returns what is lost, as a score.
    pub fn sci(&self) -> f64 {
        self.excess / self.time
    }
}

pub(super) fn over(excess: Between, time: f64) -> Between {
    Between {
        estimate: excess.estimate / time,
        low: excess.low / time,
        high: excess.high / time,
    }
}
