//! What a daemon is asked for.

use sampler::EventSpec;
use std::path::PathBuf;
use std::time::Duration;

/// How much of the machine sampling and the daemon may take together if nothing is asked for, in percent.
const USUAL_BUDGET: f64 = 1.0;

/// What a daemon does, where, and within which limits.
#[derive(Clone, Debug)]
pub struct DaemonOptions {
    /// The database directory, which is made if it is not there.
    pub database: PathBuf,
    /// The socket that answers; `None`: in the database.
    pub socket: Option<PathBuf>,
    /// The events to sample; the usual one if there are none.
    pub events: Vec<EventSpec>,
    /// Samples a second on each CPU; `None`: what the budget allows.
    pub frequency: Option<u64>,
    /// What was asked for as the budget, in percent of the machine.
    pub budget: Option<f64>,
    /// What was counted is stored at least this often.
    pub interval: Duration,
    /// What is stored is merged this often.
    pub merge_every: Duration,
    /// How long an epoch is.
    pub epoch_length: Duration,
    /// Which closed epochs are kept.
    pub retention: Retention,
    /// How long the collector goes on sampling when no daemon is there.
    pub outlive: Duration,
    /// True if the collector is pinned, so that it outlives a daemon that is killed.
    pub pinned: bool,
}

impl DaemonOptions {
    /// Returns the budget, in percent of the machine.
    pub fn budget(&self) -> f64 {
        self.budget.unwrap_or(USUAL_BUDGET)
    }

    /// Returns whether the governor may change the rate: one that was asked for stays, unless a budget was, too.
    pub(crate) fn rate_is_free(&self) -> bool {
        self.frequency.is_none() || self.budget.is_some()
    }
}

/// Which closed epochs of this host are kept; all, if nothing is set.
#[derive(Clone, Debug, Default)]
pub struct Retention {
    /// Epochs that ended longer ago are removed.
    pub longest: Option<Duration>,
    /// The oldest epochs are removed until the rest takes at most so many bytes.
    pub most_bytes: Option<u64>,
}

/// What a process that merges is to do.
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
    /// Which closed epochs are kept.
    pub retention: Retention,
}
