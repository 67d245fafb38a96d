//! Semaphores and condition variables that are used like locks or like barriers.
//!
//! Whoever waits for work waits for what others signal. Threads that signal what they themselves wait for take
//! turns: one at a time (`sem_post`, `pthread_cond_signal`), as with a lock, or all together (`pthread_cond_broadcast`), as with a barrier.
//! The address that waits and signals have in common is their first argument. Where one thread does nearly all of the waiting, it waits for
//! the others: who waits for a thread to end may do so at a lock that this thread gives back.

use super::blocks::BlockState;
use super::functions::wakes_one;
use super::kinds::Kind;
use super::known::Cells;
use profile::{CauseKind, ThreadIndex, TracedBlock};
use rustc_hash::{FxHashMap, FxHashSet};

/// One thread that waits for so much of the time of all takes no turns (tuned by `gil` in benches/interference_cases.py).
const ALONE: f64 = 0.95;

/// Threads that signalled an address: waking one waiter, or all.
#[derive(Default)]
struct Signals {
    one: FxHashSet<ThreadIndex>,
    all: FxHashSet<ThreadIndex>,
}

/// Finds the kinds of waits in which threads take turns, and says so in them.
pub(super) fn mark_turns(
    kinds: &mut [Kind],
    cells: &Cells,
    described: &[TracedBlock],
    states: &[BlockState],
) {
    let address = |kind: &Kind| {
        let block = kind.block as usize;
        let at = described
            .get(block)?
            .arguments
            .iter()
            .position(|a| *a == 1)?;
        let known = states.get(block)?.grouping().contains(&at);
        kind.arguments.get(at).copied().filter(|a| known && *a != 0)
    };
    let threads = |number: usize| cells.get(&(number as u32)).into_iter().flatten();
    let mut signals: FxHashMap<u64, Signals> = FxHashMap::default();
    for (number, kind) in kinds.iter().enumerate() {
        let name = described.get(kind.block as usize).map(|b| &b.name);
        let Some(one) = name.and_then(|name| wakes_one(name)) else {
            continue;
        };
        if let Some(address) = address(kind) {
            let signals = signals.entry(address).or_default();
            let to = if one {
                &mut signals.one
            } else {
                &mut signals.all
            };
            to.extend(threads(number).map(|(thread, _)| *thread));
        }
    }
    let mut taken: FxHashMap<u64, CauseKind> = FxHashMap::default();
    for (number, kind) in kinds.iter_mut().enumerate() {
        let state = states.get(kind.block as usize);
        kind.yields = state.is_some_and(|state| state.yields);
        if state.and_then(|state| state.waits_for) != Some(CauseKind::Pool) {
            continue;
        }
        let Some(signals) = address(kind).and_then(|address| signals.get(&address)) else {
            continue;
        };
        let (mut all, mut one_by_one, mut together, mut waiting) = (0, 0, 0, 0);
        let (mut time, mut longest) = (0.0, 0.0f64);
        for (thread, cell) in threads(number) {
            let n = cell.sums.n;
            let waited = cell.sums.sum.saturating_add(cell.sums.asked) as f64;
            time += waited;
            longest = longest.max(waited);
            all += n;
            waiting += 1;
            one_by_one += if signals.one.contains(thread) { n } else { 0 };
            together += if signals.all.contains(thread) { n } else { 0 };
        }
        kind.turn = match waiting {
            0 | 1 => None,
            _ if 2 * one_by_one > all && longest < ALONE * time => Some(CauseKind::Lock),
            _ if 2 * together > all => Some(CauseKind::Barrier),
            _ => None,
        };
        if let (Some(turn), Some(address)) = (kind.turn, address(kind)) {
            taken.insert(address, turn);
        }
    }
    // A thread that signals there lets another one have its turn.
    for kind in kinds.iter_mut() {
        let name = described.get(kind.block as usize).map(|b| &b.name);
        if name.and_then(|name| wakes_one(name)).is_some() {
            kind.turn = address(kind).and_then(|address| taken.get(&address).copied());
        }
    }
}

/// Returns, for each block, the turn of the kind that took most time: like a lock, like a barrier, or none.
pub(super) fn turns_of(kinds: &[Kind], blocks: usize) -> Vec<Option<CauseKind>> {
    let mut most: Vec<(u64, Option<CauseKind>)> = vec![(0, None); blocks];
    for kind in kinds {
        let windows = kind.windows.iter();
        let time = windows.map(|window| window.sum.saturating_add(window.asked));
        let time = time.fold(0, u64::saturating_add);
        if let Some(most) = most.get_mut(kind.block as usize)
            && time > most.0
        {
            *most = (time, kind.turn);
        }
    }
    most.into_iter().map(|(_, turn)| turn).collect()
}
