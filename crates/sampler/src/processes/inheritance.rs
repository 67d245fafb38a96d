//! Signal dispositions, limits and descriptors inherited from the parent process, for launched
//! commands.
//!
//! The Rust runtime ignores SIGPIPE and opens closed standard descriptors before `main`, so the
//! state is read earlier.

use std::os::unix::process::CommandExt;
use std::process::Command;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

const SIGNALS: std::ops::RangeInclusive<libc::c_int> = 1..=64;
/// Handler, flags, restorer and mask of the kernel's `struct sigaction`.
const ACTION_WORDS: usize = 4;
type Action = [usize; ACTION_WORDS];
static IGNORED: AtomicU64 = AtomicU64::new(0);
static UMASK: AtomicU32 = AtomicU32::new(0o022);
static OPEN_FILES: AtomicU64 = AtomicU64::new(0);
/// A bit for each standard descriptor that was closed.
static CLOSED: AtomicU32 = AtomicU32::new(0);

#[used]
#[unsafe(link_section = ".init_array")]
static REMEMBER: extern "C" fn() = remember_inheritance;

/// Reads the inherited state, and changes what would hinder this process: ignored children cannot
/// be waited for, and measuring needs more descriptors than the soft limit of many shells.
extern "C" fn remember_inheritance() {
    let ignored = SIGNALS.filter(|signal| is_ignored_now(*signal));
    let ignored = ignored.fold(0, |set, signal| set | signal_bit(signal));
    IGNORED.store(ignored, Ordering::Relaxed);
    // SAFETY: plain system calls while the process has one thread; the limit is written through the
    // pointer.
    unsafe {
        let mask = libc::umask(0);
        libc::umask(mask);
        UMASK.store(mask, Ordering::Relaxed);
        let closed = (0..3).filter(|fd| libc::fcntl(*fd, libc::F_GETFD) < 0);
        CLOSED.store(closed.fold(0, |set, fd| set | 1 << fd), Ordering::Relaxed);
        set_handler(libc::SIGCHLD, libc::SIG_DFL);
        let mut limit = std::mem::zeroed::<libc::rlimit>();
        if libc::getrlimit(libc::RLIMIT_NOFILE, &raw mut limit) == 0 {
            OPEN_FILES.store(limit.rlim_cur, Ordering::Relaxed);
            limit.rlim_cur = limit.rlim_max;
            libc::setrlimit(libc::RLIMIT_NOFILE, &raw const limit);
        }
    }
}

fn is_ignored_now(signal: libc::c_int) -> bool {
    let mut action = [0; ACTION_WORDS];
    // SAFETY: the kernel writes an action, which has that size, through the pointer.
    let read = unsafe { sigaction(signal, std::ptr::null(), &raw mut action) };
    read == 0 && action[0] == libc::SIG_IGN
}

/// # Safety
/// Changes the whole process.
unsafe fn set_handler(signal: libc::c_int, handler: libc::sighandler_t) {
    let mut action = [0; ACTION_WORDS];
    action[0] = handler;
    // SAFETY: an action without flags and mask; the handler is one of the kernel's two.
    unsafe { sigaction(signal, &raw const action, std::ptr::null_mut()) };
}

/// Calls the kernel directly: the C library hides the two signals that it uses for threads.
///
/// # Safety
/// As `sigaction(2)`.
unsafe fn sigaction(signal: libc::c_int, new: *const Action, old: *mut Action) -> libc::c_long {
    const MASK_BYTES: usize = 8;
    // SAFETY: see the caller; both pointers are null or point to an action.
    unsafe { libc::syscall(libc::SYS_rt_sigaction, signal, new, old, MASK_BYTES) }
}

fn signal_bit(signal: libc::c_int) -> u64 {
    1 << (signal - 1)
}

/// Returns whether the parent had this signal ignored, as `nohup` does.
pub fn was_ignored(signal: i32) -> bool {
    SIGNALS.contains(&signal) && IGNORED.load(Ordering::Relaxed) & signal_bit(signal) != 0
}

/// Makes a command that executes this program again inherit the original state, except for
/// descriptors.
pub fn pass_inheritance_on(command: &mut Command) {
    // SAFETY: the child makes async-signal-safe calls only.
    unsafe {
        command.pre_exec(|| {
            restore_attributes();
            Ok(())
        })
    };
}

/// Restores the dispositions of signals, the umask and the limit of descriptors.
///
/// # Safety
/// Only in a child that has just been forked: the changes affect the whole process.
unsafe fn restore_attributes() {
    // SAFETY: async-signal-safe calls only; the limit is read and written through live pointers.
    unsafe {
        for signal in SIGNALS {
            if was_ignored(signal) {
                set_handler(signal, libc::SIG_IGN);
            } else if is_ignored_now(signal) {
                set_handler(signal, libc::SIG_DFL);
            }
        }
        libc::umask(UMASK.load(Ordering::Relaxed));
        let mut limit = std::mem::zeroed::<libc::rlimit>();
        if libc::getrlimit(libc::RLIMIT_NOFILE, &raw mut limit) == 0 {
            limit.rlim_cur = OPEN_FILES.load(Ordering::Relaxed);
            libc::setrlimit(libc::RLIMIT_NOFILE, &raw const limit);
        }
    }
}

/// Restores the complete inherited state in a child that is about to execute a command.
///
/// # Safety
/// As [`restore_attributes`].
pub(super) unsafe fn restore_inheritance() {
    // SAFETY: see the caller; closing descriptors is async-signal-safe.
    unsafe {
        restore_attributes();
        for fd in (0..3).filter(|fd| CLOSED.load(Ordering::Relaxed) & (1 << fd) != 0) {
            libc::close(fd);
        }
    }
}
