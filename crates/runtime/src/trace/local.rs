//! Tracing state of a thread.

use super::pointer::{BUSY, replace};
use super::shared::{shared_memory, ticks, wake_controller};
use super::{calls, frames, segment};
use crate::sys;
use core::ffi::c_void;
use core::sync::atomic::Ordering::{Relaxed, Release};
use core::sync::atomic::{AtomicU32, AtomicU64};
use runtime_abi::trace::{BLOCKS, COUNTS, FRAMES, Frame, Local, Memory, RECORD, SPARE};

const COUNTS_LENGTH: usize = BLOCKS * 4;
const FRAMES_OFFSET: usize = (COUNTS + COUNTS_LENGTH).next_multiple_of(4096);
const SPILL_OFFSET: usize = FRAMES_OFFSET + FRAMES * size_of::<Frame>();
/// Size of a [`Local`] in bytes, with the counts, frames and spill area after it.
pub const LENGTH: usize = SPILL_OFFSET + 2 * SPARE * RECORD;
/// Number of frames that stay free for signal handlers.
const RESERVE: usize = 16;

static EXIT_KEY: AtomicU32 = AtomicU32::new(u32::MAX);

/// Lowest address and size of the main thread's stack.
static MAIN_STACK: [AtomicU64; 2] = [const { AtomicU64::new(0) }; 2];

/// Prepares the tracing of new threads.
pub fn prepare_threads(main_stack: (u64, u64)) {
    let [low, size] = &MAIN_STACK;
    low.store(main_stack.0, Relaxed);
    size.store(main_stack.1, Relaxed);
    if EXIT_KEY.load(Relaxed) != u32::MAX {
        // An earlier session has created the key.
        return;
    }
    let mut key = 0;
    // SAFETY: the key is written through the pointer; the functions are ours and stay.
    unsafe {
        if libc::pthread_key_create(&raw mut key, Some(thread_ends)) == 0 {
            EXIT_KEY.store(key, Relaxed);
        }
        libc::pthread_atfork(None, None, Some(child_of_fork));
    }
}

/// Begins to trace this thread. If that is impossible, returns false and leaves the thread's
/// pointer at [`BUSY`].
pub fn begin_thread(memory: &Memory) -> bool {
    replace(BUSY);
    let access = (libc::PROT_READ | libc::PROT_WRITE) as usize;
    let flags = (libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE) as usize;
    let slot = if sys::calls_restricted() {
        None
    } else {
        memory.take_thread()
    };
    let Some(slot) = slot else {
        memory.untraced.fetch_add(1, Relaxed);
        return false;
    };
    // SAFETY: a new mapping.
    let address = unsafe { sys::call(libc::SYS_mmap, [0, LENGTH, access, flags, usize::MAX, 0]) };
    if address < 0 {
        memory.untraced.fetch_add(1, Relaxed);
        memory.give_thread(slot);
        return false;
    }
    // SAFETY: mapped just now, zeros, which is a value of it, and this thread's alone.
    let local = unsafe { &mut *(address as *mut Local) };
    let base = address as u64 + FRAMES_OFFSET as u64;
    local.base = base;
    local.top = base;
    local.limit = base + ((FRAMES - RESERVE) * size_of::<Frame>()) as u64;
    local.spill = address as u64 + SPILL_OFFSET as u64;
    let [low, size] = &MAIN_STACK;
    let main = (low.load(Relaxed), size.load(Relaxed));
    (local.stack_low, local.stack_size) = frames::own_stack(main, main.1);
    enroll_thread(memory, local, slot);
    let key = EXIT_KEY.load(Relaxed);
    // SAFETY: a key of ours; the first keys of a process need no memory.
    unsafe { libc::pthread_setspecific(key, address as *const c_void) };
    replace(address as usize);
    true
}

/// Gives a slot and a segment to the thread.
fn enroll_thread(memory: &Memory, local: &mut Local, slot: u32) {
    local.slot = u64::from(slot);
    local.pid = u64::from(sys::process_id());
    local.lost = 0;
    local.foreign = memory
        .foreign
        .get(slot as usize)
        .map_or(local.spill, |count| count.as_ptr() as u64);
    let first = segment::first_segment(memory, local);
    let Some(thread) = memory.threads.get(slot as usize) else {
        return;
    };
    thread.pid.store(local.pid as u32, Relaxed);
    thread.tid.store(sys::thread_id(), Relaxed);
    thread.first.store(first, Relaxed);
    thread.lost.store(0, Relaxed);
    thread.call_pages.store(0, Relaxed);
    thread.uncounted.store(0, Relaxed);
    thread.start.store(ticks(), Relaxed);
    thread.address.store(&raw const *local as u64, Relaxed);
    store_name(thread);
    thread.state.store(1, Release);
}

fn store_name(thread: &runtime_abi::trace::Thread) {
    let mut name = [0u64; 2];
    // SAFETY: the kernel writes 16 bytes.
    unsafe {
        let operation = libc::PR_GET_NAME as usize;
        sys::call(
            libc::SYS_prctl,
            [operation, name.as_mut_ptr() as usize, 0, 0, 0, 0],
        );
    }
    for (to, from) in thread.name.iter().zip(name) {
        to.store(from, Relaxed);
    }
}

/// Ends the tracing of a thread, whatever the reason for the thread's end.
unsafe extern "C" fn thread_ends(local: *mut c_void) {
    let own = replace(BUSY);
    if own == BUSY || own != local as usize {
        return; // no longer traced, or state of an ended session
    }
    // SAFETY: what `begin` has set: this thread's own, which is never unmapped while it lives.
    let (Some(local), Some(memory)) = (unsafe { local.cast::<Local>().as_mut() }, shared_memory())
    else {
        return;
    };
    if let Some(thread) = memory.threads.get(local.slot as usize) {
        segment::count_lost(memory, local);
        segment::report_lost(memory, local);
        if !sys::calls_restricted() {
            store_name(thread);
        }
        thread.end.store(ticks(), Relaxed);
        thread.state.store(2, Release);
    }
    // The frames may still be in use by functions of the C library that end the thread. The far
    // larger rest of the state is not.
    segment::discard_records(local);
    if sys::calls_restricted() {
        wake_controller(memory);
        return;
    }
    calls::reset_counts(local);
    wake_controller(memory);
}

/// Restarts tracing in the child of a fork, whose frames are copies of its parent's.
unsafe extern "C" fn child_of_fork() {
    let own = replace(BUSY);
    if own <= BUSY {
        replace(own);
        return;
    }
    // SAFETY: this thread's own.
    let local = unsafe { &mut *(own as *mut Local) };
    let Some(memory) = shared_memory() else {
        return;
    };
    segment::discard_records(local);
    calls::reset_counts(local);
    match memory.take_thread().filter(|_| !sys::calls_restricted()) {
        Some(slot) => {
            enroll_thread(memory, local, slot);
            replace(own);
        }
        None => {
            memory.untraced.fetch_add(1, Relaxed);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::trace::shared::{map_memory, set_memory};

    #[test]
    #[cfg_attr(miri, ignore = "assembly")]
    fn a_thread_has_its_slot_until_it_ends() {
        let memory = map_memory(8);
        set_memory(core::ptr::from_ref(memory).cast_mut());
        assert!(begin_thread(memory));
        let own = replace(BUSY);
        let thread = &memory.threads[0];
        let state = || thread.state.load(Relaxed);
        // SAFETY: it compares the address only: the thread is not traced, or by another state.
        unsafe {
            thread_ends(own as *mut c_void);
            replace(own);
            thread_ends((own + LENGTH) as *mut c_void);
        }
        assert_eq!(state(), 1);
        replace(own);
        // SAFETY: this thread's own state, which stays.
        unsafe { thread_ends(own as *mut c_void) };
        assert_eq!((state(), thread.first.load(Relaxed)), (2, 1));
        assert_eq!(thread.tid.load(Relaxed), sys::thread_id());
        assert!(thread.end.load(Relaxed) >= thread.start.load(Relaxed));
        assert_eq!(replace(0), BUSY, "it is not traced again");
    }
}
