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
    /// What `-F` asked for.
    pub asked_frequency: Option<u64>,
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
    /// Epochs that were removed early because the disk was full.
    pub sacrificed_epochs: u64,
    /// How long a drain waits to be written, in nanoseconds, if that is longer than usual.
    pub late_ns: u64,
    /// What waits to be written, in bytes of memory.
    pub backlog_bytes: u64,
    /// Why the collector would not outlive the daemon; null if it would.
    pub not_pinned: Option<String>,
    /// How long the collector would go on sampling without a daemon, in nanoseconds.
    pub outlive_ns: u64,
    /// Whether its interrupts would end then, too; else only its counting (before Linux 6.10).
    pub interrupts_end: bool,
    /// How long nothing was sampled because the daemon did not run for longer than that.
    pub unsampled_ns: u64,
    /// Why it does not collect now; null if it does.
    pub stopped: Option<String>,
}

impl Status {
    /// For people.
    pub fn render(&self) -> String {
        let percent = |share: f64| format!("{:.2}%", 100.0 * share);
        let lost = match self.not_pinned.as_deref() {
            None => format!(
                "kept in the kernel if the daemon dies, where {} after {}",
                match self.interrupts_end {
                    true => "sampling ends by itself",
                    false => "counting ends by itself (its interrupts go on)",
                },
                time(self.outlive_ns as f64)
            ),
            Some(why) => format!("LOST if the daemon dies: {}", printable(why)),
        };
        let state = match self.stopped.as_deref() {
            None if self.unsampled_ns > 0 => format!(
                "collecting; for {} nothing was sampled, because the daemon did not run",
                time(self.unsampled_ns as f64)
            ),
            None if self.late_ns > 0 => format!(
                "collecting into memory: the file system has not answered for {}, {} wait",
                time(self.late_ns as f64),
                bytes(self.backlog_bytes)
            ),
            None => "collecting".to_owned(),
            Some(why) => format!("STOPPED: {}", printable(why)),
        };
        let asked = match self.asked_frequency {
            Some(asked) if asked != self.frequency => format!(" (-F asked for {})", grouped(asked)),
            _ => String::new(),
        };
        let sacrificed = match self.sacrificed_epochs {
            0 => String::new(),
            count => format!(" ({count} removed because the disk was full)"),
        };
        format!(
            "{state}\n\
             {} at {} Hz on each CPU{asked}, for {}\n\
             samples: {} taken, {} stored ({} taken over), {} dropped; in unknown code {}\n\
             what is not stored yet: {lost}\n\
             cost: samples {} of the machine, daemon {}, budget {}\n\
             memory: {} resident; {} images, {} processes\n\
             disk: {} in {} epochs{sacrificed}; {} parts in {}\n",
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
