//! Epochs that are being written, in a directory that readers skip.

use crate::error::StoreError;
use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};
use tempfile::TempDir;

/// Names in the draft's directory: the writer's lock, and the epoch.
const LOCK: &str = "lock";
const EPOCH: &str = "epoch";

/// An epoch that is being written. On drop its leftovers are removed.
pub(crate) struct EpochDraft {
    directory: TempDir,
    /// Held until then; a file system without locks is never cleaned.
    _lock: File,
}

impl EpochDraft {
    pub fn new(writing: &Path) -> Result<Self, StoreError> {
        fs::create_dir_all(writing).map_err(StoreError::wrap_io("create", writing))?;
        loop {
            let directory = tempfile::Builder::new()
                .prefix("")
                .tempdir_in(writing)
                .map_err(StoreError::wrap_io("create", writing))?;
            // A cleaner may come before the lock, and removes the directory: try again.
            let path = directory.path().join(LOCK);
            let lock = match File::create_new(&path) {
                Err(e) if e.kind() == io::ErrorKind::NotFound => continue,
                lock => lock.map_err(StoreError::wrap_io("create", &path))?,
            };
            if let Err(fs::TryLockError::WouldBlock) = lock.try_lock() {
                continue;
            }
            let epoch = directory.path().join(EPOCH);
            match fs::create_dir(&epoch) {
                Err(e) if e.kind() == io::ErrorKind::NotFound => {}
                Err(e) => return Err(StoreError::wrap_io("create", &epoch)(e)),
                Ok(()) => {
                    let _lock = lock;
                    return Ok(Self { directory, _lock });
                }
            }
        }
    }

    pub fn epoch_path(&self) -> PathBuf {
        self.directory.path().join(EPOCH)
    }
}

/// Removes a draft whose writer has died; returns whether it did. Drafts that cannot be removed are
/// harmless.
pub(crate) fn remove_if_dead(draft: &Path) -> bool {
    match File::options().write(true).open(draft.join(LOCK)) {
        // The lock is the first file that a writer makes and the last that is removed here.
        Err(e) if e.kind() == io::ErrorKind::NotFound => fs::remove_dir(draft).is_ok(),
        Err(_) => false,
        Ok(lock) => {
            lock.try_lock().is_ok()
                && (fs::remove_dir_all(draft.join(EPOCH)).is_ok() || !draft.join(EPOCH).exists())
                && fs::remove_dir_all(draft).is_ok()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::database::Database;
    use crate::names::WRITING;

    #[test]
    fn only_the_drafts_of_dead_writers_are_removed() {
        let directory = tempfile::tempdir().unwrap();
        let database = Database::create(directory.path()).unwrap();
        let writing = directory.path().join(WRITING);
        let alive = EpochDraft::new(&writing).unwrap();
        let dead = EpochDraft::new(&writing).unwrap();
        fs::write(dead.epoch_path().join("samples.parquet"), "half").unwrap();
        let EpochDraft {
            directory: dead,
            _lock,
        } = dead;
        let dead = dead.keep();
        assert_eq!(database.remove_leftovers().unwrap(), 0);
        drop(_lock);
        fs::create_dir(writing.join("killed before it had a lock")).unwrap();
        assert_eq!(database.remove_leftovers().unwrap(), 2);
        assert!(alive.epoch_path().is_dir());
        assert!(!dead.exists());
        assert_eq!(fs::read_dir(&writing).unwrap().count(), 1);
        drop(alive);
        assert_eq!(fs::read_dir(&writing).unwrap().count(), 0);
    }
}
