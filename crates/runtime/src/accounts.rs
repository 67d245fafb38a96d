//! Accounting of a sample or a wait: its owner, the delay that the other threads owe for it, and
//! the delay that this thread pays.
//!
//! Nothing here needs the C library: the handler of crate `freestanding` is made of this module
//! too.

use crate::clocks::current_clocks;
use crate::stack::{Frame, Owner, owning_fragment};
use crate::{cpu, delay, sys};
use core::sync::atomic::Ordering::{Acquire, Relaxed};
use runtime_abi::wait::{CallEnd, ExternalWait};
use runtime_abi::{Clock, Page, Running, Thread};

/// Shortest processor time that a sample stands for. A sample that became due while this thread
/// stood still in the handler comes right after the standstill.
const LEAST: u64 = 50_000;

/// Returns the time that a sample of the processor stands for, in nanoseconds; `None` if the sample
/// does not count. It is the processor's time since its last sample, without standstills of its
/// threads, during which no thread is sampled.
pub fn processor_span(page: &Page, thread: &Thread) -> Option<u64> {
    if is_none_of(thread) {
        return None;
    }
    let Some(cpu) = cpu::current_cpu(page) else {
        return Some(page.period_ns.load(Relaxed));
    };
    let now = sys::now();
    let since = now.saturating_sub(cpu.sampled.load(Relaxed));
    if since < LEAST {
        return None;
    }
    cpu.sampled.store(now, Relaxed);
    Some(since.min(cpu.period_ns.load(Relaxed)))
}

/// Returns the time that a completed system call stands for, as [`processor_span`] does for a
/// sample.
fn call_span(page: &Page, end: CallEnd) -> Option<u64> {
    if end.ticks == 0 {
        return None;
    }
    let ticks = u64::from(end.ticks);
    let Some(cpu) = cpu::current_cpu(page) else {
        return Some(ticks * page.period_ns.load(Relaxed));
    };
    let sampled = cpu.sampled.load(Relaxed);
    let since = sys::now().saturating_sub(sampled);
    let ran = ticks * cpu.period_ns.load(Relaxed);
    // Not up to now: the timer found the thread in the call earlier, and the time since then
    // belongs to the next sample.
    cpu.sampled.store(sampled + ran.min(since), Relaxed);
    // During the wait other threads were sampled on this processor.
    let span = if end.wait.is_some() {
        ran
    } else {
        ran.min(since)
    };
    (span >= LEAST).then_some(span)
}

/// Returns whether a sample is not this thread's work: it stands still, its process has just been
/// forked, or it was made without the C library.
fn is_none_of(thread: &Thread) -> bool {
    let other = !sys::calls_restricted() && sys::thread_id() != thread.tid.load(Relaxed);
    other || thread.standing.load(Relaxed) != 0
}

/// Accounts for a sample that stands for `span` nanoseconds.
pub fn count_sample(page: &Page, thread: &Thread, frame: Frame, span: u64) {
    cpu::take_over(page, thread);
    if page.is_spinning(frame.pc) && thread.waits.load(Relaxed) == 0 {
        page.spinning.0.fetch_add(1, Relaxed);
    }
    let owner = owning_fragment(page, thread, frame);
    let delay_ns = count_run(page, thread, owner, 1, span);
    if delay_ns > 0 {
        delay::charge_run(page, thread, delay_ns);
    }
    end_sample(page, thread);
}

/// Accounts for a completed system call in which the thread was sampled or waited for an outside
/// event.
pub fn handle_call_end(page: &Page, thread: &Thread, frame: Frame, end: CallEnd) {
    // The call may have been a payment of delay.
    if is_none_of(thread) {
        return;
    }
    let (pc, sp) = (frame.pc, frame.sp);
    let span = call_span(page, end);
    if span.is_some() {
        cpu::take_over(page, thread);
    }
    let owner = owning_fragment(page, thread, frame);
    if let Owner::Fragment(fragment) = owner {
        thread.outside.remember_site(pc, sp, fragment);
        note_long_call(page, fragment, end.ticks);
    }
    if let Some(span) = span {
        // If the call began before the experiment, only its part in the experiment counts.
        let delay_ns = count_run(
            page,
            thread,
            owner,
            end.ticks,
            span.min(experiment_time(page)),
        );
        if delay_ns > 0 {
            charge_rest(page, thread, delay_ns);
        }
    }
    let Some(wait) = end.wait else {
        return end_sample(page, thread);
    };
    if let Owner::Fragment(fragment) = owner {
        count_wait(page, thread, fragment, wait);
    }
    // A hooked operation pays after its wait, when it is known which thread ended it.
    if thread.waits.load(Relaxed) == 0 {
        charge_stretch(page, thread, sys::now());
        delay::pay_after_wait(thread);
    }
}

/// Charges the other threads for this thread's run in the current stretch, if it is about to pay
/// there.
fn charge_stretch(page: &Page, thread: &Thread, now: u64) {
    if page.at_pace.load(Relaxed) == 0 || delay::owed_delay(page, thread) == 0 {
        return;
    }
    let period = page.period_ns.load(Relaxed).max(1);
    let ran = (thread.pace).charge_part(experiment_epoch(page), now, period);
    delay::charge_line(page, thread, ran, period);
}

/// Records that the controller has to charge for calls of this fragment while they last.
fn note_long_call(page: &Page, fragment: u32, ticks: u32) {
    let running = Running::unpack(page.experiment.0.load(Acquire));
    if ticks > 1 && page.is_about(running, fragment) {
        page.long_calls_of.store(running.fragment + 1, Relaxed);
    }
}

/// Counts samples for their owner. Returns the delay that the other threads owe for them, in
/// nanoseconds.
fn count_run(page: &Page, thread: &Thread, owner: Owner, samples: u32, span: u64) -> u64 {
    page.samples.0.fetch_add(samples.into(), Relaxed);
    if matches!(owner, Owner::OutOfScope) {
        page.outside.fetch_add(samples.into(), Relaxed);
    }
    let Owner::Fragment(fragment) = owner else {
        return 0;
    };
    if let Some(count) = page.fragments.get(fragment as usize) {
        count.fetch_add(samples.into(), Relaxed);
    }
    let running = Running::unpack(page.experiment.0.load(Acquire));
    if !page.is_about(running, fragment) || running.waiting || running.delay_ns == 0 {
        return 0;
    }
    let period = page.period_ns.load(Relaxed).max(1);
    let ran = match page.at_pace.load(Relaxed) {
        0 => span,
        _ => thread
            .pace
            .add_sample(experiment_epoch(page), span, sys::now(), period),
    };
    running.delay_for(ran, period)
}

/// Pays the delay that is owed after a sample.
fn end_sample(page: &Page, thread: &Thread) {
    // No payment during a wait: either the waking thread has paid, or this thread pays after the
    // wait.
    let paid = thread.waits.load(Relaxed) == 0 && pay_in_handler(page, thread);
    // The standstill belongs to no thread: the next sample stands for the time after it.
    if paid && let Some(cpu) = cpu::current_cpu(page) {
        cpu.sampled.store(sys::now(), Relaxed);
    }
    cpu::leave_word(page, thread);
}

/// Counts a wait for its fragment, and charges a delay for it if the fragment's waits are sped up.
fn count_wait(page: &Page, thread: &Thread, fragment: u32, wait: ExternalWait) {
    let at = fragment as usize;
    if let (Some(sum), Some(call)) = (page.waited.get(at), page.waited_in.get(at)) {
        sum.fetch_add(wait.ns, Relaxed);
        call.store(wait.call_word(), Relaxed);
    }
    let running = Running::unpack(page.experiment.0.load(Acquire));
    if page.is_about(running, fragment) && running.waiting && running.delay_ns > 0 {
        let waited = wait.ns.min(experiment_time(page));
        let period = page.period_ns.load(Relaxed).max(1);
        charge_rest(page, thread, running.delay_for(waited, period));
    }
}

/// Returns how long the experiment has run, in nanoseconds.
fn experiment_time(page: &Page) -> u64 {
    sys::now().saturating_sub(page.experiment_since.load(Relaxed))
}

/// Charges the delay for a system call, less the part that the controller charged while the call
/// lasted.
fn charge_rest(page: &Page, thread: &Thread, delay_ns: u64) {
    let (global, _) = current_clocks(page, thread);
    let rest = thread.outside.set_off(global.epoch, delay_ns);
    delay::charge_run(page, thread, rest);
}

/// Returns the number of the current experiment, or of the pause between two.
fn experiment_epoch(page: &Page) -> u16 {
    Clock::unpack(page.global.0.load(Acquire)).epoch
}

/// Pays the delay that the thread owes; returns whether it owed any.
fn pay_in_handler(page: &Page, thread: &Thread) -> bool {
    if page.at_pace.load(Relaxed) == 0 {
        return delay::pay_delay(thread);
    }
    let begin = sys::now();
    charge_stretch(page, thread, begin);
    let paid = delay::pay_delay(thread);
    if paid {
        // The thread did not run the line meanwhile.
        thread.pace.add_standing(sys::now().saturating_sub(begin));
    }
    paid
}
