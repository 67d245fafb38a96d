//! Measures the cost of a sample on this machine, before the target starts.

use crate::clock::thread_cpu_ns;
use crate::events::perf::{self, Ring, Scope};
use crate::{Error, EventSpec};
use perf_event_open_sys::bindings::perf_event_attr;
use std::io;
use std::os::fd::OwnedFd;
use std::time::{Duration, Instant};

/// Rate at which the probe samples itself.
pub(crate) const PROBE_HERTZ: u64 = 5000;
/// Time for a hundred samples. Each recording begins with this measurement.
const PROBE_TIME: Duration = Duration::from_millis(20);

/// Measures as [`measure_gap`] does, with an unread ring of `pages` pages beside the attachment.
pub(crate) fn of_unread(
    spec: &EventSpec,
    attr: &perf_event_attr,
    pages: usize,
    attach: impl FnOnce(&OwnedFd) -> Result<(), Error>,
) -> Result<u64, Error> {
    measure_gap(spec, attr, |fd| {
        attach(fd)?;
        Ring::map(fd, pages).map_err(|source| Error::System {
            what: "mapping a ring buffer".into(),
            source,
        })
    })
}

/// Returns the time that a sample takes from a program that is told by a signal, in nanoseconds:
/// the interrupt and the signal, with an empty handler. It is measured on this thread. No other
/// thread may handle SIGSTKFLT meanwhile.
///
/// # Errors
/// [`Error::EventRefused`], [`Error::System`] where the kernel does not allow it.
pub fn signalled_sample_cost() -> Result<u64, Error> {
    let spec = EventSpec::cpu_clock();
    let mut attr = perf::event_attributes(&spec, spec.period_at(PROBE_HERTZ));
    attr.__bindgen_anon_2.wakeup_events = 1;
    let refused = |source| Error::System {
        what: "a signal for each sample".into(),
        source,
    };
    let handler = SignalHandler::install_empty(libc::SIGSTKFLT).map_err(refused)?;
    // SAFETY: has no arguments.
    let own = unsafe { libc::gettid() };
    let cost = measure_gap(&spec, &attr, |fd| {
        perf::send_signals(fd, own, handler.signal).map_err(refused)
    });
    drop(handler);
    cost
}

/// An empty signal handler, installed while this value lives.
struct SignalHandler {
    signal: libc::c_int,
    before: libc::sigaction,
}

impl SignalHandler {
    fn install_empty(signal: libc::c_int) -> io::Result<Self> {
        extern "C" fn do_nothing(_: libc::c_int) {}
        // SAFETY: zeros are a valid value of both.
        let (mut action, mut before): (libc::sigaction, libc::sigaction) =
            unsafe { (std::mem::zeroed(), std::mem::zeroed()) };
        action.sa_sigaction = do_nothing as *const () as usize;
        action.sa_flags = libc::SA_RESTART;
        // SAFETY: both live during the call, and the handler touches nothing.
        match unsafe { libc::sigaction(signal, &raw const action, &raw mut before) } {
            0 => Ok(Self { signal, before }),
            _ => Err(io::Error::last_os_error()),
        }
    }
}

impl Drop for SignalHandler {
    fn drop(&mut self) {
        // SAFETY: as it was before.
        unsafe { libc::sigaction(self.signal, &raw const self.before, std::ptr::null_mut()) };
    }
}

/// Returns the time that one sample takes from the program it interrupts, in nanoseconds: the
/// median of the gaps that samples leave in a loop which only reads the clock. `attr` samples
/// [`PROBE_HERTZ`] times a second. The value that `attach` returns lives until the end.
pub(crate) fn measure_gap<T>(
    spec: &EventSpec,
    attr: &perf_event_attr,
    attach: impl FnOnce(&OwnedFd) -> Result<T, Error>,
) -> Result<u64, Error> {
    let refused = |source| crate::events::advice::event_refused(spec, source);
    let own = Scope { pid: 0, cpu: -1 };
    let fd = match perf::open_event(attr, own) {
        // As an unprivileged recording: user mode only.
        Err(error) if error.raw_os_error() == Some(libc::EACCES) => {
            let mut attr = *attr;
            perf::user_only(&mut attr);
            perf::open_event(&attr, own).map_err(refused)?
        }
        result => result.map_err(refused)?,
    };
    let attached = attach(&fd)?;
    perf::enable_event(&fd)?;
    let mut gaps = Vec::with_capacity(1 << 16);
    let cpu_before = thread_cpu_ns();
    let start = Instant::now();
    let mut last = start;
    loop {
        let now = Instant::now();
        let gap = now.duration_since(last).as_nanos() as u64;
        if gap > 500 && gaps.len() < gaps.capacity() {
            gaps.push(gap);
        }
        last = now;
        if now.duration_since(start) >= PROBE_TIME {
            break;
        }
    }
    perf::disable_event(&fd)?;
    drop(attached);
    // While other processes have the CPU there are no samples.
    let ran_ns = thread_cpu_ns().saturating_sub(cpu_before);
    let expected = (PROBE_HERTZ * ran_ns / 1_000_000_000).max(1) as usize;
    Ok(median_gap(&mut gaps, expected))
}

/// Returns the median of the `expected` longest gaps; the shorter ones are not samples.
fn median_gap(gaps: &mut [u64], expected: usize) -> u64 {
    gaps.sort_unstable_by(|a, b| b.cmp(a));
    let samples = &gaps[..gaps.len().min(expected)];
    samples.get(samples.len() / 2).copied().unwrap_or(0)
}

/// Returns the rate at which samples of that cost take `percent` of a CPU, within bounds.
pub(crate) fn rate_within(percent: f64, cost_ns: u64, bounds: (u64, u64)) -> u64 {
    let rate = percent / 100.0 * 1e9 / cost_ns.max(1) as f64;
    (rate as u64).clamp(bounds.0, bounds.1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_budget_sets_the_rate_within_its_bounds() {
        assert_eq!(rate_within(1.0, 5_000, (1000, 5000)), 2000);
        assert_eq!(rate_within(1.0, 500, (1000, 5000)), 5000);
        assert_eq!(rate_within(0.1, 50_000, (1000, 5000)), 1000);
        assert_eq!(rate_within(1.0, 0, (1000, 5000)), 5000);
    }

    #[test]
    fn short_gaps_are_not_samples() {
        let mut gaps = vec![600; 1000];
        gaps.extend([5000; 300]);
        gaps.push(900_000);
        assert_eq!(median_gap(&mut gaps, 300), 5000);
        assert_eq!(median_gap(&mut [], 300), 0);
    }
}
