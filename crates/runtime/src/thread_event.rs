//! The perf event of a thread, whose signals sample it, and time that is not sampled.

use crate::sys;
use core::sync::atomic::Ordering::Relaxed;
use runtime_abi::{Page, Thread};

/// The sampling signal.
pub const SIGNAL: libc::c_int = runtime_abi::SIGNAL;

/// The first fields of `struct perf_event_attr`, in its first published size.
#[repr(C)]
struct Attributes {
    kind: u32,
    size: u32,
    config: u64,
    period: u64,
    sample_type: u64,
    read_format: u64,
    flags: u64,
    wakeup_events: u32,
    breakpoint_type: u32,
    config1: u64,
}

const SOFTWARE: u32 = 1;
const TASK_CLOCK: u64 = 1;
/// `exclude_kernel`, `exclude_hv`; both by their position in the bit field.
const USER_ONLY: u64 = 1 << 5 | 1 << 6;
const DISABLED: u64 = 1;
const CLOSE_ON_EXEC: usize = 8;
const ENABLE: usize = 0x2400;
const DISABLE: usize = 0x2401;
const PERIOD: usize = 0x4008_2404;
const ID: usize = 0x8008_2407;
const SETSIG: usize = 10;
const SETOWN_EX: usize = 15;

/// Starts sampling this thread.
pub fn begin_sampling(page: &Page, thread: &Thread) {
    thread.standing.store(0, Relaxed);
    if by_processor(page) || has_small_stack(thread) {
        return;
    }
    let attributes = Attributes {
        kind: SOFTWARE,
        size: size_of::<Attributes>() as u32,
        config: TASK_CLOCK,
        period: first_period(page),
        sample_type: 0,
        read_format: 0,
        flags: USER_ONLY | DISABLED,
        wakeup_events: 1,
        breakpoint_type: 0,
        config1: 0,
    };
    let any = usize::MAX;
    let open = [
        &raw const attributes as usize,
        0,
        any,
        any,
        CLOSE_ON_EXEC,
        0,
    ];
    // SAFETY: the attributes live during the call.
    let event = unsafe { sys::call(libc::SYS_perf_event_open, open) };
    if event < 0 {
        page.refused.store(-event as i32, Relaxed);
        return;
    }
    let owner = [0u32, sys::thread_id()]; // F_OWNER_TID
    let mut id = 0u64;
    let event = event as usize;
    let calls = [
        (libc::SYS_fcntl, SETOWN_EX, owner.as_ptr() as usize),
        (libc::SYS_fcntl, SETSIG, SIGNAL as usize),
        (
            libc::SYS_fcntl,
            libc::F_SETFL as usize,
            libc::O_ASYNC as usize,
        ),
        (libc::SYS_ioctl, ID, &raw mut id as usize),
        (libc::SYS_ioctl, ENABLE, 0),
    ];
    for (number, command, argument) in calls {
        // SAFETY: a descriptor of this library's; the pointers in the arguments live during the
        // call.
        unsafe { sys::call(number, [event, command, argument, 0, 0, 0]) };
    }
    thread.event_id.store(id, Relaxed);
    thread.sampled.store(0, Relaxed);
    thread.event.store(event as i32, Relaxed);
}

/// Smallest stack of a thread that is sampled by an event of its own: the program may have used
/// most of it when a signal comes.
const LEAST_STACK: u64 = 64 << 10;

fn has_small_stack(thread: &Thread) -> bool {
    let high = thread.stack_high.load(Relaxed);
    high != 0 && high.saturating_sub(thread.stack_low.load(Relaxed)) < LEAST_STACK
}

/// Returns whether the processors are sampled, not each thread by itself.
pub fn by_processor(page: &Page) -> bool {
    page.by_processor.load(Relaxed) != 0
}

/// The shortest time to a first sample. The timer keeps this rate until the signal handler sets the
/// usual period. An interrupt costs up to 20 µs, as on virtual machines: a handler interrupted each
/// 10 µs would never finish.
const SHORTEST: u64 = 50_000;

/// Returns a random time within a period until a thread's first sample. With a whole period,
/// threads that live for a few periods would get half a sample too few.
fn first_period(page: &Page) -> u64 {
    let period = page.period_ns.load(Relaxed).max(2);
    SHORTEST + sys::now().wrapping_mul(0x9e37_79b9_7f4a_7c15) % period
}

/// Sets the usual time between samples, after the first one.
pub fn set_period(page: &Page, thread: &Thread) {
    let period = page.period_ns.load(Relaxed);
    let event = thread.event.load(Relaxed) as usize;
    let to = &raw const period as usize;
    // SAFETY: the period lives during the call.
    unsafe { sys::call(libc::SYS_ioctl, [event, PERIOD, to, 0, 0, 0]) };
}

/// Stops sampling this thread.
pub fn end_sampling(thread: &Thread) {
    close_event(thread);
    thread.event.store(-1, Relaxed);
}

/// Closes the descriptor of a thread's event, if it still is that event's: programs may close
/// unknown descriptors and get their numbers again.
pub fn close_event(thread: &Thread) {
    let event = thread.event.load(Relaxed);
    if event < 0 {
        return;
    }
    let mut id = 0u64;
    // SAFETY: asks any descriptor for an event's id; the pointer is to eight bytes.
    let asked = unsafe {
        let id = &raw mut id as usize;
        sys::call(libc::SYS_ioctl, [event as usize, ID, id, 0, 0, 0])
    };
    if asked == 0 && id == thread.event_id.load(Relaxed) {
        sys::close(event);
    }
}

/// Runs `work`, whose CPU time is not the program's.
pub fn without_samples(thread: &Thread, work: impl FnOnce()) {
    let event = thread.event.load(Relaxed);
    let switch = |command: usize| {
        // SAFETY: no argument is a pointer; on a descriptor of another kind the call is an error.
        unsafe { sys::call(libc::SYS_ioctl, [event as usize, command, 0, 0, 0, 0]) }
    };
    if event >= 0 {
        switch(DISABLE);
    }
    while_standing(thread, work);
    if event >= 0 {
        switch(ENABLE);
    }
}

/// Runs `work`; processor samples taken meanwhile count for no fragment.
pub fn while_standing(thread: &Thread, work: impl FnOnce()) {
    thread.standing.store(1, Relaxed);
    work();
    thread.standing.store(0, Relaxed);
}
