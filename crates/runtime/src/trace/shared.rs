//! The memory shared with the controller, and the clock of its records.

use crate::sys;
use core::sync::atomic::AtomicPtr;
use core::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed, Release};
use runtime_abi::trace::Memory;

static MEMORY: AtomicPtr<Memory> = AtomicPtr::new(core::ptr::null_mut());

/// Returns the memory shared with the controller. `None` if nothing is traced.
pub fn shared_memory() -> Option<&'static Memory> {
    // SAFETY: null, or a mapping that stays until the process ends; all of it is atomic.
    unsafe { MEMORY.load(Acquire).as_ref() }
}

/// Sets the shared memory: null, or memory that stays mapped.
pub fn set_memory(memory: *mut Memory) {
    MEMORY.store(memory, Release);
}

/// Notifies the controller of news.
pub fn wake_controller(memory: &Memory) {
    memory.news.fetch_add(1, AcqRel);
    if sys::calls_restricted() {
        memory.filtered.store(1, Relaxed);
    } else if memory.waiting.load(Acquire) != 0 {
        sys::wake_waiters(&memory.news);
    }
}

/// Returns the time-stamp counter.
pub fn ticks() -> u64 {
    // SAFETY: reads a counter.
    unsafe { core::arch::x86_64::_rdtsc() }
}

/// Maps memory for a test, as the controller creates it.
#[cfg(test)]
pub fn map_memory(room: u32) -> &'static Memory {
    let access = libc::PROT_READ | libc::PROT_WRITE;
    let flags = libc::MAP_SHARED | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE;
    let length = runtime_abi::trace::LENGTH;
    // SAFETY: a new mapping, which stays; zeros are a value of the memory.
    let memory = unsafe {
        let at = libc::mmap(core::ptr::null_mut(), length, access, flags, -1, 0);
        assert_ne!(at, libc::MAP_FAILED);
        &*at.cast::<Memory>()
    };
    memory.room.store(room, Relaxed);
    (memory.state).store(runtime_abi::trace::state::RUNNING, Release);
    memory
}
