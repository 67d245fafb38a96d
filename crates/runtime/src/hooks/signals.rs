//! Signals: sending one may wake a thread; and the sampling signal stays ours.

use super::{waits, wakes};
use crate::real::real;
use crate::thread_event::SIGNAL;
use core::ffi::{c_int, c_void};
use libc::{pid_t, pthread_t, sighandler_t, siginfo_t, sigset_t, timespec};

wakes! {
    kill(process: pid_t, signal: c_int) -> c_int;
    tgkill(process: pid_t, thread: pid_t, signal: c_int) -> c_int;
    sigqueue(process: pid_t, signal: c_int, value: *mut c_void) -> c_int;
    pthread_kill(thread: pthread_t, signal: c_int) -> c_int;
    pthread_sigqueue(thread: pthread_t, signal: c_int, value: *mut c_void) -> c_int;
}

waits! {
    sigwait(signals: *const sigset_t, signal: *mut c_int) -> c_int, |result| result == 0;
    sigsuspend(mask: *const sigset_t) -> c_int, |_| true;
}

/// Returns whether a process sent the signal, not a timer or the kernel.
///
/// # Safety
/// `info` is of a signal that was received.
unsafe fn sent_by_process(info: *const siginfo_t) -> bool {
    // SAFETY: see the caller; a sender's id is there with these codes.
    unsafe {
        let by_somebody = matches!(
            (*info).si_code,
            libc::SI_USER | libc::SI_QUEUE | libc::SI_TKILL
        );
        by_somebody && (*info).si_pid() as u32 == crate::sys::process_id()
    }
}

#[unsafe(no_mangle)]
unsafe extern "C-unwind" fn sigwaitinfo(signals: *const sigset_t, info: *mut siginfo_t) -> c_int {
    // SAFETY: the caller's business.
    unsafe { sigtimedwait(signals, info, core::ptr::null()) }
}

#[unsafe(no_mangle)]
unsafe extern "C-unwind" fn sigtimedwait(
    signals: *const sigset_t,
    info: *mut siginfo_t,
    time: *const timespec,
) -> c_int {
    // SAFETY: zeros are a siginfo; the rest is the caller's business.
    unsafe {
        let mut own: siginfo_t = core::mem::zeroed();
        let info = if info.is_null() { &raw mut own } else { info };
        let wait = crate::operations::Wait::begin(super::operation!(sigtimedwait, signals));
        let result = real!(sigtimedwait(
            signals: *const sigset_t, info: *mut siginfo_t, time: *const timespec) -> c_int);
        wait.end(result > 0 && sent_by_process(info));
        result
    }
}

#[unsafe(no_mangle)]
unsafe extern "C-unwind" fn sigaction(
    signal: c_int,
    new: *const libc::sigaction,
    old: *mut libc::sigaction,
) -> c_int {
    let ours = signal == SIGNAL && crate::thread::shared_page().is_some();
    let new = if ours { core::ptr::null() } else { new };
    // SAFETY: the caller's business.
    unsafe { crate::real::sigaction(signal, new, old) }
}

#[unsafe(no_mangle)]
unsafe extern "C-unwind" fn signal(signal: c_int, handler: sighandler_t) -> sighandler_t {
    if signal == SIGNAL && crate::thread::shared_page().is_some() {
        return libc::SIG_DFL;
    }
    // SAFETY: the caller's business.
    unsafe { real!(signal(signal: c_int, handler: sighandler_t) -> sighandler_t) }
}

/// Calls `set` with a mask of signals to block without ours.
///
/// # Safety
/// `mask` is null or to a set.
unsafe fn keep_ours_unblocked(
    how: c_int,
    mask: *const sigset_t,
    set: impl FnOnce(*const sigset_t) -> c_int,
) -> c_int {
    if mask.is_null() || how == libc::SIG_UNBLOCK || crate::thread::shared_page().is_none() {
        return set(mask);
    }
    // SAFETY: see the caller.
    let mut copy = unsafe { *mask };
    // SAFETY: our copy.
    unsafe { libc::sigdelset(&raw mut copy, SIGNAL) };
    set(&raw const copy)
}

#[unsafe(no_mangle)]
unsafe extern "C-unwind" fn sigprocmask(
    how: c_int,
    mask: *const sigset_t,
    old: *mut sigset_t,
) -> c_int {
    // SAFETY: the caller's business.
    unsafe {
        keep_ours_unblocked(
            how,
            mask,
            |mask| real!(sigprocmask(how: c_int, mask: *const sigset_t, old: *mut sigset_t) -> c_int),
        )
    }
}

#[unsafe(no_mangle)]
unsafe extern "C-unwind" fn pthread_sigmask(
    how: c_int,
    mask: *const sigset_t,
    old: *mut sigset_t,
) -> c_int {
    // SAFETY: the caller's business.
    unsafe {
        keep_ours_unblocked(
            how,
            mask,
            |mask| real!(pthread_sigmask(how: c_int, mask: *const sigset_t, old: *mut sigset_t) -> c_int),
        )
    }
}
