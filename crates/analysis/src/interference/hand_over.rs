//! Threads that wake another one and lose their CPU to it.
//!
//! A thread that gives a lock back to a waiting thread may hand it the CPU as well, if the scheduler decides so. It is
//! then ready without a CPU until the other thread stops. Without the lock both would run. So that time is the lock's,
//! and is listed with the function that waits for it.

use super::cases::Cases;
use super::functions::{CallTarget, ends_waits_of, find_system_call, waits_for};
use super::known::Known;
use super::wait_sum::WaitPart;
use profile::{BlockId, CauseKind, TraceHead};
use rustc_hash::FxHashMap;

/// The time for which the threads in a block were ready because those that they woke had their CPUs.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct HandedOver {
    /// Time as it was recorded, in ticks.
    pub recorded: f64,
    /// The part of that in which other processes had CPUs.
    pub taken: f64,
    /// The part that was for a lock or a barrier and in the block itself, in ticks of the score.
    pub locks: f64,
}

/// Puts hand-overs down to what was handed over.
pub(super) fn hand_overs(known: &Known<'_>, head: &TraceHead, cases: &mut Cases) -> HandedOver {
    let mut sum = HandedOver::default();
    let parts = known.state.waits.parts.iter();
    for part in parts.filter(|part| part.reason.handed_over) {
        let Some(kind) = kind_of(part, known, head) else {
            continue;
        };
        let recorded = part.queued as f64;
        let ticks = recorded * known.ready_scale();
        sum.recorded += recorded;
        sum.taken += part.taken as f64;
        let own = part.reason.within.is_none_or(|at| at == known.number);
        if own && matches!(kind, CauseKind::Lock | CauseKind::Barrier) {
            sum.locks += ticks;
        }
        let case = cases.entry(kind).or_default();
        case.add_hand_overs(ticks, part.n);
    }
    sum
}

/// Returns what a thread handed over: what the function that it was in gives back, or what the woken thread had waited for.
fn kind_of(part: &WaitPart, known: &Known<'_>, head: &TraceHead) -> Option<CauseKind> {
    let at = part.reason.within.map(|at| at as usize);
    let name = at.and_then(|at| head.blocks.get(at));
    let name = name.map_or(known.block.name.as_str(), |block| block.name.as_str());
    let turn = at.and_then(|at| *known.turns.get(at)?).or(known.turn);
    let given = match (ends_waits_of(name), turn) {
        (Some(CauseKind::Pool), Some(turn)) => Some(turn),
        (None, _) => waits_for(name).filter(|kind| *kind == CauseKind::Allocator),
        (given, _) => given,
    };
    given.or_else(|| {
        let call = find_system_call(part.reason.system_call?, known.aarch64)?;
        match call.waits_for {
            CallTarget::File | CallTarget::Poll | CallTarget::Network => Some(CauseKind::Pool),
            CallTarget::FileLock => Some(CauseKind::Lock),
            _ => None,
        }
    })
}

/// Returns the blocks whose threads ended the waits in a block itself, with the duration of these waits, in ticks.
pub(super) fn ended_by(known: &Known<'_>) -> FxHashMap<BlockId, f64> {
    let mut sums: FxHashMap<BlockId, f64> = FxHashMap::default();
    for part in &known.state.waits.parts {
        let own = part.reason.within == Some(known.number) && !part.reason.handed_over;
        if let Some(block) = part.reason.waker_block.filter(|_| own) {
            *sums.entry(block).or_default() += part.blocked as f64 + part.queued as f64;
        }
    }
    sums
}
