//! The memory shared with the controller, and the clock of its records.

use crate::sys;
use core::sync::atomic::AtomicPtr;
use core::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed, Release};
use runtime_abi::trace::Memory;

static MEMORY: AtomicPtr<Memory> = AtomicPtr::new(core::ptr::null_mut());

/// The memory shared with the controller; `None` where nothing is traced.
pub fn shared_memory() -> Option<&'static Memory> {
    // SAFETY: null, or a mapping that stays until the process ends; all of it is atomic.
    unsafe { MEMORY.load(Acquire).as_ref() }
}

/// Sets it, once it is mapped for good.
pub fn set_memory(memory: *mut Memory) {
    MEMORY.store(memory, Release);
}

/// Tells the controller that there is something to look at.
pub fn wake_controller(memory: &Memory) {
    memory.news.fetch_add(1, AcqRel);
    if sys::calls_restricted() {
        memory.filtered.store(1, Relaxed);
    } else if memory.waiting.load(Acquire) != 0 {
        sys::wake_waiters(&memory.news);
    }
}

/// The time-stamp counter.
pub fn ticks() -> u64 {
    // SAFETY: reads a counter.
    unsafe { core::arch::x86_64::_rdtsc() }
}
