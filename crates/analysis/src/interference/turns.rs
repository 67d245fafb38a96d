//! Semaphores and condition variables that threads use as a lock or as a barrier.
//!
//! Threads that wait for work wait for signals of other threads. Threads that signal the same
//! object they wait for take turns: one at a time (`sem_post`, `pthread_cond_signal`), as with a
//! lock, or all together (`pthread_cond_broadcast`), as with a barrier. The first argument of the
//! functions, the object's address, relates waits to signals.

use super::functions::wakes_one;
use profile::{BlockId, CauseKind, ThreadIndex};
use rustc_hash::{FxHashMap, FxHashSet};

/// Maximum number of addresses with waits, and of addresses with signals.
const ADDRESSES: usize = 4096;
/// If one thread has at least this part of the waiting time at an address, threads take no turns
/// there: that thread waits for the others (tuned by `gil` in benches/interference_cases.py).
const ALONE: f64 = 0.95;

/// Role of a function in taking turns, judged by its name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum TurnRole {
    /// Threads wait in it.
    Waits,
    /// It wakes one waiting thread.
    WakesOne,
    /// It wakes all waiting threads.
    WakesAll,
}

impl TurnRole {
    /// Returns the role of a function whose first argument is recorded.
    pub fn of_function(name: &str, waits_for: Option<CauseKind>) -> Option<Self> {
        match wakes_one(name) {
            Some(true) => Some(Self::WakesOne),
            Some(false) => Some(Self::WakesAll),
            None => (waits_for == Some(CauseKind::Pool)).then_some(Self::Waits),
        }
    }
}

/// Threads that signalled an address: those that woke one waiter, and those that woke all.
#[derive(Debug, Default)]
struct Signals {
    one: FxHashSet<ThreadIndex>,
    all: FxHashSet<ThreadIndex>,
}

/// Waits and signals by address.
#[derive(Debug, Default)]
pub(super) struct Turns {
    signals: FxHashMap<u64, Signals>,
    /// Number of executions and ticks by thread.
    waits: FxHashMap<(BlockId, u64), FxHashMap<ThreadIndex, (u64, u64)>>,
}

impl Turns {
    /// Adds an execution of a function with a role.
    pub fn add(
        &mut self,
        role: TurnRole,
        block: BlockId,
        thread: ThreadIndex,
        address: u64,
        ticks: u64,
    ) {
        if address == 0 {
            return;
        }
        if role == TurnRole::Waits {
            let is_known = self.waits.contains_key(&(block, address));
            if is_known || self.waits.len() < ADDRESSES {
                let threads = self.waits.entry((block, address)).or_default();
                let sum = threads.entry(thread).or_default();
                *sum = (sum.0 + 1, sum.1.saturating_add(ticks));
            }
        } else if self.signals.contains_key(&address) || self.signals.len() < ADDRESSES {
            let signals = self.signals.entry(address).or_default();
            match role {
                TurnRole::WakesOne => signals.one.insert(thread),
                _ => signals.all.insert(thread),
            };
        }
    }

    /// Returns the kind of turns of each waiting function, at the address with most waiting time.
    pub fn by_function(&self) -> FxHashMap<BlockId, CauseKind> {
        let mut most: FxHashMap<BlockId, (u64, Option<CauseKind>)> = FxHashMap::default();
        for ((block, address), threads) in &self.waits {
            let time = threads
                .values()
                .fold(0, |sum: u64, (_, ticks)| sum.saturating_add(*ticks));
            let turn = self
                .signals
                .get(address)
                .and_then(|signals| kind_of_turn(threads, signals));
            let known = most.entry(*block).or_default();
            *known = (*known).max((time, turn));
        }
        let turns = most.into_iter();
        turns
            .filter_map(|(block, (_, turn))| Some((block, turn?)))
            .collect()
    }
}

fn kind_of_turn(
    threads: &FxHashMap<ThreadIndex, (u64, u64)>,
    signals: &Signals,
) -> Option<CauseKind> {
    let executions = |of: &FxHashSet<ThreadIndex>| -> u64 {
        let own = threads.iter().filter(|(thread, _)| of.contains(thread));
        own.map(|(_, (n, _))| n).sum()
    };
    let all: u64 = threads.values().map(|(n, _)| n).sum();
    let time: u64 = threads.values().map(|(_, ticks)| ticks).sum();
    let longest = threads.values().map(|(_, ticks)| *ticks).max()?;
    if threads.len() < 2 {
        None
    } else if 2 * executions(&signals.one) > all && (longest as f64) < ALONE * time as f64 {
        Some(CauseKind::Lock)
    } else if 2 * executions(&signals.all) > all {
        Some(CauseKind::Barrier)
    } else {
        None
    }
}
