//! The signal that samples or holds threads.

use crate::sys;
use crate::thread_event::SIGNAL;

/// Installs `handler` for the signal. Returns the program's former action.
pub fn take_signal(handler: usize) -> libc::sigaction {
    // SAFETY: an action of zeros is one; all other signals wait while we are in the handler, so
    // that none of the program's own handlers can leave ours by a long jump. So do the C library's
    // own, which `sigfillset` leaves out: the one by which threads are cancelled unwinds the stack.
    unsafe {
        let mut action: libc::sigaction = core::mem::zeroed();
        let mut before: libc::sigaction = core::mem::zeroed();
        action.sa_sigaction = handler;
        action.sa_flags = libc::SA_SIGINFO | libc::SA_RESTART | libc::SA_ONSTACK;
        (&raw mut action.sa_mask).cast::<u64>().write(u64::MAX);
        crate::real::sigaction(SIGNAL, &raw const action, &raw mut before);
        before
    }
}

/// Unblocks the signal in this thread. Returns whether it was blocked: the process that started the
/// program may have blocked all signals.
pub fn unblock_signal() -> bool {
    let bit = 1u64 << (SIGNAL - 1);
    let mut before = 0u64;
    let (ours, old) = (&raw const bit as usize, &raw mut before as usize);
    let how = libc::SIG_UNBLOCK as usize;
    // SAFETY: both sets live during the call.
    unsafe { sys::call(libc::SYS_rt_sigprocmask, [how, ours, old, 8, 0, 0]) };
    before & bit != 0
}
