//! Tracing: when a thread enters and leaves blocks of code (ISPOT, section 3).
//!
//! The controller makes code that stands in front of each traced function and writes records by
//! itself; the runtime puts it in place ([`steps`]), and is called by it for what is rare ([`slow`]): a
//! thread's first call, a full segment, a stack. `docs/interference.md` is the protocol.

mod calls;
pub mod frames;
mod local;
mod marked;
mod segment;
mod slow;
mod steps;
mod unwind;

use crate::sys;
use core::sync::atomic::AtomicPtr;
use core::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed, Release};
use runtime_abi::trace::{LENGTH, MAGIC, Memory, state};

/// How long the controller may take to plan.
const PATIENCE_NS: u64 = 30_000_000_000;

static MEMORY: AtomicPtr<Memory> = AtomicPtr::new(core::ptr::null_mut());

/// The memory shared with the controller; `None` where nothing is traced.
pub fn memory() -> Option<&'static Memory> {
    // SAFETY: null, or a mapping that stays until the process ends; all of it is atomic.
    unsafe { MEMORY.load(Acquire).as_ref() }
}

/// Begins to trace, before `main`, with the memory behind a descriptor; `main_stack` is the main thread's: its lowest
/// address and its size.
pub fn start(descriptor: usize, main_stack: (u64, u64)) {
    let access = (libc::PROT_READ | libc::PROT_WRITE) as usize;
    let flags = (libc::MAP_SHARED | libc::MAP_NORESERVE) as usize;
    // SAFETY: a new mapping, at an address of the kernel's choice.
    let address = unsafe { sys::call(libc::SYS_mmap, [0, LENGTH, access, flags, descriptor, 0]) };
    sys::close(descriptor as i32);
    if address < 0 {
        return;
    }
    let mapped = address as *mut Memory;
    // SAFETY: mapped just now, as long as the object, and never unmapped; all of it is atomic.
    let memory = unsafe { &*mapped };
    if memory.magic.load(Acquire) != MAGIC {
        return;
    }
    slow::prepare(memory);
    memory.address.store(address as u64, Relaxed);
    memory.pid.store(sys::process_id(), Relaxed);
    memory.state.store(state::READY, Release);
    tell(memory);
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
    MEMORY.store(mapped, Release);
    local::prepare(main_stack);
    if steps::take(memory) {
        local::begin(memory);
    } else {
        memory.state.store(state::OFF, Release);
    }
    tell(memory);
}

/// Notes when the process came to its end, late in `exit`.
pub extern "C" fn stop() {
    let own = |memory: &&Memory| memory.pid.load(Relaxed) == sys::process_id();
    if let Some(memory) = memory().filter(own) {
        memory.ended.store(ticks(), Release);
    }
}

/// Tells the controller that there is something to look at.
pub fn tell(memory: &Memory) {
    memory.news.fetch_add(1, AcqRel);
    if sys::filtered() {
        memory.filtered.store(1, Relaxed);
    } else if memory.waiting.load(Acquire) != 0 {
        sys::wake(&memory.news);
    }
}

/// The time-stamp counter.
pub fn ticks() -> u64 {
    // SAFETY: reads a counter.
    unsafe { core::arch::x86_64::_rdtsc() }
}
