//! Epochs that are being added to: `epoch=<start>/open=<host>/`, a directory of parts.
//!
//! A part is a recording in a file, `<first>-<last>.vf`, named by the drains of the collector that
//! are in it. Parts are never changed. Merging writes a part with the drains of several, and then
//! removes those; until they are gone, a part whose drains are all in another one does not count.
//! Closing writes `host=<host>/` beside the directory and then removes it; until it is gone it does
//! not count either. So at every moment, and after every crash, each drain counts once.

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

/// Held by whoever merges.
const LOCK: &str = ".merging";
/// The frames that merged parts and closed epochs have at most beside one for each place: a merge then takes some hundred megabytes.
const MOST_CALLERS: usize = 1 << 19;
/// An epoch that is being added to.
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
                    // Somebody found the epoch empty and removed it.
                    Err(e) if e.kind() == io::ErrorKind::NotFound => continue,
                    Err(e) if e.kind() == io::ErrorKind::AlreadyExists => {}
                    Err(e) => return Err(StoreError::wrap_io("create", &path)(e)),
                }
            }
            // An epoch is named by its time, which a host may give to one only.
            micros += 1;
        }
    }

    /// Returns the open epochs of a host, oldest first, also such as were closed and not yet removed. Removes those that a
    /// daemon was removing from a full disk when it died.
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
    /// The epoch in this directory, which need not be there (any more).
    pub fn at_path(path: &Path) -> Self {
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
    /// [`StoreError::Unstorable`], or [`StoreError::Io`]; nothing half-written remains.
    pub fn add_part(&self, id: PartId, recording: &Recording) -> Result<WrittenFile, StoreError> {
        fs::create_dir_all(&self.path).map_err(StoreError::wrap_io("create", &self.path))?;
        write_file(recording, &self.path.join(format!("{id}-{id}.vf")))
    }

    /// Returns whether it was closed: parts added to it would not count.
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

    /// Returns whether its last drain has the periods of a recording, as far as they have the same events. Samples of
    /// another period belong in another epoch, so that the counts of an epoch can be added.
    ///
    /// # Errors
    /// [`StoreError::Io`].
    pub fn has_periods_of(&self, recording: &Recording) -> Result<bool, StoreError> {
        let parts = match list_parts(&self.path) {
            // Somebody removed it; adding a drain makes it again.
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

    /// The last drain that was added.
    ///
    /// # Errors
    /// [`StoreError::Io`].
    pub fn last_part(&self) -> Result<Option<PartId>, StoreError> {
        Ok(list_parts(&self.path)?.iter().map(|part| part.last).max())
    }

    /// Returns how many parts it has.
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
            // The process that closes it is not done before its daemon dies.
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

    /// Merges the newest parts into one: as many as make the work grow with the logarithm of the
    /// number of parts only, or all. `amend` may complete the merged recording.
    ///
    /// Nothing happens while somebody else merges.
    ///
    /// # Errors
    /// All of [`StoreError`]; the parts are then as they were. Parts that cannot be read are moved into
    /// `damaged=<host>/` beside the epoch.
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
        // The merged part stands before its sources go. A process that is killed in between leaves
        // parts that readers drop, because their drains are all in another one.
        write_file(&merged, &self.path.join(name))?;
        let merged = drop_covered(list_files(&self.path)?);
        remove_covered(&readable, &merged);
        Ok(())
    }

    /// Merges the parts that can be read into one recording (`None` if there is none), and returns these parts, too. It reads them one
    /// by one: all at once would multiply the peak of this process. Damaged parts would fail again and again, and are set aside.
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
                // The disk may answer next time, and a newer program's part is not damaged.
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

    /// Closes it: everything becomes one epoch, which never changes again. `None` if there was
    /// nothing in it.
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
            // Closed already; whoever did it was killed before it could be removed.
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
            // The closed epoch stands before its parts go: who is killed in between leaves both, and the next call removes the parts.
            written = Some(database.write_to(&merged, &target)?);
        }
        drop(lock);
        database.remove_directory(&self.path)?;
        Ok(written)
    }

    /// The right to merge; `None` while somebody else does.
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
            // Where a file system has no locks there is one writer all the same: the daemon's.
            _ => Ok(Some(lock)),
        }
    }
}

/// Returns the first part from which on it pays to merge: parts that are larger than twice all
/// newer ones stay.
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

/// Removes the parts whose drains are all in another one that stands.
fn remove_covered(listed: &[Part], standing: &[Part]) {
    for part in listed {
        let gone = standing
            .iter()
            .any(|other| other.path != part.path && other.covers_drains(part.first, part.last));
        if gone {
            // If not, it still does not count.
            let _ = fs::remove_file(&part.path);
        }
    }
}
