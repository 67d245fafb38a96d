//! The daemon's status.

use profile::StackWalks;
use serde::{Deserialize, Serialize};
use std::path::PathBuf;

/// The documented JSON form.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Status {
    /// `vitalfew.status/1`.
    pub schema: String,
    /// Process id.
    pub pid: u32,
    /// The time since the start, in nanoseconds.
    pub uptime_ns: u64,
    /// Names of the events.
    pub events: Vec<String>,
    /// Samples a second on each CPU, now.
    pub frequency: u64,
    /// The rate that `-F` asked for.
    pub asked_frequency: Option<u64>,
    /// Samples that the kernel took, as far as they were drained.
    pub taken: u64,
    /// The number of these that are in the database.
    pub stored: u64,
    /// Samples that the kernel had to give up.
    pub dropped: u64,
    /// The number of stored samples among those taken over from an earlier daemon.
    pub taken_over: u64,
    /// The part of the stored samples that is in unknown code.
    pub unknown: f64,
    /// The share of the machine that samples take, by the cost of one: 0 to 1.
    pub sampling_share: f64,
    /// The cost of a sample, in nanoseconds: as measured at the start, with stacks as those of the last drain had it.
    pub sample_cost_ns: u64,
    /// The share that the daemon itself takes, with the processes that it starts.
    pub own_share: f64,
    /// Its budget for both.
    pub budget: f64,
    /// Resident memory, in bytes.
    pub resident_bytes: u64,
    /// Images and processes that it remembers.
    pub remembered: (usize, usize),
    /// The epoch that is added to.
    pub epoch: PathBuf,
    /// Its parts.
    pub parts: usize,
    /// Epochs of this host, and their length in bytes.
    pub epochs: usize,
    /// The disk space of all epochs, in bytes.
    pub disk_bytes: u64,
    /// Epochs that were removed early because the disk was full.
    pub sacrificed_epochs: u64,
    /// The time that a drain has waited to be written, in nanoseconds, if it is longer than usual.
    pub late_ns: u64,
    /// The memory of drains that wait to be written, in bytes.
    pub backlog_bytes: u64,
    /// Reason that the collector would not outlive the daemon; null if it would.
    pub not_pinned: Option<String>,
    /// The time for which the collector would keep sampling without a daemon, in nanoseconds.
    pub outlive_ns: u64,
    /// True if its interrupts would end then, too; else only its counting (before Linux 6.10).
    pub interrupts_end: bool,
    /// The time without samples because the daemon did not run for longer than that.
    pub unsampled_ns: u64,
    /// Counts of stack walks; null if stacks are not recorded.
    pub stacks: Option<StackWalks>,
    /// Reason that it does not collect now; null if it does.
    pub stopped: Option<String>,
}

/// Returns how much memory of this process is resident.
pub(crate) fn resident_bytes() -> u64 {
    let text = std::fs::read_to_string("/proc/self/statm").unwrap_or_default();
    let pages = text
        .split(' ')
        .nth(1)
        .and_then(|pages| pages.parse::<u64>().ok());
    pages.unwrap_or(0) * rustix::param::page_size() as u64
}
