//! Opens the input of a command: missing data is reported, and changes the exit code.

use crate::args::{Chosen, Source};
use crate::exit;
use crate::screen::warn_user;
use profile::{EventId, Recording};
use results::{OpenedRecording, symbol_gaps};
use store::{Epoch, Wanted};
use symbols::Resolved;

/// Opens the recording of a command.
pub fn open_source(source: &Source, wanted: Wanted) -> anyhow::Result<Recording> {
    let opened = results::open_recording(&source.recording_source(), wanted)?;
    Ok(accept_recording(opened))
}

/// Opens the readable recordings of each host.
pub fn open_by_host(source: &Source, wanted: Wanted) -> anyhow::Result<Vec<Recording>> {
    let opened = results::open_by_host(&source.recording_source(), wanted)?;
    Ok(opened.into_iter().map(accept_recording).collect())
}

/// Reads several epochs together.
pub fn read_epochs(epochs: &[Epoch], wanted: Wanted) -> Result<Recording, store::StoreError> {
    let recording = results::read_epochs(epochs, wanted)?;
    Ok(accept_recording(recording.into()))
}

/// Reports data that is missing from an opened recording.
pub fn accept_recording(opened: OpenedRecording) -> Recording {
    if opened.is_incomplete() {
        exit::note_left_out();
    }
    for damaged in &opened.passed_over {
        warn_user(damaged);
    }
    opened.recording
}

/// Chooses epochs of a database, at least one.
pub fn choose_epochs(chosen: &Chosen) -> anyhow::Result<Vec<Epoch>> {
    results::choose_epochs(&chosen.epoch, chosen.host.as_deref())
}

/// Reports missing files that would name more.
pub fn warn_of_gaps(recording: &Recording, event: EventId, resolved: &Resolved, all: bool) {
    for gap in symbol_gaps(recording, Some(event), resolved, all) {
        warn_user(&gap);
    }
}
