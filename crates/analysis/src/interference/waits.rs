//! Waits of a function: their kinds, and the threads and functions that ended them.

use super::functions::{CallTarget, SCHED_YIELD, ends_waits_of, find_system_call, waits_for};
use profile::{BlockId, CauseKind, ThreadIndex, Wait};
use rustc_hash::FxHashMap;

/// Maximum number of distinct reasons that are kept for a function.
const REASONS: usize = 256;

/// Reason of a wait, as the kernel saw it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) struct Reason {
    pub system_call: Option<u32>,
    pub waker: Option<ThreadIndex>,
    pub waker_block: Option<BlockId>,
    /// True if the thread was ready the whole time: it had woken the thread `waker` in
    /// `system_call`, and `waker` took its CPU.
    pub handed_over: bool,
}

/// Time and number of waits with one reason. Times are in ticks.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct WaitSum {
    pub ticks: u64,
    pub waits: u64,
}

/// The waits of a function by reason.
#[derive(Debug, Default)]
pub(super) struct FunctionWaitSums {
    pub by_reason: FxHashMap<Reason, WaitSum>,
}

impl FunctionWaitSums {
    /// Adds a wait that represents `weight` waits. Plain preemptions are ignored.
    pub fn add(&mut self, wait: &Wait, weight: u64) {
        // A preempted thread with a system call or a waker gave its CPU away. That counts as a
        // wait.
        if wait.preempted && wait.system_call.is_none() && wait.waker.is_none() {
            return;
        }
        let reason = Reason {
            system_call: wait.system_call,
            waker: wait.waker,
            waker_block: wait.waker_block,
            handed_over: wait.preempted && wait.waker.is_some(),
        };
        if self.by_reason.len() >= REASONS && !self.by_reason.contains_key(&reason) {
            return;
        }
        // Time in which other processes had the CPUs of this thread or of its waker is not caused
        // by threads.
        let length = wait.end.saturating_sub(wait.start);
        let ticks = length.saturating_sub(wait.taken.saturating_add(wait.held));
        let sum = self.by_reason.entry(reason).or_default();
        sum.add(ticks, weight);
    }

    /// Adds an execution of a function that only yields the CPU.
    pub fn add_yield(&mut self, ticks: u64, weight: u64, aarch64: bool) {
        let reason = Reason {
            system_call: Some(SCHED_YIELD[usize::from(aarch64)]),
            waker: None,
            waker_block: None,
            handed_over: false,
        };
        self.by_reason.entry(reason).or_default().add(ticks, weight);
    }
}

impl WaitSum {
    fn add(&mut self, ticks: u64, weight: u64) {
        self.ticks = self.ticks.saturating_add(ticks.saturating_mul(weight));
        self.waits = self.waits.saturating_add(weight);
    }
}

/// Returns what the system call of a wait waits for. `None` outside of one, and of an unknown call.
pub(super) fn target_of_wait(wait: &Wait, aarch64: bool) -> Option<CallTarget> {
    let call = find_system_call(wait.system_call?, aarch64)?;
    Some(call.waits_for)
}

/// Returns whether a thread asked for a wait: for a time, or for something outside of the program.
pub(super) fn is_asked_for(wait: &Wait, aarch64: bool) -> bool {
    match target_of_wait(wait, aarch64).filter(|_| !wait.preempted) {
        Some(CallTarget::Futex | CallTarget::Poll) => wait.waker.is_none(),
        Some(CallTarget::Sleep | CallTarget::Child) => true,
        _ => false,
    }
}

/// Returns the kind of the waits with `reason` in a function. `turn` is the kind of turns that
/// threads take at the object that the function waits for.
pub(super) fn kind_of_wait(
    reason: &Reason,
    function: &str,
    waker_function: Option<&str>,
    turn: Option<CauseKind>,
    aarch64: bool,
) -> CauseKind {
    let own = waits_for(function);
    if reason.handed_over {
        return ends_waits_of(function).or(own).unwrap_or(CauseKind::Lock);
    }
    let woken = reason.waker.is_some();
    let Some(number) = reason.system_call else {
        return if woken {
            CauseKind::AddressSpace
        } else {
            CauseKind::PageFault
        };
    };
    match find_system_call(number, aarch64).map(|call| call.waits_for) {
        Some(CallTarget::Futex) => kind_of_futex(function, own, waker_function, turn),
        Some(CallTarget::File) if own == Some(CauseKind::Network) => CauseKind::Network,
        Some(CallTarget::File) if woken => CauseKind::Pool,
        Some(CallTarget::File | CallTarget::Disk) => CauseKind::Disk,
        Some(CallTarget::Network) => CauseKind::Network,
        Some(CallTarget::Poll) => CauseKind::Pool,
        Some(CallTarget::Sleep) => CauseKind::Sleep,
        Some(CallTarget::FileLock | CallTarget::Yield) => CauseKind::Lock,
        Some(CallTarget::AddressSpace) => CauseKind::AddressSpace,
        Some(CallTarget::Child) | None => CauseKind::OtherWait,
    }
}

/// Returns the kind of a futex wait, judged by names: the kernel does not know the purpose of a
/// futex.
fn kind_of_futex(
    function: &str,
    own: Option<CauseKind>,
    waker_function: Option<&str>,
    turn: Option<CauseKind>,
) -> CauseKind {
    match (own, waker_function.and_then(ends_waits_of)) {
        (Some(CauseKind::Pool), _) => turn.unwrap_or(CauseKind::Pool),
        (Some(kind), _) | (None, Some(kind)) => kind,
        // If the waker was in the same function as the waiter, threads take turns in it.
        (None, None) if waker_function == Some(function) => CauseKind::Lock,
        (None, None) => CauseKind::OtherWait,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn time_without_a_cpu_because_of_other_processes_is_in_no_wait() {
        let wait = |taken, held| Wait {
            start: 1000,
            end: 1100,
            queued: taken,
            taken,
            held,
            preempted: false,
            system_call: Some(202),
            waker: Some(1),
            waker_block: None,
        };
        for (taken, held, left) in [(0, 0, 300), (30, 20, 150), (90, 90, 0)] {
            let mut sums = FunctionWaitSums::default();
            sums.add(&wait(taken, held), 3);
            let sum: Vec<_> = sums
                .by_reason
                .values()
                .map(|s| (s.ticks, s.waits))
                .collect();
            assert_eq!(sum, [(left, 3)]);
        }
    }
}
