//! Facts about functions that follow from their names: the arguments that determine their duration (§3.4), and the
//! causes of their waits.

use profile::CauseKind;
use std::borrow::Cow;

/// A function that everybody knows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KnownFunction {
    /// Its names: `*` at the end stands for any rest.
    pub names: &'static [&'static str],
    /// Arguments, from 1, by which its executions are told apart.
    pub arguments: &'static [u8],
    /// The cause of its waits, if it waits.
    pub waits_for: Option<CauseKind>,
}

/// The default list of the functions whose duration depends on arguments, with what they wait for.
pub const KNOWN_FUNCTIONS: &[KnownFunction] = &[
    known_as(
        &[
            "pthread_mutex_lock",
            "pthread_mutex_timedlock",
            "pthread_mutex_clocklock",
            "pthread_rwlock_rdlock",
            "pthread_rwlock_wrlock",
            "pthread_rwlock_timed*",
            "pthread_spin_lock",
            "mtx_lock",
            "mtx_timedlock",
            "__lll_lock_wait*",
            "lll_lock_wait*",
            "omp_set_lock",
            "omp_set_nest_lock",
            "std::sys::sync::mutex::futex::Mutex::lock_contended",
            "std::sys::sync::mutex::futex::Mutex::lock*",
            "std::sys::sync::rwlock::futex::RwLock::read_contended",
            "std::sys::sync::rwlock::futex::RwLock::write_contended",
            "std::sys::sync::once::futex::Once::call",
            "parking_lot::raw_mutex::RawMutex::lock_slow",
            "parking_lot::raw_rwlock::RawRwLock::lock_shared_slow",
            "parking_lot::raw_rwlock::RawRwLock::lock_exclusive_slow",
            "GOMP_critical_start",
            "GOMP_critical_name_start",
            "__kmpc_critical",
            "flockfile",
            "flock",
            "lockf",
            "lockf64",
            "__cxa_guard_acquire",
            "absl::Mutex::Lock",
            "absl::Mutex::ReaderLock",
        ],
        &[1],
        Some(CauseKind::Lock),
    ),
    known_as(LOCK_RELEASERS, &[1], None),
    known_as(&["pthread_mutex_trylock"], &[1], None),
    known_as(SIGNALLERS, &[1], None),
    known_as(
        &[
            "pthread_barrier_wait",
            "parsec_barrier_wait",
            "std::sync::barrier::Barrier::wait",
            "std::sync::Barrier::wait",
        ],
        &[1],
        Some(CauseKind::Barrier),
    ),
    known_as(
        &[
            "GOMP_barrier",
            "GOMP_barrier_cancel",
            "GOMP_loop_end",
            "GOMP_sections_end",
            "GOMP_taskwait",
            "gomp_barrier_wait*",
            "gomp_team_barrier_wait*",
            "__kmpc_barrier",
        ],
        &[],
        Some(CauseKind::Barrier),
    ),
    known_as(
        &[
            "pthread_cond_wait",
            "pthread_cond_timedwait",
            "pthread_cond_clockwait",
            "cnd_wait",
            "cnd_timedwait",
        ],
        &[1, 2],
        Some(CauseKind::Pool),
    ),
    known_as(
        &["sem_wait", "sem_timedwait", "sem_clockwait"],
        &[1],
        Some(CauseKind::Pool),
    ),
    known_as(
        &[
            "std::sys::sync::condvar::futex::Condvar::wait",
            "std::sys::sync::condvar::futex::Condvar::wait_timeout",
            "std::sys::sync::condvar::futex::Condvar::wait_optional_timeout",
            "std::thread::park",
            "std::thread::park_timeout",
            "std::thread::functions::park",
            "parking_lot::condvar::Condvar::wait_until_internal",
            "tokio::runtime::scheduler::multi_thread::park::Inner::park_condvar",
            "tokio::runtime::scheduler::multi_thread::park::Inner::park_driver",
            "tokio::runtime::park::Inner::park",
        ],
        &[],
        Some(CauseKind::Pool),
    ),
    known_as(
        &[
            "pthread_join",
            "pthread_timedjoin_np",
            "thrd_join",
            "wait",
            "waitpid",
            "wait4",
            "waitid",
        ],
        &[],
        Some(CauseKind::Pool),
    ),
    known_as(
        &[
            "read",
            "__read",
            "__read_nocancel",
            "write",
            "__write",
            "__write_nocancel",
            "__GI___libc_write",
            "pread",
            "pread64",
            "pwrite",
            "pwrite64",
            "readv",
            "writev",
            "preadv*",
            "pwritev*",
            "send",
            "recv",
            "sendto",
            "recvfrom",
        ],
        // readv and its like have the number of pieces in the place of the size.
        &[1, 3],
        None,
    ),
    known_as(
        &["sendmsg", "recvmsg", "sendmmsg", "recvmmsg"],
        &[1],
        Some(CauseKind::Network),
    ),
    known_as(
        &["connect", "accept", "accept4"],
        &[1],
        Some(CauseKind::Network),
    ),
    known_as(
        &["fsync", "fdatasync", "sync_file_range", "msync", "syncfs"],
        &[1],
        Some(CauseKind::Disk),
    ),
    known_as(
        &[
            "poll",
            "ppoll",
            "select",
            "pselect",
            "epoll_wait",
            "epoll_pwait*",
        ],
        &[1],
        Some(CauseKind::Pool),
    ),
    known_as(
        &[
            "nanosleep",
            "clock_nanosleep",
            "usleep",
            "sleep",
            "thrd_sleep",
        ],
        &[],
        Some(CauseKind::Sleep),
    ),
    // Who yields has nothing to do until somebody else has done something.
    known_as(&["sched_yield", "thrd_yield"], &[], Some(CauseKind::Lock)),
    known_as(
        &["mmap", "mmap64", "munmap", "mprotect", "mremap", "madvise"],
        &[2],
        Some(CauseKind::AddressSpace),
    ),
    known_as(
        &[
            "memcpy",
            "memmove",
            "memset",
            "memcmp",
            "__memcpy*",
            "__memmove*",
            "__memset*",
            "bcopy",
            "strncpy",
            "strncmp",
        ],
        &[3],
        None,
    ),
    known_as(
        &["malloc", "_int_malloc", "operator new*"],
        &[1],
        Some(CauseKind::Allocator),
    ),
    known_as(&["calloc"], &[1, 2], Some(CauseKind::Allocator)),
    known_as(&["realloc"], &[2], Some(CauseKind::Allocator)),
    known_as(
        &["free", "cfree", "_int_free", "operator delete*"],
        &[],
        Some(CauseKind::Allocator),
    ),
    known_as(&["fread", "fwrite"], &[2, 3], None),
    known_as(&["qsort", "bsearch"], &[2, 3], None),
];

const fn known_as(
    names: &'static [&'static str],
    arguments: &'static [u8],
    waits_for: Option<CauseKind>,
) -> KnownFunction {
    KnownFunction {
        names,
        arguments,
        waits_for,
    }
}

/// Returns what is known of a function by its name; a version (`read@GLIBC_2.2.5`) is no part of that.
pub fn known_function(name: &str) -> Option<&'static KnownFunction> {
    let name = plain_name(name);
    let matches = |pattern: &&str| match pattern.strip_suffix('*') {
        Some(start) => name.starts_with(start),
        None => name == *pattern,
    };
    KNOWN_FUNCTIONS
        .iter()
        .find(|f| f.names.iter().any(&matches))
}

/// A name without its version, its hash, and the brackets that Rust's newer names have (`<a::B>::c`).
fn plain_name(name: &str) -> Cow<'_, str> {
    let name = name.split('@').next().unwrap_or(name);
    let name = match name.rsplit_once("::h") {
        Some((start, hash)) if hash.len() == 16 => start,
        _ => name,
    };
    let inherent = name.strip_prefix('<').and_then(|rest| {
        let (implemented, rest) = rest.split_once(">::")?;
        (!implemented.contains(" as ")).then(|| format!("{implemented}::{rest}"))
    });
    inherent.map_or(Cow::Borrowed(name), Cow::Owned)
}

/// Returns whether a function waits for the end of a thread or a process: its caller has nothing to do until then.
pub(super) fn is_join(name: &str) -> bool {
    const JOINS: [&str; 8] = [
        "pthread_join",
        "pthread_timedjoin_np",
        "pthread_clockjoin_np",
        "thrd_join",
        "wait",
        "waitpid",
        "wait4",
        "waitid",
    ];
    JOINS.contains(&&*plain_name(name))
}

/// Returns whether a function is the C library's own way of waiting, for whatever lock its callers have.
pub(super) fn waits_for_callers(name: &str) -> bool {
    let name = &*plain_name(name);
    name.starts_with("__lll_lock_wait") || name.starts_with("lll_lock_wait")
}

/// Functions that let one waiting thread go on, and those that let all of them.
pub(super) fn wakes_one(name: &str) -> Option<bool> {
    match &*plain_name(name) {
        "sem_post" | "pthread_cond_signal" | "cnd_signal" => Some(true),
        "pthread_cond_broadcast" | "cnd_broadcast" => Some(false),
        _ => None,
    }
}

/// Returns what a function waits for by its name.
pub fn waits_for(name: &str) -> Option<CauseKind> {
    let known = known_function(name).and_then(|f| f.waits_for);
    known.or_else(|| {
        let name = name.to_ascii_lowercase();
        name.contains("barrier").then_some(CauseKind::Barrier)
    })
}

/// Functions that give a lock back, and so let those go on that wait for it.
const LOCK_RELEASERS: &[&str] = &[
    "pthread_mutex_unlock",
    "pthread_rwlock_unlock",
    "pthread_spin_unlock",
    "mtx_unlock",
    "omp_unset_lock",
    "__lll_unlock_wake",
    "std::sys::sync::mutex::futex::Mutex::wake",
    "std::sys::sync::rwlock::futex::RwLock::wake_writer_or_readers",
    "parking_lot::raw_mutex::RawMutex::unlock_slow",
    "parking_lot::raw_rwlock::RawRwLock::unlock_shared_slow",
    "parking_lot::raw_rwlock::RawRwLock::unlock_exclusive_slow",
    "tokio::sync::batch_semaphore::Semaphore::add_permits_locked",
];

/// Functions that signal a condition or a semaphore.
const SIGNALLERS: &[&str] = &[
    "pthread_cond_signal",
    "pthread_cond_broadcast",
    "cnd_signal",
    "cnd_broadcast",
    "sem_post",
];

/// Functions that hand work on through a file, a pipe or a socket.
const WRITERS: &[&str] = &[
    "write",
    "__write",
    "__write_nocancel",
    "writev",
    "send",
    "sendto",
    "sendmsg",
];

/// The functions that threads wake others from, by the kind of waiting that they end.
pub(super) fn ends_waits_of(name: &str) -> Option<CauseKind> {
    let name = &*plain_name(name);
    let is = |names: &[&str]| names.contains(&name);
    if is(LOCK_RELEASERS) {
        Some(CauseKind::Lock)
    } else if known_function(name).is_some_and(|f| f.waits_for == Some(CauseKind::Barrier)) {
        Some(CauseKind::Barrier)
    } else if is(SIGNALLERS) || is(WRITERS) {
        Some(CauseKind::Pool)
    } else {
        None
    }
}

/// Returns what a blocking system call waits for, by its number on the machine that was measured; `None` where it
/// could be several things.
pub(super) fn find_system_call(number: u32, aarch64: bool) -> Option<SystemCall> {
    let table = if aarch64 { AARCH64 } else { X86_64 };
    table
        .iter()
        .find(|(known, _)| *known == number)
        .map(|(_, call)| *call)
}

/// A system call that threads wait in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct SystemCall {
    pub name: &'static str,
    pub waits_for: CallTarget,
}

/// Target of a system call's waits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum CallTarget {
    /// Another thread.
    Futex,
    /// Whatever the file descriptor is: a disk if no thread woke it, a pipe if one did.
    File,
    Disk,
    Network,
    /// Several descriptors: work.
    Poll,
    Sleep,
    Child,
    /// The lock of a file.
    FileLock,
    /// The lock of the process's memory map.
    AddressSpace,
    /// Nothing: the call lets others run.
    Yield,
}

/// `sched_yield` on x86-64.
pub(super) const SCHED_YIELD: u32 = 24;

/// Returns whether a function does nothing but let others run.
pub(super) fn is_yield(name: &str) -> bool {
    matches!(
        &*plain_name(name),
        "sched_yield" | "thrd_yield" | "__sched_yield"
    )
}

const fn waits_in(name: &'static str, waits_for: CallTarget) -> SystemCall {
    SystemCall { name, waits_for }
}

const X86_64: &[(u32, SystemCall)] = &[
    (0, waits_in("read", CallTarget::File)),
    (1, waits_in("write", CallTarget::File)),
    (7, waits_in("poll", CallTarget::Poll)),
    (9, waits_in("mmap", CallTarget::AddressSpace)),
    (10, waits_in("mprotect", CallTarget::AddressSpace)),
    (11, waits_in("munmap", CallTarget::AddressSpace)),
    (12, waits_in("brk", CallTarget::AddressSpace)),
    (17, waits_in("pread64", CallTarget::Disk)),
    (18, waits_in("pwrite64", CallTarget::Disk)),
    (19, waits_in("readv", CallTarget::File)),
    (20, waits_in("writev", CallTarget::File)),
    (23, waits_in("select", CallTarget::Poll)),
    (24, waits_in("sched_yield", CallTarget::Yield)),
    (25, waits_in("mremap", CallTarget::AddressSpace)),
    (26, waits_in("msync", CallTarget::Disk)),
    (28, waits_in("madvise", CallTarget::AddressSpace)),
    (34, waits_in("pause", CallTarget::Sleep)),
    (35, waits_in("nanosleep", CallTarget::Sleep)),
    (42, waits_in("connect", CallTarget::Network)),
    (43, waits_in("accept", CallTarget::Network)),
    (44, waits_in("sendto", CallTarget::Network)),
    (45, waits_in("recvfrom", CallTarget::Network)),
    (46, waits_in("sendmsg", CallTarget::Network)),
    (47, waits_in("recvmsg", CallTarget::Network)),
    (61, waits_in("wait4", CallTarget::Child)),
    (65, waits_in("semop", CallTarget::Futex)),
    (72, waits_in("fcntl", CallTarget::FileLock)),
    (73, waits_in("flock", CallTarget::FileLock)),
    (74, waits_in("fsync", CallTarget::Disk)),
    (75, waits_in("fdatasync", CallTarget::Disk)),
    (128, waits_in("rt_sigtimedwait", CallTarget::Sleep)),
    (130, waits_in("rt_sigsuspend", CallTarget::Sleep)),
    (202, waits_in("futex", CallTarget::Futex)),
    (220, waits_in("semtimedop", CallTarget::Futex)),
    (230, waits_in("clock_nanosleep", CallTarget::Sleep)),
    (232, waits_in("epoll_wait", CallTarget::Poll)),
    (247, waits_in("waitid", CallTarget::Child)),
    (270, waits_in("pselect6", CallTarget::Poll)),
    (271, waits_in("ppoll", CallTarget::Poll)),
    (281, waits_in("epoll_pwait", CallTarget::Poll)),
    (288, waits_in("accept4", CallTarget::Network)),
    (295, waits_in("preadv", CallTarget::Disk)),
    (296, waits_in("pwritev", CallTarget::Disk)),
    (426, waits_in("io_uring_enter", CallTarget::Poll)),
];

const AARCH64: &[(u32, SystemCall)] = &[
    (22, waits_in("epoll_pwait", CallTarget::Poll)),
    (25, waits_in("fcntl", CallTarget::FileLock)),
    (32, waits_in("flock", CallTarget::FileLock)),
    (63, waits_in("read", CallTarget::File)),
    (64, waits_in("write", CallTarget::File)),
    (65, waits_in("readv", CallTarget::File)),
    (66, waits_in("writev", CallTarget::File)),
    (67, waits_in("pread64", CallTarget::Disk)),
    (68, waits_in("pwrite64", CallTarget::Disk)),
    (69, waits_in("preadv", CallTarget::Disk)),
    (70, waits_in("pwritev", CallTarget::Disk)),
    (72, waits_in("pselect6", CallTarget::Poll)),
    (73, waits_in("ppoll", CallTarget::Poll)),
    (82, waits_in("fsync", CallTarget::Disk)),
    (83, waits_in("fdatasync", CallTarget::Disk)),
    (95, waits_in("waitid", CallTarget::Child)),
    (98, waits_in("futex", CallTarget::Futex)),
    (101, waits_in("nanosleep", CallTarget::Sleep)),
    (115, waits_in("clock_nanosleep", CallTarget::Sleep)),
    (124, waits_in("sched_yield", CallTarget::Yield)),
    (133, waits_in("rt_sigsuspend", CallTarget::Sleep)),
    (137, waits_in("rt_sigtimedwait", CallTarget::Sleep)),
    (192, waits_in("semtimedop", CallTarget::Futex)),
    (193, waits_in("semop", CallTarget::Futex)),
    (202, waits_in("accept", CallTarget::Network)),
    (203, waits_in("connect", CallTarget::Network)),
    (206, waits_in("sendto", CallTarget::Network)),
    (207, waits_in("recvfrom", CallTarget::Network)),
    (211, waits_in("sendmsg", CallTarget::Network)),
    (212, waits_in("recvmsg", CallTarget::Network)),
    (214, waits_in("brk", CallTarget::AddressSpace)),
    (215, waits_in("munmap", CallTarget::AddressSpace)),
    (216, waits_in("mremap", CallTarget::AddressSpace)),
    (222, waits_in("mmap", CallTarget::AddressSpace)),
    (226, waits_in("mprotect", CallTarget::AddressSpace)),
    (227, waits_in("msync", CallTarget::Disk)),
    (233, waits_in("madvise", CallTarget::AddressSpace)),
    (242, waits_in("accept4", CallTarget::Network)),
    (260, waits_in("wait4", CallTarget::Child)),
    (426, waits_in("io_uring_enter", CallTarget::Poll)),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_known_with_versions_and_variants() {
        let arguments = |name| known_function(name).map(|f| f.arguments);
        assert_eq!(arguments("pthread_mutex_lock"), Some(&[1][..]));
        assert_eq!(
            arguments("pthread_cond_wait@@GLIBC_2.3.2"),
            Some(&[1, 2][..])
        );
        assert_eq!(arguments("__memmove_avx_unaligned_erms"), Some(&[3][..]));
        assert_eq!(arguments("readdir"), None);
        for name in [
            "<std::sys::sync::mutex::futex::Mutex>::lock_contended",
            "std::sys::sync::mutex::futex::Mutex::lock_contended::h0123456789abcdef",
        ] {
            let known = known_function(name).and_then(|f| f.waits_for);
            assert_eq!(known, Some(CauseKind::Lock), "{name}");
        }
        assert_eq!(find_system_call(202, false).map(|c| c.name), Some("futex"));
        assert_eq!(find_system_call(202, true).map(|c| c.name), Some("accept"));
    }
}
