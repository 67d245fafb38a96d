//! What is known of functions by their names: the arguments that their duration depends on (§3.4),
//! and what they wait for.

use profile::CauseKind;
use std::borrow::Cow;

/// A function that everybody knows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KnownFunction {
    /// Its names: `*` at the end stands for any rest.
    pub names: &'static [&'static str],
    /// Arguments, from 1, by which its executions are told apart.
    pub arguments: &'static [u8],
    /// What it waits for if it waits.
    pub waits_for: Option<CauseKind>,
}

/// The default list of the functions whose duration depends on arguments, with what they wait for.
pub const KNOWN_FUNCTIONS: &[KnownFunction] = &[
    known(
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
    known(LOCK_RELEASERS, &[1], None),
    known(&["pthread_mutex_trylock"], &[1], None),
    known(SIGNALLERS, &[1], None),
    known(
        &[
            "pthread_barrier_wait",
            "parsec_barrier_wait",
            "std::sync::barrier::Barrier::wait",
            "std::sync::Barrier::wait",
        ],
        &[1],
        Some(CauseKind::Barrier),
    ),
    known(
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
    known(
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
    known(
        &["sem_wait", "sem_timedwait", "sem_clockwait"],
        &[1],
        Some(CauseKind::Pool),
    ),
    known(
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
    known(
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
    known(
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
    known(
        &["sendmsg", "recvmsg", "sendmmsg", "recvmmsg"],
        &[1],
        Some(CauseKind::Network),
    ),
    known(
        &["connect", "accept", "accept4"],
        &[1],
        Some(CauseKind::Network),
    ),
    known(
        &["fsync", "fdatasync", "sync_file_range", "msync", "syncfs"],
        &[1],
        Some(CauseKind::Disk),
    ),
    known(
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
    known(
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
    known(&["sched_yield", "thrd_yield"], &[], Some(CauseKind::Lock)),
    known(
        &["mmap", "mmap64", "munmap", "mprotect", "mremap", "madvise"],
        &[2],
        Some(CauseKind::AddressSpace),
    ),
    known(
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
    known(
        &["malloc", "_int_malloc", "operator new*"],
        &[1],
        Some(CauseKind::Allocator),
    ),
    known(&["calloc"], &[1, 2], Some(CauseKind::Allocator)),
    known(&["realloc"], &[2], Some(CauseKind::Allocator)),
    known(
        &["free", "cfree", "_int_free", "operator delete*"],
        &[],
        Some(CauseKind::Allocator),
    ),
    known(&["fread", "fwrite"], &[2, 3], None),
    known(&["qsort", "bsearch"], &[2, 3], None),
];

const fn known(
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
pub(super) fn call(number: u32, aarch64: bool) -> Option<SystemCall> {
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
    pub waits_for: Waits,
}

/// What a system call waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Waits {
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
    /// Nothing: it lets others run.
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

const fn named(name: &'static str, waits_for: Waits) -> SystemCall {
    SystemCall { name, waits_for }
}

const X86_64: &[(u32, SystemCall)] = &[
    (0, named("read", Waits::File)),
    (1, named("write", Waits::File)),
    (7, named("poll", Waits::Poll)),
    (9, named("mmap", Waits::AddressSpace)),
    (10, named("mprotect", Waits::AddressSpace)),
    (11, named("munmap", Waits::AddressSpace)),
    (12, named("brk", Waits::AddressSpace)),
    (17, named("pread64", Waits::Disk)),
    (18, named("pwrite64", Waits::Disk)),
    (19, named("readv", Waits::File)),
    (20, named("writev", Waits::File)),
    (23, named("select", Waits::Poll)),
    (24, named("sched_yield", Waits::Yield)),
    (25, named("mremap", Waits::AddressSpace)),
    (26, named("msync", Waits::Disk)),
    (28, named("madvise", Waits::AddressSpace)),
    (34, named("pause", Waits::Sleep)),
    (35, named("nanosleep", Waits::Sleep)),
    (42, named("connect", Waits::Network)),
    (43, named("accept", Waits::Network)),
    (44, named("sendto", Waits::Network)),
    (45, named("recvfrom", Waits::Network)),
    (46, named("sendmsg", Waits::Network)),
    (47, named("recvmsg", Waits::Network)),
    (61, named("wait4", Waits::Child)),
    (65, named("semop", Waits::Futex)),
    (72, named("fcntl", Waits::FileLock)),
    (73, named("flock", Waits::FileLock)),
    (74, named("fsync", Waits::Disk)),
    (75, named("fdatasync", Waits::Disk)),
    (128, named("rt_sigtimedwait", Waits::Sleep)),
    (130, named("rt_sigsuspend", Waits::Sleep)),
    (202, named("futex", Waits::Futex)),
    (220, named("semtimedop", Waits::Futex)),
    (230, named("clock_nanosleep", Waits::Sleep)),
    (232, named("epoll_wait", Waits::Poll)),
    (247, named("waitid", Waits::Child)),
    (270, named("pselect6", Waits::Poll)),
    (271, named("ppoll", Waits::Poll)),
    (281, named("epoll_pwait", Waits::Poll)),
    (288, named("accept4", Waits::Network)),
    (295, named("preadv", Waits::Disk)),
    (296, named("pwritev", Waits::Disk)),
    (426, named("io_uring_enter", Waits::Poll)),
];

const AARCH64: &[(u32, SystemCall)] = &[
    (22, named("epoll_pwait", Waits::Poll)),
    (25, named("fcntl", Waits::FileLock)),
    (32, named("flock", Waits::FileLock)),
    (63, named("read", Waits::File)),
    (64, named("write", Waits::File)),
    (65, named("readv", Waits::File)),
    (66, named("writev", Waits::File)),
    (67, named("pread64", Waits::Disk)),
    (68, named("pwrite64", Waits::Disk)),
    (69, named("preadv", Waits::Disk)),
    (70, named("pwritev", Waits::Disk)),
    (72, named("pselect6", Waits::Poll)),
    (73, named("ppoll", Waits::Poll)),
    (82, named("fsync", Waits::Disk)),
    (83, named("fdatasync", Waits::Disk)),
    (95, named("waitid", Waits::Child)),
    (98, named("futex", Waits::Futex)),
    (101, named("nanosleep", Waits::Sleep)),
    (115, named("clock_nanosleep", Waits::Sleep)),
    (124, named("sched_yield", Waits::Yield)),
    (133, named("rt_sigsuspend", Waits::Sleep)),
    (137, named("rt_sigtimedwait", Waits::Sleep)),
    (192, named("semtimedop", Waits::Futex)),
    (193, named("semop", Waits::Futex)),
    (202, named("accept", Waits::Network)),
    (203, named("connect", Waits::Network)),
    (206, named("sendto", Waits::Network)),
    (207, named("recvfrom", Waits::Network)),
    (211, named("sendmsg", Waits::Network)),
    (212, named("recvmsg", Waits::Network)),
    (214, named("brk", Waits::AddressSpace)),
    (215, named("munmap", Waits::AddressSpace)),
    (216, named("mremap", Waits::AddressSpace)),
    (222, named("mmap", Waits::AddressSpace)),
    (226, named("mprotect", Waits::AddressSpace)),
    (227, named("msync", Waits::Disk)),
    (233, named("madvise", Waits::AddressSpace)),
    (242, named("accept4", Waits::Network)),
    (260, named("wait4", Waits::Child)),
    (426, named("io_uring_enter", Waits::Poll)),
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
        assert_eq!(call(202, false).map(|c| c.name), Some("futex"));
        assert_eq!(call(202, true).map(|c| c.name), Some("accept"));
    }
}
