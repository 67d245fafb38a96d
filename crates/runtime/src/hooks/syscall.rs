//! Futexes used directly: by Rust's standard library, `parking_lot`, C++20's atomic waits.

use crate::operations::{self, Operation, Wait};
use crate::program_clock::RealTime;
use crate::sys;
use core::ffi::{c_int, c_long};
use libc::timespec;

/// Mask of the operation, without its flags.
const OPERATION: usize = 0x7f;

/// Replaces `syscall(2)`. Arguments that the caller did not pass are whatever the registers hold;
/// the kernel ignores them too.
#[unsafe(no_mangle)]
unsafe extern "C-unwind" fn syscall(
    number: c_long,
    a: usize,
    b: usize,
    c: usize,
    d: usize,
    e: usize,
    f: usize,
) -> c_long {
    let operation = (b & OPERATION) as i32;
    let waits = match number {
        libc::SYS_futex => matches!(
            operation,
            libc::FUTEX_WAIT
                | libc::FUTEX_WAIT_BITSET
                | libc::FUTEX_LOCK_PI
                | libc::FUTEX_LOCK_PI2
                | libc::FUTEX_WAIT_REQUEUE_PI
        ),
        libc::SYS_futex_waitv => true,
        _ => false,
    };
    if number == libc::SYS_prctl {
        before_prctl(a as c_int, b);
    } else if number == libc::SYS_seccomp {
        sys::note_filter();
        if a == SECCOMP_SET_MODE_STRICT {
            before_time_ends();
        }
    }
    let result = if waits {
        let wait = Wait::begin(Operation::of("futex", &[a]));
        // SAFETY: the caller upholds the contract of this function.
        let result = unsafe {
            let until = RealTime::of(if ends_at_a_time(number, operation) {
                d as *const timespec
            } else {
                core::ptr::null()
            });
            let until = until.as_ptr();
            let d = if until.is_null() { d } else { until as usize };
            sys::call(number, [a, b, c, d, e, f])
        };
        // If the value had changed already, another thread changed it.
        wait.end(result >= 0 || result == -(libc::EAGAIN as isize));
        result
    } else {
        if number == libc::SYS_futex || number == libc::SYS_tgkill {
            operations::before_waking(Operation::of("wake", &[a]));
        }
        // SAFETY: the caller upholds the contract of this function.
        unsafe { sys::call(number, [a, b, c, d, e, f]) }
    };
    libc_result(result)
}

/// Returns whether the fourth argument is an absolute deadline; otherwise it is a duration.
fn ends_at_a_time(number: c_long, operation: c_int) -> bool {
    // `futex_waitv` keeps the operations of its futexes in memory.
    number == libc::SYS_futex_waitv || operation != libc::FUTEX_WAIT
}

const SECCOMP_SET_MODE_STRICT: usize = 0;

/// Handles `prctl`, by which programs restrict their rights.
fn before_prctl(option: c_int, value: usize) {
    const PR_SET_TSC: c_int = 26;
    const PR_TSC_SIGSEGV: usize = 2;
    let strict = libc::SECCOMP_MODE_STRICT as usize;
    if option == libc::PR_SET_SECCOMP {
        sys::note_filter();
    }
    if (option, value) == (libc::PR_SET_SECCOMP, strict)
        || (option, value) == (PR_SET_TSC, PR_TSC_SIGSEGV)
    {
        before_time_ends();
    }
}

/// Ends the measurement of this thread, which is about to lose the right to read the time-stamp
/// counter, and with it the clock.
fn before_time_ends() {
    if let Some(thread) = crate::thread::current_thread() {
        crate::attach::detach_thread(thread);
    }
    #[cfg(target_arch = "x86_64")]
    crate::trace::frames::let_go();
}

/// Replaces `prctl(2)`, which restricts system calls among other things.
#[unsafe(no_mangle)]
unsafe extern "C-unwind" fn prctl(option: c_int, b: usize, c: usize, d: usize, e: usize) -> c_int {
    before_prctl(option, b);
    // SAFETY: the caller upholds the contract of this function.
    libc_result(unsafe { sys::call(libc::SYS_prctl, [option as usize, b, c, d, e, 0]) }) as c_int
}

/// Converts the kernel's result to the C library's.
fn libc_result(result: isize) -> c_long {
    if (-4095..0).contains(&result) {
        // SAFETY: the C library's own place for it.
        unsafe { *libc::__errno_location() = -result as i32 };
        return -1;
    }
    result as c_long
}
