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
    /// Current number of samples a second on each CPU.
    pub frequency: u64,
    /// The rate requested by `-F`.
    pub asked_frequency: Option<u64>,
    /// Number of drained samples that the kernel took.
    pub taken: u64,
    /// Number of these in the database.
    pub stored: u64,
    /// Number of samples that the kernel dropped.
    pub dropped: u64,
    /// Number of stored samples taken over from an earlier daemon.
    pub taken_over: u64,
    /// Fraction of the stored samples in unknown code.
    pub unknown: f64,
    /// Share of the machine that samples take, by the cost of one: 0 to 1.
    pub sampling_share: f64,
    /// Cost of a sample, in nanoseconds: as measured at the start, with stacks as in the last
    /// drain.
    pub sample_cost_ns: u64,
    /// Share that the daemon itself takes, with its child processes.
    pub own_share: f64,
    /// Budget for both shares.
    pub budget: f64,
    /// Resident memory, in bytes.
    pub resident_bytes: u64,
    /// Numbers of remembered images and processes.
    pub remembered: (usize, usize),
    /// The current epoch.
    pub epoch: PathBuf,
    /// Number of its parts.
    pub parts: usize,
    /// Number of epochs of this host.
    pub epochs: usize,
    /// The disk space of all epochs, in bytes.
    pub disk_bytes: u64,
    /// Number of epochs that were removed early because the disk was full.
    pub sacrificed_epochs: u64,
    /// Time that a drain has waited to be written, in nanoseconds, if it is longer than usual.
    pub late_ns: u64,
    /// The memory of drains that wait to be written, in bytes.
    pub backlog_bytes: u64,
    /// Reason for which the collector would not outlive the daemon; null if it would.
    pub not_pinned: Option<String>,
    /// The time for which the collector would keep sampling without a daemon, in nanoseconds.
    pub outlive_ns: u64,
    /// True if its interrupts would end then, too; otherwise only its counting (before Linux 6.10).
    pub interrupts_end: bool,
    /// Time without samples because no daemon ran for longer than that.
    pub unsampled_ns: u64,
    /// Counts of stack walks; null if stacks are not recorded.
    pub stacks: Option<StackWalks>,
    /// The address of the bucket to which closed epochs go; null if they stay.
    #[serde(default)]
    pub bucket: Option<String>,
    /// Number of closed epochs that wait to be sent there.
    #[serde(default)]
    pub unsent_epochs: usize,
    /// Time for which sending has failed, in nanoseconds; 0 if the last try did not.
    #[serde(default)]
    pub sending_fails_ns: u64,
    /// Reason for which it does not collect now; null if it does.
    pub stopped: Option<String>,
}

/// Returns the resident memory of this process.
pub(crate) fn resident_bytes() -> u64 {
    let text = std::fs::read_to_string("/proc/self/statm").unwrap_or_default();
    let pages = text
        .split(' ')
        .nth(1)
        .and_then(|pages| pages.parse::<u64>().ok());
    pages.unwrap_or(0) * rustix::param::page_size() as u64
}
