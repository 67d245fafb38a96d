//! Accounts of a sample or a wait: its owner, the delay that the others owe for it, and the payment of this thread.
//!
//! Nothing here needs the C library: the handler of programs without ours (crate `freestanding`) is made of it too.

use crate::clocks::current_clocks;
use crate::stack::{Frame, Owner, owning_fragment};
use crate::{cpu, delay, sys};
use core::sync::atomic::Ordering::{Acquire, Relaxed};
use runtime_abi::wait::{CallEnd, ExternalWait};
use runtime_abi::{Clock, Page, Running, Thread};

/// Shortest processor time that a sample stands for. A sample that was due while this thread stood still in the handler
/// comes right behind it.
const LEAST: u64 = 50_000;

/// Returns the time that a sample of the processor stands for, in nanoseconds; `None` if the sample does not count. It
/// is the time of the processor since its last sample, without the time that a thread stood still, as nobody is sampled
/// meanwhile.
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

/// Does the same as [`processor_span`], for a completed system call.
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
    // Not until now: the timer found it in the call before, and the time since then is part of the next sample.
    cpu.sampled.store(sampled + ran.min(since), Relaxed);
    // While it waited others were sampled there.
    let span = if end.wait.is_some() {
        ran
    } else {
        ran.min(since)
    };
    (span >= LEAST).then_some(span)
}

/// Returns whether a sample is no work of this thread: it stands still, or the sample is that of a process that has just been forked, or of a
/// thread made behind the C library's back.
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

/// The thread's system call is complete, in which it was sampled, or waited for something outside of the program.
pub fn handle_call_end(page: &Page, thread: &Thread, frame: Frame, end: CallEnd) {
    // What it was sampled in, or waited for, may have been a delay.
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
        // Of a call that began before the experiment, the part in it.
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
    // In a hooked operation nothing is paid: it is known behind it who ended the wait.
    if thread.waits.load(Relaxed) == 0 {
        charge_stretch(page, thread, sys::now());
        delay::pay_after_wait(thread);
    }
}

/// Charges the others for what this thread ran in the middle of a stretch, if it is about to pay there.
fn charge_stretch(page: &Page, thread: &Thread, now: u64) {
    if page.at_pace.load(Relaxed) == 0 || delay::owed_delay(page, thread) == 0 {
        return;
    }
    let period = page.period_ns.load(Relaxed).max(1);
    let ran = (thread.pace).charge_part(experiment_epoch(page), now, period);
    delay::charge_line(page, thread, ran, period);
}

/// Notes that the controller has to charge for such calls while they last.
fn note_long_call(page: &Page, fragment: u32, ticks: u32) {
    let running = Running::unpack(page.experiment.0.load(Acquire));
    if ticks > 1 && page.is_about(running, fragment) {
        page.long_calls_of.store(running.fragment + 1, Relaxed);
    }
}

/// Counts samples for whose they are. Returns what the others owe for them, in nanoseconds.
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
    // In a wait nothing is paid: who ends it has paid, or this thread pays behind it.
    let paid = thread.waits.load(Relaxed) == 0 && pay_in_handler(page, thread);
    // What was paid is nobody's time: the next sample stands for what comes after it.
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

/// Charges the delay that a system call comes to, as far as the controller has not while it lasted.
fn charge_rest(page: &Page, thread: &Thread, delay_ns: u64) {
    let (global, _) = current_clocks(page, thread);
    let rest = thread.outside.set_off(global.epoch, delay_ns);
    delay::charge_run(page, thread, rest);
}

/// The number of the experiment that runs, or of the pause between two.
fn experiment_epoch(page: &Page) -> u16 {
    Clock::unpack(page.global.0.load(Acquire)).epoch
}

/// Pays what the thread owes; whether that was anything.
fn pay_in_handler(page: &Page, thread: &Thread) -> bool {
    if page.at_pace.load(Relaxed) == 0 {
        return delay::pay_delay(thread);
    }
    let begin = sys::now();
    charge_stretch(page, thread, begin);
    let paid = delay::pay_delay(thread);
    if paid {
        // It did not run the line meanwhile.
        thread.pace.add_standing(sys::now().saturating_sub(begin));
    }
    paid
}
