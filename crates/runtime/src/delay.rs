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
    let begin = sys::now();
    cpu::take_over(page, thread);
    let debt = owed_after_excess(page, thread);
    match how {
        _ if debt == 0 => {}
        // A program that restricts its system calls is left those that it had.
        Payment::Busy if !sys::calls_restricted() => match debt.saturating_sub(LONG) {
            // Its clock stands still: what it does meanwhile is nobody's sample.
            0 => without_samples(thread, || stay_busy(page, thread, begin)),
            first => sleep_debt(page, thread, begin, first),
        },
        _ => sleep_debt(page, thread, begin, debt),
    }
    cpu::leave_word(page, thread);
}

/// Returns what a thread owes beyond the time that it stood still too long before, which is then paid.
fn owed_after_excess(page: &Page, thread: &Thread) -> u64 {
    let debt = owed_delay(page, thread);
    let excess = thread.excess.load(Relaxed);
    let used = debt.min(excess);
    count_paid(page, thread, used);
    thread.excess.store(excess - used, Relaxed);
    debt - used
}

/// Time between two looks at the clock beyond which another thread may have run in between.
const GAP: u64 = 20_000;

/// Keeps the processor busy, or lets others have it, since `begin` and until nothing is owed. The time for which others have it is not
/// paid by this thread: it waits for its processor, as at any other time.
fn stay_busy(page: &Page, thread: &Thread, begin: u64) {
    let (mut last, mut stood) = (begin, 0);
    while owed_delay(page, thread) > 0 {
        cpu::pause_thread(page, last);
        let now = sys::now();
        let mut paid = now.saturating_sub(last);
        last = now;
        if paid > GAP {
            paid = paid.saturating_sub(cpu::take_over(page, thread));
        }
        stood += paid;
        let owed = owed_delay(page, thread);
        count_paid(page, thread, paid.min(owed));
        // What it stood too long is the thread's own, and shortens what it pays next; the others have
        // nothing to do with it.
        thread.excess.fetch_add(paid.saturating_sub(owed), Relaxed);
    }
    count_standing(page, stood, 0);
}

/// Sleeps for a debt, from `begin` on.
fn sleep_debt(page: &Page, thread: &Thread, begin: u64, debt: u64) {
    let epoch = current_epoch(page);
    // Counted before it is slept, so that a signal meanwhile does not make us pay twice.
    count_paid(page, thread, debt);
    // What accounting takes is part of it.
    let end = begin + debt;
    while_standing(thread, || sleep_until(page, epoch, end));
    let now = sys::now();
    // It is late because another thread had its processor.
    let late = now.saturating_sub(end);
    thread.excess.fetch_add(late, Relaxed);
    count_standing(page, now.saturating_sub(begin), late);
    // Nor is it credited for it as for a wait for its processor.
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
