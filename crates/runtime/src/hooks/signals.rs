//! Signals: sending one may wake a thread, and the program must not take over the sampling signal.

use super::{waits, wakes};
use crate::real::real;
use crate::thread_event::SIGNAL;
use core::ffi::{c_int, c_void};
use core::sync::atomic::AtomicU32;
use core::sync::atomic::Ordering::Relaxed;
use libc::{pid_t, pthread_t, sighandler_t, siginfo_t, sigset_t, timespec};

wakes! {
    kill(process: pid_t, signal: c_int) -> c_int;
    tgkill(process: pid_t, thread: pid_t, signal: c_int) -> c_int;
    sigqueue(process: pid_t, signal: c_int, value: *mut c_void) -> c_int;
    pthread_kill(thread: pthread_t, signal: c_int) -> c_int;
    pthread_sigqueue(thread: pthread_t, signal: c_int, value: *mut c_void) -> c_int;
}

waits! {
    sigsuspend(mask: *const sigset_t) -> c_int, |_| true;
}

/// Returns whether a process sent the signal, not a timer or the kernel.
///
/// # Safety
/// `info` is of a received signal.
unsafe fn sent_by_process(info: *const siginfo_t) -> bool {
    // SAFETY: see the caller; with these codes the sender's id is set.
    unsafe {
        let by_somebody = matches!(
            (*info).si_code,
            libc::SI_USER | libc::SI_QUEUE | libc::SI_TKILL
        );
        by_somebody && (*info).si_pid() as u32 == crate::sys::process_id()
    }
}

#[unsafe(no_mangle)]
unsafe extern "C-unwind" fn sigwait(signals: *const sigset_t, signal: *mut c_int) -> c_int {
    let wait = crate::operations::Wait::begin(super::operation!(sigwait, signals));
    // SAFETY: the caller upholds the contract of this function.
    let result = unsafe {
        let copy = without_ours(signals);
        let signals = pointer_to(copy.as_ref(), signals);
        real!(sigwait(signals: *const sigset_t, signal: *mut c_int) -> c_int)
    };
    wait.end(result == 0);
    result
}

#[unsafe(no_mangle)]
unsafe extern "C-unwind" fn sigwaitinfo(signals: *const sigset_t, info: *mut siginfo_t) -> c_int {
    // SAFETY: the caller upholds the contract of this function.
    unsafe { sigtimedwait(signals, info, core::ptr::null()) }
}

#[unsafe(no_mangle)]
unsafe extern "C-unwind" fn sigtimedwait(
    signals: *const sigset_t,
    info: *mut siginfo_t,
    time: *const timespec,
) -> c_int {
    // SAFETY: a siginfo may be all zeros; the caller upholds the rest.
    unsafe {
        let mut own: siginfo_t = core::mem::zeroed();
        let info = if info.is_null() { &raw mut own } else { info };
        let wait = crate::operations::Wait::begin(super::operation!(sigtimedwait, signals));
        let copy = without_ours(signals);
        let signals = pointer_to(copy.as_ref(), signals);
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
    let ours = signal == SIGNAL && signal_is_ours();
    let new = if ours { core::ptr::null() } else { new };
    // SAFETY: the caller upholds the contract of this function.
    unsafe { crate::real::sigaction(signal, new, old) }
}

#[unsafe(no_mangle)]
unsafe extern "C-unwind" fn signal(signal: c_int, handler: sighandler_t) -> sighandler_t {
    if signal == SIGNAL && signal_is_ours() {
        return libc::SIG_DFL;
    }
    // SAFETY: the caller upholds the contract of this function.
    unsafe { real!(signal(signal: c_int, handler: sighandler_t) -> sighandler_t) }
}

/// Returns a set of signals to wait for without the sampling signal, which only vitalfew sends.
///
/// # Safety
/// `signals` is null or points to a set.
unsafe fn without_ours(signals: *const sigset_t) -> Option<sigset_t> {
    if !signal_is_ours() {
        return None;
    }
    // SAFETY: see the caller.
    let mut copy = unsafe { *signals.as_ref()? };
    // SAFETY: a local copy of the set.
    unsafe { libc::sigdelset(&raw mut copy, SIGNAL) };
    Some(copy)
}

/// Returns a pointer to the copy if there is one, to `signals` otherwise.
fn pointer_to(copy: Option<&sigset_t>, signals: *const sigset_t) -> *const sigset_t {
    copy.map_or(signals, core::ptr::from_ref)
}

#[unsafe(no_mangle)]
unsafe extern "C-unwind" fn signalfd(
    descriptor: c_int,
    signals: *const sigset_t,
    flags: c_int,
) -> c_int {
    // SAFETY: the caller upholds the contract of this function.
    unsafe {
        let copy = without_ours(signals);
        let signals = pointer_to(copy.as_ref(), signals);
        real!(signalfd(descriptor: c_int, signals: *const sigset_t, flags: c_int) -> c_int)
    }
}

/// Returns whether threads are measured, or held, by the signal.
fn signal_is_ours() -> bool {
    #[cfg(target_arch = "x86_64")]
    if crate::trace::has_session() {
        return true;
    }
    crate::thread::shared_page().is_some()
}

/// Returns where it is kept that the program has this thread block the signal.
fn own_blocks_signal() -> Option<&'static AtomicU32> {
    #[cfg(target_arch = "x86_64")]
    if let Some(thread) = crate::trace::hold::own_slot() {
        return Some(&thread.blocks_signal);
    }
    crate::thread::current_thread().map(|thread| &thread.blocks_signal)
}

/// Has `set` change the signals that this thread blocks, ours never. What was blocked before is
/// reported as the program has set it.
///
/// # Safety
/// `mask` is null or points to a set; `old` is null or has room for one.
unsafe fn keep_ours_unblocked(
    how: c_int,
    mask: *const sigset_t,
    old: *mut sigset_t,
    set: impl FnOnce(*const sigset_t) -> c_int,
) -> c_int {
    // SAFETY: see the caller; both may be the same.
    let names_ours = !mask.is_null() && unsafe { libc::sigismember(mask, SIGNAL) } == 1;
    // SAFETY: see the caller.
    let copy = unsafe { without_ours(mask) }.filter(|_| how != libc::SIG_UNBLOCK);
    let result = set(pointer_to(copy.as_ref(), mask));
    let Some(own) = own_blocks_signal().filter(|_| result == 0) else {
        return result;
    };
    let blocked = own.load(Relaxed) != 0;
    if blocked && !old.is_null() {
        // SAFETY: see the caller.
        unsafe { libc::sigaddset(old, SIGNAL) };
    }
    let blocks = match how {
        _ if mask.is_null() => blocked,
        libc::SIG_BLOCK => blocked || names_ours,
        libc::SIG_UNBLOCK => blocked && !names_ours,
        _ => names_ours,
    };
    own.store(u32::from(blocks), Relaxed);
    result
}

#[unsafe(no_mangle)]
unsafe extern "C-unwind" fn sigprocmask(
    how: c_int,
    mask: *const sigset_t,
    old: *mut sigset_t,
) -> c_int {
    // SAFETY: the caller upholds the contract of this function.
    unsafe {
        keep_ours_unblocked(
            how,
            mask,
            old,
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
    // SAFETY: the caller upholds the contract of this function.
    unsafe {
        keep_ours_unblocked(
            how,
            mask,
            old,
            |mask| real!(pthread_sigmask(how: c_int, mask: *const sigset_t, old: *mut sigset_t) -> c_int),
        )
    }
}
