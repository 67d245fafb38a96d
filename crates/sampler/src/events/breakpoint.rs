//! Breakpoints at which a traced process stops.
//!
//! The breakpoint is an event of this process. Debug registers set by ptrace would stay when the
//! tracer is killed, and the next process to reach the place would be killed by an unhandled trap.
//! The kernel closes events with their owner. Nor does the process stop for a trap: it stops for a
//! signal that is harmless to an untraced process.

use crate::Error;
use crate::events::perf::{self, Scope};
use perf_event_open_sys::bindings as pe;
use std::io;
use std::os::fd::{AsRawFd, OwnedFd};

/// `si_code` of a signal from an event.
const TELLS: libc::c_int = 1;

/// Signals that are ignored by default. The first is the one that programs with handlers for all
/// signals have to expect at any time.
const HARMLESS: [libc::c_int; 4] = [libc::SIGURG, libc::SIGWINCH, libc::SIGCHLD, libc::SIGCONT];

/// The ioctl that sets new attributes.
const IOC_MODIFY_ATTRIBUTES: libc::c_ulong = 0x4008_240b;

/// Returns the attributes of the event of executing the instruction at an address.
pub(crate) fn execution_attributes(place: u64) -> pe::perf_event_attr {
    let mut attr = pe::perf_event_attr {
        size: size_of::<pe::perf_event_attr>() as u32,
        type_: pe::PERF_TYPE_BREAKPOINT,
        bp_type: pe::HW_BREAKPOINT_X,
        ..Default::default()
    };
    attr.__bindgen_anon_3.bp_addr = place;
    attr.__bindgen_anon_4.bp_len = size_of::<libc::c_long>() as u64;
    attr.set_exclude_kernel(1);
    attr.set_exclude_hv(1);
    attr
}

/// A breakpoint of one thread, which lasts until it is dropped.
pub(crate) struct Breakpoint {
    event: OwnedFd,
    attr: pe::perf_event_attr,
}

impl Breakpoint {
    /// Sends a signal to a stopped thread when it reaches a place for the `times`-th time, before
    /// it executes the instruction there.
    ///
    /// # Errors
    /// If the kernel refuses, or the processor has no free breakpoint.
    pub fn set_breakpoint(
        thread: libc::pid_t,
        place: u64,
        times: u64,
        signal: libc::c_int,
    ) -> io::Result<Self> {
        let mut attr = execution_attributes(place);
        attr.__bindgen_anon_1.sample_period = times;
        let scope = Scope {
            pid: thread,
            cpu: -1,
        };
        let event = perf::open_event(&attr, scope)?;
        perf::send_signals(&event, thread, signal)?;
        Ok(Self { event, attr })
    }

    /// Moves the breakpoint to another place, in a third of the time that a new one takes.
    ///
    /// # Errors
    /// If the kernel refuses.
    pub fn move_to(&mut self, place: u64, times: u64) -> Result<(), Error> {
        // SAFETY: both are numbers.
        let before = unsafe { self.attr.__bindgen_anon_1.sample_period };
        if before != times || times != 1 {
            perf::set_period(&self.event, times)?;
        }
        self.attr.__bindgen_anon_1.sample_period = times;
        self.attr.__bindgen_anon_3.bp_addr = place;
        // SAFETY: during the call the kernel reads the attributes, of the size that they state.
        let done = unsafe {
            libc::ioctl(
                self.event.as_raw_fd(),
                IOC_MODIFY_ATTRIBUTES,
                &raw const self.attr,
            )
        };
        match done {
            0 => Ok(()),
            _ => Err(Error::system("moving a breakpoint")),
        }
    }
}

/// Returns whether a traced thread's signal comes from a breakpoint of this process.
pub(crate) fn is_ours(signal: libc::c_int, code: libc::c_int) -> bool {
    HARMLESS.contains(&signal) && code == TELLS
}

/// Returns a signal for breakpoints of a process that is harmless if it arrives while the process
/// is not traced. `None` if every signal would stay pending.
pub(crate) fn signal_for(pid: libc::pid_t) -> Option<libc::c_int> {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
    let of = |name: &str| {
        let mask = status.lines().find_map(|line| line.strip_prefix(name))?;
        u64::from_str_radix(mask.trim(), 16).ok()
    };
    choose_signal(of("SigBlk:")?, of("SigCgt:")?)
}

fn choose_signal(blocked: u64, caught: u64) -> Option<libc::c_int> {
    let is_in = |mask: u64, signal: libc::c_int| mask >> (signal - 1) & 1 == 1;
    let open = HARMLESS.iter().filter(|one| !is_in(blocked, **one));
    let ignored = open.clone().find(|one| !is_in(caught, **one));
    ignored
        .or_else(|| open.clone().find(|one| **one == libc::SIGURG))
        .copied()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_signal_is_one_that_the_process_does_not_take() {
        let bit = |signal: libc::c_int| 1_u64 << (signal - 1);
        assert_eq!(choose_signal(0, 0), Some(libc::SIGURG));
        assert_eq!(choose_signal(0, bit(libc::SIGURG)), Some(libc::SIGWINCH));
        assert_eq!(choose_signal(bit(libc::SIGURG), 0), Some(libc::SIGWINCH));
        // A program that handles all signals, as Go's runtime does, takes this one at any time.
        assert_eq!(choose_signal(0, u64::MAX), Some(libc::SIGURG));
        assert_eq!(choose_signal(bit(libc::SIGURG), u64::MAX), None);
        assert_eq!(choose_signal(u64::MAX, 0), None);
    }
}
