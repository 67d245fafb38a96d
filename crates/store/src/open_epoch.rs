//! Epochs that are being added to: `epoch=<start>/open=<host>/`, a directory of parts.
//!
//! A part is a recording in a file, `<first>-<last>.vf`, named by the drains of the collector that
//! are in it. Parts are never changed. Merging writes a part with the drains of several, and then
//! removes those; until they are gone, a part whose drains are all in another one does not count.
//! Closing writes `host=<host>/` beside the directory and then removes it; until it is gone it does
//! not count either. So at every moment, and after every crash, each drain counts once.

use crate::database::Database;
use crate::error::{Error, left_out};
use crate::file::{Written, read_file, write_file};
use crate::merge::merge;
use crate::names::{PREFIX, REMOVED, closed, encode_name, subdirectories};
use crate::parts::{DAMAGED, Part, PartId, listing, parts, standing};
use profile::Recording;
use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};

/// Held by whoever merges.
const LOCK: &str = ".merging";
/// An epoch that is being added to.
#[derive(Clone, Debug)]
pub struct OpenEpoch {
    path: PathBuf,
}

impl Database {
    /// Begins an epoch of a host at a time, or a little later if there is one already.
    ///
    /// # Errors
    /// [`Error::Io`].
    pub fn begin_epoch(&self, host: &str, start_unix_ns: u64) -> Result<OpenEpoch, Error> {
        let host = encode_name(host);
        let mut micros = start_unix_ns / 1000;
        loop {
            let epoch = self.epoch_directory(micros);
            fs::create_dir_all(&epoch).map_err(Error::io("create", &epoch))?;
            let path = epoch.join(format!("{PREFIX}{host}"));
            if !closed(&path).exists() {
                match fs::create_dir(&path) {
                    Ok(()) => return Ok(OpenEpoch { path }),
                    // Somebody found the epoch empty and removed it.
                    Err(e) if e.kind() == io::ErrorKind::NotFound => continue,
                    Err(e) if e.kind() == io::ErrorKind::AlreadyExists => {}
                    Err(e) => return Err(Error::io("create", &path)(e)),
                }
            }
            micros += 1;
        }
    }

    /// The open epochs of a host, oldest first, also such as were closed and not yet removed. What a daemon was removing from a
    /// full disk when it died is removed.
    ///
    /// # Errors
    /// [`Error::Io`].
    pub fn open_epochs(&self, host: &str) -> Result<Vec<OpenEpoch>, Error> {
        let name = format!("{PREFIX}{}", encode_name(host));
        let mut open = Vec::new();
        for epoch in subdirectories(self.path(), "epoch=")? {
            let removed = epoch.join(format!("{REMOVED}host={}", encode_name(host)));
            if removed.is_dir() {
                let _ = fs::remove_dir_all(removed);
            }
            let path = epoch.join(&name);
            if path.is_dir() {
                open.push(OpenEpoch { path });
            }
        }
        Ok(open)
    }
}

impl OpenEpoch {
    /// The epoch in this directory, which need not be there (any more).
    pub fn at(path: &Path) -> Self {
        let path = path.to_owned();
        Self { path }
    }

    /// Its directory.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Adds a drain, and brings it to stable storage. The directory is made again if somebody
    /// removed it.
    ///
    /// # Errors
    /// [`Error::Unstorable`], or [`Error::Io`]; nothing half-written remains.
    pub fn add(&self, id: PartId, recording: &Recording) -> Result<Written, Error> {
        fs::create_dir_all(&self.path).map_err(Error::io("create", &self.path))?;
        write_file(recording, &self.path.join(format!("{id}-{id}.vf")))
    }

    /// Returns whether it was closed: what would be added would not count.
    pub fn is_closed(&self) -> bool {
        closed(&self.path).is_dir()
    }

    /// Returns whether a drain was added.
    ///
    /// # Errors
    /// [`Error::Io`].
    pub fn holds(&self, id: PartId) -> Result<bool, Error> {
        Ok(parts(&self.path)?.iter().any(|part| part.covers(id, id)))
    }

    /// The last drain that was added.
    ///
    /// # Errors
    /// [`Error::Io`].
    pub fn last(&self) -> Result<Option<PartId>, Error> {
        Ok(parts(&self.path)?.iter().map(|part| part.last).max())
    }

    /// Returns how many parts it has.
    ///
    /// # Errors
    /// [`Error::Io`].
    pub fn len(&self) -> Result<usize, Error> {
        Ok(parts(&self.path)?.len())
    }

    /// Returns whether it has no part.
    ///
    /// # Errors
    /// [`Error::Io`].
    pub fn is_empty(&self) -> Result<bool, Error> {
        Ok(self.len()? == 0)
    }

    /// Removes what a writer left behind that was killed. There must be no other writer.
    ///
    /// # Errors
    /// [`Error::Io`].
    pub fn clean(&self) -> Result<(), Error> {
        let entries = match fs::read_dir(&self.path) {
            // The process that closes it is not done before its daemon dies.
            Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(()),
            entries => entries.map_err(Error::io("read", &self.path))?,
        };
        for entry in entries {
            let path = entry.map_err(Error::io("read", &self.path))?.path();
            let name = path.file_name().unwrap_or_default().to_string_lossy();
            if name.starts_with(".vitalfew-") {
                let _ = fs::remove_file(&path);
            }
        }
        Ok(())
    }

    /// Merges the newest parts into one: as many as make the work grow with the logarithm of the
    /// number of parts only, or all. `amend` may complete the merged recording.
    ///
    /// Nothing happens while somebody else merges.
    ///
    /// # Errors
    /// All of [`Error`]; the parts are then as they were. Parts that cannot be read are moved into
    /// `damaged=<host>/` beside the epoch.
    pub fn merge(&self, all: bool, amend: impl FnOnce(&mut Recording)) -> Result<(), Error> {
        let Some(_lock) = self.lock()? else {
            return Ok(());
        };
        self.merge_locked(all, amend)
    }

    fn merge_locked(&self, all: bool, amend: impl FnOnce(&mut Recording)) -> Result<(), Error> {
        let listed = listing(&self.path)?;
        let parts = standing(listed.clone());
        remove_covered(&listed, &parts);
        let chosen = parts
            .get(if all { 0 } else { newest(&parts) }..)
            .unwrap_or(&[]);
        let (Some(first), Some(last)) = (chosen.first(), chosen.last()) else {
            return Ok(());
        };
        if chosen.len() < 2 && !all {
            return Ok(());
        }
        let (recordings, readable) = self.read_or_set_aside(chosen)?;
        if recordings.is_empty() || (chosen.len() == 1 && first.first != last.last) {
            return Ok(());
        }
        let mut merged = merge(&recordings)?;
        drop(recordings);
        amend(&mut merged);
        let name = format!("{}-{}.vf", first.first, last.last);
        write_file(&merged, &self.path.join(name))?;
        let merged = standing(listing(&self.path)?);
        remove_covered(&readable, &merged);
        Ok(())
    }

    /// The recordings that can be read. What is damaged would fail again and again, and goes out of
    /// the way.
    fn read_or_set_aside(&self, parts: &[Part]) -> Result<(Vec<Recording>, Vec<Part>), Error> {
        let (mut recordings, mut readable) = (Vec::new(), Vec::new());
        let mut lost = Vec::new();
        for part in parts {
            match read_file(&part.path) {
                Ok(recording) => {
                    recordings.push(recording);
                    readable.push(part.clone());
                }
                Err(error @ (Error::Io { .. } | Error::Newer { .. })) => return Err(error),
                Err(error) => {
                    lost.push(left_out(&error));
                    self.set_aside(&part.path)?;
                }
            }
        }
        if let Some(first) = recordings.first_mut() {
            first.warnings.append(&mut lost);
        }
        Ok((recordings, readable))
    }

    fn set_aside(&self, part: &Path) -> Result<(), Error> {
        let name = self.path.file_name().unwrap_or_default().to_string_lossy();
        let host = name.strip_prefix(PREFIX).unwrap_or(&name);
        let aside = self.path.with_file_name(format!("{DAMAGED}{host}"));
        fs::create_dir_all(&aside).map_err(Error::io("create", &aside))?;
        let to = aside.join(part.file_name().unwrap_or_default());
        fs::rename(part, &to).map_err(Error::io("rename", part))
    }

    /// Closes it: everything becomes one epoch, which never changes again. `None` if there was
    /// nothing in it.
    ///
    /// # Errors
    /// All of [`Error`]; the epoch then is still open, and nothing is lost.
    pub fn close(
        self,
        database: &Database,
        amend: impl FnOnce(&mut Recording),
    ) -> Result<Option<Written>, Error> {
        let target = closed(&self.path);
        if target.is_dir() {
            // Closed already; whoever did it was killed before it could be removed.
            database.remove_directory(&self.path)?;
            return Ok(None);
        }
        let Some(lock) = self.lock()? else {
            return Ok(None);
        };
        let (recordings, _) = self.read_or_set_aside(&parts(&self.path)?)?;
        let mut written = None;
        if !recordings.is_empty() {
            let mut merged = merge(&recordings)?;
            drop(recordings);
            amend(&mut merged);
            written = Some(database.write_to(&merged, &target)?);
        }
        drop(lock);
        database.remove_directory(&self.path)?;
        Ok(written)
    }

    /// The right to merge; `None` while somebody else does.
    fn lock(&self) -> Result<Option<File>, Error> {
        let path = self.path.join(LOCK);
        let mut options = File::options();
        let opened = options.create(true).truncate(false).write(true).open(&path);
        let lock = match opened {
            Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(None),
            opened => opened.map_err(Error::io("create", &path))?,
        };
        match lock.try_lock() {
            Err(fs::TryLockError::WouldBlock) => Ok(None),
            // Where a file system has no locks there is one writer all the same: the daemon's.
            _ => Ok(Some(lock)),
        }
    }
}

/// From which part on it pays to merge: parts that are larger than twice all that are newer stay.
fn newest(parts: &[Part]) -> usize {
    let size = |part: &Part| fs::metadata(&part.path).map_or(0, |meta| meta.len());
    let mut newer = 0;
    let mut from = parts.len();
    for (index, part) in parts.iter().enumerate().rev() {
        let size = size(part);
        if newer > 0 && size > 2 * newer {
            break;
        }
        newer += size;
        from = index;
    }
    from
}

/// Removes the parts whose drains are all in another one that stands.
fn remove_covered(listed: &[Part], standing: &[Part]) {
    for part in listed {
        let gone = standing
            .iter()
            .any(|other| other.path != part.path && other.covers(part.first, part.last));
        if gone {
            // If not, it still does not count.
            let _ = fs::remove_file(&part.path);
        }
    }
}
