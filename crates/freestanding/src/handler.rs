//! The signal handler.

use crate::accounts::{count_sample, handle_call_end, processor_span};
use crate::clocks::current_clocks;
use crate::stack::Frame;
use crate::thread;
use core::sync::atomic::Ordering::Acquire;
use runtime_abi::state;
use runtime_abi::wait::CallEnd;

/// `siginfo_t`, only the fields that the handler reads.
#[repr(C)]
pub struct SignalInfo {
    number: i32,
    errno: i32,
    code: i32,
    _padding: [i32; 3],
    value: u64,
}

/// `ucontext_t`, only the fields that the handler reads.
#[repr(C)]
pub struct Context {
    _head: [u64; 5],
    registers: [u64; 17],
}

/// `si_code` of signals that the kernel itself sends.
const OF_KERNEL: i32 = 0x80;
/// Positions in [`Context::registers`].
const FRAME_POINTER: usize = 10;
const STACK_POINTER: usize = 15;
const PROGRAM_COUNTER: usize = 16;

/// Handles [`runtime_abi::SIGNAL`].
///
/// # Safety
/// Only the kernel may call this, with SA_SIGINFO.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn vitalfew_sample(_: i32, info: *const SignalInfo, context: *const Context) {
    let Some(page) = thread::shared_page() else {
        return;
    };
    if page.state.load(Acquire) != state::RUNNING {
        return;
    }
    let Some(current) = thread::current_thread(page) else {
        return;
    };
    // SAFETY: see the caller.
    let (info, registers) = unsafe { (&*info, &(*context).registers) };
    let frame = Frame::new(
        registers[PROGRAM_COUNTER],
        registers[STACK_POINTER],
        registers[FRAME_POINTER],
        0,
    );
    current_clocks(page, current.thread);
    current.take_credit();
    let value = Some(info.value).filter(|_| info.code == OF_KERNEL);
    if let Some(end) = value.and_then(CallEnd::unpack) {
        handle_call_end(page, current.thread, frame, end);
    } else if let Some(span) = processor_span(page, current.thread) {
        count_sample(page, current.thread, frame, span);
    }
    current.leave_count();
}
