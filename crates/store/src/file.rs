//! A recording in a single file.

use crate::container::{Source, archive, sync_directory};
use crate::decode::decode;
use crate::encode::encode;
use crate::error::Error;
use profile::Recording;
use std::fs::{self, File, Permissions};
use std::io::Write;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

/// What was written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Written {
    /// Where: the file, or the directory of the epoch.
    pub path: PathBuf,
    /// How much, in bytes.
    pub bytes: u64,
}

/// Writes a recording into the file `path`, in place of what is there.
///
/// Whoever opens `path` finds the former file or the new one, whole, also after a crash. A device
/// or pipe is written to as it is.
///
/// # Errors
/// [`Error::Unstorable`], or [`Error::Io`]; nothing half-written remains.
pub fn write_file(recording: &Recording, path: &Path) -> Result<Written, Error> {
    write_whole(&archive(&encode(recording)?)?, path)
}

/// Writes the file `path`, whole or not at all.
pub(crate) fn write_whole(bytes: &[u8], path: &Path) -> Result<Written, Error> {
    let written = Written {
        path: path.to_owned(),
        bytes: bytes.len() as u64,
    };
    // Through a symbolic link to the file: a rename would replace the link.
    let path = &fs::canonicalize(path).unwrap_or_else(|_| path.to_owned());
    if fs::metadata(path).is_ok_and(|present| !present.is_file()) {
        let opened = File::options().write(true).open(path);
        let done = opened.and_then(|mut device| device.write_all(bytes));
        done.map_err(Error::io("write", path))?;
        return Ok(written);
    }
    let directory = match path.parent() {
        Some(parent) if parent != Path::new("") => parent,
        _ => Path::new("."),
    };
    let mut temporary = tempfile::Builder::new()
        .prefix(".vitalfew-")
        .suffix(".tmp")
        .permissions(Permissions::from_mode(0o666))
        .tempfile_in(directory)
        .map_err(Error::io("write", path))?;
    let file = temporary.as_file_mut();
    let done = file.write_all(bytes).and_then(|()| file.sync_all());
    done.map_err(Error::io("write", path))?;
    let renamed = temporary.persist(path).map_err(|e| e.error);
    renamed.map_err(Error::io("write", path))?;
    sync_directory(directory)?;
    Ok(written)
}

/// Reads the recording in the file `path`.
///
/// # Errors
/// All of [`Error`] but [`Error::Unstorable`].
pub fn read_file(path: &Path) -> Result<Recording, Error> {
    decode(&Source::open(path)?)
}
