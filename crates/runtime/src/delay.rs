//! Delay that each thread owes, and its payment (Coz, sections 3.4, 3.4.1, 3.4.3).
//!
//! `Page::global` is the delay that every thread owes since the experiment began, `Thread::local`
//! the delay that this one has paid or been credited. Only the thread itself (with its signal
//! handler) writes `local`, so writes interrupt each other but never race.

use crate::clocks::current_clocks;
use crate::thread_event::{while_standing, without_samples};
use crate::{cpu, sys, thread};
use core::sync::atomic::AtomicU64;
use core::sync::atomic::Ordering::{Acquire, Relaxed};
use runtime_abi::{Clock, Page, Running, Thread};

/// Pays what a computing thread owes; returns whether it owed any.
pub fn pay_delay(thread: &Thread) -> bool {
    pay_by(thread, Payment::Busy)
}

/// Pays what the thread owes after a wait that no other thread of the program ended; returns
/// whether it owed any.
pub fn pay_after_wait(thread: &Thread) -> bool {
    pay_by(thread, Payment::Asleep)
}

/// The way in which a thread pays.
#[derive(Clone, Copy)]
enum Payment {
    /// The thread was computing: its processor stays busy, except for threads that wait for it. An
    /// idle processor (above all a virtual one) wakes slowly, and other threads are moved to it
    /// meanwhile; each delay would take that time longer.
    Busy,
    /// The thread was waiting, and its processor is idle already.
    Asleep,
}

/// Delays above this are slept, except for a last part of this length.
const LONG: u64 = 5_000_000;

/// Pays until nothing is owed. That includes delays that other threads add meanwhile: a thread that
/// this one wakes next is credited for all of them, and so is this thread if another one wakes it.
fn pay_by(thread: &Thread, how: Payment) -> bool {
    let Some(page) = thread::shared_page() else {
        return false;
    };
    // The usual case, checked at each lock and unlock.
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
        // A program that restricts system calls may make only those that it made before.
        Payment::Busy if !sys::calls_restricted() => match debt.saturating_sub(LONG) {
            // The thread's event is stopped: samples of the payment would belong to no code.
            0 => without_samples(thread, || stay_busy(page, thread, begin)),
            first => sleep_debt(page, thread, begin, first),
        },
        _ => sleep_debt(page, thread, begin, debt),
    }
    cpu::leave_word(page, thread);
}

/// Returns what a thread owes, less the time by which earlier standstills were too long.
fn owed_after_excess(page: &Page, thread: &Thread) -> u64 {
    let debt = owed_delay(page, thread);
    let excess = thread.excess.load(Relaxed);
    let used = debt.min(excess);
    count_paid(page, thread, used);
    thread.excess.store(excess - used, Relaxed);
    debt - used
}

/// Time between two readings of the clock beyond which another thread may have run in between.
const GAP: u64 = 20_000;

/// Keeps the processor busy, or yields it to others, from `begin` until nothing is owed. Time in
/// which others have the processor does not count as payment: the thread waits for its processor,
/// as at any other time.
fn stay_busy(page: &Page, thread: &Thread, begin: u64) {
    let (mut last, mut stood, mut without_cpu) = (begin, 0, 0);
    while owed_delay(page, thread) > 0 {
        cpu::pause_thread(page, last);
        let now = sys::now();
        let passed = now.saturating_sub(last);
        last = now;
        let waited = if passed > GAP {
            cpu::take_over(page, thread).min(passed)
        } else {
            0
        };
        stood += passed;
        without_cpu += waited;
        let (paid, owed) = (passed - waited, owed_delay(page, thread));
        count_paid(page, thread, paid.min(owed));
        // The excess shortens this thread's next payment; it does not concern the other threads.
        thread.excess.fetch_add(paid.saturating_sub(owed), Relaxed);
    }
    // Such a wait costs the program nothing, as little as the rest of the standstill.
    count_standing(page, stood, without_cpu);
}

/// Sleeps for a debt, from `begin` on.
fn sleep_debt(page: &Page, thread: &Thread, begin: u64, debt: u64) {
    let epoch = current_epoch(page);
    // Counted before the sleep, so that a signal meanwhile does not make the thread pay twice.
    count_paid(page, thread, debt);
    // The time of the accounting itself is part of the payment.
    let end = begin + debt;
    while_standing(thread, || sleep_until(page, epoch, end));
    let now = sys::now();
    // The thread is late because another one had its processor.
    let late = now.saturating_sub(end);
    thread.excess.fetch_add(late, Relaxed);
    count_standing(page, now.saturating_sub(begin), late);
    // Nor is the thread credited for the sleep as for a wait for its processor.
    cpu::look_away(page, thread);
}

/// Returns the delay that the thread owes.
pub fn owed_delay(page: &Page, thread: &Thread) -> u64 {
    let (global, local) = current_clocks(page, thread);
    global.delay_ns.saturating_sub(local.delay_ns)
}

/// Counts delay as paid.
fn count_paid(page: &Page, thread: &Thread, ns: u64) {
    let (_, mut local) = current_clocks(page, thread);
    local.delay_ns += ns;
    thread.local.store(local.pack(), Relaxed);
}

/// Counts time for which a thread stood still.
fn count_standing(page: &Page, total: u64, without_cpu: u64) {
    let standing = &page.standing.0;
    standing.total.fetch_add(total, Relaxed);
    standing.without_cpu.fetch_add(without_cpu, Relaxed);
}

/// The kernel's usual delay in waking this program's threads, in nanoseconds; on virtual machines
/// it is as long as a short delay.
static LATE: AtomicU64 = AtomicU64::new(50_000);
/// Limit on a timer's lateness: beyond it another thread ran.
const MOST_LATE: u64 = 200_000;

/// Longest sleep without a check whether the experiment is over. It is as long as the pause after
/// an experiment, so that no thread stands still in the next one for this one's delays.
const LOOK: u64 = 10_000_000;

/// Returns the epoch in which delays are counted now.
fn current_epoch(page: &Page) -> u16 {
    Clock::unpack(page.global.0.load(Acquire)).epoch
}

/// Sleeps until `wake`, or until the experiment is over. Returns false in that case: nothing of it
/// is owed any more.
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

/// Sleeps until shortly before `end`, and then polls the clock.
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

/// Charges for a run of the selected fragment: this thread ran ahead, and all others have to wait
/// for it (the minimal-delay rule of section 3.4.3).
pub fn charge_run(page: &Page, thread: &Thread, delay_ns: u64) {
    let (_, mut local) = current_clocks(page, thread);
    local.delay_ns += delay_ns;
    thread.local.store(local.pack(), Relaxed);
    page.raise_global(local);
}

/// Charges for `ran` nanoseconds in the selected line, by samples one `period` apart.
pub fn charge_line(page: &Page, thread: &Thread, ran: u64, period: u64) {
    if ran > 0 {
        let running = Running::unpack(page.experiment.0.load(Acquire));
        charge_run(page, thread, running.delay_for(ran, period));
    }
}
