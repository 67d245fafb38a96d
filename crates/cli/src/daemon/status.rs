//! What the daemon says of itself.

use crate::output::{bytes, grouped, printable, time};
use serde::{Deserialize, Serialize};
use std::path::PathBuf;

/// The documented JSON form.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Status {
    /// `vitalfew.status/1`.
    pub schema: String,
    /// Process id.
    pub pid: u32,
    /// How long it runs, in nanoseconds.
    pub uptime_ns: u64,
    /// Names of the events.
    pub events: Vec<String>,
    /// Samples a second on each CPU, now.
    pub frequency: u64,
    /// Samples that the kernel took, as far as they were drained.
    pub taken: u64,
    /// Of these, those that are in the database.
    pub stored: u64,
    /// Those that the kernel had to give up.
    pub dropped: u64,
    /// Of those that were taken over from a daemon before this one, the ones that are stored.
    pub taken_over: u64,
    /// The part of the stored ones that is in code of which nothing is known.
    pub unknown: f64,
    /// What samples take of the machine, by the cost of one as measured at the start: 0 to 1.
    pub sampling_share: f64,
    /// What the daemon itself takes, with the processes that it starts.
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
    /// Of all of them.
    pub disk_bytes: u64,
    /// Why the collector would not outlive the daemon; null if it would.
    pub not_pinned: Option<String>,
    /// Why it does not collect now; null if it does.
    pub stopped: Option<String>,
}

impl Status {
    /// For people.
    pub fn render(&self) -> String {
        let percent = |share: f64| format!("{:.2}%", 100.0 * share);
        let lost = match self.not_pinned.as_deref() {
            None => "kept in the kernel if the daemon dies".to_owned(),
            Some(why) => format!("LOST if the daemon dies: {}", printable(why)),
        };
        let state = match self.stopped.as_deref() {
            None => "collecting".to_owned(),
            Some(why) => format!("STOPPED: {}", printable(why)),
        };
        format!(
            "{state}\n\
             {} at {} Hz on each CPU, for {}\n\
             samples: {} taken, {} stored ({} taken over), {} dropped; in unknown code {}\n\
             what is not stored yet: {lost}\n\
             cost: samples {} of the machine, daemon {}, budget {}\n\
             memory: {} resident; {} images, {} processes\n\
             disk: {} in {} epochs; {} parts in {}\n",
            printable(&self.events.join(", ")),
            grouped(self.frequency),
            time(self.uptime_ns as f64),
            grouped(self.taken),
            grouped(self.stored),
            grouped(self.taken_over),
            grouped(self.dropped),
            percent(self.unknown),
            percent(self.sampling_share),
            percent(self.own_share),
            percent(self.budget),
            bytes(self.resident_bytes),
            self.remembered.0,
            self.remembered.1,
            bytes(self.disk_bytes),
            self.epochs,
            self.parts,
            printable(&self.epoch.display().to_string()),
        )
    }
}
