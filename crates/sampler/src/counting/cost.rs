//! The cost of counting, measured on this thread before a run.

use crate::events::breakpoint::execution_attributes;
use crate::events::perf::{self, Scope};
use crate::{Error, clock::thread_cpu_ns};
use std::hint::black_box;

/// Executions in a measurement, and measurements, of which the median counts.
const HITS: u64 = 500;
const ROUNDS: usize = 7;

/// The place that is counted.
#[inline(never)]
extern "C" fn counted_place(value: u64) -> u64 {
    black_box(value.wrapping_mul(3))
}

/// Returns the nanoseconds by which counting slows an execution of the counted place.
///
/// # Errors
/// If there is no free breakpoint, or the kernel refuses.
pub(super) fn measure_hit() -> Result<f64, Error> {
    let attr = execution_attributes(counted_place as *const () as usize as u64);
    let event = perf::open_event(&attr, Scope { pid: 0, cpu: -1 }).map_err(breakpoint_refused)?;
    let time = || {
        let before = thread_cpu_ns();
        for turn in 0..HITS {
            black_box(counted_place(black_box(turn)));
        }
        thread_cpu_ns().saturating_sub(before) as f64
    };
    let mut costs = Vec::new();
    for _ in 0..ROUNDS {
        perf::disable_event(&event)?;
        let without = time();
        perf::enable_event(&event)?;
        costs.push((time() - without) / HITS as f64);
    }
    costs.sort_by(f64::total_cmp);
    Ok(costs.get(ROUNDS / 2).copied().unwrap_or(0.0).max(0.0))
}

/// Returns what a refused breakpoint means.
pub(super) fn breakpoint_refused(source: std::io::Error) -> Error {
    let reason = match source.raw_os_error() {
        Some(libc::ENOSPC | libc::EBUSY) => {
            "all hardware breakpoints are taken: end the debugger or tracer that has them"
        }
        Some(libc::ENOENT | libc::ENODEV | libc::EOPNOTSUPP) => {
            "this machine has no hardware breakpoints"
        }
        Some(libc::EACCES | libc::EPERM) => {
            "the kernel does not allow it (sysctl kernel.perf_event_paranoid=1, or as root)"
        }
        _ => {
            return Error::System {
                what: "counting executions".to_owned(),
                source,
            };
        }
    };
    Error::Refused {
        what: "counting executions".to_owned(),
        reason: reason.to_owned(),
    }
}
