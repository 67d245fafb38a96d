//! A recording's summary, which can be read without its samples.

use crate::container::Container;
use crate::error::StoreError;
use profile::Target;
use serde::Serialize;
use std::path::Path;

/// The summary of an epoch, as `docs/json.md` documents it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct RecordingSummary {
    /// Name of the host.
    pub host: String,
    /// The target.
    #[serde(skip)]
    pub target: Target,
    /// Start, in nanoseconds since 1970-01-01 UTC.
    pub start_unix_ns: u64,
    /// Length, in nanoseconds.
    pub duration_ns: u64,
    /// Names of the events.
    pub events: Vec<String>,
    /// The number of samples of all events.
    pub samples: u64,
    /// Samples that were dropped or lost.
    pub lost: u64,
    /// The length of its members, in bytes.
    pub bytes: u64,
}

impl RecordingSummary {
    /// Reads the summary of the recording at `path`, a file or the directory of an epoch.
    ///
    /// # Errors
    /// All of [`StoreError`] but [`StoreError::Unstorable`].
    pub fn read_summary(path: &Path) -> Result<Self, StoreError> {
        let manifest = Container::open(path)?.read_manifest()?;
        let members = manifest.members.values();
        let given_up = manifest
            .events
            .iter()
            .map(|event| event.dropped.saturating_add(event.lost));
        let lost = given_up.fold(0, u64::saturating_add);
        Ok(Self {
            bytes: members
                .map(|member| member.bytes)
                .fold(0, u64::saturating_add),
            start_unix_ns: manifest.start_unix_ns,
            duration_ns: manifest.duration_ns,
            host: manifest.host.name,
            target: manifest.target,
            events: manifest
                .events
                .into_iter()
                .map(|event| event.name)
                .collect(),
            samples: manifest.samples,
            lost,
        })
    }
}

impl RecordingSummary {
    /// Combines two summaries.
    pub(crate) fn combined_with(mut self, other: &Self) -> Self {
        let end = |s: &Self| s.start_unix_ns.saturating_add(s.duration_ns);
        let end = end(&self).max(end(other));
        self.start_unix_ns = self.start_unix_ns.min(other.start_unix_ns);
        self.duration_ns = end.saturating_sub(self.start_unix_ns);
        self.samples = self.samples.saturating_add(other.samples);
        self.lost = self.lost.saturating_add(other.lost);
        self.bytes = self.bytes.saturating_add(other.bytes);
        for event in &other.events {
            if !self.events.contains(event) {
                self.events.push(event.clone());
            }
        }
        self
    }
}
