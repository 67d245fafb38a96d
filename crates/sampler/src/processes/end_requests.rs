//! Detects signals that ask a process to end: a program that handles such a signal exits as if it
//! had finished.

use crate::EventSpec;
use crate::events::perf::{self, Scope};
use crate::host::online_cpus;
use perf_event_open_sys::ioctls;
use std::ffi::CString;
use std::os::fd::{AsRawFd, OwnedFd};
use std::sync::OnceLock;

/// Signals that ask for an end: SIGHUP, SIGINT, SIGQUIT, SIGTERM.
const ENDING: &str = "(sig == 1 || sig == 2 || sig == 3 || sig == 15)";
/// `code` of a signal from a thread of the same process.
const OF_THREAD: i32 = -6;

/// Counters of the ending signals that others send to a process, one for each CPU.
pub(super) struct EndRequests(Vec<OwnedFd>);

impl EndRequests {
    /// Counts from now on; counts nothing where the kernel does not show signals.
    pub fn watch(pid: u32) -> Self {
        // Opening or closing a tracepoint's only user waits for all CPUs, so one user is kept.
        static KEPT: OnceLock<EndRequests> = OnceLock::new();
        KEPT.get_or_init(|| Self::open(std::process::id()));
        Self::open(pid)
    }

    fn open(pid: u32) -> Self {
        let filter = format!(
            "pid == {pid} && common_pid != {pid} && result == 0 && code != {OF_THREAD} && {ENDING}"
        );
        let spec = EventSpec::parse("signal:signal_generate:k").ok();
        let attr = spec.map(|spec| perf::event_attributes(&spec, 0));
        let filter = CString::new(filter).ok();
        let Some((attr, filter)) = attr.zip(filter) else {
            return Self(Vec::new());
        };
        let counter = |cpu: i32| {
            let scope = Scope { pid: -1, cpu };
            let event = perf::open_event(&attr, scope).ok()?;
            // SAFETY: the kernel reads the terminated filter during the call.
            let set = unsafe { ioctls::SET_FILTER(event.as_raw_fd(), filter.as_ptr().cast_mut()) };
            (set == 0 && perf::enable_event(&event).is_ok()).then_some(event)
        };
        Self(online_cpus().into_iter().filter_map(counter).collect())
    }

    /// Returns whether there was such a signal.
    pub fn any(&self) -> bool {
        let counts = self.0.iter().filter_map(perf::event_count);
        counts.sum::<u64>() > 0
    }
}
