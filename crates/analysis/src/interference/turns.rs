//! Semaphores and condition variables that are used like locks or like barriers.
//!
//! Whoever waits for work waits for what others signal. Threads that signal what they themselves wait for take
//! turns: one at a time (`sem_post`, `pthread_cond_signal`), as with a lock, or all together (`pthread_cond_broadcast`), as with a barrier.
//! The address that waits and signals have in common is their first argument.

use super::blocks::BlockState;
use super::finish::Cells;
use super::functions::wakes_one;
use super::kinds::Kind;
use profile::{CauseKind, ThreadIndex, TracedBlock};
use rustc_hash::{FxHashMap, FxHashSet};

/// Who signalled an address, and how.
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
        for (thread, cell) in threads(number) {
            let n = cell.sums.n;
            all += n;
            waiting += 1;
            one_by_one += if signals.one.contains(thread) { n } else { 0 };
            together += if signals.all.contains(thread) { n } else { 0 };
        }
        kind.turn = match waiting {
            0 | 1 => None,
            _ if 2 * one_by_one > all => Some(CauseKind::Lock),
            _ if 2 * together > all => Some(CauseKind::Barrier),
            _ => None,
        };
    }
}

/// Of each block whether threads take turns in the kind of it that was recorded most often.
pub(super) fn turns_of(kinds: &[Kind], blocks: usize) -> Vec<Option<CauseKind>> {
    let mut most: Vec<(u64, Option<CauseKind>)> = vec![(0, None); blocks];
    for kind in kinds {
        if let Some(most) = most.get_mut(kind.block as usize)
            && kind.recorded > most.0
        {
            *most = (kind.recorded, kind.turn);
        }
    }
    most.into_iter().map(|(_, turn)| turn).collect()
}
