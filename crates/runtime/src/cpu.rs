//! Threads that share processors.
//!
//! Where more threads want to run than there are processors, a processor is like a lock: a thread that
//! gets it from another one has waited for what that one did, and is credited for it (the rule of
//! section 3.4.1, for a wait that no function of the C library shows). And a delay has to keep the
//! processor busy: if the thread slept, the next one would run meanwhile, and nothing be delayed.

use crate::{delay, sys};
use core::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use runtime_abi::{Clock, Cpu, Page, Thread};

/// A thread shares its processor if it waits for one more than a third of its time. Threads that fill the
/// processors wait half of it and more; those that are woken now and then on a processor in use, much less.
const CROWDED: u32 = WHOLE / 3;
const WHOLE: u32 = 1 << 16;
/// Its recent time is some so many samples.
const RECENT: u32 = 16;

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
    let gave_up = thread.gave_up.swap(usage.gave_up, Relaxed) != usage.gave_up;
    let me = thread.tid.load(Relaxed);
    let owner = cpu.owner.swap(me, Relaxed);
    // If it waited for something else too, it is not known how long for the processor.
    if looked == 0 || gave_up || !preempted {
        return;
    }
    let waited = now.saturating_sub(looked).saturating_sub(ran);
    thread.waited.fetch_add(waited, Relaxed);
    if owner == me || owner == 0 {
        return;
    }
    let (_, mut local) = delay::clocks(page, thread);
    let reached = Clock::unpack(cpu.clock.load(Acquire));
    if reached.epoch == local.epoch && reached.delay_ns > local.delay_ns {
        local.delay_ns += waited.min(reached.delay_ns - local.delay_ns);
        thread.local.store(local.pack(), Relaxed);
    }
}

/// Says how far this thread is, for who gets its processor next.
pub fn leave_word(page: &Page, thread: &Thread) {
    if is_crowded(thread) {
        take_over(page, thread); // it may have lost the processor since it was looked at
    }
    if let Some(cpu) = current(page) {
        cpu.owner.store(thread.tid.load(Relaxed), Relaxed);
        let local = thread.local.load(Relaxed);
        let (own, known) = (Clock::unpack(local), Clock::unpack(cpu.clock.load(Acquire)));
        // What the processor has done is done, also if the thread that has it now is behind.
        if own.epoch != known.epoch || own.delay_ns > known.delay_ns {
            cpu.clock.store(local, Release);
        }
    }
}

/// Whether this thread shares its processor with others.
pub fn is_crowded(thread: &Thread) -> bool {
    thread.crowded.load(Relaxed) > CROWDED
}

/// A sample later: how much this thread has waited for a processor lately.
pub fn remember(page: &Page, thread: &Thread) {
    let waited = thread.waited.swap(0, Relaxed);
    let all = waited.saturating_add(page.period_ns.load(Relaxed)).max(1);
    let part = (u128::from(waited) * u128::from(WHOLE) / u128::from(all)) as u32;
    let crowded = thread.crowded.load(Relaxed);
    thread
        .crowded
        .store(crowded - crowded / RECENT + part / RECENT, Relaxed);
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
