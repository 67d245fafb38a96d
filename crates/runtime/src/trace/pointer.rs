//! Pointer of a thread to its tracing state.

use core::arch::{asm, global_asm};

// A thread's pointer to its `Local`. It is 0 before the first traced call, and BUSY while the
// thread must not be traced.
global_asm!(
    ".section .tbss, \"awT\", %nobits",
    ".globl vitalfew_trace_local",
    ".hidden vitalfew_trace_local",
    ".type vitalfew_trace_local, %object",
    ".size vitalfew_trace_local, 8",
    ".p2align 3",
    "vitalfew_trace_local:",
    ".zero 8",
    ".text",
);

/// Value of the pointer while calls are not traced.
pub const BUSY: usize = 1;

/// Returns the offset of the pointer from the thread pointer, in bytes.
pub fn offset() -> i64 {
    let offset: i64;
    // SAFETY: reads the variable's offset.
    unsafe {
        asm!("mov {offset}, qword ptr [rip + vitalfew_trace_local@GOTTPOFF]",
             offset = out(reg) offset, options(nostack, readonly, pure));
    }
    offset
}

fn pointer() -> *mut usize {
    let thread: usize;
    // SAFETY: reads the thread pointer.
    unsafe {
        asm!("mov {thread}, qword ptr fs:[0]", thread = out(reg) thread, options(nostack, readonly))
    };
    (thread as i64 + offset()) as *mut usize
}

/// Returns the thread's pointer.
pub fn current() -> usize {
    // SAFETY: only this thread uses the variable; its signal handlers leave it as they find it.
    unsafe { pointer().read() }
}

/// Sets the thread's pointer. Returns the former value.
pub fn replace(value: usize) -> usize {
    // SAFETY: only this thread uses the variable; its signal handlers leave it as they find it.
    unsafe { pointer().replace(value) }
}
