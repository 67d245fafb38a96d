//! Operations by which the program's threads wake each other or wait, as its function calls show
//! them.

use crate::clocks::current_clocks;
use crate::delay::{charge_line, owed_delay, pay_after_wait, pay_delay};
use crate::{cpu, sys, thread};
use core::sync::atomic::Ordering::{Acquire, Relaxed};
use runtime_abi::line_pace::credited_delay;
use runtime_abi::{Clock, Thread};

/// An operation that may wake another thread or wait for one, identified by its function and
/// object. The code between two operations is a stretch ([`runtime_abi::line_pace`]).
#[derive(Clone, Copy)]
pub struct Operation(u64);

impl Operation {
    /// Returns the operation of a function whose first argument is the object that it works on.
    pub fn of(function: &'static str, arguments: &[usize]) -> Self {
        let on = arguments.first().copied().unwrap_or(0) as u64;
        Self(function.as_ptr() as u64 ^ on.rotate_left(20))
    }
}

/// Pays before an operation that may wake another thread, which is credited for delays that this
/// one must have paid by then. Also called before the thread acquires an object that others may
/// wait for.
pub fn before_waking(operation: Operation) {
    if let Some(thread) = thread::current_thread() {
        settle_before(thread, operation);
    }
}

/// Pays what the current thread owes.
pub fn settle_current() {
    if let Some(thread) = thread::current_thread() {
        pay_delay(thread);
    }
}

/// Least debt that is paid at frequent operations: a payment takes some microseconds too.
const LEAST_DEBT: u64 = 10_000;

/// Shortest time between two looks at a thread at its operations: each look is a system call.
const SELDOM: u64 = 50_000;

/// Pays what the thread owes before an operation. If delays are charged at the pace of the line, it
/// charges first.
pub fn settle_before(thread: &Thread, operation: Operation) {
    let Some(page) = thread::shared_page() else {
        return;
    };
    if page.at_pace.load(Relaxed) == 0 {
        pay_delay(thread);
        return;
    }
    let epoch = Clock::unpack(page.global.0.load(Acquire)).epoch;
    let period = page.period_ns.load(Relaxed).max(1);
    let mut now = sys::now();
    let is_due = now.saturating_sub(thread.looked.load(Relaxed)) >= SELDOM;
    if is_due {
        cpu::take_over(page, thread);
    }
    let ran = thread.pace.begin_operation(epoch, now, period);
    charge_line(page, thread, ran, period);
    if owed_delay(page, thread) >= LEAST_DEBT {
        pay_delay(thread);
        now = sys::now();
    } else if is_due {
        cpu::leave_word(page, thread);
    }
    thread.pace.end_operation(operation.0, now);
}

/// A wait, during which the thread does not pay.
pub struct Wait(Option<&'static Thread>, Operation);

impl Wait {
    /// Begins an operation that may wait, after paying the delay owed until then.
    pub fn begin(operation: Operation) -> Self {
        let thread = thread::current_thread();
        if let Some(thread) = thread {
            begin_wait(thread, operation);
        }
        Self(thread, operation)
    }

    /// Ends the operation: see [`end_wait`].
    pub fn end(self, woken_by_thread: bool) {
        // The wait may have begun in a session that is over.
        if let Some(thread) = self.0.filter(|thread| thread::is_current(thread)) {
            end_wait(thread, self.1, woken_by_thread);
        }
    }
}

/// Begins an operation that may wait.
pub fn begin_wait(thread: &Thread, operation: Operation) {
    // Before the wait counts as one: from then on samples do not pay.
    settle_before(thread, operation);
    let outer = thread.waits.load(Relaxed);
    if outer == 0 {
        thread.waits_since.store(sys::now(), Relaxed);
    }
    thread.waits.store(outer + 1, Relaxed);
}

/// Shortest wait that counts. Before shorter ones the awaited event had happened, or nearly so. The
/// last thread at a barrier spends some microseconds waking the others.
const SHORTEST_WAIT: u64 = 20_000;

/// Ends an operation that may wait. If another thread ended the wait, this one is credited for the
/// delays meanwhile, which the other one has paid. Otherwise it pays them.
pub fn end_wait(thread: &Thread, operation: Operation, woken_by_thread: bool) {
    let waits = thread.waits.load(Relaxed).saturating_sub(1);
    let Some(page) = thread::shared_page() else {
        return thread.waits.store(waits, Relaxed);
    };
    let mut now = sys::now();
    let at_pace = page.at_pace.load(Relaxed) != 0;
    let waited = now.saturating_sub(thread.waits_since.load(Relaxed));
    if woken_by_thread {
        let (global, mut local) = current_clocks(page, thread);
        if at_pace {
            local.delay_ns = credited_delay(local.delay_ns, global.delay_ns, waited);
            thread.local.store(local.pack(), Relaxed);
        } else if global.delay_ns > local.delay_ns {
            thread.local.store(global.pack(), Relaxed);
        }
    }
    if waited >= SHORTEST_WAIT {
        page.meetings
            .0
            .fetch_add(u64::from(woken_by_thread), Relaxed);
        // The wait for a processor afterwards is part of this wait.
        cpu::look_away(page, thread);
    }
    thread.waits.store(waits, Relaxed);
    if !woken_by_thread {
        pay_after_wait(thread);
        now = sys::now();
    }
    if at_pace {
        thread.pace.end_operation(operation.0, now);
    }
}
