//! Begin and end of a thread's measurement.

use crate::operations::{Operation, settle_before};
use crate::thread::{set_this, shared_page};
use crate::{sys, thread_event};
use core::ffi::c_void;
use core::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use core::sync::atomic::{AtomicBool, AtomicU32};
use runtime_abi::{Page, Thread, state};

/// Every thread has room for keys below this number.
const FIRST_KEYS: u32 = 32;

static ADOPTS: AtomicBool = AtomicBool::new(false);
static EXIT_KEY: AtomicU32 = AtomicU32::new(u32::MAX);

/// Arranges that threads are detached when they end. Called before the first is attached.
pub fn watch_ends() {
    let mut key = 0;
    // SAFETY: the key is written through the pointer; the function gets the value set for the key.
    if unsafe { libc::pthread_key_create(&raw mut key, Some(thread_ends)) } == 0 {
        EXIT_KEY.store(key, Relaxed);
    }
}

/// Stops detaching threads that end: another session owns their slots.
pub fn ignore_ends() {
    let key = EXIT_KEY.swap(u32::MAX, Relaxed);
    // SAFETY: a key of this library, or none.
    unsafe { libc::pthread_key_delete(key) };
}

/// Sets whether threads without a slot get one at their first sample.
pub fn adopt_threads(adopts: bool) {
    ADOPTS.store(adopts, Release);
}

/// Gives a slot to a thread that ran before the session, at its first sample, in the handler;
/// `None`: the thread is not measured. `sp`: its stack pointer.
pub fn adopt_here(page: &'static Page, sp: u64) -> Option<&'static Thread> {
    if !ADOPTS.load(Acquire) || page.state.load(Acquire) != state::RUNNING {
        return None;
    }
    let Some(thread) = page.take_thread() else {
        page.unmeasured.fetch_add(1, Relaxed);
        return None;
    };
    // The thread owes nothing for the time before.
    thread.local.store(page.global.0.load(Relaxed), Relaxed);
    thread.blocks_signal.store(0, Relaxed);
    thread.start.store(0, Relaxed);
    thread.stack_high.store(0, Relaxed);
    thread.stack_low.store(sp, Relaxed);
    attach_thread(page, thread);
    Some(thread)
}

/// Gives this thread its slot and starts sampling it.
pub fn attach_thread(page: &Page, thread: &'static Thread) {
    thread.begin(sys::process_id(), sys::thread_id());
    let routine = thread.start.load(Relaxed);
    thread.pace.begin_thread(routine, sys::now());
    set_this(thread);
    at_thread_exit(thread);
    thread_event::begin_sampling(page, thread);
}

/// Ends the measurement of this thread. The thread pays what it owes, because its end may wake
/// another thread.
pub fn detach_thread(thread: &'static Thread) {
    settle_before(thread, Operation::of("the end of a thread", &[]));
    // A sample that comes from here on finds no thread: another thread will get the slot soon.
    set_this(core::ptr::null());
    thread_event::end_sampling(thread);
    if let Some(page) = shared_page() {
        page.give_back(thread);
    }
}

/// Registers the one thread of a forked child as a new one.
pub fn after_fork(parent: &'static Thread) {
    set_this(core::ptr::null());
    let Some(page) = shared_page() else { return };
    // The child inherited a copy of the descriptor of the parent's event.
    thread_event::close_event(parent);
    let Some(thread) = page.take_thread() else {
        page.unmeasured.fetch_add(1, Relaxed);
        return;
    };
    // The child owes what the parent owed at the fork: both go on from the same moment.
    thread.local.store(parent.local.load(Relaxed), Relaxed);
    let blocks_signal = parent.blocks_signal.load(Relaxed);
    thread.blocks_signal.store(blocks_signal, Relaxed);
    thread.start.store(0, Relaxed);
    for (to, from) in [
        (&thread.stack_low, &parent.stack_low),
        (&thread.stack_high, &parent.stack_high),
    ] {
        to.store(from.load(Relaxed), Relaxed);
    }
    attach_thread(page, thread);
}

/// Arranges that [`detach_thread`] is called when this thread ends, in whatever way.
fn at_thread_exit(thread: &'static Thread) {
    let key = EXIT_KEY.load(Relaxed);
    if key >= FIRST_KEYS {
        return; // its slot is lost when it ends
    }
    // SAFETY: a key of this library; the first keys of a process need no memory.
    unsafe { libc::pthread_setspecific(key, core::ptr::from_ref(thread).cast()) };
}

unsafe extern "C" fn thread_ends(thread: *mut c_void) {
    // SAFETY: the value that `at_thread_exit` set: a slot of the page, which stays mapped.
    if let Some(thread) = unsafe { thread.cast::<Thread>().as_ref() } {
        detach_thread(thread);
    }
}
