//! Sampling: a signal for each millisecond of CPU time, and the owner of the interrupted code.
//!
//! The controller makes the processors' timers send the signal where it has the right
//! ([`Page::by_processor`]). Otherwise every thread has a perf event of its own, which counts user
//! mode only. No system call is interrupted: samples in a call arrive at its end.

use crate::accounts::{count_sample, handle_call_end, processor_span};
use crate::stack::Frame;
use crate::thread_event::{by_processor, end_sampling, set_period};
use crate::{attach, sys, thread};
use core::ffi::c_void;
use core::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed};
use runtime_abi::wait::CallEnd;
use runtime_abi::{Page, Thread, state};

/// Returns the time that a sample stands for, in nanoseconds; `None`: the signal does not count.
fn sample_span(page: &Page, thread: &Thread) -> Option<u64> {
    if !by_processor(page) {
        if thread.sampled.swap(1, Relaxed) == 0 {
            set_period(page, thread);
        }
        return Some(page.period_ns.load(Relaxed));
    }
    processor_span(page, thread)
}

/// Handles the sampling signal.
pub unsafe extern "C" fn handle_sample(
    _: libc::c_int,
    info: *mut libc::siginfo_t,
    context: *mut c_void,
) {
    let Some(page) = thread::shared_page() else {
        return;
    };
    // SAFETY: the kernel hands a handler with SA_SIGINFO a `ucontext_t`.
    let frame = unsafe { frame_of_context(context.cast()) };
    let Some(thread) = thread::current_thread().or_else(|| attach::adopt_here(page, frame.sp))
    else {
        return;
    };
    if page.state.load(Relaxed) == state::OFF {
        return end_sampling(thread);
    }
    // SAFETY: the kernel hands it over with the signal.
    if let Some(end) = unsafe { ended_call(info) } {
        return handle_call_end(page, thread, frame, end);
    }
    let Some(span) = sample_span(page, thread) else {
        return;
    };
    count_sample(page, thread, frame, span);
}

/// Returns the signal's report of a completed system call; `None`: the signal is an ordinary
/// sample.
///
/// # Safety
/// The pointer is null, or the one that the kernel passes a handler with SA_SIGINFO.
unsafe fn ended_call(info: *const libc::siginfo_t) -> Option<CallEnd> {
    // SAFETY: see the caller. Where no value was sent the kernel stores zeros.
    let info = unsafe { info.as_ref() }?;
    // Any process may send a signal with a value, but only the kernel with this code.
    if info.si_code != libc::SI_KERNEL {
        return None;
    }
    // SAFETY: the kernel sets the value with this code; any bytes are a number.
    let value = unsafe { info.si_value() };
    CallEnd::unpack(value.sival_ptr as u64)
}

/// Wakes the controller.
pub fn wake_controller(page: &Page) {
    page.news.fetch_add(1, AcqRel);
    if page.waiting.load(Acquire) != 0 {
        sys::wake_waiters(&page.news);
    }
}

#[cfg(target_arch = "x86_64")]
/// Reads the frame that a signal interrupted.
///
/// # Safety
/// The pointer is the one that the kernel passes a handler.
unsafe fn frame_of_context(context: *const libc::ucontext_t) -> Frame {
    // SAFETY: see the caller.
    let registers = unsafe { &(*context).uc_mcontext.gregs };
    let [pc, sp, fp] = [libc::REG_RIP, libc::REG_RSP, libc::REG_RBP]
        .map(|register| registers[register as usize] as u64);
    Frame::new(pc, sp, fp, 0)
}

#[cfg(target_arch = "aarch64")]
/// Reads the frame that a signal interrupted.
///
/// # Safety
/// The pointer is the one that the kernel passes a handler.
unsafe fn frame_of_context(context: *const libc::ucontext_t) -> Frame {
    // SAFETY: see the caller.
    let context = unsafe { &(*context).uc_mcontext };
    let [fp, lr] = [29, 30].map(|register| context.regs[register]);
    Frame::new(context.pc, context.sp, fp, lr)
}
