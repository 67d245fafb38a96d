//! Options of a daemon.

use sampler::EventSpec;
use std::path::PathBuf;
use std::time::Duration;

/// Default budget of sampling and the daemon together, in percent of the machine.
const USUAL_BUDGET: f64 = 1.0;

/// A daemon's task, its place, and its limits.
#[derive(Clone, Debug)]
pub struct DaemonOptions {
    /// The database directory, which is created if it is missing.
    pub database: PathBuf,
    /// The socket for requests; `None`: in the database.
    pub socket: Option<PathBuf>,
    /// The events to sample; the usual one if there are none.
    pub events: Vec<EventSpec>,
    /// Samples a second on each CPU; `None`: as many as the budget allows.
    pub frequency: Option<u64>,
    /// The requested budget, in percent of the machine.
    pub budget: Option<f64>,
    /// The longest time between two drains.
    pub interval: Duration,
    /// The time between two merges.
    pub merge_every: Duration,
    /// The length of an epoch.
    pub epoch_length: Duration,
    /// The rule for keeping closed epochs.
    pub retention: Retention,
    /// The bucket to which closed epochs go; `None`: they stay.
    pub bucket: Option<BucketOptions>,
    /// The time for which the collector keeps sampling without a daemon.
    pub outlive: Duration,
    /// True if the collector is pinned, so that it outlives a killed daemon.
    pub pinned: bool,
    /// Unwind tables to record call stacks with; `None`: no call stacks.
    pub stacks: Option<TableLimits>,
}

/// Limits of unwind tables.
#[derive(Clone, Debug)]
pub struct TableLimits {
    /// Maximum size in the kernel, in bytes.
    pub memory: usize,
    /// Directory on disk; `None`: each daemon makes the tables anew.
    pub directory: Option<PathBuf>,
}

impl DaemonOptions {
    /// Returns the budget, in percent of the machine.
    pub fn budget_percent(&self) -> f64 {
        self.budget.unwrap_or(USUAL_BUDGET)
    }

    /// Returns whether the governor may change the rate: a requested rate stays, unless a budget
    /// was requested, too.
    pub(crate) fn rate_is_free(&self) -> bool {
        self.frequency.is_none() || self.budget.is_some()
    }
}

/// The rule for keeping closed epochs of this host. Without limits all are kept.
#[derive(Clone, Debug, Default)]
pub struct Retention {
    /// Epochs that ended longer ago are removed.
    pub longest: Option<Duration>,
    /// Maximum size of the epochs in bytes: the oldest are removed to stay below it.
    pub most_bytes: Option<u64>,
}

/// A bucket as the database, for which the local one is a spool.
#[derive(Clone, Debug)]
pub struct BucketOptions {
    /// The database in the bucket.
    pub database: PathBuf,
    /// The time between two rounds of sending.
    pub every: Duration,
    /// Maximum size of the epochs that wait, in bytes: then the oldest are lost.
    pub spool_bytes: u64,
    /// The rule for keeping this host's epochs in the bucket.
    pub retention: Retention,
}

/// The task of a merging process.
#[derive(Clone, Debug)]
pub struct MergeOptions {
    /// The database directory.
    pub database: PathBuf,
    /// The directory of the open epoch.
    pub epoch: PathBuf,
    /// True if all parts are merged, not only small ones.
    pub all: bool,
    /// True if the epoch is closed.
    pub close: bool,
    /// The rule for keeping closed epochs.
    pub retention: Retention,
}

/// The task of a sending process.
#[derive(Clone, Debug)]
pub struct SendOptions {
    /// The local database whose closed epochs are sent.
    pub spool: PathBuf,
    /// The destination, and its limits.
    pub bucket: BucketOptions,
}
