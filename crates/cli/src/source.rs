//! Finding and opening the recording that a command is about.

use crate::args::Source;
use crate::exit::{Coded, INCONCLUSIVE};
use anyhow::Context;
use profile::{EventId, Location, Recording};
use std::path::Path;
use store::{Database, Opened};
use symbols::{Detail, Options, Resolved};

/// Opens the recording: a file, an epoch, the last epoch of a database.
pub fn open(source: &Source) -> anyhow::Result<Recording> {
    let default = store::default_database();
    let path = source.path.as_deref().unwrap_or(&default);
    if source.path.is_none() && !default.exists() {
        return Err(nothing_recorded(&default).into());
    }
    match store::open(path)? {
        Opened::Recording(recording) => Ok(*recording),
        Opened::Database(database) => latest(&database),
    }
}

fn latest(database: &Database) -> anyhow::Result<Recording> {
    let epoch = database
        .latest()?
        .ok_or_else(|| nothing_recorded(database.path()))?;
    epoch
        .read()
        .with_context(|| format!("the last recording, {}", epoch.path.display()))
}

fn nothing_recorded(path: &Path) -> Coded {
    Coded {
        code: INCONCLUSIVE,
        message: format!(
            "nothing has been recorded in {}; record something: vitalfew record -- COMMAND",
            path.display()
        ),
    }
}

/// The event of this name; the first one without a name.
pub fn event(recording: &Recording, name: Option<&str>) -> anyhow::Result<EventId> {
    let Some(name) = name else {
        return Ok(EventId(0));
    };
    let names: Vec<&str> = recording.events.iter().map(|e| e.name.as_str()).collect();
    match names.iter().position(|n| *n == name) {
        Some(index) => Ok(EventId(index as u16)),
        None => Err(Coded {
            code: 2,
            message: format!(
                "the recording has no event '{name}'; it has: {}",
                names.join(", ")
            ),
        }
        .into()),
    }
}

/// Names of the locations.
pub fn symbolize(
    recording: &Recording,
    locations: impl IntoIterator<Item = Location>,
    detail: Detail,
    source: &Source,
) -> Resolved {
    let mut options = Options::default();
    options
        .debug_dirs
        .splice(0..0, source.debug_dir.iter().cloned());
    symbols::resolve(recording, locations, detail, &options)
}
