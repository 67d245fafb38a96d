//! The filter of system calls that launched commands inherit (seccomp).
//!
//! A container's or a service's manager may have restricted this process and its children. A call
//! that the filter forbids ends a thread of the command, or never returns to the code that its
//! sample interrupted. So the calls are first tried in a child process.

use std::io::{self, Read};
use std::os::fd::AsRawFd;

/// The system calls that vitalfew makes a sampled thread do, in the order in which they are tried.
/// Calls that any program start needs are left out.
const NEEDED: [NeededCall; 4] = [
    NeededCall::new("rt_sigaction", take_signal),
    NeededCall::new("rt_sigreturn", return_from_signal),
    NeededCall::new("clock_nanosleep", sleep_shortly),
    NeededCall::new("futex", wake_nobody),
];

/// A system call with a function that tries it and returns whether it was allowed.
struct NeededCall {
    name: &'static str,
    is_allowed: fn() -> bool,
}

impl NeededCall {
    const fn new(name: &'static str, is_allowed: fn() -> bool) -> Self {
        Self { name, is_allowed }
    }
}

/// Returns the first needed call that commands of this process may not make; `None`: all are
/// allowed.
pub(crate) fn forbidden_call() -> io::Result<Option<&'static str>> {
    let status = std::fs::read_to_string("/proc/self/status")?;
    let mode = status.lines().find_map(|it| it.strip_prefix("Seccomp:"));
    if mode.is_none_or(|mode| mode.trim() == "0") {
        return Ok(None);
    }
    let allowed = try_calls()?;
    Ok(NEEDED.get(allowed).map(|call| call.name))
}

/// Tries the calls in a new process. Returns the number of allowed ones.
fn try_calls() -> io::Result<usize> {
    let (mut reader, writer) = io::pipe()?;
    let told = writer.as_raw_fd();
    // SAFETY: the child makes only system calls of its own, and ends without running other code of
    // this process.
    let child = unsafe { libc::fork() };
    if child < 0 {
        return Err(io::Error::last_os_error());
    }
    if child == 0 {
        for call in NEEDED {
            // SAFETY: writes one byte of a constant; `_exit` ends the child.
            unsafe {
                if !(call.is_allowed)() || libc::write(told, c"+".as_ptr().cast(), 1) != 1 {
                    libc::_exit(1);
                }
            }
        }
        // SAFETY: ends the child.
        unsafe { libc::_exit(0) };
    }
    drop(writer);
    let mut allowed = Vec::new();
    reader.read_to_end(&mut allowed)?;
    // SAFETY: waits for a child of this process.
    unsafe { libc::waitpid(child, std::ptr::null_mut(), 0) };
    Ok(allowed.len())
}

extern "C" fn do_nothing(_: libc::c_int) {}

fn take_signal() -> bool {
    // SAFETY: an action of zeros is valid; the handler does nothing.
    unsafe {
        let mut action: libc::sigaction = std::mem::zeroed();
        action.sa_sigaction = do_nothing as *const () as usize;
        libc::sigaction(runtime_abi::SIGNAL, &raw const action, std::ptr::null_mut()) == 0
    }
}

/// Tries the call that ends a signal handler.
fn return_from_signal() -> bool {
    // SAFETY: the signal has a handler that does nothing.
    unsafe { libc::raise(runtime_abi::SIGNAL) == 0 }
}

fn sleep_shortly() -> bool {
    let time = libc::timespec {
        tv_sec: 0,
        tv_nsec: 1,
    };
    // SAFETY: the time lives during the call; nothing is written.
    unsafe {
        libc::clock_nanosleep(
            libc::CLOCK_MONOTONIC,
            0,
            &raw const time,
            std::ptr::null_mut(),
        ) == 0
    }
}

fn wake_nobody() -> bool {
    let word = 0u32;
    // SAFETY: the word lives during the call, and no thread waits on it.
    unsafe { libc::syscall(libc::SYS_futex, &raw const word, libc::FUTEX_WAKE, 0) == 0 }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn without_a_filter_everything_is_allowed() {
        assert_eq!(try_calls().expect("a process"), NEEDED.len());
    }
}
