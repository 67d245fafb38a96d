//! System calls without the C library: its functions set `errno`, may be cancellation points, and
//! may be replaced, also by this library's hooks.

use core::arch::asm;
use core::sync::atomic::Ordering::Relaxed;
use core::sync::atomic::{AtomicBool, AtomicU32};
use runtime_abi::switches::Switches;

/// Makes a system call; the result is negative if the call failed.
///
/// # Safety
/// As the system call demands.
#[cfg(target_arch = "x86_64")]
pub unsafe fn call(number: libc::c_long, a: [usize; 6]) -> isize {
    let result: isize;
    // SAFETY: the kernel changes only rax, rcx, r11 and the memory that the call names.
    unsafe {
        asm!(
            "syscall",
            inlateout("rax") number as isize => result,
            in("rdi") a[0], in("rsi") a[1], in("rdx") a[2], in("r10") a[3], in("r8") a[4], in("r9") a[5],
            lateout("rcx") _, lateout("r11") _, options(nostack)
        );
    }
    result
}

/// Makes a system call; the result is negative if the call failed.
///
/// # Safety
/// As the system call demands.
#[cfg(target_arch = "aarch64")]
pub unsafe fn call(number: libc::c_long, a: [usize; 6]) -> isize {
    let result: isize;
    // SAFETY: the kernel changes only x0 and the memory that the call names.
    unsafe {
        asm!(
            "svc #0",
            in("x8") number as isize, inlateout("x0") a[0] => result,
            in("x1") a[1], in("x2") a[2], in("x3") a[3], in("x4") a[4], in("x5") a[5],
            options(nostack)
        );
    }
    result
}

/// True once the program has restricted its system calls (seccomp).
static FILTERED: AtomicBool = AtomicBool::new(false);

/// Records that the program is about to restrict its system calls: from then on a call of this
/// library could end it.
pub fn note_filter() {
    FILTERED.store(true, Relaxed);
}

/// Returns whether the program restricts system calls, so that no others may be made.
pub fn calls_restricted() -> bool {
    FILTERED.load(Relaxed)
}

/// Returns the id of this thread.
pub fn thread_id() -> u32 {
    // SAFETY: a call without arguments.
    unsafe { call(libc::SYS_gettid, [0; 6]) as u32 }
}

/// Returns the id of this process.
pub fn process_id() -> u32 {
    // SAFETY: a call without arguments.
    unsafe { call(libc::SYS_getpid, [0; 6]) as u32 }
}

/// Returns the number of the processor that this thread runs on.
pub fn processor() -> Option<usize> {
    // SAFETY: asks for a number. Not a system call.
    usize::try_from(unsafe { libc::sched_getcpu() }).ok()
}

/// Returns the time of the monotonic clock, in nanoseconds.
pub fn now() -> u64 {
    read_clock(libc::CLOCK_MONOTONIC)
}

/// Returns the CPU time of this thread, in nanoseconds.
pub fn cpu_time() -> u64 {
    read_clock(libc::CLOCK_THREAD_CPUTIME_ID)
}

/// Returns how often this thread lost its processor.
pub fn context_switches() -> Switches {
    // SAFETY: zeros are a valid value.
    let mut usage: libc::rusage = unsafe { core::mem::zeroed() };
    let to = &raw mut usage as usize;
    // SAFETY: the usage is written through the pointer.
    unsafe {
        call(
            libc::SYS_getrusage,
            [libc::RUSAGE_THREAD as usize, to, 0, 0, 0, 0],
        )
    };
    let ns = |time: libc::timeval| time.tv_sec as u64 * 1_000_000_000 + time.tv_usec as u64 * 1_000;
    Switches {
        preempted: usage.ru_nivcsw as u64,
        gave_up: usage.ru_nvcsw as u64,
        ran: ns(usage.ru_utime) + ns(usage.ru_stime),
    }
}

fn read_clock(which: libc::clockid_t) -> u64 {
    let mut time = libc::timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    // SAFETY: the time is written through the pointer.
    unsafe { crate::real::clock_gettime(which, &raw mut time) };
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}

/// Sleeps until the monotonic clock shows `then`; signals do not shorten the sleep.
pub fn sleep_until(then: u64) {
    let time = libc::timespec {
        tv_sec: (then / 1_000_000_000) as libc::time_t,
        tv_nsec: (then % 1_000_000_000) as libc::c_long,
    };
    let arguments = [
        libc::CLOCK_MONOTONIC as usize,
        libc::TIMER_ABSTIME as usize,
        &raw const time as usize,
        0,
        0,
        0,
    ];
    // SAFETY: the kernel reads the time during the call.
    while unsafe { call(libc::SYS_clock_nanosleep, arguments) } == -(libc::EINTR as isize) {}
}

/// Sleeps as [`sleep_until`] does, without the timer slack by which the kernel may be late to save
/// power: the slack is as long as a short delay. Afterwards the thread has its own slack again.
pub fn sleep_exactly_until(then: u64) {
    let slack = |operation: libc::c_int, ns: usize| {
        // SAFETY: these operations take and give numbers.
        unsafe { call(libc::SYS_prctl, [operation as usize, ns, 0, 0, 0, 0]) }
    };
    let own = slack(libc::PR_GET_TIMERSLACK, 0);
    slack(libc::PR_SET_TIMERSLACK, 1);
    sleep_until(then);
    if own > 0 {
        slack(libc::PR_SET_TIMERSLACK, own as usize);
    }
}

/// Yields the processor if another thread waits for it.
pub fn give_way() {
    // SAFETY: a call without arguments.
    unsafe { call(libc::SYS_sched_yield, [0; 6]) };
}

/// Sleeps while the word has this value, at most `at_most_ns` nanoseconds. Returns false after a
/// timeout.
pub fn wait_on(word: &AtomicU32, value: u32, at_most_ns: u64) -> bool {
    let time = libc::timespec {
        tv_sec: (at_most_ns / 1_000_000_000) as libc::time_t,
        tv_nsec: (at_most_ns % 1_000_000_000) as libc::c_long,
    };
    let arguments = [
        word.as_ptr() as usize,
        libc::FUTEX_WAIT as usize,
        value as usize,
        &raw const time as usize,
        0,
        0,
    ];
    // SAFETY: word and time live during the call.
    unsafe { call(libc::SYS_futex, arguments) != -(libc::ETIMEDOUT as isize) }
}

/// Wakes the threads that wait on the word.
pub fn wake_waiters(word: &AtomicU32) {
    let arguments = [
        word.as_ptr() as usize,
        libc::FUTEX_WAKE as usize,
        i32::MAX as usize,
        0,
        0,
        0,
    ];
    // SAFETY: the kernel only uses the address.
    unsafe { call(libc::SYS_futex, arguments) };
}

/// Closes a descriptor.
pub fn close(descriptor: i32) {
    // SAFETY: the caller owns it.
    unsafe { call(libc::SYS_close, [descriptor as usize, 0, 0, 0, 0, 0]) };
}

#[cfg(test)]
#[cfg(not(miri))]
mod tests {
    use super::*;

    #[test]
    fn system_calls_answer_as_those_of_the_c_library() {
        assert_eq!(process_id(), std::process::id());
        // SAFETY: a call without arguments.
        assert_eq!(thread_id(), unsafe { libc::gettid() } as u32);
        // SAFETY: closes nothing.
        let failed = unsafe { call(libc::SYS_close, [usize::MAX, 0, 0, 0, 0, 0]) };
        assert_eq!(failed, -(libc::EBADF as isize));
    }

    #[test]
    fn a_thread_sleeps_until_its_time_or_its_word_changes() {
        let begin = now();
        sleep_exactly_until(begin + 2_000_000);
        assert!(now() >= begin + 2_000_000);
        let word = AtomicU32::new(1);
        assert!(wait_on(&word, 0, u64::MAX >> 2), "it has another value");
        assert!(!wait_on(&word, 1, 1_000_000), "the time is over");
        std::thread::scope(|scope| {
            scope.spawn(|| {
                while word.load(Relaxed) == 1 {
                    wait_on(&word, 1, u64::MAX >> 2);
                }
            });
            word.store(2, Relaxed);
            wake_waiters(&word);
        });
    }
}
