//! What is known of functions by their names: the arguments that their duration depends on (§3.4),
//! and what they wait for.

use profile::CauseKind;

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
            "std::sys::sync::mutex::futex::Mutex::lock*",
            "parking_lot::raw_mutex::RawMutex::lock_slow",
        ],
        &[1],
        Some(CauseKind::Lock),
    ),
    known(
        &[
            "pthread_mutex_unlock",
            "pthread_rwlock_unlock",
            "pthread_spin_unlock",
            "mtx_unlock",
            "omp_unset_lock",
            "pthread_mutex_trylock",
            "__lll_unlock_wake",
        ],
        &[1],
        None,
    ),
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
            "sched_yield",
        ],
        &[],
        Some(CauseKind::Sleep),
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
    known(&["malloc", "_int_malloc", "operator new*"], &[1], None),
    known(&["calloc"], &[1, 2], None),
    known(&["realloc"], &[2], None),
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

/// What is known of a function by its name; a version (`read@GLIBC_2.2.5`) is no part of that.
pub fn known_function(name: &str) -> Option<&'static KnownFunction> {
    let name = name.split('@').next().unwrap_or(name);
    let matches = |pattern: &&str| match pattern.strip_suffix('*') {
        Some(start) => name.starts_with(start),
        None => name == *pattern,
    };
    KNOWN_FUNCTIONS
        .iter()
        .find(|f| f.names.iter().any(&matches))
}

/// The functions that threads wake others from, by the kind of waiting that they end.
pub(super) fn ends_waits_of(name: &str) -> Option<CauseKind> {
    let name = name.split('@').next().unwrap_or(name);
    let is = |names: &[&str]| names.contains(&name);
    if is(&[
        "pthread_mutex_unlock",
        "pthread_rwlock_unlock",
        "pthread_spin_unlock",
        "mtx_unlock",
        "__lll_unlock_wake",
        "omp_unset_lock",
    ]) {
        Some(CauseKind::Lock)
    } else if known_function(name).is_some_and(|f| f.waits_for == Some(CauseKind::Barrier)) {
        Some(CauseKind::Barrier)
    } else if is(&[
        "pthread_cond_signal",
        "pthread_cond_broadcast",
        "cnd_signal",
        "cnd_broadcast",
        "sem_post",
        "write",
        "__write",
        "__write_nocancel",
        "writev",
        "send",
        "sendto",
        "sendmsg",
    ]) {
        Some(CauseKind::Pool)
    } else {
        None
    }
}

/// What a blocking system call waits for, by its number on the machine that was measured; `None` where it
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
}

const fn named(name: &'static str, waits_for: Waits) -> SystemCall {
    SystemCall { name, waits_for }
}

const X86_64: &[(u32, SystemCall)] = &[
    (0, named("read", Waits::File)),
    (1, named("write", Waits::File)),
    (7, named("poll", Waits::Poll)),
    (17, named("pread64", Waits::Disk)),
    (18, named("pwrite64", Waits::Disk)),
    (19, named("readv", Waits::File)),
    (20, named("writev", Waits::File)),
    (23, named("select", Waits::Poll)),
    (26, named("msync", Waits::Disk)),
    (35, named("nanosleep", Waits::Sleep)),
    (42, named("connect", Waits::Network)),
    (43, named("accept", Waits::Network)),
    (44, named("sendto", Waits::Network)),
    (45, named("recvfrom", Waits::Network)),
    (46, named("sendmsg", Waits::Network)),
    (47, named("recvmsg", Waits::Network)),
    (61, named("wait4", Waits::Child)),
    (74, named("fsync", Waits::Disk)),
    (75, named("fdatasync", Waits::Disk)),
    (202, named("futex", Waits::Futex)),
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
    (202, named("accept", Waits::Network)),
    (203, named("connect", Waits::Network)),
    (206, named("sendto", Waits::Network)),
    (207, named("recvfrom", Waits::Network)),
    (211, named("sendmsg", Waits::Network)),
    (212, named("recvmsg", Waits::Network)),
    (227, named("msync", Waits::Disk)),
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
        assert_eq!(call(202, false).map(|c| c.name), Some("futex"));
        assert_eq!(call(202, true).map(|c| c.name), Some("accept"));
    }
}
