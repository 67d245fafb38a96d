//! Sending what a spool has: a local database whose closed epochs go to a bucket.

use crate::database::Database;
use crate::error::StoreError;
use crate::file::WrittenFile;
use crate::names::WRITING;
use crate::range::TimeRange;
use crate::remote::RemoteDatabase;
use crate::remote_place::{create_spool, default_spool};
use profile::Recording;
use std::fs::{File, TryLockError};

/// Lock of the process that sends, in a directory that readers skip.
const LOCK: &str = "sending.lock";

/// The epochs that sending left in a spool.
#[derive(Debug, Default)]
pub struct UnsentEpochs {
    /// Errors of epochs that stay in the spool, because they are damaged.
    pub unreadable: Vec<StoreError>,
    /// Reason for which the rest was not sent.
    pub stopped: Option<StoreError>,
}

/// Sends the closed epochs of a spool to a database in a bucket, oldest first, and removes each
/// when the bucket has it. Does nothing while another process sends.
///
/// # Errors
/// [`StoreError::Io`] if the spool cannot be read.
pub fn send_epochs(spool: &Database, to: &Database) -> Result<UnsentEpochs, StoreError> {
    match (to.remote_database()?, lock_spool(spool, File::try_lock)?) {
        (Some(remote), Some(_lock)) => send_to_remote(spool, &remote),
        _ => Ok(UnsentEpochs::default()),
    }
}

fn send_to_remote(spool: &Database, remote: &RemoteDatabase) -> Result<UnsentEpochs, StoreError> {
    let mut unsent = UnsentEpochs::default();
    for epoch in spool.select_epochs(&TimeRange::default(), None)? {
        if epoch.open {
            continue;
        }
        match remote.send_epoch(&epoch.path) {
            Ok(()) => spool.remove_epoch(&epoch)?,
            Err(error @ StoreError::Bucket(_)) => {
                unsent.stopped = Some(error);
                break;
            }
            Err(error) => unsent.unreadable.push(error),
        }
    }
    Ok(unsent)
}

/// Locks a spool by this function; `None` if another process has it.
fn lock_spool(
    spool: &Database,
    lock_file: fn(&File) -> Result<(), TryLockError>,
) -> Result<Option<File>, StoreError> {
    let path = spool.path().join(WRITING).join(LOCK);
    let mut options = File::options();
    let opened = options.create(true).truncate(false).write(true).open(&path);
    let lock = opened.map_err(StoreError::wrap_io("create", &path))?;
    match lock_file(&lock) {
        Err(TryLockError::WouldBlock) => Ok(None),
        // A second sender would send the same objects again, which changes nothing.
        _ => Ok(Some(lock)),
    }
}

/// Writes a recording as a new epoch of a database. For one in a bucket, it goes to the default
/// spool, and from there it is sent.
///
/// # Errors
/// As [`Database::write_recording`]; [`StoreError::Kept`] if it was not sent, and stays in the
/// spool.
pub fn store_recording(to: &Database, recording: &Recording) -> Result<WrittenFile, StoreError> {
    let (Some(remote), Some(directory)) = (to.remote_database()?, default_spool(to.path())) else {
        return to.write_recording(recording);
    };
    create_spool(&directory, to.path())?;
    let spool = Database::create(&directory)?;
    let written = spool.write_recording(recording)?;
    let piece = remote.piece_of(&written.path)?;
    // Another sender may not have seen this epoch.
    let _lock = lock_spool(&spool, |file| file.lock().map_err(TryLockError::Error))?;
    match send_to_remote(&spool, &remote)?.stopped {
        None => Ok(WrittenFile {
            path: piece,
            ..written
        }),
        Some(error) => Err(StoreError::Kept {
            path: written.path,
            source: Box::new(error),
        }),
    }
}
