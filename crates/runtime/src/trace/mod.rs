//! Tracing of the times at which threads enter and leave blocks of code (ISPOT, section 3).
//!
//! The controller generates a trampoline for each traced function, which writes records by itself.
//! The runtime patches the functions ([`steps`]). The trampolines call it for rare events
//! ([`slow`]): a thread's first call, a full segment, a stack. `docs/method/interference.md`
//! describes the protocol.

mod calls;
pub mod frames;
pub mod hold;
mod local;
mod marked;
mod pointer;
mod segment;
mod shared;
mod slow;
mod steps;
mod unwind;

use crate::{own_signal, sys};
use core::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use pointer::{BUSY, replace};
use runtime_abi::trace::{Memory, state};
use shared::{shared_memory, ticks};

pub use shared::wake_controller;

/// Time limit for the controller's plan.
const PATIENCE_NS: u64 = 30_000_000_000;

/// Begins to trace, before `main`, in the shared memory. `main_stack` is the lowest address and the
/// size of the main thread's stack.
pub fn start_tracing(memory: &'static Memory, main_stack: (u64, u64)) {
    publish_memory(memory);
    memory.state.store(state::READY, Release);
    wake_controller(memory);
    let end = sys::now() + PATIENCE_NS;
    while memory.state.load(Acquire) == state::READY {
        let now = sys::now();
        if now >= end || !sys::wait_on(&memory.state, state::READY, end - now) {
            memory.state.store(state::OFF, Release);
        }
    }
    if memory.state.load(Acquire) != state::RUNNING {
        return;
    }
    shared::set_memory(core::ptr::from_ref(memory).cast_mut());
    local::prepare_threads(main_stack);
    hold::take_signal(memory);
    let blocks_signal = u32::from(own_signal::unblock_signal());
    // Registration of unwind tables allocates memory and takes locks. If that were traced, this
    // thread would begin twice, and the calls would count as the program's.
    let own = replace(BUSY);
    let runs = steps::take_steps(memory);
    replace(own);
    if runs {
        local::begin_thread(memory);
        if let Some(thread) = hold::own_slot() {
            thread.blocks_signal.store(blocks_signal, Relaxed);
        }
    } else {
        memory.state.store(state::OFF, Release);
    }
    wake_controller(memory);
}

/// Publishes the addresses that the controller needs.
pub fn publish_memory(memory: &Memory) {
    slow::publish_addresses(memory);
    let address = core::ptr::from_ref(memory) as u64;
    memory.address.store(address, Relaxed);
    memory.pid.store(sys::process_id(), Relaxed);
}

/// Maps the controller's code into a running program. No call leads to that code yet.
pub fn prepare_tracing(memory: &'static Memory, main_stack: (u64, u64)) {
    shared::set_memory(core::ptr::from_ref(memory).cast_mut());
    local::prepare_threads(main_stack);
    steps::take_steps(memory);
    memory.prepared.store(1, Release);
    wake_controller(memory);
}

/// Returns whether calls may lead to the controller's code.
pub fn has_session() -> bool {
    shared_memory().is_some()
}

/// Excludes this thread from tracing, because it is the runtime's own.
pub fn leave_out_thread() {
    replace(BUSY);
}

/// Prevents further threads from being traced.
pub fn end_tracing() {
    shared::set_memory(core::ptr::null_mut());
}

/// Unmaps the memory that the controller reports as unused.
pub fn unmap_code(memory: &Memory) {
    steps::take_steps(memory);
}

/// Lets all calls pass from now on.
pub fn let_all_pass(memory: &'static Memory) {
    memory.state.store(state::OFF, Release);
    for period in &memory.periods {
        period.store(u32::MAX, Relaxed);
    }
    // Trampolines that ask find the state in this memory.
    shared::set_memory(core::ptr::from_ref(memory).cast_mut());
}

/// Notes the time of the process's end, late in `exit`.
pub extern "C" fn note_exit() {
    let own = |memory: &&Memory| memory.pid.load(Relaxed) == sys::process_id();
    if let Some(memory) = shared_memory().filter(own) {
        memory.ended.store(ticks(), Release);
    }
}
