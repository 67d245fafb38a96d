//! Threads that share processors.
//!
//! Where more threads want to run than there are processors, a processor is like a lock: a thread that
//! gets it from another one has waited for what that one did, and is credited for it (the rule of
//! section 3.4.1, for a wait that no function of the C library shows). And a delay has to keep the
//! processor busy: if the thread slept, the next one would run meanwhile, and nothing be delayed.

use crate::{delay, sys};
use core::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use runtime_abi::{Clock, Cpu, Page, Thread};

/// A thread counts as sharing its processor for so many samples after it got it from another one.
const REMEMBERED: u32 = 20;

fn current(page: &Page) -> Option<&Cpu> {
    // SAFETY: asks for a number. Not a system call.
    let number = unsafe { libc::sched_getcpu() };
    page.cpus
        .get(usize::try_from(number).ok()?)
        .map(|line| &line.0)
}

/// Credits this thread for a wait for its processor, if it has got it from another thread of the
/// target since it was looked at last.
pub fn take_over(page: &Page, thread: &Thread) {
    let Some(cpu) = current(page) else { return };
    let usage = sys::usage();
    let now = sys::now();
    let looked = thread.looked.swap(now, Relaxed);
    let ran = usage
        .cpu_ns
        .saturating_sub(thread.ran.swap(usage.cpu_ns, Relaxed));
    let preempted = thread.preempted.swap(usage.preempted, Relaxed) != usage.preempted;
    let me = thread.tid.load(Relaxed);
    let owner = cpu.owner.swap(me, Relaxed);
    if looked == 0 || owner == me || owner == 0 || !preempted {
        return;
    }
    thread.crowded.store(REMEMBERED, Relaxed);
    // It cannot have waited for more than it has not run.
    let waited = now.saturating_sub(looked).saturating_sub(ran);
    let (_, mut local) = delay::clocks(page, thread);
    let reached = Clock::unpack(cpu.clock.load(Acquire));
    if reached.epoch == local.epoch && reached.delay_ns > local.delay_ns {
        local.delay_ns += waited.min(reached.delay_ns - local.delay_ns);
        thread.local.store(local.pack(), Relaxed);
    }
}

/// Says how far this thread is, for who gets its processor next.
pub fn leave_word(page: &Page, thread: &Thread) {
    if thread.crowded.load(Relaxed) > 0 {
        take_over(page, thread); // it may have lost the processor since it was looked at
    }
    if let Some(cpu) = current(page) {
        cpu.owner.store(thread.tid.load(Relaxed), Relaxed);
        cpu.clock.store(thread.local.load(Relaxed), Release);
    }
}

/// A sample later, what a thread shared its processor with is a little longer ago.
pub fn forget(thread: &Thread) {
    let crowded = thread.crowded.load(Relaxed);
    thread.crowded.store(crowded.saturating_sub(1), Relaxed);
}

/// Keeps the processor busy, for so many nanoseconds of this thread's CPU time.
pub fn burn(ns: u64) {
    let end = sys::cpu_time() + ns;
    while sys::cpu_time() < end {
        for _ in 0..50 {
            core::hint::spin_loop();
        }
    }
}
