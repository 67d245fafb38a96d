//! Paths of the interference method's traces and results, and results as files: one line of JSON.

use crate::envelope::EnvelopeForm;
use crate::error::{StoreError, TableFault};
use crate::file::{WrittenFile, write_whole};
use crate::names::utc_name;
use profile::Interference;
use std::fs::{self, File};
use std::io::Read;
use std::path::{Path, PathBuf};

const FORM: EnvelopeForm = EnvelopeForm {
    format: "vitalfew-interference",
    version: 2,
    key: "result",
    member: "result",
};

/// Limit on a result, in bytes, far above any.
const MAX_LEN: u64 = 256 << 20;

/// The part of a run that is stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StoredResult {
    /// All events.
    Trace,
    /// The result only.
    Result,
}

/// Returns the path of a program's trace or result in a database, by the program's start. The file
/// and its directory need not exist.
pub fn interference_path(database: &Path, start_unix_ns: u64, kept: StoredResult) -> PathBuf {
    let extension = match kept {
        StoredResult::Trace => "trace",
        StoredResult::Result => "json",
    };
    let name = format!("{}.{extension}", utc_name(start_unix_ns / 1000));
    database.join("interference").join(name)
}

/// Returns the last run's file in a database: its trace, or else its result; `None` if there is no
/// run.
///
/// # Errors
/// [`StoreError::Io`] if the directory cannot be read.
pub fn latest_interference(database: &Path) -> Result<Option<PathBuf>, StoreError> {
    let directory = database.join("interference");
    if !directory.exists() {
        return Ok(None);
    }
    let failed = || StoreError::wrap_io("read", &directory);
    let mut last = None;
    for entry in fs::read_dir(&directory).map_err(failed())? {
        let path = entry.map_err(failed())?.path();
        // "trace" sorts after "json", so that a run's trace comes last.
        let ours = path
            .extension()
            .is_some_and(|e| e == "json" || e == "trace");
        if ours && last.as_ref().is_none_or(|last| *last < path) {
            last = Some(path);
        }
    }
    Ok(last)
}

/// Writes a result into the file `path`, whole or not at all; creates its directory.
///
/// # Errors
/// [`StoreError::Io`], [`StoreError::Unstorable`].
pub fn write_interference(result: &Interference, path: &Path) -> Result<WrittenFile, StoreError> {
    let line = FORM.seal_content(result)?;
    if let Some(directory) = path.parent() {
        fs::create_dir_all(directory).map_err(StoreError::wrap_io("write", path))?;
    }
    write_whole(&line, path)
}

/// Reads the result in the file `path`.
///
/// # Errors
/// [`StoreError::Io`], [`StoreError::Newer`], [`StoreError::Checksum`], [`StoreError::Damaged`].
pub fn read_interference(path: &Path) -> Result<Interference, StoreError> {
    let file = File::open(path).map_err(StoreError::wrap_io("read", path))?;
    let mut bytes = Vec::new();
    let read = file.take(MAX_LEN + 1).read_to_end(&mut bytes);
    read.map_err(StoreError::wrap_io("read", path))?;
    if bytes.len() as u64 > MAX_LEN {
        let what = "no result is longer than 256 MiB";
        return Err(TableFault::at_offset(bytes.len(), what).in_member(path, FORM.member));
    }
    FORM.open_envelope(&bytes, path, 0)
}

/// Returns whether bytes begin like a result of vitalfew.
pub fn is_interference(bytes: &[u8]) -> bool {
    bytes.starts_with(b"{\"format\":\"vitalfew-interference\"")
}
