//! Tracing a running process: `interference run -p PID`.
//!
//! The guard thread maps the controller's code beside the program's. Only the controller patches
//! calls to lead there, and restores them: it stops all threads for that, which no process can do
//! to itself. At the end the guard unmaps code that no thread uses any more.

use super::{
    LOOK_NS, SECOND, await_start, begin_alone, forget, give_signal_back, let_go, map_memory,
    mutex_in, serve_program_only, slots, start_guard, take_lifeline,
};
use crate::{start, sys, trace};
use core::ffi::{c_int, c_void};
use core::sync::atomic::AtomicPtr;
use core::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use runtime_abi::trace::{
    CALL_PAGES_OFFSET, CODE_OFFSET, LENGTH, MAGIC, Memory, SEGMENTS_OFFSET, remains, state,
};

/// The memory of this session or the last one, over which the next one is mapped.
static MEMORY: AtomicPtr<Memory> = AtomicPtr::new(core::ptr::null_mut());

unsafe extern "C" {
    static __libc_stack_end: u64;
}

/// Begins to trace, with the memory behind a descriptor; 0 or an error number.
///
/// # Safety
/// As [`super::vitalfew_attach`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn vitalfew_attach_trace(descriptor: c_int) -> c_int {
    begin_alone(descriptor, begin_tracing)
}

fn begin_tracing(descriptor: c_int) -> c_int {
    let address = map_memory(MEMORY.load(Relaxed) as usize, LENGTH, descriptor);
    if address < 0 {
        return -address as c_int;
    }
    let mapped = address as *mut Memory;
    MEMORY.store(mapped, Release);
    // SAFETY: mapped just now, as long as the object, and never unmapped; all of it is atomic.
    let memory = unsafe { &*mapped };
    if memory.magic.load(Acquire) != MAGIC {
        return libc::EPROTO;
    }
    trace::publish_memory(memory);
    let made = start_guard(guard_tracing);
    if made == 0 {
        // The mapping stays.
        sys::close(descriptor);
        memory.state.store(state::READY, Release);
        trace::wake_controller(memory);
    }
    made
}

/// Runs the guard thread.
unsafe extern "C-unwind" fn guard_tracing(_: *mut c_void) -> *mut c_void {
    trace::leave_out_thread();
    serve_program_only();
    // SAFETY: null, or a mapping that stays; all of it is atomic.
    let Some(memory) = (unsafe { MEMORY.load(Acquire).as_ref() }) else {
        return core::ptr::null_mut();
    };
    memory.guard.store(sys::thread_id(), Release);
    let lifeline = mutex_in(&memory.lifeline);
    let mut left = remains::NOTHING;
    if await_start(&memory.state, lifeline) {
        // Before anything else: the controller has chosen addresses that are free now.
        trace::prepare_tracing(memory, main_stack());
        let signal = trace::hold::take_signal(memory);
        slots::take();
        while !take_lifeline(lifeline, LOOK_NS) {
            slots::take();
        }
        slots::give_back();
        trace::end_tracing();
        give_signal_back(&signal);
        left = memory.remains.load(Acquire);
        match left {
            // The controller was killed: calls still lead to its code, which lets them pass.
            remains::UNKNOWN => trace::let_all_pass(memory),
            remains::NOTHING => trace::unmap_code(memory),
            _ => {}
        }
    }
    let_go(lifeline);
    // A thread on its way out of a hook still reads the memory, which stays mapped.
    sys::sleep_until(sys::now() + SECOND / 20);
    if left != remains::UNKNOWN {
        forget_memory(memory);
    }
    if matches!(left, remains::NOTHING | remains::CODE) {
        super::BUSY.store(false, Release);
    }
    core::ptr::null_mut()
}

/// Frees the memory of the records. Code and periods stay until the next session takes their place:
/// a child forked meanwhile keeps its jumps for life and shares the memory.
fn forget_memory(memory: &Memory) {
    let at = core::ptr::from_ref(memory) as usize;
    forget(at + CALL_PAGES_OFFSET, LENGTH - CALL_PAGES_OFFSET);
    forget(at + SEGMENTS_OFFSET, CODE_OFFSET - SEGMENTS_OFFSET);
    // Tells the controller that the session is over.
    memory.magic.store(0, Release);
}

/// Returns the main thread's stack: its lowest address and its size.
fn main_stack() -> (u64, u64) {
    // SAFETY: the dynamic linker sets the variable before any code of the program runs.
    let high = unsafe { __libc_stack_end };
    let size = start::stack_limit();
    (high.saturating_sub(size), size)
}
