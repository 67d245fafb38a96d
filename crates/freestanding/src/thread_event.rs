//! Time that is not sampled. Threads have no events of their own here: the processors are sampled.

use core::sync::atomic::Ordering::Relaxed;
use runtime_abi::Thread;

/// Runs `work`, whose CPU time is not the program's.
pub fn without_samples(thread: &Thread, work: impl FnOnce()) {
    while_standing(thread, work);
}

/// Runs `work`; processor samples taken meanwhile count for no fragment.
pub fn while_standing(thread: &Thread, work: impl FnOnce()) {
    thread.standing.store(1, Relaxed);
    work();
    thread.standing.store(0, Relaxed);
}
