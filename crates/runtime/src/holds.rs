//! Counts of held locks: holds of the lock whose critical sections are sped up, and holds of all
//! locks.

use crate::thread;
use core::ffi::{c_int, c_void};
use core::sync::atomic::Ordering::Relaxed;

/// Counts a lock that this thread has acquired, according to the result of the call: 0, or that the
/// former owner died.
pub fn taken(lock: *const c_void, result: c_int) {
    if result == 0 || result == libc::EOWNERDEAD {
        #[cfg(target_arch = "x86_64")]
        crate::trace::hold::lock_taken();
        count_holds(lock, |holds| holds.saturating_add(1));
    }
}

/// Ends the count of a lock that this thread is about to release.
pub fn released(lock: *const c_void) {
    // The thread may have acquired the lock before it was watched.
    count_holds(lock, |holds| holds.saturating_sub(1));
}

/// Runs before this thread takes a lock, or waits for one. The controller may hold it here.
pub fn before_taking() {
    #[cfg(target_arch = "x86_64")]
    crate::trace::hold::stand_if_held();
}

/// Runs after this thread has released a lock.
pub fn given_back() {
    waits_without();
    before_taking();
}

/// Runs before this thread waits without a lock that it still owns. The thread must not be held
/// here.
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
