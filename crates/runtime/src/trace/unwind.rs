//! Unwinding through traced blocks by exceptions, panics and thread ends.

use super::pointer::{BUSY, replace};
use super::shared::{shared_memory, ticks};
use super::{frames, segment};
use core::ffi::{c_int, c_void};
use core::sync::atomic::Ordering::Relaxed;
use runtime_abi::trace::{ENDED, Frame, Local, Memory, record};

unsafe extern "C" {
    fn _Unwind_GetGR(context: *mut c_void, register: c_int) -> u64;
    fn __register_frame(information: *const c_void);
    fn __deregister_frame(information: *const c_void);
    fn _Unwind_RaiseException(exception: *mut c_void) -> c_int;
}

/// Publishes the address of the unwinder that the program's libraries use, and of the one that
/// knows our trampolines.
pub fn tell_unwinder(memory: &Memory) {
    let (raise, register) = (
        _Unwind_RaiseException as *const (),
        __register_frame as *const (),
    );
    memory.raise_exception.store(raise as u64, Relaxed);
    memory.register_frame.store(register as u64, Relaxed);
}

const RBX: c_int = 3;
const CLEANUP: c_int = 2;
const CONTINUE: c_int = 8;

/// Personality routine of the trampolines. It drops the frame that an unwinder passes.
pub unsafe extern "C" fn drop_passed_frame(
    _version: c_int,
    actions: c_int,
    _class: u64,
    _exception: *mut c_void,
    context: *mut c_void,
) -> c_int {
    if actions & CLEANUP != 0 {
        // SAFETY: the unwinder's own context; the code that this is the personality of keeps its
        // frame in this register.
        unsafe {
            let frame = _Unwind_GetGR(context, RBX) as *mut Frame;
            leave_frame(&mut *frame);
        }
    }
    CONTINUE
}

/// # Safety
/// The frame is one of this thread's.
unsafe fn leave_frame(frame: &mut Frame) {
    let own = replace(BUSY);
    let Some(memory) = shared_memory().filter(|_| own as u64 == frame.local) else {
        frame.block = ENDED;
        replace(own);
        return;
    };
    // SAFETY: this thread's own, which stays.
    let local = unsafe { &mut *(own as *mut Local) };
    if !frames::is_last(memory, local, frame) {
        frame.block = ENDED;
        replace(own);
        return;
    }
    local.top = &raw const *frame as u64;
    let now = ticks();
    let duration = now.saturating_sub(frame.enter).min((1 << 44) - 1);
    let second = frame.block << 44 | duration;
    segment::put_record(local, now << record::TAG | record::UNWOUND, second);
    segment::go_on(memory, local);
    replace(own);
}

/// Registers unwinding information for code.
///
/// # Safety
/// The information is well-formed and stays.
pub unsafe fn register_unwind_data(information: u64) {
    // SAFETY: see the caller.
    unsafe { __register_frame(information as *const c_void) };
}

/// Reverts [`register_unwind_data`].
///
/// # Safety
/// The information is registered.
pub unsafe fn forget_unwind_data(information: u64) {
    // SAFETY: see the caller.
    unsafe { __deregister_frame(information as *const c_void) };
}
