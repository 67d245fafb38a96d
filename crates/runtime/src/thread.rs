//! The current thread: one pointer in thread-local storage, found without a call.

use core::arch::{asm, global_asm};
use core::sync::atomic::{AtomicPtr, Ordering::Acquire};
use runtime_abi::{Page, Thread};

static PAGE: AtomicPtr<Page> = AtomicPtr::new(core::ptr::null_mut());

// Rust's own thread-local variables are not for signal handlers: outside the standard library they
// are not stable, and inside it they may be made on first use.
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

/// Address of this thread's pointer, by the initial-exec model.
#[cfg(target_arch = "x86_64")]
fn local() -> *mut *const Thread {
    let at: usize;
    // SAFETY: reads the thread pointer and the variable's offset from it.
    unsafe {
        asm!(
            "mov {at}, qword ptr fs:[0]",
            "add {at}, qword ptr [rip + vitalfew_thread@GOTTPOFF]",
            at = out(reg) at, options(nostack, readonly)
        );
    }
    at as *mut *const Thread
}

/// Address of this thread's pointer, by the initial-exec model.
#[cfg(target_arch = "aarch64")]
fn local() -> *mut *const Thread {
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
    at as *mut *const Thread
}

/// The memory shared with the controller; `None` before the start and where nothing is measured.
pub fn shared_page() -> Option<&'static Page> {
    // SAFETY: null, or a mapping that stays until the process ends.
    unsafe { PAGE.load(Acquire).as_ref() }
}

/// Sets it.
pub fn set_page(page: *mut Page) {
    PAGE.store(page, core::sync::atomic::Ordering::Release);
}

/// This thread; `None` if it is not measured.
pub fn current_thread() -> Option<&'static Thread> {
    // SAFETY: the pointer is null or to a slot of the page, which stays.
    unsafe { (*local()).as_ref() }
}

/// Sets which thread this is.
pub fn set_this(thread: *const Thread) {
    // SAFETY: only this thread uses the variable.
    unsafe { *local() = thread };
}
