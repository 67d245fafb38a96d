//! Epochs that still grow: `epoch=<start>/open=<host>/`, a directory of parts.
//!
//! A part is a recording in a file, `<first>-<last>.vf`, named by the collector's drains in it.
//! Parts are never changed. Merging writes a part with the drains of several, and then removes
//! those; until then, a part whose drains are all in another one does not count. Closing writes
//! `host=<host>/` beside the directory and then removes it; until then, the directory does not
//! count either. So at every moment, and after every crash, each drain counts once.

use crate::container::Container;
use crate::database::Database;
use crate::error::{StoreError, left_out};
use crate::file::{WrittenFile, read_file, write_file};
use crate::merge::BoundedMerger;
use crate::names::{PREFIX, REMOVED, closed_path, encode_name, subdirectories};
use crate::parts::{DAMAGED, Part, PartId, drop_covered, list_files, list_parts};
use profile::{Event, Recording};
use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};

/// Lock of the merging process.
const LOCK: &str = ".merging";
/// Maximum number of frames of merged parts and closed epochs beside one for each place: a merge
/// then takes some hundred megabytes.
const MOST_CALLERS: usize = 1 << 19;
/// An epoch that still grows.
#[derive(Clone, Debug)]
pub struct OpenEpoch {
    path: PathBuf,
}

impl Database {
    /// Begins an epoch of a host at a time, or a little later if there is one already.
    ///
    /// # Errors
    /// [`StoreError::Io`].
    pub fn begin_epoch(&self, host: &str, start_unix_ns: u64) -> Result<OpenEpoch, StoreError> {
        let host = encode_name(host);
        let mut micros = start_unix_ns / 1000;
        loop {
            let epoch = self.epoch_directory(micros);
            fs::create_dir_all(&epoch).map_err(StoreError::wrap_io("create", &epoch))?;
            let path = epoch.join(format!("{PREFIX}{host}"));
            if !closed_path(&path).exists() {
                match fs::create_dir(&path) {
                    Ok(()) => return Ok(OpenEpoch { path }),
                    // Another process found the epoch empty and removed it.
                    Err(e) if e.kind() == io::ErrorKind::NotFound => continue,
                    Err(e) if e.kind() == io::ErrorKind::AlreadyExists => {}
                    Err(e) => return Err(StoreError::wrap_io("create", &path)(e)),
                }
            }
            // An epoch is named by its time, which must be unique on a host.
            micros += 1;
        }
    }

    /// Returns the open epochs of a host, oldest first, including closed ones that were not removed
    /// yet. Removes those that a daemon was removing from a full disk when it died.
    ///
    /// # Errors
    /// [`StoreError::Io`].
    pub fn open_epochs(&self, host: &str) -> Result<Vec<OpenEpoch>, StoreError> {
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
    /// Makes the epoch in this directory, which need not exist (any more).
    pub fn at_path(path: &Path) -> Self {
        let path = path.to_owned();
        Self { path }
    }

    /// Returns its directory.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Adds a drain, and syncs it to stable storage. Creates the directory again if another process
    /// removed it.
    ///
    /// # Errors
    /// [`StoreError::Unstorable`], or [`StoreError::Io`]; nothing half-written remains.
    pub fn add_part(&self, id: PartId, recording: &Recording) -> Result<WrittenFile, StoreError> {
        fs::create_dir_all(&self.path).map_err(StoreError::wrap_io("create", &self.path))?;
        write_file(recording, &self.path.join(format!("{id}-{id}.vf")))
    }

    /// Returns whether it is closed: parts added to it would not count.
    pub fn is_closed(&self) -> bool {
        closed_path(&self.path).is_dir()
    }

    /// Returns whether a drain was added.
    ///
    /// # Errors
    /// [`StoreError::Io`].
    pub fn holds_part(&self, id: PartId) -> Result<bool, StoreError> {
        Ok(list_parts(&self.path)?
            .iter()
            .any(|part| part.covers_drains(id, id)))
    }

    /// Returns whether its last drain has the periods of a recording, for the events that both
    /// have. Samples of another period belong in another epoch, so that the counts of an epoch can
    /// be summed.
    ///
    /// # Errors
    /// [`StoreError::Io`].
    pub fn has_periods_of(&self, recording: &Recording) -> Result<bool, StoreError> {
        let parts = match list_parts(&self.path) {
            // Another process removed it; adding a drain creates it again.
            Err(StoreError::Io { source, .. }) if source.kind() == io::ErrorKind::NotFound => {
                return Ok(true);
            }
            parts => parts?,
        };
        let last = parts.iter().max_by_key(|part| part.last);
        // A part that cannot be read is set aside when parts are merged.
        let read = |part: &Part| Container::open(&part.path)?.read_manifest();
        let manifest = last.and_then(|part| read(part).ok());
        let Some(manifest) = manifest else {
            return Ok(true);
        };
        Ok(manifest.events.iter().all(|event| {
            let same = |other: &&Event| other.name == event.name && other.unit == event.unit;
            let other = recording.events.iter().find(same);
            other.is_none_or(|other| other.period == event.period)
        }))
    }

    /// Returns the last added drain.
    ///
    /// # Errors
    /// [`StoreError::Io`].
    pub fn last_part(&self) -> Result<Option<PartId>, StoreError> {
        Ok(list_parts(&self.path)?.iter().map(|part| part.last).max())
    }

    /// Returns the number of parts.
    ///
    /// # Errors
    /// [`StoreError::Io`].
    pub fn len(&self) -> Result<usize, StoreError> {
        Ok(list_parts(&self.path)?.len())
    }

    /// Returns whether it has no part.
    ///
    /// # Errors
    /// [`StoreError::Io`].
    pub fn is_empty(&self) -> Result<bool, StoreError> {
        Ok(self.len()? == 0)
    }

    /// Removes the leftovers of a writer that was killed. There must be no other writer.
    ///
    /// # Errors
    /// [`StoreError::Io`].
    pub fn remove_leftovers(&self) -> Result<(), StoreError> {
        let entries = match fs::read_dir(&self.path) {
            // The closing process may run on after its daemon's death.
            Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(()),
            entries => entries.map_err(StoreError::wrap_io("read", &self.path))?,
        };
        for entry in entries {
            let path = entry
                .map_err(StoreError::wrap_io("read", &self.path))?
                .path();
            let name = path.file_name().unwrap_or_default().to_string_lossy();
            if name.starts_with(".vitalfew-") {
                let _ = fs::remove_file(&path);
            }
        }
        Ok(())
    }

    /// Merges the newest parts into one: all of them, or a number that keeps the total work at n
    /// log n for n parts. `amend` may complete the merged recording.
    ///
    /// Does nothing while another process merges.
    ///
    /// # Errors
    /// All of [`StoreError`]; the parts are then unchanged. Parts that cannot be read are moved
    /// into `damaged=<host>/` beside the epoch.
    pub fn merge_parts(
        &self,
        all: bool,
        amend: impl FnOnce(&mut Recording),
    ) -> Result<(), StoreError> {
        let Some(_lock) = self.lock_merges()? else {
            return Ok(());
        };
        self.merge_locked(all, amend)
    }

    fn merge_locked(
        &self,
        all: bool,
        amend: impl FnOnce(&mut Recording),
    ) -> Result<(), StoreError> {
        let listed = list_files(&self.path)?;
        let parts = drop_covered(listed.clone());
        remove_covered(&listed, &parts);
        let chosen = parts
            .get(if all { 0 } else { newest_to_merge(&parts) }..)
            .unwrap_or(&[]);
        let (Some(first), Some(last)) = (chosen.first(), chosen.last()) else {
            return Ok(());
        };
        if chosen.len() < 2 && !all {
            return Ok(());
        }
        let (merged, readable) = self.merge_or_set_aside(chosen)?;
        let Some(mut merged) = merged else {
            return Ok(());
        };
        if chosen.len() == 1 && first.first != last.last {
            return Ok(());
        }
        amend(&mut merged);
        let name = format!("{}-{}.vf", first.first, last.last);
        // The merged part is complete before its sources are removed. A process killed in between
        // leaves parts that readers skip, because their drains are all in another one.
        write_file(&merged, &self.path.join(name))?;
        let merged = drop_covered(list_files(&self.path)?);
        remove_covered(&readable, &merged);
        Ok(())
    }

    /// Merges the readable parts into one recording (`None` if there is none), and returns these
    /// parts, too. It reads them one by one: all at once would multiply this process's peak memory.
    /// Damaged parts would fail again and again, so they are set aside.
    fn merge_or_set_aside(
        &self,
        parts: &[Part],
    ) -> Result<(Option<Recording>, Vec<Part>), StoreError> {
        let (mut merger, mut readable) = (BoundedMerger::new(MOST_CALLERS), Vec::new());
        let mut lost = Vec::new();
        for part in parts {
            match read_file(&part.path) {
                Ok(recording) => {
                    merger.add_part(&recording)?;
                    readable.push(part.clone());
                }
                // A disk error may pass, and a newer program's part is not damaged.
                Err(error @ (StoreError::Io { .. } | StoreError::Newer { .. })) => {
                    return Err(error);
                }
                Err(error) => {
                    lost.push(left_out(&error));
                    self.set_aside(&part.path)?;
                }
            }
        }
        if readable.is_empty() {
            return Ok((None, readable));
        }
        let mut merged = merger.finish()?;
        merged.warnings.append(&mut lost);
        Ok((Some(merged), readable))
    }

    fn set_aside(&self, part: &Path) -> Result<(), StoreError> {
        let name = self.path.file_name().unwrap_or_default().to_string_lossy();
        let host = name.strip_prefix(PREFIX).unwrap_or(&name);
        let aside = self.path.with_file_name(format!("{DAMAGED}{host}"));
        fs::create_dir_all(&aside).map_err(StoreError::wrap_io("create", &aside))?;
        let to = aside.join(part.file_name().unwrap_or_default());
        fs::rename(part, &to).map_err(StoreError::wrap_io("rename", part))
    }

    /// Closes it: merges all parts into one epoch, which never changes again. `None` if it was
    /// empty.
    ///
    /// # Errors
    /// All of [`StoreError`]; the epoch then is still open, and nothing is lost.
    pub fn close_epoch(
        self,
        database: &Database,
        amend: impl FnOnce(&mut Recording),
    ) -> Result<Option<WrittenFile>, StoreError> {
        let target = closed_path(&self.path);
        if target.is_dir() {
            // Closed already by a process that was killed before it could remove the directory.
            database.remove_directory(&self.path)?;
            return Ok(None);
        }
        let Some(lock) = self.lock_merges()? else {
            return Ok(None);
        };
        let (merged, _) = self.merge_or_set_aside(&list_parts(&self.path)?)?;
        let mut written = None;
        if let Some(mut merged) = merged {
            amend(&mut merged);
            // The closed epoch is complete before its parts are removed: a process killed in
            // between leaves both, and the next call removes the parts.
            written = Some(database.write_to(&merged, &target)?);
        }
        drop(lock);
        database.remove_directory(&self.path)?;
        Ok(written)
    }

    /// Locks merging; `None` while another process holds the lock.
    fn lock_merges(&self) -> Result<Option<File>, StoreError> {
        let path = self.path.join(LOCK);
        let mut options = File::options();
        let opened = options.create(true).truncate(false).write(true).open(&path);
        let lock = match opened {
            Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(None),
            opened => opened.map_err(StoreError::wrap_io("create", &path))?,
        };
        match lock.try_lock() {
            Err(fs::TryLockError::WouldBlock) => Ok(None),
            // On a file system without locks there is only one writer: the daemon's.
            _ => Ok(Some(lock)),
        }
    }
}

/// Returns the first part worth merging: parts larger than twice all newer ones stay.
fn newest_to_merge(parts: &[Part]) -> usize {
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

/// Removes the parts whose drains are all in another complete one.
fn remove_covered(listed: &[Part], standing: &[Part]) {
    for part in listed {
        let gone = standing
            .iter()
            .any(|other| other.path != part.path && other.covers_drains(part.first, part.last));
        if gone {
            // If it stays, it still does not count.
            let _ = fs::remove_file(&part.path);
        }
    }
}
