//! What a recording says of itself, without its samples being read.

use crate::container::Source;
use crate::error::Error;
use profile::Target;
use std::path::Path;

/// What an epoch says of itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Summary {
    /// Start, in nanoseconds since 1970-01-01 UTC.
    pub start_unix_ns: u64,
    /// Length, in nanoseconds.
    pub duration_ns: u64,
    /// Name of the host.
    pub host: String,
    /// What was measured.
    pub target: Target,
    /// Names of the events.
    pub events: Vec<String>,
    /// How many samples there are of all events.
    pub samples: u64,
    /// The length of its members, in bytes.
    pub bytes: u64,
}

impl Summary {
    /// Reads the summary of the recording at `path`, a file or the directory of an epoch.
    ///
    /// # Errors
    /// All of [`Error`] but [`Error::Unstorable`].
    pub fn read(path: &Path) -> Result<Self, Error> {
        let manifest = Source::open(path)?.manifest()?;
        let members = manifest.members.values();
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
        })
    }
}

impl Summary {
    /// Of both together.
    pub(crate) fn and(mut self, other: &Self) -> Self {
        let end = |s: &Self| s.start_unix_ns.saturating_add(s.duration_ns);
        let end = end(&self).max(end(other));
        self.start_unix_ns = self.start_unix_ns.min(other.start_unix_ns);
        self.duration_ns = end.saturating_sub(self.start_unix_ns);
        self.samples = self.samples.saturating_add(other.samples);
        self.bytes = self.bytes.saturating_add(other.bytes);
        for event in &other.events {
            if !self.events.contains(event) {
                self.events.push(event.clone());
            }
        }
        self
    }
}
