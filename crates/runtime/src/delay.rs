//! Delay that each thread owes, and its payment (Coz, sections 3.4, 3.4.1, 3.4.3).
//!
//! `Page::global` is the delay that every thread owes since the experiment began, `Thread::local`
//! what this one has paid or been credited. Only the thread itself (with its signal handler) writes
//! `local`, so that the two interrupt each other but never race.

use crate::clocks::current_clocks;
use crate::thread_event::{while_standing, without_samples};
use crate::{cpu, sys, thread};
use core::sync::atomic::AtomicU64;
use core::sync::atomic::Ordering::{Acquire, Relaxed};
use runtime_abi::{Clock, Page, Running, Thread};

/// Pays what the thread owes, while it computes; whether that was anything.
pub fn pay_delay(thread: &Thread) -> bool {
    pay_by(thread, Payment::Busy)
}

/// Pays what the thread owes behind a wait that no other thread of the program ended; whether that was anything.
pub fn pay_after_wait(thread: &Thread) -> bool {
    pay_by(thread, Payment::Asleep)
}

/// The way in which a thread stands still.
#[derive(Clone, Copy)]
enum Payment {
    /// The thread was computing: its processor stays as busy as it was, but for threads that wait for it. Let go idle,
    /// a processor (above all a virtual one) comes back slowly, and other threads are moved to it meanwhile, which
    /// would be on top of each delay.
    Busy,
    /// The thread was waiting, and its processor is idle already.
    Asleep,
}

/// Delays above this are slept but for a last part of this length.
const LONG: u64 = 5_000_000;

/// Pays until nothing is owed. That includes delays that others add meanwhile: a thread that is woken next is credited
/// for all, and so is this thread if another one wakes it.
fn pay_by(thread: &Thread, how: Payment) -> bool {
    let Some(page) = thread::shared_page() else {
        return false;
    };
    // Nearly always so, and asked at each lock and unlock.
    if thread.local.load(Relaxed) == page.global.0.load(Acquire) {
        return false;
    }
    let mut paid = false;
    while owed_delay(page, thread) > 0 {
        pay_part(page, thread, how);
        paid = true;
    }
    paid
}

/// Pays what is owed now.
fn pay_part(page: &Page, thread: &Thread, how: Payment) {
    let (begin, ran) = (sys::now(), sys::cpu_time());
    cpu::take_over(page, thread);
    if matches!(how, Payment::Busy) && cpu::is_crowded(page, thread) {
        // Slept, it would be no delay: the processor would do the work of another thread meanwhile.
        let mut since = ran.saturating_sub(thread.excess.load(Relaxed));
        without_samples(thread, || since = burn_cpu(page, thread, since));
        let now = sys::cpu_time();
        count_standing(page, now.saturating_sub(ran), 0);
        return thread.excess.store(now.saturating_sub(since), Relaxed);
    }
    let debt = owed_delay(page, thread);
    let epoch = current_epoch(page);
    let excess = thread.excess.load(Relaxed);
    // Counted before it is slept, so that a signal meanwhile does not make us pay twice.
    count_paid(page, thread, debt);
    if excess >= debt {
        thread.excess.store(excess - debt, Relaxed);
        return;
    }
    thread.excess.store(0, Relaxed);
    // What accounting takes is part of it.
    let end = begin + (debt - excess);
    match how {
        // Its clock stands still: what it does meanwhile is nobody's sample. A program that restricts its system
        // calls is left those that it had.
        Payment::Busy if !sys::calls_restricted() => without_samples(thread, || {
            stay_until(page, epoch, end);
        }),
        _ => while_standing(thread, || sleep_until(page, epoch, end)),
    }
    // What it stood too long is the thread's own, and shortens what it pays next; the others have
    // nothing to do with it.
    let now = sys::now();
    let late = now.saturating_sub(end);
    thread.excess.fetch_add(late, Relaxed);
    let stood = now.saturating_sub(begin);
    let without_cpu = match how {
        Payment::Busy if debt - excess < LONG => {
            let ran = sys::cpu_time().saturating_sub(ran);
            stood.saturating_sub(ran)
        }
        // It slept, and is late because another thread had its processor.
        _ => late,
    };
    count_standing(page, stood, without_cpu);
    // Nor is it credited for it as for a wait for its processor, which others had while it let them.
    cpu::look_away(page, thread);
}

/// Returns what the thread owes.
pub fn owed_delay(page: &Page, thread: &Thread) -> u64 {
    let (global, local) = current_clocks(page, thread);
    global.delay_ns.saturating_sub(local.delay_ns)
}

/// Counts something as paid.
fn count_paid(page: &Page, thread: &Thread, ns: u64) {
    let (_, mut local) = current_clocks(page, thread);
    local.delay_ns += ns;
    thread.local.store(local.pack(), Relaxed);
}

/// Counts time for which a thread has stood still.
fn count_standing(page: &Page, total: u64, without_cpu: u64) {
    let standing = &page.standing.0;
    standing.total.fetch_add(total, Relaxed);
    standing.without_cpu.fetch_add(without_cpu, Relaxed);
}

/// Pays by keeping the processor busy, in pieces, from when this thread's CPU time was `since`: what accounting takes
/// is paid too. If another thread gets the processor meanwhile, that one pays for both. Returns when the last piece should have ended.
fn burn_cpu(page: &Page, thread: &Thread, mut since: u64) -> u64 {
    const PIECE: u64 = 50_000;
    loop {
        let piece = owed_delay(page, thread).min(PIECE);
        if piece == 0 {
            return since;
        }
        cpu::burn_until(since + piece);
        // Not what it took longer, by which the next piece is shorter: counted as paid, it would put the thread ahead of
        // the global count, and its next sample in the line would make the others owe it too.
        count_paid(page, thread, piece);
        since += piece;
        cpu::leave_word(page, thread);
    }
}

/// The kernel's usual delay in waking this program's threads, in nanoseconds; on virtual machines
/// it is as long as a short delay.
static LATE: AtomicU64 = AtomicU64::new(50_000);
/// Limit on the delay of a timer: beyond it something else ran.
const MOST_LATE: u64 = 200_000;

/// Longest sleep without a look whether the experiment is over. It is as long as the pause behind an experiment, so that nobody stands
/// still in the next one for this one's delays.
const LOOK: u64 = 10_000_000;

/// Returns the number of the experiment whose delays are counted now.
fn current_epoch(page: &Page) -> u16 {
    Clock::unpack(page.global.0.load(Acquire)).epoch
}

/// Sleeps until then, or until the experiment is over, after which nothing of it is owed. Returns false in that case.
fn sleep_in_epoch(page: &Page, epoch: u16, wake: u64) -> bool {
    loop {
        let now = sys::now();
        if now >= wake {
            return true;
        }
        sys::sleep_exactly_until(wake.min(now + LOOK));
        if current_epoch(page) != epoch {
            return false;
        }
    }
}

/// Keeps the processor busy until then, or lets others have it; sleeps first if it is long.
fn stay_until(page: &Page, epoch: u16, end: u64) {
    let is_long = end.saturating_sub(sys::now()) > LONG;
    if is_long && !sleep_in_epoch(page, epoch, end - LONG) {
        return;
    }
    while sys::now() < end {
        sys::give_way();
    }
}

/// Sleeps until shortly before, and keeps looking at the clock for the rest.
fn sleep_until(page: &Page, epoch: u16, end: u64) {
    let late = LATE.load(Relaxed);
    let wake = end.saturating_sub(late);
    if sys::now() < wake {
        if !sleep_in_epoch(page, epoch, wake) {
            return;
        }
        let observed = sys::now().saturating_sub(wake).min(MOST_LATE);
        LATE.store(late - late / 8 + observed / 8 + observed / 32, Relaxed);
    }
    while sys::now() < end {
        core::hint::spin_loop();
    }
}

/// Charges for a run of the selected fragment: this thread ran ahead, and all others have to wait for it (the
/// minimal-delay rule of section 3.4.3).
pub fn charge_run(page: &Page, thread: &Thread, delay_ns: u64) {
    let (_, mut local) = current_clocks(page, thread);
    local.delay_ns += delay_ns;
    thread.local.store(local.pack(), Relaxed);
    page.raise_global(local);
}

/// Charges what the selected line ran for `ran` nanoseconds, by samples of one each `period`.
pub fn charge_line(page: &Page, thread: &Thread, ran: u64, period: u64) {
    if ran > 0 {
        let running = Running::unpack(page.experiment.0.load(Acquire));
        charge_run(page, thread, running.delay_for(ran, period));
    }
}
