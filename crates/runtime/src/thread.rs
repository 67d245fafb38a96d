//! The current thread: one pointer in thread-local storage, found without a call.

use core::arch::{asm, global_asm};
use core::sync::atomic::{
    AtomicPtr, AtomicU64,
    Ordering::{Acquire, Relaxed},
};
use runtime_abi::{Page, Thread};

/// The attach session, in the bits above [`SESSION_BITS`]; a thread with the number of another
/// session counts as not measured.
static SESSION: AtomicU64 = AtomicU64::new(0);
/// Number of address bits below the session.
const SESSION_BITS: u32 = 48;

const SESSION_MASK: u64 = !0 << SESSION_BITS;

static PAGE: AtomicPtr<Page> = AtomicPtr::new(core::ptr::null_mut());

// Rust's own thread-local variables do not suit signal handlers: outside the standard library they
// are not stable, and inside it they may be initialised at first use.
global_asm!(
    ".section .tbss, \"awT\", %nobits",
    ".globl vitalfew_thread",
    ".hidden vitalfew_thread",
    ".type vitalfew_thread, %object",
    ".size vitalfew_thread, 8",
    ".p2align 3",
    "vitalfew_thread:",
    ".zero 8",
    ".text",
);

/// Returns the address of this thread's word, by the initial-exec model: its slot in the lower
/// bits, its session above.
#[cfg(target_arch = "x86_64")]
fn local() -> *mut u64 {
    let at: usize;
    // SAFETY: reads the thread pointer and the variable's offset from it.
    unsafe {
        asm!(
            "mov {at}, qword ptr fs:[0]",
            "add {at}, qword ptr [rip + vitalfew_thread@GOTTPOFF]",
            at = out(reg) at, options(nostack, readonly)
        );
    }
    at as *mut u64
}

/// Returns the address of this thread's word, by the initial-exec model: its slot in the lower
/// bits, its session above.
#[cfg(target_arch = "aarch64")]
fn local() -> *mut u64 {
    let (at, _offset): (usize, usize);
    // SAFETY: reads the thread pointer and the variable's offset from it.
    unsafe {
        asm!(
            "mrs {at}, tpidr_el0",
            "adrp {offset}, :gottprel:vitalfew_thread",
            "ldr {offset}, [{offset}, :gottprel_lo12:vitalfew_thread]",
            "add {at}, {at}, {offset}",
            at = out(reg) at, offset = out(reg) _offset, options(nostack, readonly)
        );
    }
    at as *mut u64
}

/// Returns the memory shared with the controller; `None` before the start and where nothing is
/// measured.
pub fn shared_page() -> Option<&'static Page> {
    // SAFETY: null, or a mapping that stays until the process ends.
    unsafe { PAGE.load(Acquire).as_ref() }
}

/// Sets the memory shared with the controller.
pub fn set_page(page: *mut Page) {
    PAGE.store(page, core::sync::atomic::Ordering::Release);
}

/// Returns this thread; `None` if it is not measured.
pub fn current_thread() -> Option<&'static Thread> {
    // SAFETY: only this thread uses the word.
    let word = unsafe { *local() };
    if word == 0 || word & SESSION_MASK != SESSION.load(Relaxed) {
        return None;
    }
    // SAFETY: a slot of the page, which stays.
    unsafe { ((word & !SESSION_MASK) as *const Thread).as_ref() }
}

/// Returns whether this thread still has this slot: another session may have begun since.
pub fn is_current(thread: &Thread) -> bool {
    current_thread().is_some_and(|current| core::ptr::eq(current, thread))
}

/// Begins another session, in which no thread has a slot yet.
pub fn begin_session() {
    let one = 1 << SESSION_BITS;
    SESSION.fetch_add(one, Relaxed);
}

/// Sets the slot of the current thread.
pub fn set_this(thread: *const Thread) {
    let word = match thread as u64 {
        0 => 0,
        address => address | SESSION.load(Relaxed),
    };
    // SAFETY: only this thread uses the word.
    unsafe { *local() = word };
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    #[cfg_attr(miri, ignore = "assembly")]
    fn a_thread_has_its_own_slot_until_the_next_session() {
        // SAFETY: all of it are atomic numbers.
        let slot: Thread = unsafe { core::mem::zeroed() };
        assert!(current_thread().is_none());
        set_this(&raw const slot);
        assert!(is_current(&slot));
        let elsewhere = std::thread::scope(|scope| {
            let other = scope.spawn(|| current_thread().is_none());
            other.join().unwrap()
        });
        assert!(elsewhere);
        begin_session();
        assert!(current_thread().is_none());
        set_this(&raw const slot);
        assert!(is_current(&slot));
        set_this(core::ptr::null());
        assert!(current_thread().is_none());
    }
}
