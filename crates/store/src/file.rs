//! A recording in a single file.

use crate::container::{Container, write_archive};
use crate::decode::decode_recording;
use crate::encode::encode_recording;
use crate::error::StoreError;
use profile::Recording;
use std::path::{Path, PathBuf};
use whole_file::write_whole_file;

/// A written file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WrittenFile {
    /// Path of the file, or of the directory of the epoch.
    pub path: PathBuf,
    /// Its size in bytes.
    pub bytes: u64,
}

/// Writes a recording into the file `path`, in place of an existing one.
///
/// A reader of `path` finds the former file or the new one, whole, also after a crash. A device or
/// pipe is written to directly.
///
/// # Errors
/// [`StoreError::Unstorable`], or [`StoreError::Io`]; nothing half-written remains.
pub fn write_file(recording: &Recording, path: &Path) -> Result<WrittenFile, StoreError> {
    write_whole(&write_archive(&encode_recording(recording)?)?, path)
}

/// Writes the file `path`, whole or not at all.
pub(crate) fn write_whole(bytes: &[u8], path: &Path) -> Result<WrittenFile, StoreError> {
    let written = WrittenFile {
        path: path.to_owned(),
        bytes: bytes.len() as u64,
    };
    write_whole_file(path, bytes).map_err(StoreError::wrap_io("write", path))?;
    Ok(written)
}

/// Reads the recording in the file `path`.
///
/// # Errors
/// All of [`StoreError`] but [`StoreError::Unstorable`].
pub fn read_file(path: &Path) -> Result<Recording, StoreError> {
    decode_recording(&Container::open(path)?)
}
