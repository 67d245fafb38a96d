//! Time of the target's end, which is not when its last record was read.

use super::memory::TraceMemory;
use super::read_tsc;
use super::waiting::ThreadWaits;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::{Acquire, Release};

/// Notes when a child of ours ends, whatever the reading of its records takes.
pub(super) struct Ending {
    pid: u32,
    /// Time of the end, in ticks; 0: not yet.
    noticed: Arc<AtomicU64>,
}

impl Ending {
    /// Watches a child, in a thread that ends with it.
    pub fn watch_child(pid: u32) -> Self {
        let noticed = Arc::new(AtomicU64::new(0));
        let to = Arc::clone(&noticed);
        let wait = move || {
            // SAFETY: all zeros are a value of it, and the kernel writes to no more.
            let mut info: libc::siginfo_t = unsafe { std::mem::zeroed() };
            // The exit code stays there for whoever asks.
            let options = libc::WEXITED | libc::WNOWAIT;
            // SAFETY: waits for a child; the pointer is that of a value which lives longer.
            let ended = unsafe { libc::waitid(libc::P_PID, pid, &raw mut info, options) } == 0;
            if ended {
                to.store(read_tsc(), Release);
            }
        };
        // Without the thread, the end is when the controller sees it.
        let _ = std::thread::Builder::new().spawn(wait);
        Self { pid, noticed }
    }

    /// Returns the time at which the child ended, in ticks, once it has ended: as the scheduler saw it, else as its
    /// `exit` or the thread did, whichever was first.
    pub fn end_ticks(&self, shared: &TraceMemory, waiting: &mut ThreadWaits) -> u64 {
        waiting.tick();
        if let Some(ended) = waiting.ended(self.pid) {
            return ended;
        }
        let others = [shared.ended.load(Acquire), self.noticed.load(Acquire)];
        let first = others.into_iter().filter(|at| *at > 0).min();
        first.unwrap_or_else(read_tsc)
    }
}
