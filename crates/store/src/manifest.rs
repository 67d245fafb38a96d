//! `recording.json`: what a recording says of itself, and what its other members must be.

use crate::error::{Error, Fault};
use profile::{CallGraph, Collector, Event, Host, Recording, Target};
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use std::collections::BTreeMap;
use std::path::Path;

/// Name of the member.
pub(crate) const NAME: &str = "recording.json";

const FORMAT: &str = "vitalfew-recording";

/// Raised when a reader of the former version would misread a recording; not for what it can
/// ignore (a further column, member or field).
const VERSION: u64 = 1;

/// Far above what any recording needs.
pub(crate) const MAX_LEN: u64 = 64 << 20;

/// Events are told apart by 16 bits.
pub(crate) const MAX_EVENTS: usize = 1 << 16;

/// What a member must be.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Member {
    pub bytes: u64,
    pub crc32: u32,
}

/// What `recording.json` says.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Manifest {
    pub host: Host,
    pub target: Target,
    pub start_unix_ns: u64,
    pub duration_ns: u64,
    pub collector: Collector,
    pub call_graph: CallGraph,
    pub kernel: bool,
    pub warnings: Vec<String>,
    pub events: Vec<Event>,
    /// Sum of the counts of all samples.
    pub samples: u64,
    pub members: BTreeMap<String, Member>,
}

/// What every version begins with.
#[derive(Deserialize)]
struct Stamp {
    format: String,
    version: u64,
}

/// The file: the checksum is that of the bytes of `recording`, as they stand.
#[derive(Serialize, Deserialize)]
struct Envelope<'a> {
    format: &'a str,
    version: u64,
    crc32: u32,
    #[serde(borrow)]
    recording: &'a RawValue,
}

impl Manifest {
    pub fn new(recording: &Recording, members: BTreeMap<String, Member>) -> Self {
        let counts = recording.samples.iter().map(|sample| sample.count);
        Self {
            host: recording.host.clone(),
            target: recording.target.clone(),
            start_unix_ns: recording.start_unix_ns,
            duration_ns: recording.duration_ns,
            collector: recording.collector,
            call_graph: recording.call_graph,
            kernel: recording.kernel,
            warnings: recording.warnings.clone(),
            events: recording.events.clone(),
            samples: counts.fold(0, u64::saturating_add),
            members,
        }
    }

    /// A recording with all that the manifest says, and nothing of what the members do.
    pub fn into_recording(self) -> Recording {
        let mut recording = Recording::new(self.host, self.target, self.collector, self.call_graph);
        recording.start_unix_ns = self.start_unix_ns;
        recording.duration_ns = self.duration_ns;
        recording.kernel = self.kernel;
        recording.warnings = self.warnings;
        recording.events = self.events;
        recording
    }

    pub fn to_bytes(&self) -> Result<Vec<u8>, Error> {
        let unstorable = |e: serde_json::Error| Error::unstorable(e.to_string());
        let recording = serde_json::value::to_raw_value(self).map_err(unstorable)?;
        let envelope = Envelope {
            format: FORMAT,
            version: VERSION,
            crc32: crc32fast::hash(recording.get().as_bytes()),
            recording: &recording,
        };
        let mut bytes = serde_json::to_vec(&envelope).map_err(unstorable)?;
        bytes.push(b'\n');
        if bytes.len() as u64 > MAX_LEN {
            return Err(Error::unstorable("its description exceeds 64 MiB"));
        }
        Ok(bytes)
    }

    /// Reads `recording.json` of the recording at `path`.
    pub fn from_bytes(bytes: &[u8], path: &Path) -> Result<Self, Error> {
        let damaged = |e: serde_json::Error| {
            Fault::at_offset(offset(bytes, &e), e.to_string()).of(path, NAME)
        };
        let stamp: Stamp = serde_json::from_slice(bytes).map_err(damaged)?;
        if stamp.format != FORMAT {
            let what = format!("its format is {:?}, not {FORMAT:?}", stamp.format);
            return Err(Fault::at_offset(0, what).of(path, NAME));
        }
        if stamp.version > VERSION {
            return Err(Error::Newer {
                path: path.to_owned(),
                version: stamp.version,
                supported: VERSION,
            });
        }
        if stamp.version < VERSION {
            let what = format!("its version is {}", stamp.version);
            return Err(Fault::at_offset(0, what).of(path, NAME));
        }
        let envelope: Envelope<'_> = serde_json::from_slice(bytes).map_err(damaged)?;
        let found = crc32fast::hash(envelope.recording.get().as_bytes());
        if found != envelope.crc32 {
            return Err(Error::Checksum {
                path: path.to_owned(),
                member: NAME.to_owned(),
                expected: envelope.crc32,
                found,
            });
        }
        let manifest: Self = serde_json::from_str(envelope.recording.get()).map_err(damaged)?;
        if manifest.events.len() > MAX_EVENTS {
            let what = format!("it has {} events", manifest.events.len());
            return Err(Fault::at_offset(0, what).of(path, NAME));
        }
        Ok(manifest)
    }
}

/// The offset of what serde_json gives as line and column; the format has one line.
fn offset(bytes: &[u8], error: &serde_json::Error) -> usize {
    let lines = bytes.split_inclusive(|byte| *byte == b'\n');
    let before: usize = lines
        .take(error.line().saturating_sub(1))
        .map(<[u8]>::len)
        .sum();
    before + error.column()
}
