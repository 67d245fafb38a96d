//! `recording.json`: the description of a recording, and the properties that its other members must
//! have.

use crate::envelope::EnvelopeForm;
use crate::error::{StoreError, TableFault};
use profile::{
    CallGraph, Collector, Event, Host, Recording, SocketUse, StackWalks, Target, TaskTimes,
};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::path::Path;

/// Name of the member.
pub(crate) const NAME: &str = "recording.json";

const FORM: EnvelopeForm = EnvelopeForm {
    format: "vitalfew-recording",
    version: 1,
    key: "recording",
    member: NAME,
};

/// Limit on its size, far above that of any recording.
pub(crate) const MAX_LEN: u64 = 64 << 20;

/// Event numbers have 16 bits.
pub(crate) const MAX_EVENTS: usize = 1 << 16;

/// The required size and checksum of a member.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct ManifestMember {
    pub bytes: u64,
    pub crc32: u32,
}

/// The contents of `recording.json`.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Manifest {
    pub host: Host,
    pub target: Target,
    pub start_unix_ns: u64,
    pub duration_ns: u64,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub task_times: Option<TaskTimes>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sockets: Option<SocketUse>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub slice_ns: Option<u64>,
    pub collector: Collector,
    pub call_graph: CallGraph,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub walks: Option<StackWalks>,
    pub kernel: bool,
    pub warnings: Vec<String>,
    pub events: Vec<Event>,
    /// Sum of the counts of all samples.
    pub samples: u64,
    pub members: BTreeMap<String, ManifestMember>,
}

impl Manifest {
    pub fn new(recording: &Recording, members: BTreeMap<String, ManifestMember>) -> Self {
        let counts = recording.samples.iter().map(|sample| sample.count);
        // Sentences on stack walks are generated again when the recording is read.
        let said = recording.walks.map_or_else(Vec::new, StackWalks::sentences);
        let warnings = recording.warnings.iter();
        let warnings = warnings.filter(|warning| !said.contains(warning));
        let warnings = warnings.cloned().collect();
        Self {
            host: recording.host.clone(),
            target: recording.target.clone(),
            start_unix_ns: recording.start_unix_ns,
            duration_ns: recording.duration_ns,
            task_times: recording.task_times,
            sockets: recording.sockets,
            slice_ns: recording.slice_ns,
            collector: recording.collector,
            call_graph: recording.call_graph,
            walks: recording.walks,
            kernel: recording.kernel,
            warnings,
            events: recording.events.clone(),
            samples: counts.fold(0, u64::saturating_add),
            members,
        }
    }

    /// Returns a recording with the manifest's contents, and without those of the other members.
    pub fn into_recording(self) -> Recording {
        let mut recording = Recording::new(self.host, self.target, self.collector, self.call_graph);
        recording.start_unix_ns = self.start_unix_ns;
        recording.duration_ns = self.duration_ns;
        recording.task_times = self.task_times;
        recording.sockets = self.sockets;
        recording.slice_ns = self.slice_ns;
        recording.kernel = self.kernel;
        recording.warnings = self.warnings;
        recording.set_walks(self.walks);
        recording.events = self.events;
        recording
    }

    pub fn to_bytes(&self) -> Result<Vec<u8>, StoreError> {
        let bytes = FORM.seal_content(self)?;
        if bytes.len() as u64 > MAX_LEN {
            return Err(StoreError::unstorable("its description exceeds 64 MiB"));
        }
        Ok(bytes)
    }

    /// Reads `recording.json` of the recording at `path`.
    pub fn from_bytes(bytes: &[u8], path: &Path) -> Result<Self, StoreError> {
        let manifest: Self = FORM.open_envelope(bytes, path, 0)?;
        if manifest.events.len() > MAX_EVENTS {
            let what = format!("it has {} events", manifest.events.len());
            return Err(TableFault::at_offset(0, what).in_member(path, NAME));
        }
        Ok(manifest)
    }
}
