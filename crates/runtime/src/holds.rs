//! Holds of the lock whose critical sections are sped up together.

use crate::thread;
use core::ffi::{c_int, c_void};
use core::sync::atomic::Ordering::Relaxed;

/// Counts a lock that this thread has acquired, if the result says so: 0, or that the former owner
/// died.
pub fn taken(lock: *const c_void, result: c_int) {
    if result == 0 || result == libc::EOWNERDEAD {
        count_holds(lock, |holds| holds.saturating_add(1));
    }
}

/// Stops counting a lock, which this thread is about to release.
pub fn released(lock: *const c_void) {
    // The thread may have acquired the lock before it was watched.
    count_holds(lock, |holds| holds.saturating_sub(1));
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
