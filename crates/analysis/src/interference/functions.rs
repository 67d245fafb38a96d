//! Tables of the functions and system calls in which threads wait, or end the waits of others.

use profile::CauseKind;
use profile::known_code::KnownOperation;

/// Returns whether a function wakes one waiting thread (`true`) or all of them (`false`).
pub(super) fn wakes_one(name: &str) -> Option<bool> {
    match KnownOperation::of_function(name)? {
        KnownOperation::Signal => Some(true),
        KnownOperation::Broadcast => Some(false),
        _ => None,
    }
}

/// Returns the kind of wait in a function, judged by its name.
pub fn waits_for(name: &str) -> Option<CauseKind> {
    let known = KnownOperation::of_function(name).and_then(KnownOperation::waits_for);
    known.or_else(|| {
        let name = name.to_ascii_lowercase();
        name.contains("barrier").then_some(CauseKind::Barrier)
    })
}

/// Returns the kind of wait that a function ends in other threads, judged by its name.
pub(super) fn ends_waits_of(name: &str) -> Option<CauseKind> {
    KnownOperation::of_function(name)?.ends_waits()
}

/// Returns a blocking system call by its number on the measured machine. `None` if the call is not
/// in the table.
pub(super) fn find_system_call(number: u32, aarch64: bool) -> Option<SystemCall> {
    let mut calls = SYSTEM_CALLS.iter().copied();
    calls.find(|call| call.numbers[usize::from(aarch64)] == number)
}

/// A system call in which threads wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct SystemCall {
    pub name: &'static str,
    /// Its numbers on x86-64 and AArch64.
    numbers: [u32; 2],
    pub waits_for: CallTarget,
}

/// Target of a system call's waits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum CallTarget {
    /// Another thread.
    Futex,
    /// An object behind a file descriptor. If a thread ends the wait it is a pipe, else a disk.
    File,
    Disk,
    Network,
    /// Several descriptors. Threads wait there for work.
    Poll,
    Sleep,
    Child,
    /// The lock of a file.
    FileLock,
    /// The lock of the process's memory map.
    AddressSpace,
    /// Nothing. The call lets other threads run.
    Yield,
}

/// Numbers of `sched_yield` on x86-64 and AArch64.
pub(super) const SCHED_YIELD: [u32; 2] = [24, 124];

/// Number of a system call that an architecture does not have.
const NONE: u32 = u32::MAX;

const fn waits_in(
    name: &'static str,
    x86_64: u32,
    aarch64: u32,
    waits_for: CallTarget,
) -> SystemCall {
    SystemCall {
        name,
        numbers: [x86_64, aarch64],
        waits_for,
    }
}

const SYSTEM_CALLS: &[SystemCall] = &[
    waits_in("read", 0, 63, CallTarget::File),
    waits_in("write", 1, 64, CallTarget::File),
    waits_in("poll", 7, NONE, CallTarget::Poll),
    waits_in("mmap", 9, 222, CallTarget::AddressSpace),
    waits_in("mprotect", 10, 226, CallTarget::AddressSpace),
    waits_in("munmap", 11, 215, CallTarget::AddressSpace),
    waits_in("brk", 12, 214, CallTarget::AddressSpace),
    waits_in("pread64", 17, 67, CallTarget::Disk),
    waits_in("pwrite64", 18, 68, CallTarget::Disk),
    waits_in("readv", 19, 65, CallTarget::File),
    waits_in("writev", 20, 66, CallTarget::File),
    waits_in("select", 23, NONE, CallTarget::Poll),
    waits_in("sched_yield", 24, 124, CallTarget::Yield),
    waits_in("mremap", 25, 216, CallTarget::AddressSpace),
    waits_in("msync", 26, 227, CallTarget::Disk),
    waits_in("madvise", 28, 233, CallTarget::AddressSpace),
    waits_in("pause", 34, NONE, CallTarget::Sleep),
    waits_in("nanosleep", 35, 101, CallTarget::Sleep),
    waits_in("connect", 42, 203, CallTarget::Network),
    waits_in("accept", 43, 202, CallTarget::Network),
    waits_in("sendto", 44, 206, CallTarget::Network),
    waits_in("recvfrom", 45, 207, CallTarget::Network),
    waits_in("sendmsg", 46, 211, CallTarget::Network),
    waits_in("recvmsg", 47, 212, CallTarget::Network),
    waits_in("wait4", 61, 260, CallTarget::Child),
    waits_in("semop", 65, 193, CallTarget::Futex),
    waits_in("fcntl", 72, 25, CallTarget::FileLock),
    waits_in("flock", 73, 32, CallTarget::FileLock),
    waits_in("fsync", 74, 82, CallTarget::Disk),
    waits_in("fdatasync", 75, 83, CallTarget::Disk),
    waits_in("rt_sigtimedwait", 128, 137, CallTarget::Sleep),
    waits_in("rt_sigsuspend", 130, 133, CallTarget::Sleep),
    waits_in("futex", 202, 98, CallTarget::Futex),
    waits_in("semtimedop", 220, 192, CallTarget::Futex),
    waits_in("clock_nanosleep", 230, 115, CallTarget::Sleep),
    waits_in("epoll_wait", 232, NONE, CallTarget::Poll),
    waits_in("waitid", 247, 95, CallTarget::Child),
    waits_in("pselect6", 270, 72, CallTarget::Poll),
    waits_in("ppoll", 271, 73, CallTarget::Poll),
    waits_in("epoll_pwait", 281, 22, CallTarget::Poll),
    waits_in("accept4", 288, 242, CallTarget::Network),
    waits_in("preadv", 295, 69, CallTarget::Disk),
    waits_in("pwritev", 296, 70, CallTarget::Disk),
    waits_in("io_uring_enter", 426, 426, CallTarget::Poll),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn system_calls_have_the_numbers_of_their_machine() {
        let name = |number, aarch64| find_system_call(number, aarch64).map(|call| call.name);
        assert_eq!(name(202, false), Some("futex"));
        assert_eq!(name(202, true), Some("accept"));
        for aarch64 in [false, true] {
            let number = SCHED_YIELD[usize::from(aarch64)];
            assert_eq!(name(number, aarch64), Some("sched_yield"));
        }
        assert_eq!(name(7, true), None);
    }
}
