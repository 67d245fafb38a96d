//! Time of the target's end. It differs from the time at which the last record was read.

use super::memory::TraceMemory;
use super::read_tsc;
use super::waiting::ThreadWaits;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::{Acquire, Release};

/// Records the time at which a child process ends, however long the reading of records takes.
pub(super) struct Ending {
    pid: u32,
    /// Time of the end, in ticks. 0 if the child has not ended.
    noticed: Arc<AtomicU64>,
}

impl Ending {
    /// Watches a child in a thread that ends with the child.
    pub fn watch_child(pid: u32) -> Self {
        let noticed = Arc::new(AtomicU64::new(0));
        let to = Arc::clone(&noticed);
        let wait = move || {
            // SAFETY: all zeros are a value of it, and the kernel writes to no more.
            let mut info: libc::siginfo_t = unsafe { std::mem::zeroed() };
            // WNOWAIT keeps the exit code for the caller that collects it.
            let options = libc::WEXITED | libc::WNOWAIT;
            // SAFETY: waits for a child; the pointer is that of a value which lives longer.
            let ended = unsafe { libc::waitid(libc::P_PID, pid, &raw mut info, options) } == 0;
            if ended {
                to.store(read_tsc(), Release);
            }
        };
        // Without this thread, the controller notes the end when it sees it.
        let _ = std::thread::Builder::new().spawn(wait);
        Self { pid, noticed }
    }

    /// Returns the time at which the child ended, in ticks. The scheduler's time comes first.
    /// Without it, the earlier of the child's `exit` and the watching thread's time is used.
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
