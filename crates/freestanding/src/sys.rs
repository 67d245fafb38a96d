//! System calls of x86-64, without a C library. Programs that restrict their system calls cannot be
//! measured with this handler.

use core::arch::asm;
use runtime_abi::switches::Switches;

const SCHED_YIELD: usize = 24;
const GETPID: usize = 39;
const GETRUSAGE: usize = 98;
const PRCTL: usize = 157;
const GETTID: usize = 186;
const CLOCK_GETTIME: usize = 228;
const CLOCK_NANOSLEEP: usize = 230;
const PROCESS_VM_READV: usize = 310;
const GETCPU: usize = 309;

const EINTR: isize = 4;
const CLOCK_MONOTONIC: usize = 1;
const CLOCK_THREAD_CPUTIME_ID: usize = 3;
const TIMER_ABSTIME: usize = 1;
const RUSAGE_THREAD: usize = 1;
const PR_SET_TIMERSLACK: usize = 29;
const PR_GET_TIMERSLACK: usize = 30;

/// `struct timespec`.
#[repr(C)]
struct Time {
    seconds: u64,
    ns: u64,
}

/// `struct iovec`.
#[repr(C)]
struct Part {
    start: usize,
    length: usize,
}

/// Makes a system call; the result is negative if the call failed.
///
/// # Safety
/// As the system call demands.
unsafe fn call(number: usize, a: [usize; 6]) -> isize {
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

/// Returns whether the program restricts system calls, so that no others may be made.
pub fn calls_restricted() -> bool {
    false
}

/// Returns the id of this thread.
pub fn thread_id() -> u32 {
    // SAFETY: a call without arguments.
    unsafe { call(GETTID, [0; 6]) as u32 }
}

/// Returns the id of this process.
pub fn process_id() -> u32 {
    // SAFETY: a call without arguments.
    unsafe { call(GETPID, [0; 6]) as u32 }
}

/// Returns the number of the processor that this thread runs on.
pub fn processor() -> Option<usize> {
    let mut number = 0u32;
    // SAFETY: the number is written through the pointer.
    let result = unsafe { call(GETCPU, [&raw mut number as usize, 0, 0, 0, 0, 0]) };
    (result == 0).then_some(number as usize)
}

/// Returns the time of the monotonic clock, in nanoseconds.
pub fn now() -> u64 {
    read_clock(CLOCK_MONOTONIC)
}

/// Returns the CPU time of this thread, in nanoseconds.
pub fn cpu_time() -> u64 {
    read_clock(CLOCK_THREAD_CPUTIME_ID)
}

fn read_clock(which: usize) -> u64 {
    let mut time = Time { seconds: 0, ns: 0 };
    // SAFETY: the time is written through the pointer.
    unsafe { call(CLOCK_GETTIME, [which, &raw mut time as usize, 0, 0, 0, 0]) };
    time.seconds * 1_000_000_000 + time.ns
}

/// Returns how often this thread lost its processor.
pub fn context_switches() -> Switches {
    // `struct rusage`: two times, each in seconds and microseconds, and fourteen numbers.
    let mut usage = [0u64; 18];
    let to = &raw mut usage as usize;
    // SAFETY: the usage is written through the pointer.
    unsafe { call(GETRUSAGE, [RUSAGE_THREAD, to, 0, 0, 0, 0]) };
    let [user_s, user_us, system_s, system_us, .., gave_up, preempted] = usage;
    let ran = 1_000_000_000 * (user_s + system_s) + 1_000 * (user_us + system_us);
    Switches {
        preempted,
        gave_up,
        ran,
    }
}

/// Sleeps until the monotonic clock shows `then`; signals do not shorten the sleep.
///
/// The timer slack, by which the kernel may be late to save power, is as long as a short delay. It
/// is off during the sleep and the thread's own again afterwards.
pub fn sleep_exactly_until(then: u64) {
    let slack = |operation: usize, ns: usize| {
        // SAFETY: these operations take and give numbers.
        unsafe { call(PRCTL, [operation, ns, 0, 0, 0, 0]) }
    };
    let own = slack(PR_GET_TIMERSLACK, 0);
    slack(PR_SET_TIMERSLACK, 1);
    sleep_until(then);
    if own > 0 {
        slack(PR_SET_TIMERSLACK, own as usize);
    }
}

fn sleep_until(then: u64) {
    let time = Time {
        seconds: then / 1_000_000_000,
        ns: then % 1_000_000_000,
    };
    let until = &raw const time as usize;
    let arguments = [CLOCK_MONOTONIC, TIMER_ABSTIME, until, 0, 0, 0];
    // SAFETY: the kernel reads the time during the call.
    while unsafe { call(CLOCK_NANOSLEEP, arguments) } == -EINTR {}
}

/// Yields the processor if another thread waits for it.
pub fn give_way() {
    // SAFETY: a call without arguments.
    unsafe { call(SCHED_YIELD, [0; 6]) };
}

/// Reads a word of this process's memory; `None`: nothing is mapped there.
pub fn read_own_memory(at: u64) -> Option<u64> {
    let mut word = 0u64;
    let length = size_of::<u64>();
    let to = Part {
        start: &raw mut word as usize,
        length,
    };
    let from = Part {
        start: at as usize,
        length,
    };
    let (to, from) = (&raw const to as usize, &raw const from as usize);
    let own = process_id() as usize;
    // SAFETY: the word and the parts live during the call; where nothing is mapped it fails.
    let read = unsafe { call(PROCESS_VM_READV, [own, to, 1, from, 1, 0]) };
    (read == length as isize).then_some(word)
}
