//! The filter of system calls that commands of ours inherit (seccomp).
//!
//! A container's or a service's manager may have restricted this process, and with it what it starts. A call that the filter forbids ends a
//! thread of the command, or never returns to where its sample interrupted it. So the calls are tried before, in a process of our own.

use std::io::{self, Read};
use std::os::fd::AsRawFd;

/// The system calls that a sampled thread makes because of us, in the order in which they are tried. Those by which a program is started
/// at all are not among them.
const NEEDED: [NeededCall; 4] = [
    NeededCall::new("rt_sigaction", take_signal),
    NeededCall::new("rt_sigreturn", return_from_signal),
    NeededCall::new("clock_nanosleep", sleep_shortly),
    NeededCall::new("futex", wake_nobody),
];

/// A system call with the way to try it, which says whether it was allowed.
struct NeededCall {
    name: &'static str,
    is_allowed: fn() -> bool,
}

impl NeededCall {
    const fn new(name: &'static str, is_allowed: fn() -> bool) -> Self {
        Self { name, is_allowed }
    }
}

/// Returns the first call that commands of this process may not make although they would have to; `None`: all are allowed.
pub(crate) fn forbidden_call() -> io::Result<Option<&'static str>> {
    let status = std::fs::read_to_string("/proc/self/status")?;
    let mode = status.lines().find_map(|it| it.strip_prefix("Seccomp:"));
    if mode.is_none_or(|mode| mode.trim() == "0") {
        return Ok(None);
    }
    let allowed = try_calls()?;
    Ok(NEEDED.get(allowed).map(|call| call.name))
}

/// Makes the calls in a new process. Returns how many of them were allowed.
fn try_calls() -> io::Result<usize> {
    let (mut reader, writer) = io::pipe()?;
    let told = writer.as_raw_fd();
    // SAFETY: the child makes system calls of its own only, and ends without running anything of ours.
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
    // SAFETY: waits for our own child.
    unsafe { libc::waitpid(child, std::ptr::null_mut(), 0) };
    Ok(allowed.len())
}

extern "C" fn do_nothing(_: libc::c_int) {}

fn take_signal() -> bool {
    // SAFETY: an action of zeros is one; the handler does nothing.
    unsafe {
        let mut action: libc::sigaction = std::mem::zeroed();
        action.sa_sigaction = do_nothing as *const () as usize;
        libc::sigaction(runtime_abi::SIGNAL, &raw const action, std::ptr::null_mut()) == 0
    }
}

/// The end of the handler is the call.
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
    // SAFETY: the word lives during the call, and nobody waits on it.
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
