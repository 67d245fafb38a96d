//! Which thread this is: one pointer in thread-local storage, found without a call.

use crate::sys;
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
pub fn page() -> Option<&'static Page> {
    // SAFETY: null, or a mapping that stays until the process ends.
    unsafe { PAGE.load(Acquire).as_ref() }
}

/// Sets it.
pub fn set_page(page: *mut Page) {
    PAGE.store(page, core::sync::atomic::Ordering::Release);
}

/// This thread; `None` if it is not measured.
pub fn this() -> Option<&'static Thread> {
    // SAFETY: the pointer is null or to a slot of the page, which stays.
    unsafe { (*local()).as_ref() }
}

/// Sets which thread this is.
fn set_this(thread: *const Thread) {
    // SAFETY: only this thread uses the variable.
    unsafe { *local() = thread };
}

/// Makes this thread the owner of a slot and starts sampling it.
pub fn attach(page: &Page, thread: &'static Thread) {
    use core::sync::atomic::Ordering::{Relaxed, Release};
    for word in [
        &thread.excess,
        &thread.looked,
        &thread.ran,
        &thread.preempted,
        &thread.gave_up,
        &thread.waited,
    ] {
        word.store(0, Relaxed);
    }
    thread.crowded.store(0, Relaxed);
    thread.waits.store(0, Relaxed);
    thread.event.store(-1, Relaxed);
    thread.pid.store(sys::process_id(), Relaxed);
    thread.tid.store(sys::thread_id(), Release);
    set_this(thread);
    crate::start::at_thread_exit(thread);
    crate::sample::begin(page, thread);
}

/// The end of this thread: it pays what it owes, because its end may wake another one.
pub fn detach(thread: &'static Thread) {
    crate::delay::pay(thread);
    set_this(core::ptr::null());
    crate::sample::end(thread);
    if let Some(page) = page() {
        page.give_back(thread);
    }
}

/// In the child of a fork: its one thread is a new one.
pub fn after_fork(parent: &'static Thread) {
    use core::sync::atomic::Ordering::Relaxed;
    set_this(core::ptr::null());
    let Some(page) = page() else { return };
    // The parent's event is not ours, but its descriptor was copied.
    crate::sample::close_event(parent);
    let Some(thread) = page.take_thread() else {
        page.unmeasured.fetch_add(1, Relaxed);
        return;
    };
    thread.local.store(parent.local.load(Relaxed), Relaxed);
    for (to, from) in [
        (&thread.stack_low, &parent.stack_low),
        (&thread.stack_high, &parent.stack_high),
    ] {
        to.store(from.load(Relaxed), Relaxed);
    }
    attach(page, thread);
}
