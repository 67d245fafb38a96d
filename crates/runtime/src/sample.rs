//! Sampling: a signal for each millisecond of CPU time, and whose code it hit.
//!
//! The controller has the processors' timers send it where it may ([`Page::by_processor`]). Otherwise every thread has a
//! perf event of its own. Both count user mode only, so that no system call is interrupted.

use crate::clocks::current_clocks;
use crate::stack::{Frame, Owner, owning_fragment};
use crate::thread_event::{by_processor, end_sampling, set_period};
use crate::{attach, cpu, delay, sys, thread};
use core::ffi::c_void;
use core::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed};
use runtime_abi::wait::ExternalWait;
use runtime_abi::{Clock, Page, Running, Thread, state};

/// Less of a processor's time than this is left to the sample after it: one that was due while this thread stood still in
/// the handler comes right behind.
const LEAST: u64 = 50_000;

/// Returns how much time a sample stands for, in nanoseconds; `None`: it is none. What a processor has done since its last sample, but not what a
/// thread stood still since then, as nobody is sampled meanwhile.
fn sample_span(page: &Page, thread: &Thread) -> Option<u64> {
    if !by_processor(page) {
        if thread.sampled.swap(1, Relaxed) == 0 {
            set_period(page, thread);
        }
        return Some(page.period_ns.load(Relaxed));
    }
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

/// Returns whether a sample is no work of this thread: it stands still, or the sample is that of a process that has just been forked, or of a
/// thread made behind the C library's back.
fn is_none_of(thread: &Thread) -> bool {
    let other = !sys::calls_restricted() && sys::thread_id() != thread.tid.load(Relaxed);
    other || thread.standing.load(Relaxed) != 0
}

/// The signal handler.
pub unsafe extern "C" fn handle_sample(
    _: libc::c_int,
    info: *mut libc::siginfo_t,
    context: *mut c_void,
) {
    let Some(page) = thread::shared_page() else {
        return;
    };
    // SAFETY: the kernel hands a handler with SA_SIGINFO a `ucontext_t`.
    let frame = unsafe { Frame::of_context(context.cast()) };
    let Some(thread) = thread::current_thread().or_else(|| attach::adopt_here(page, frame.sp))
    else {
        return;
    };
    if page.state.load(Relaxed) == state::OFF {
        return end_sampling(thread);
    }
    // SAFETY: the kernel hands it over with the signal.
    if let Some(wait) = unsafe { ended_wait(info) } {
        return handle_wait(page, thread, frame, wait);
    }
    let Some(span) = sample_span(page, thread) else {
        return;
    };
    page.samples.0.fetch_add(1, Relaxed);
    cpu::take_over(page, thread);
    if page.is_spinning(frame.pc) && thread.waits.load(Relaxed) == 0 {
        page.spinning.0.fetch_add(1, Relaxed);
    }
    let owner = owning_fragment(page, thread, frame);
    if matches!(owner, Owner::OutOfScope) {
        page.outside.fetch_add(1, Relaxed);
    }
    if let Owner::Fragment(fragment) = owner {
        if let Some(count) = page.fragments.get(fragment as usize) {
            count.fetch_add(1, Relaxed);
        }
        let running = Running::unpack(page.experiment.0.load(Acquire));
        if running.fragment == fragment && !running.waiting && running.delay_ns > 0 {
            let period = page.period_ns.load(Relaxed).max(1);
            let ran = match page.at_pace.load(Relaxed) {
                0 => span,
                _ => thread
                    .pace
                    .add_sample(experiment_epoch(page), span, sys::now(), period),
            };
            delay::charge_run(page, thread, running.delay_for(ran, period));
        }
    }
    // In a wait nothing is paid: who ends it has paid, or this thread pays behind it.
    let paid = thread.waits.load(Relaxed) == 0 && pay_in_handler(page, thread);
    // What was paid is nobody's time: the next sample stands for what comes after it.
    if paid && let Some(cpu) = cpu::current_cpu(page) {
        cpu.sampled.store(sys::now(), Relaxed);
    }
    cpu::leave_word(page, thread);
    cpu::remember_waiting(page, thread);
}

/// The wait that has just ended, if that is what the signal says.
///
/// # Safety
/// Null, or what the kernel hands a handler with SA_SIGINFO.
unsafe fn ended_wait(info: *const libc::siginfo_t) -> Option<ExternalWait> {
    // SAFETY: see the caller. Where no value was sent the kernel has put zeros.
    let info = unsafe { info.as_ref() }?;
    // Anybody may send a signal with a value; with this code, the kernel alone.
    if info.si_code != libc::SI_KERNEL {
        return None;
    }
    // SAFETY: of a signal of the kernel's with this code; any bytes are a number.
    let value = unsafe { info.si_value() };
    ExternalWait::unpack(value.sival_ptr as u64)
}

/// The thread's system call is complete, in which it waited for something outside of the program.
fn handle_wait(page: &Page, thread: &Thread, frame: Frame, wait: ExternalWait) {
    // What it waited for may have been the end of a delay.
    if is_none_of(thread) {
        return;
    }
    let (pc, sp) = (frame.pc, frame.sp);
    if let Owner::Fragment(fragment) = owning_fragment(page, thread, frame) {
        thread.outside.remember_site(pc, sp, fragment);
        let at = fragment as usize;
        if let (Some(sum), Some(call)) = (page.waited.get(at), page.waited_in.get(at)) {
            sum.fetch_add(wait.ns, Relaxed);
            call.store(wait.call_word(), Relaxed);
        }
        let running = Running::unpack(page.experiment.0.load(Acquire));
        if running.fragment == fragment && running.waiting && running.delay_ns > 0 {
            // Of a wait that began before the experiment, the part in it.
            let since = page.experiment_since.load(Relaxed);
            let waited = wait.ns.min(sys::now().saturating_sub(since));
            let period = page.period_ns.load(Relaxed).max(1);
            charge_wait(page, thread, running.delay_for(waited, period));
        }
    }
    // In a hooked operation nothing is paid: it is known behind it who ended the wait.
    if thread.waits.load(Relaxed) == 0 {
        delay::pay_after_wait(thread);
    }
}

/// Charges the delay that a wait comes to, as far as the controller has not while it lasted.
fn charge_wait(page: &Page, thread: &Thread, delay_ns: u64) {
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
    let paid = delay::pay_delay(thread);
    if paid {
        // It did not run the line meanwhile.
        thread.pace.add_standing(sys::now().saturating_sub(begin));
    }
    paid
}

/// Wakes the controller.
pub fn wake_controller(page: &Page) {
    page.news.fetch_add(1, AcqRel);
    if page.waiting.load(Acquire) != 0 {
        sys::wake_waiters(&page.news);
    }
}
