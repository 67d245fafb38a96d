//! Locks that threads hold: of the one whose critical sections are sped up together, and how many of all.

use crate::thread;
use core::ffi::{c_int, c_void};
use core::sync::atomic::Ordering::Relaxed;

/// Counts a lock that this thread has acquired, if the result says so: 0, or that the former owner
/// died.
pub fn taken(lock: *const c_void, result: c_int) {
    if result == 0 || result == libc::EOWNERDEAD {
        #[cfg(target_arch = "x86_64")]
        crate::trace::hold::lock_taken();
        count_holds(lock, |holds| holds.saturating_add(1));
    }
}

/// Stops counting a lock, which this thread is about to release.
pub fn released(lock: *const c_void) {
    // The thread may have acquired the lock before it was watched.
    count_holds(lock, |holds| holds.saturating_sub(1));
}

/// Handles that this thread is about to take a lock, or to wait for one.
pub fn before_taking() {
    #[cfg(target_arch = "x86_64")]
    crate::trace::hold::stand_if_held();
}

/// Handles that this thread has given a lock back.
pub fn given_back() {
    waits_without();
    before_taking();
}

/// Handles that this thread is about to wait without a lock, which it still has: it must not be held here.
pub fn waits_without() {
    #[cfg(target_arch = "x86_64")]
    crate::trace::hold::lock_given_back();
}

fn count_holds(lock: *const c_void, change: impl FnOnce(u32) -> u32) {
    let watches = |page: &&runtime_abi::Page| page.selection.has_lock(lock as u64);
    if thread::shared_page().is_some_and(|page| watches(&page))
        && let Some(thread) = thread::current_thread()
    {
        let holds = change(thread.holds.load(Relaxed));
        thread.holds.store(holds, Relaxed);
    }
}
