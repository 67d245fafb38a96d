//! Reads the parts of an open epoch: the valid parts, their summaries, and their recording.

use crate::error::{StoreError, left_out};
use crate::file::read_file;
use crate::merge::{BoundedMerger, MOST_CALLERS_READ};
use crate::names::closed_path;
use crate::summary::RecordingSummary;
use profile::Recording;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

/// Prefix of the directories to which unreadable parts are moved.
pub(crate) const DAMAGED: &str = "damaged=";
/// Number of times that a reader starts again because parts were merged meanwhile.
const RETRIES: usize = 20;

/// A drain of a collector: unique in a database and a host, and ascending.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PartId {
    /// The collector's start in nanoseconds since 1970, or later.
    pub collector: u64,
    /// Number of the collector's drain.
    pub drain: u32,
}

impl PartId {
    fn parse_id(text: &str) -> Option<Self> {
        let (collector, drain) = text.split_once('.')?;
        let whole = collector.len() == 20 && drain.len() == 10;
        Some(Self {
            collector: collector.parse().ok().filter(|_| whole)?,
            drain: drain.parse().ok()?,
        })
    }
}

impl std::fmt::Display for PartId {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{:020}.{:010}", self.collector, self.drain)
    }
}

/// A part: its first and last drain, and its file.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Part {
    pub first: PartId,
    pub last: PartId,
    pub path: PathBuf,
}

impl Part {
    fn parse_path(path: PathBuf) -> Option<Self> {
        let (first, last) = path
            .file_name()?
            .to_str()?
            .strip_suffix(".vf")?
            .split_once('-')?;
        Some(Self {
            first: PartId::parse_id(first)?,
            last: PartId::parse_id(last)?,
            path,
        })
    }

    pub fn covers_drains(&self, first: PartId, last: PartId) -> bool {
        self.first <= first && last <= self.last
    }
}

/// Returns the files of parts. Listing a directory is not atomic, so it is repeated until two
/// listings agree.
pub(crate) fn list_files(path: &Path) -> Result<Vec<Part>, StoreError> {
    let once = || -> Result<Vec<Part>, StoreError> {
        let mut parts = Vec::new();
        for entry in fs::read_dir(path).map_err(StoreError::wrap_io("read", path))? {
            let entry = entry.map_err(StoreError::wrap_io("read", path))?;
            parts.extend(Part::parse_path(entry.path()));
        }
        parts.sort_unstable();
        Ok(parts)
    };
    let mut last = once()?;
    for _ in 0..RETRIES {
        let next = once()?;
        if next == last {
            break;
        }
        last = next;
    }
    Ok(last)
}

/// Returns the parts except those whose drains are all in another one.
pub(crate) fn drop_covered(mut listed: Vec<Part>) -> Vec<Part> {
    let all = listed.clone();
    listed.retain(|part| {
        let covered =
            |other: &Part| other.path != part.path && other.covers_drains(part.first, part.last);
        !all.iter().any(covered)
    });
    listed
}

/// Returns the valid parts.
pub(crate) fn list_parts(path: &Path) -> Result<Vec<Part>, StoreError> {
    Ok(drop_covered(list_files(path)?))
}

/// Returns whether parts were merged or the epoch was closed during reading.
fn was_moved(error: &StoreError) -> bool {
    matches!(error, StoreError::Io { source, .. } if source.kind() == io::ErrorKind::NotFound)
}

/// Reads an open epoch.
pub(crate) fn read_open_epoch(path: &Path) -> Result<Recording, StoreError> {
    let mut tries = 0;
    loop {
        tries += 1;
        if closed_path(path).is_dir() {
            return read_file(&closed_path(path));
        }
        match read_parts(path) {
            Err(error) if was_moved(&error) && tries < RETRIES => {}
            // Removed without being closed: it was empty.
            Err(error) if was_moved(&error) && !path.exists() => return Err(nothing_added(path)),
            result => return result,
        }
    }
}

fn read_parts(path: &Path) -> Result<Recording, StoreError> {
    let (mut merger, mut lost) = (BoundedMerger::new(MOST_CALLERS_READ), Vec::new());
    for part in list_parts(path)? {
        match read_file(&part.path) {
            Ok(recording) => merger.add_part(&recording)?,
            Err(error) if was_moved(&error) => return Err(error),
            Err(error) => lost.push(error),
        }
    }
    if merger.is_empty() {
        return Err(lost
            .into_iter()
            .next()
            .unwrap_or_else(|| nothing_added(path)));
    }
    let mut merged = merger.finish()?;
    merged.warnings.extend(lost.iter().map(left_out));
    Ok(merged)
}

fn nothing_added(path: &Path) -> StoreError {
    StoreError::NotARecording {
        path: path.to_owned(),
        looks_like: "an epoch to which nothing was added yet",
    }
}

/// Returns the files of an open epoch; none if it was closed meanwhile.
pub(crate) fn part_paths(path: &Path) -> Vec<PathBuf> {
    let parts = list_parts(path).unwrap_or_default();
    parts.into_iter().map(|part| part.path).collect()
}

/// Returns the summary of an open epoch: the sum of its readable parts, and the errors of the
/// others.
pub(crate) fn summarise_open_epoch(
    path: &Path,
) -> (Result<RecordingSummary, StoreError>, Vec<StoreError>) {
    let parts = match list_parts(path) {
        Ok(parts) => parts,
        Err(error) => return (Err(error), Vec::new()),
    };
    let mut sum: Option<RecordingSummary> = None;
    let mut failed = Vec::new();
    for part in parts {
        match RecordingSummary::read_summary(&part.path) {
            Ok(summary) => {
                sum = Some(match sum {
                    None => summary,
                    Some(sum) => sum.combined_with(&summary),
                });
            }
            Err(error) => failed.push(error),
        }
    }
    match sum {
        Some(sum) => (Ok(sum), failed),
        None => (
            Err(failed.pop().unwrap_or_else(|| nothing_added(path))),
            failed,
        ),
    }
}

/// Returns errors for the parts in `damaged=<host>/` beside an epoch.
pub(crate) fn set_aside(path: &Path) -> Vec<StoreError> {
    let name = closed_path(path);
    let name = name.file_name().unwrap_or_default().to_string_lossy();
    let host = name.strip_prefix("host=").unwrap_or(&name);
    let aside = path.with_file_name(format!("{DAMAGED}{host}"));
    let mut files: Vec<PathBuf> = fs::read_dir(aside)
        .into_iter()
        .flatten()
        .flatten()
        .map(|entry| entry.path())
        .collect();
    files.sort_unstable();
    let set_aside = |path| StoreError::SetAside { path };
    files.into_iter().map(set_aside).collect()
}
