//! The clocks of the kernel's records.

use std::sync::OnceLock;

/// Returns the time of the kernel's monotonic clock, in nanoseconds. In a time namespace programs
/// read a shifted one.
pub fn monotonic_ns() -> u64 {
    read_clock(libc::CLOCK_MONOTONIC).wrapping_add_signed(own_clock_ahead().wrapping_neg())
}

/// Returns by how many nanoseconds the monotonic clock of a process is ahead of the kernel's.
pub fn clock_ahead_of(pid: u32) -> i64 {
    read_offset(&pid.to_string()).unwrap_or_else(own_clock_ahead)
}

fn own_clock_ahead() -> i64 {
    static AHEAD: OnceLock<i64> = OnceLock::new();
    *AHEAD.get_or_init(|| read_offset("self").unwrap_or(0))
}

fn read_offset(process: &str) -> Option<i64> {
    parse_offset(&std::fs::read_to_string(format!("/proc/{process}/timens_offsets")).ok()?)
}

/// Parses the text of `/proc/PID/timens_offsets`: nanoseconds by which the monotonic clock is ahead
/// of the kernel's.
fn parse_offset(text: &str) -> Option<i64> {
    let line = text
        .lines()
        .find_map(|line| line.strip_prefix("monotonic"))?;
    let mut numbers = line.split_whitespace().map(str::parse::<i64>);
    let (seconds, ns) = (numbers.next()?.ok()?, numbers.next()?.ok()?);
    seconds.checked_mul(1_000_000_000)?.checked_add(ns)
}

/// Returns the time since boot, in nanoseconds.
pub(crate) fn boot_ns() -> u64 {
    read_clock(libc::CLOCK_BOOTTIME)
}

/// Returns the time since 1970, in nanoseconds.
pub(crate) fn unix_ns() -> u64 {
    read_clock(libc::CLOCK_REALTIME)
}

/// Returns the CPU time of this process so far, in nanoseconds.
pub fn own_cpu_ns() -> u64 {
    read_clock(libc::CLOCK_PROCESS_CPUTIME_ID)
}

/// Returns the CPU time of this thread so far, in nanoseconds.
pub fn thread_cpu_ns() -> u64 {
    read_clock(libc::CLOCK_THREAD_CPUTIME_ID)
}

/// Returns the CPU time of ended child processes, in nanoseconds.
pub fn children_cpu_ns() -> u64 {
    let mut usage = std::mem::MaybeUninit::<libc::rusage>::zeroed();
    // SAFETY: the kernel fills in the structure, for which zeros are valid, too.
    let usage = unsafe {
        libc::getrusage(libc::RUSAGE_CHILDREN, usage.as_mut_ptr());
        usage.assume_init()
    };
    cpu_ns(&usage)
}

/// Returns the CPU time in the kernel's account of a process, in nanoseconds.
pub(crate) fn cpu_ns(usage: &libc::rusage) -> u64 {
    let ns = |time: libc::timeval| time.tv_sec as u64 * 1_000_000_000 + time.tv_usec as u64 * 1000;
    ns(usage.ru_utime) + ns(usage.ru_stime)
}

fn read_clock(clock: libc::clockid_t) -> u64 {
    let mut time = libc::timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    // SAFETY: the kernel writes the time through the pointer.
    unsafe { libc::clock_gettime(clock, &mut time) };
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_time_namespace_is_ahead_by_seconds_and_nanoseconds() {
        let text = "monotonic        1000 500000000\nboottime            7         0\n";
        assert_eq!(parse_offset(text), Some(1_000_500_000_000));
        let text = "monotonic         -3         1\n";
        assert_eq!(parse_offset(text), Some(-2_999_999_999));
        assert_eq!(parse_offset("boottime 1 0\n"), None);
        assert_eq!(parse_offset("monotonic 99999999999 0\n"), None);
    }
}
