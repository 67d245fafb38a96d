//! Clocks and timers: the program reads its own time, and waits by the real clock.

use crate::operations::Wait;
use crate::program_clock::{self, RealTime, nanoseconds_behind, passes_by_itself, shift_time};
use crate::real::real;
use crate::thread;
use core::ffi::{c_int, c_void};
use core::sync::atomic::Ordering::Relaxed;
use libc::{clockid_t, itimerspec, timespec, timeval};

#[unsafe(no_mangle)]
unsafe extern "C-unwind" fn clock_gettime(clock: clockid_t, time: *mut timespec) -> c_int {
    // SAFETY: the caller upholds the contract of this function.
    unsafe { program_clock::read_clock(clock, time) }
}

// The C library picks an implementation of the next three functions by processor, so the symbols
// found by name are resolvers. The hooks derive their results from the clock instead.

#[unsafe(no_mangle)]
unsafe extern "C-unwind" fn gettimeofday(time: *mut timeval, zone: *mut c_void) -> c_int {
    let now = program_time(libc::CLOCK_REALTIME);
    // SAFETY: the caller upholds `gettimeofday`'s contract. The zone is obsolete: the kernel
    // reports two zeros.
    unsafe {
        if let Some(time) = time.as_mut() {
            time.tv_sec = now.tv_sec;
            time.tv_usec = now.tv_nsec / 1000;
        }
        if !zone.is_null() {
            zone.cast::<[c_int; 2]>().write([0; 2]);
        }
    }
    0
}

#[unsafe(no_mangle)]
unsafe extern "C-unwind" fn time(seconds: *mut libc::time_t) -> libc::time_t {
    let now = program_time(libc::CLOCK_REALTIME_COARSE).tv_sec;
    // SAFETY: the caller upholds the contract of this function.
    if let Some(seconds) = unsafe { seconds.as_mut() } {
        *seconds = now;
    }
    now
}

#[unsafe(no_mangle)]
unsafe extern "C-unwind" fn timespec_get(time: *mut timespec, base: c_int) -> c_int {
    const TIME_UTC: c_int = 1;
    if base != TIME_UTC {
        return 0;
    }
    // SAFETY: the caller upholds the contract of this function.
    unsafe { time.write(program_time(libc::CLOCK_REALTIME)) };
    base
}

/// Returns the program's time.
fn program_time(clock: clockid_t) -> timespec {
    let mut time = timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    // SAFETY: the time is written through the pointer.
    unsafe { program_clock::read_clock(clock, &raw mut time) };
    time
}

#[unsafe(no_mangle)]
unsafe extern "C-unwind" fn clock_nanosleep(
    clock: clockid_t,
    flags: c_int,
    time: *const timespec,
    left: *mut timespec,
) -> c_int {
    let wait = Wait::begin(super::operation!(clock_nanosleep, clock));
    // SAFETY: the caller upholds the contract of this function.
    let result = unsafe {
        // A duration is the same by both clocks; only an absolute time has to be translated.
        let absolute = flags & libc::TIMER_ABSTIME != 0 && passes_by_itself(clock);
        let until = absolute.then(|| RealTime::of(time));
        let time = until.as_ref().map_or(time, RealTime::as_ptr);
        real!(clock_nanosleep(clock: clockid_t, flags: c_int, time: *const timespec, left: *mut timespec) -> c_int)
    };
    // A timer ends the wait.
    wait.end(false);
    result
}

/// Counts a kernel timer, which runs on while the program is delayed; the controller reports it.
fn count_timer() {
    if let Some(page) = thread::shared_page() {
        page.kernel_timers.fetch_add(1, Relaxed);
    }
}

/// Converts a timer's expiry to the real clock; `absolute`: the expiry is a time, not an interval.
///
/// # Safety
/// The pointer is to the values of a timer, or null.
unsafe fn expiry(value: *const itimerspec, absolute: bool) -> Option<itimerspec> {
    // SAFETY: see the caller.
    let mut value = unsafe { *value.as_ref()? };
    let is_set = (value.it_value.tv_sec, value.it_value.tv_nsec) != (0, 0);
    if is_set {
        count_timer();
    }
    if is_set && absolute {
        value.it_value = shift_time(value.it_value, nanoseconds_behind() as i64);
    }
    Some(value)
}

#[unsafe(no_mangle)]
unsafe extern "C-unwind" fn timerfd_settime(
    descriptor: c_int,
    flags: c_int,
    new: *const itimerspec,
    old: *mut itimerspec,
) -> c_int {
    // SAFETY: the caller upholds the contract of this function.
    unsafe {
        let expiry = expiry(new, flags & libc::TFD_TIMER_ABSTIME != 0);
        let new = expiry.as_ref().map_or(new, core::ptr::from_ref);
        real!(timerfd_settime(descriptor: c_int, flags: c_int, new: *const itimerspec, old: *mut itimerspec) -> c_int)
    }
}

#[unsafe(no_mangle)]
unsafe extern "C-unwind" fn timer_settime(
    timer: *mut c_void,
    flags: c_int,
    new: *const itimerspec,
    old: *mut itimerspec,
) -> c_int {
    // SAFETY: the caller upholds the contract of this function.
    unsafe {
        let expiry = expiry(new, flags & libc::TIMER_ABSTIME != 0);
        let new = expiry.as_ref().map_or(new, core::ptr::from_ref);
        real!(timer_settime(timer: *mut c_void, flags: c_int, new: *const itimerspec, old: *mut itimerspec) -> c_int)
    }
}

#[unsafe(no_mangle)]
unsafe extern "C-unwind" fn setitimer(which: c_int, new: *const c_void, old: *mut c_void) -> c_int {
    // The other timers count CPU time.
    if which == libc::ITIMER_REAL {
        count_timer();
    }
    // SAFETY: the caller upholds the contract of this function.
    unsafe { real!(setitimer(which: c_int, new: *const c_void, old: *mut c_void) -> c_int) }
}
