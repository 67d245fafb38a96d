//! Our recordings as call trees, named by debug information.

use crate::source::{RecordingSource, name_locations, symbol_gaps};
use formats::read::{self, ReadOptions, TreeProfile};
use profile::{CallGraph, EventId, Recording};
use symbols::{Detail, Resolved};

/// Names all places of a recording, with source lines and inlined calls.
pub fn resolve_all(recording: &Recording, source: &RecordingSource) -> Resolved {
    let locations = recording.stacks.frames().iter().map(|frame| frame.location);
    name_locations(recording, locations, Detail::Lines, source)
}

/// Makes the call tree of a recording; its notes list missing data.
///
/// # Errors
/// If the recording contradicts itself.
pub fn tree_of_recording(
    recording: &Recording,
    resolved: &Resolved,
    options: &ReadOptions,
) -> anyhow::Result<TreeProfile> {
    let mut profile = read::from_recording(recording, &resolved.table, options)?;
    let gaps = symbol_gaps(recording, Some(EventId(0)), resolved, false);
    profile.notes.extend(gaps);
    if recording.call_graph == CallGraph::None {
        profile.notes.push(
            "recorded without call stacks: a daemon keeps none; record does, without --no-stacks"
                .into(),
        );
    }
    Ok(profile)
}
