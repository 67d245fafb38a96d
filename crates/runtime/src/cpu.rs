//! Threads that share processors.
//!
//! Where more threads want to run than there are processors, a processor is like a lock: a thread that
//! gets it from another one has waited for what that one did, and is credited for it (the rule of
//! section 3.4.1, for a wait that no function of the C library shows). And a delay has to keep the
//! processor busy: if the thread slept, the next one would run meanwhile, and nothing be delayed.

use crate::clocks::current_clocks;
use crate::sys;
use core::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use runtime_abi::{Clock, Cpu, Page, Thread};

/// Samples over which a thread's waiting time is averaged.
const RECENT: u32 = 16;
/// Samples over which a processor's waiting time is averaged.
const RECENT_OF_CPU: u64 = 64;
/// Limit on the length of a wait, in sampling periods.
const LONG: u64 = 64;

/// Returns the processor that this thread runs on; `None`: it is not told apart.
pub fn current_cpu(page: &Page) -> Option<&Cpu> {
    page.cpus.get(sys::processor()?).map(|line| &line.0)
}

/// State of a thread at one moment.
struct Look<'a> {
    cpu: Option<&'a Cpu>,
    now: u64,
    cpu_time: u64,
    switches: sys::Switches,
}

/// Reads the state consistently: a processor is lost above all at the end of a system call.
fn read_together(page: &Page) -> Look<'_> {
    let mut before = sys::context_switches();
    loop {
        let (cpu, now, cpu_time) = (current_cpu(page), sys::now(), sys::cpu_time());
        let switches = sys::context_switches();
        if switches == before {
            return Look {
                cpu,
                now,
                cpu_time,
                switches,
            };
        }
        before = switches;
    }
}

/// Credits this thread for a wait for its processor, if it has got it from another thread of the
/// target since it was looked at last.
pub fn take_over(page: &Page, thread: &Thread) {
    let Look {
        cpu,
        now,
        cpu_time,
        switches,
    } = read_together(page);
    let Some(cpu) = cpu else { return };
    let looked = thread.looked.swap(now, Relaxed);
    let ran = cpu_time.saturating_sub(thread.ran.swap(cpu_time, Relaxed));
    let preempted = thread.preempted.swap(switches.preempted, Relaxed) != switches.preempted;
    let gave_up = thread.gave_up.swap(switches.gave_up, Relaxed) != switches.gave_up;
    let me = thread.tid.load(Relaxed);
    let owner = cpu.owner.swap(me, Relaxed);
    if gave_up {
        // What it waits for is not the processors.
        thread.crowded.store(0, Relaxed);
    }
    let is_new = owner != me && owner != 0;
    // If it waited for something else too, it is not known how long for the processor.
    if looked == 0 || gave_up || !preempted {
        if gave_up && is_new && is_contended(page, cpu) {
            catch_up(page, thread, cpu);
        }
        return;
    }
    let waited = now.saturating_sub(looked).saturating_sub(ran);
    thread.waited.fetch_add(waited, Relaxed);
    if !is_new {
        return;
    }
    cpu.waited.fetch_add(waited, Relaxed);
    let (_, mut local) = current_clocks(page, thread);
    let reached = Clock::unpack(cpu.clock.load(Acquire));
    if reached.epoch == local.epoch {
        let ahead = reached.delay_ns.saturating_sub(local.delay_ns);
        let behind = local.delay_ns.saturating_sub(reached.delay_ns);
        if is_crowded(page, thread) {
            // It is the processors that stand still: a thread that comes from another one goes by this one's clock.
            local.delay_ns = local.delay_ns + ahead - behind.min(waited);
        } else {
            local.delay_ns += ahead.min(waited);
        }
        thread.local.store(local.pack(), Relaxed);
    }
}

/// Credits a thread that was woken to a contended processor for the delays that were paid there: it has waited for them.
fn catch_up(page: &Page, thread: &Thread, cpu: &Cpu) {
    let (_, mut local) = current_clocks(page, thread);
    let reached = Clock::unpack(cpu.clock.load(Acquire));
    if reached.epoch == local.epoch && reached.delay_ns > local.delay_ns {
        local.delay_ns = reached.delay_ns;
        thread.local.store(local.pack(), Relaxed);
    }
}

/// Forgets the time that this thread has waited for its processor since the last look: it stood
/// still by itself, and that is accounted for.
pub fn look_away(page: &Page, thread: &Thread) {
    let now = read_together(page);
    thread.looked.store(now.now, Relaxed);
    thread.ran.store(now.cpu_time, Relaxed);
    thread.preempted.store(now.switches.preempted, Relaxed);
    thread.gave_up.store(now.switches.gave_up, Relaxed);
    if let Some(cpu) = now.cpu {
        cpu.owner.store(thread.tid.load(Relaxed), Relaxed);
    }
}

/// Records how far this thread is, for the thread that gets its processor next.
pub fn leave_word(page: &Page, thread: &Thread) {
    if is_crowded(page, thread) {
        take_over(page, thread); // it may have lost the processor since it was looked at
    }
    if let Some(cpu) = current_cpu(page) {
        cpu.owner.store(thread.tid.load(Relaxed), Relaxed);
        let local = thread.local.load(Relaxed);
        let (own, known) = (Clock::unpack(local), Clock::unpack(cpu.clock.load(Acquire)));
        // What the processor has done is done, also if the thread that has it now is behind.
        if own.epoch != known.epoch || own.delay_ns > known.delay_ns {
            cpu.clock.store(local, Release);
        }
    }
}

/// Returns whether this thread shares its processor with others: it waits for one more than a third of its time, half as
/// long as it runs, or its processor is contended. Threads that fill the processors wait half of it and more; those that are
/// woken now and then on a processor in use, much less.
pub fn is_crowded(page: &Page, thread: &Thread) -> bool {
    u64::from(thread.crowded.load(Relaxed)) > page.period_ns.load(Relaxed) / 2
        || current_cpu(page).is_some_and(|cpu| is_contended(page, cpu))
}

/// Returns whether threads of the target queue up for a processor, also if each of them waits for other things most of the time:
/// they wait for it for a fifth of the time that it runs (`unequal` of `tests/programs/causal/meetings.c`: nearly half).
fn is_contended(page: &Page, cpu: &Cpu) -> bool {
    cpu.contended.load(Relaxed) > page.period_ns.load(Relaxed) / 5
}

/// Updates the means of how long threads wait for a processor, after a sample.
pub fn remember_waiting(page: &Page, thread: &Thread) {
    let most = page.period_ns.load(Relaxed).saturating_mul(LONG);
    let waited = thread.waited.swap(0, Relaxed).min(most);
    let waited = u32::try_from(waited).unwrap_or(u32::MAX);
    let mean = thread.crowded.load(Relaxed);
    let mean = mean - mean / RECENT + waited / RECENT;
    thread.crowded.store(mean, Relaxed);
    if let Some(cpu) = current_cpu(page) {
        let waited = cpu.waited.swap(0, Relaxed).min(most);
        let mean = cpu.contended.load(Relaxed);
        let mean = mean - mean / RECENT_OF_CPU + waited / RECENT_OF_CPU;
        cpu.contended.store(mean, Relaxed);
    }
}

/// Keeps the processor busy until this thread's CPU time is at least that.
pub fn burn_until(end: u64) {
    while sys::cpu_time() < end {
        for _ in 0..50 {
            core::hint::spin_loop();
        }
    }
}
