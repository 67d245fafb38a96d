//! Counts of delay: the delay that is due, and the part of it that a thread has had.

use core::sync::atomic::Ordering::{Acquire, Relaxed};
use runtime_abi::{Clock, Page, Thread};

/// The global clock, with the thread's own set to zero first if a new experiment has begun, and with what the controller
/// has charged for a wait of the thread's.
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
