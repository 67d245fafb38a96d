//! The interface of `coz.h`, so that programs built for Coz run unchanged.

use crate::operations::{self, Operation};
use crate::{sample, thread};
use core::ffi::{CStr, c_char, c_int};
use core::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed, Release};
use runtime_abi::{Counter, NAME, Page};

/// Returns the counter of a progress point; null where nothing is measured, as `coz.h` expects.
///
/// # Safety
/// `name` is null or a string.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn _coz_get_counter(
    kind: c_int,
    name: *const c_char,
) -> *const Counter {
    let Some(page) = thread::shared_page().filter(|_| !name.is_null()) else {
        return core::ptr::null();
    };
    // SAFETY: see the caller.
    let name = unsafe { CStr::from_ptr(name) }.to_bytes();
    let found = find_counter(page, kind as u32, name);
    found.map_or(core::ptr::null(), core::ptr::from_ref)
}

fn find_counter<'a>(page: &'a Page, kind: u32, name: &[u8]) -> Option<&'a Counter> {
    let name = name.get(..NAME - 1).unwrap_or(name);
    for counter in &page.counters {
        let taken = (counter.state).compare_exchange(0, 1, AcqRel, Acquire);
        if taken.is_ok() {
            counter.kind.store(kind, Relaxed);
            for (to, from) in counter.name.iter().zip(name) {
                to.store(*from, Relaxed);
            }
            counter.state.store(2, Release);
            sample::wake_controller(page);
            return Some(counter);
        }
        // Two threads may both name a counter: the controller adds up counters of one name.
        let letters = counter.name.iter().map(|byte| byte.load(Relaxed));
        let same = letters
            .take(name.len() + 1)
            .eq(name.iter().copied().chain([0]));
        if counter.state.load(Acquire) == 2 && counter.kind.load(Relaxed) == kind && same {
            return Some(counter);
        }
    }
    None
}

/// Pays what this thread owes: `coz.h` calls this at progress points.
#[unsafe(no_mangle)]
pub extern "C-unwind" fn _coz_add_delays() {
    operations::before_waking(Operation::of("own", &[]));
}

/// Begins an operation of the program's own that may wait for another thread.
#[unsafe(no_mangle)]
pub extern "C-unwind" fn _coz_pre_block() {
    if let Some(thread) = thread::current_thread() {
        operations::begin_wait(thread, Operation::of("own wait", &[]));
    }
}

/// Ends such an operation. `skip`: another thread ended the wait, so this one does not pay.
#[unsafe(no_mangle)]
pub extern "C-unwind" fn _coz_post_block(skip: c_int) {
    if let Some(thread) = thread::current_thread() {
        operations::end_wait(thread, Operation::of("own wait", &[]), skip != 0);
    }
}

/// Pays before an operation of the program's own that may wake another thread.
#[unsafe(no_mangle)]
pub extern "C-unwind" fn _coz_catch_up() {
    operations::before_waking(Operation::of("own", &[]));
}
