//! The clocks that the program reads, which stand still while all threads are delayed.
//!
//! A program that acts by the clock (deadlines, rate limits, an open load) would see the delays and
//! catch up with them. So its clocks are behind by all delays due so far: the sum of the
//! experiments that have ended ([`Page::passed`]) and the global count of this one. That count
//! grows in steps of up to a millisecond, but a clock must not run backwards. So after a step the
//! clock stays at the last time shown until the computed time passes it.

use crate::{real, sys, thread};
use core::ffi::c_int;
use core::sync::atomic::Ordering::{Acquire, Relaxed};
use libc::{clockid_t, timespec};
use runtime_abi::{Clock, Page};

const SECOND: i64 = 1_000_000_000;

/// Returns whether a clock measures real time: the others count CPU time, from which nothing is
/// subtracted.
pub fn passes_by_itself(clock: clockid_t) -> bool {
    clock >= 0
        && !matches!(
            clock,
            libc::CLOCK_PROCESS_CPUTIME_ID | libc::CLOCK_THREAD_CPUTIME_ID
        )
}

/// Returns how far the program's clocks are behind the real ones, in nanoseconds.
pub fn nanoseconds_behind() -> u64 {
    let now = sys::now();
    shown_at(now).map_or(0, |shown| now.saturating_sub(shown))
}

/// Returns the program's monotonic time when the real clock shows `now`, in nanoseconds; `None`:
/// the same.
fn shown_at(now: u64) -> Option<u64> {
    let page = thread::shared_page()?;
    if page.real_clocks.load(Relaxed) != 0 {
        return None;
    }
    // Recorded before the first delay too, which must not set the clock back either.
    let shown = now.saturating_sub(delays_due(page));
    Some(page.shown.0.fetch_max(shown, Relaxed).max(shown))
}

/// Returns all delays that were due since the start, in nanoseconds.
fn delays_due(page: &Page) -> u64 {
    loop {
        let global = Clock::unpack(page.global.0.load(Acquire));
        let passed = page.passed_before(global.epoch).load(Acquire);
        // Otherwise the controller has begun another epoch, and the sum may be that of the one
        // after it.
        if Clock::unpack(page.global.0.load(Acquire)).epoch == global.epoch {
            return passed + global.delay_ns;
        }
    }
}

/// Reads the program's clock; returns as `clock_gettime`.
///
/// # Safety
/// As for `clock_gettime`.
pub unsafe fn read_clock(clock: clockid_t, time: *mut timespec) -> c_int {
    // The other clocks are behind by as much as the monotonic one. That is read first, so they may
    // be ahead by the time that this thread is held up here. They need not be monotonic.
    let behind = match clock {
        libc::CLOCK_MONOTONIC => 0,
        _ if passes_by_itself(clock) => nanoseconds_behind(),
        _ => 0,
    };
    // SAFETY: see the caller.
    unsafe {
        let result = real::clock_gettime(clock, time);
        let Some(time) = time.as_mut().filter(|_| result == 0) else {
            return result;
        };
        if clock == libc::CLOCK_MONOTONIC {
            let now = time.tv_sec as u64 * SECOND as u64 + time.tv_nsec as u64;
            let behind = shown_at(now).map_or(0, |shown| now as i64 - shown as i64);
            *time = shift_time(*time, -behind);
        } else {
            *time = shift_time(*time, -(behind as i64));
        }
        result
    }
}

/// A deadline of the program, by the real clock.
pub struct RealTime(Option<timespec>);

impl RealTime {
    /// Returns the real time at which the program's clock will show `until` if no thread is delayed
    /// meanwhile; a thread pays delays after its wait. Null stays null.
    ///
    /// # Safety
    /// The pointer is to a time, or null.
    pub unsafe fn of(until: *const timespec) -> Self {
        // SAFETY: see the caller.
        let until = unsafe { until.as_ref() };
        Self(until.map(|until| shift_time(*until, nanoseconds_behind() as i64)))
    }

    /// Returns the pointer for the call that waits.
    pub fn as_ptr(&self) -> *const timespec {
        self.0
            .as_ref()
            .map_or(core::ptr::null(), core::ptr::from_ref)
    }
}

/// Returns a time that is `by` nanoseconds later. An invalid time, which the kernel refuses, stays
/// as it is.
pub fn shift_time(time: timespec, by: i64) -> timespec {
    if by == 0 || !(0..SECOND).contains(&time.tv_nsec) || time.tv_sec < 0 {
        return time;
    }
    let ns = time.tv_nsec + by % SECOND;
    let seconds = (time.tv_sec)
        .saturating_add(by / SECOND)
        .saturating_add(ns.div_euclid(SECOND));
    timespec {
        tv_sec: seconds,
        tv_nsec: ns.rem_euclid(SECOND),
    }
}
