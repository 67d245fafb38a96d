//! Time, on the clocks that the kernel stamps records with.

/// Now, on the monotonic clock, in nanoseconds.
pub fn monotonic_ns() -> u64 {
    read_clock(libc::CLOCK_MONOTONIC)
}

/// Now, since the machine was started, in nanoseconds.
pub(crate) fn boot_ns() -> u64 {
    read_clock(libc::CLOCK_BOOTTIME)
}

/// Now, in nanoseconds since 1970.
pub(crate) fn unix_ns() -> u64 {
    read_clock(libc::CLOCK_REALTIME)
}

/// CPU time of this process so far, in nanoseconds.
pub fn own_cpu_ns() -> u64 {
    read_clock(libc::CLOCK_PROCESS_CPUTIME_ID)
}

/// CPU time of this thread so far, in nanoseconds.
pub fn thread_cpu_ns() -> u64 {
    read_clock(libc::CLOCK_THREAD_CPUTIME_ID)
}

/// CPU time of the processes that this one started and that have ended, in nanoseconds.
pub fn children_cpu_ns() -> u64 {
    let mut usage = std::mem::MaybeUninit::<libc::rusage>::zeroed();
    // SAFETY: the kernel fills in the structure; zeroes are a value of it, too.
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
