//! Threads that share processors.
//!
//! With more runnable threads than processors, a processor is like a lock that threads pass on: a
//! thread that gets it from another one has waited for that thread's work (the rule of section
//! 3.4.1, for a wait that no function of the C library shows). So each thread publishes its count
//! at its processor ([`leave_word`]), and the next one adopts that ([`take_over`]). A simulation
//! with shared processors (`runtime-abi/tests/line_pace.rs`) measures how close this comes to
//! processors that really stand still for a moment.

use crate::clocks::current_clocks;
use crate::sys;
use core::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use runtime_abi::line_pace::credited_delay;
use runtime_abi::switches::Switches;
use runtime_abi::{Clock, Cpu, Page, Thread};

/// Shortest wait for a processor that is attributed to another process.
const LEAST_TURN: u64 = 100_000;
/// Time for which a processor then counts as shared with other processes.
const SHARED: u64 = 100_000_000;

/// Returns the processor that this thread runs on; `None`: its number is too large.
pub fn current_cpu(page: &Page) -> Option<&Cpu> {
    page.cpus.get(sys::processor()?).map(|line| &line.0)
}

/// Reads the monotonic clock and the thread's switches with its exact CPU time consistently: a
/// thread loses its processor above all at the end of a system call. `seen` is the count of
/// switches a moment ago.
fn read_together(mut seen: Switches) -> (u64, Switches) {
    loop {
        let (now, ran) = (sys::now(), sys::cpu_time());
        let switches = sys::context_switches();
        if switches.is_same(&seen) {
            return (now, Switches { ran, ..switches });
        }
        seen = switches;
    }
}

/// Credits this thread if it has waited for its processor since the last look and got it from
/// another thread of the target. Returns the waiting time in nanoseconds, as far as it is known.
///
/// The clock of CPU time is read only if the thread lost the processor meanwhile. Reading it makes
/// the kernel reschedule: read after each wait, it changed the turns that threads took.
pub fn take_over(page: &Page, thread: &Thread) -> u64 {
    let Some(cpu) = current_cpu(page) else {
        return 0;
    };
    let seen = sys::context_switches();
    let looked = thread.looked.load(Relaxed);
    let last = Switches {
        preempted: thread.preempted.load(Relaxed),
        gave_up: thread.gave_up.load(Relaxed),
        ran: thread.ran.load(Relaxed),
    };
    let had_it_all_along = looked != 0 && seen.is_same(&last);
    let (now, switches) = if had_it_all_along {
        let now = sys::now();
        let ran = last.ran + now.saturating_sub(looked);
        (now, Switches { ran, ..seen })
    } else {
        read_together(seen)
    };
    remember_look(thread, now, &switches);
    // If the thread waited for an event too, the part spent waiting for the processor is unknown.
    let waited = if looked != 0 && switches.gave_up == last.gave_up {
        (now.saturating_sub(looked)).saturating_sub(switches.ran.saturating_sub(last.ran))
    } else {
        0
    };
    let owner = cpu.owner.load(Relaxed);
    if owner == 0 || owner == thread.tid.load(Relaxed) {
        if waited > LEAST_TURN {
            cpu.shared_at.store(now, Relaxed);
        }
    } else if waited > 0 {
        let (_, mut local) = current_clocks(page, thread);
        let reached = Clock::unpack(cpu.clock.load(Acquire));
        if reached.epoch == local.epoch {
            local.delay_ns = credited_delay(local.delay_ns, reached.delay_ns, waited);
            thread.local.store(local.pack(), Relaxed);
        }
    }
    leave_word(page, thread);
    waited
}

/// Remembers the state of a thread for the next look.
fn remember_look(thread: &Thread, now: u64, switches: &Switches) {
    thread.looked.store(now, Relaxed);
    thread.ran.store(switches.ran, Relaxed);
    thread.preempted.store(switches.preempted, Relaxed);
    thread.gave_up.store(switches.gave_up, Relaxed);
}

/// Discards the time since the last look, because the thread waited for an event or stood still,
/// and that time is accounted for.
pub fn look_away(page: &Page, thread: &Thread) {
    let switches = sys::context_switches();
    remember_look(thread, sys::now(), &switches);
    leave_word(page, thread);
}

/// Publishes this thread's count for the thread that gets its processor next.
pub fn leave_word(page: &Page, thread: &Thread) {
    if let Some(cpu) = current_cpu(page) {
        cpu.owner.store(thread.tid.load(Relaxed), Relaxed);
        let local = thread.local.load(Relaxed);
        let (own, known) = (Clock::unpack(local), Clock::unpack(cpu.clock.load(Acquire)));
        // The processor's progress stays, even if the thread that has it now is behind.
        if own.epoch != known.epoch || own.delay_ns > known.delay_ns {
            cpu.clock.store(local, Release);
        }
    }
}

/// Stands still for a moment. A thread that waits for the processor gets it, unless another process
/// might: that one would keep it for longer than this thread has to stand.
pub fn pause_thread(page: &Page, now: u64) {
    let is_shared = page.shared.load(Relaxed) != 0
        && current_cpu(page)
            .map(|cpu| cpu.shared_at.load(Relaxed))
            .is_some_and(|at| at != 0 && now.saturating_sub(at) < SHARED);
    if is_shared {
        for _ in 0..50 {
            core::hint::spin_loop();
        }
    } else {
        sys::give_way();
    }
}
