//! Delay counts: the delay that is due, and the part that a thread has paid.

use core::sync::atomic::Ordering::{Acquire, Relaxed};
use runtime_abi::{Clock, Page, Thread};

/// Returns the global clock and the thread's. If a new experiment has begun, the thread's clock is
/// first set to zero; delay that the controller charged for the thread's wait is added.
pub fn current_clocks(page: &Page, thread: &Thread) -> (Clock, Clock) {
    let global = Clock::unpack(page.global.0.load(Acquire));
    let mut local = Clock::unpack(thread.local.load(Relaxed));
    if local.epoch != global.epoch {
        local = Clock {
            epoch: global.epoch,
            delay_ns: 0,
        };
        thread.local.store(local.pack(), Relaxed);
        thread.excess.store(0, Relaxed);
    }
    let early = thread.outside.take_early(global.epoch);
    if early > 0 {
        local.delay_ns += early;
        thread.local.store(local.pack(), Relaxed);
    }
    (global, local)
}
