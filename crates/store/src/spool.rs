//! Sending what a spool has: a local database whose closed epochs go to a bucket.

use crate::database::Database;
use crate::error::StoreError;
use crate::file::WrittenFile;
use crate::names::WRITING;
use crate::range::TimeRange;
use crate::remote_place::{create_spool, default_spool};
use profile::Recording;
use std::fs::{File, TryLockError};

/// Lock of the process that sends, in a directory that readers skip.
const LOCK: &str = "sending.lock";

/// What was sent of a spool.
#[derive(Debug, Default)]
pub struct SentEpochs {
    /// Number of epochs that the bucket has now, and the spool no longer.
    pub epochs: usize,
    /// Length of their new objects, in bytes.
    pub bytes: u64,
    /// Epochs that stay in the spool, because they are damaged.
    pub unreadable: Vec<StoreError>,
    /// Reason for which the rest was not sent.
    pub stopped: Option<StoreError>,
}

/// Sends the closed epochs of a spool to a database in a bucket, oldest first, and removes each when
/// the bucket has it. Does nothing while another process sends.
///
/// # Errors
/// [`StoreError::Io`] if the spool cannot be read.
pub fn send_epochs(spool: &Database, to: &Database) -> Result<SentEpochs, StoreError> {
    let mut sent = SentEpochs::default();
    let (Some(remote), Some(_lock)) = (to.remote()?, lock_spool(spool)?) else {
        return Ok(sent);
    };
    for epoch in spool.select_epochs(&TimeRange::default(), None)? {
        if epoch.open {
            continue;
        }
        match remote.send_epoch(&epoch.path) {
            Ok(bytes) => {
                spool.remove_epoch(&epoch)?;
                sent.epochs += 1;
                sent.bytes += bytes;
            }
            Err(error @ StoreError::Bucket(_)) => {
                sent.stopped = Some(error);
                break;
            }
            Err(error) => sent.unreadable.push(error),
        }
    }
    Ok(sent)
}

fn lock_spool(spool: &Database) -> Result<Option<File>, StoreError> {
    let path = spool.path().join(WRITING).join(LOCK);
    let mut options = File::options();
    let opened = options.create(true).truncate(false).write(true).open(&path);
    let lock = opened.map_err(StoreError::wrap_io("create", &path))?;
    match lock.try_lock() {
        Err(TryLockError::WouldBlock) => Ok(None),
        // A second sender would send the same objects again, which changes nothing.
        _ => Ok(Some(lock)),
    }
}

/// Writes a recording into the spool of a database in a bucket, and sends it.
///
/// # Errors
/// If it was not sent; it stays in the spool, as the message says.
pub(crate) fn write_through_spool(
    to: &Database,
    recording: &Recording,
) -> Result<WrittenFile, StoreError> {
    let directory = default_spool(to.path()).unwrap_or_else(|| to.path().to_owned());
    create_spool(&directory, to.path())?;
    let spool = Database::create(&directory)?;
    let written = spool.write_recording(recording)?;
    match send_epochs(&spool, to)?.stopped {
        None => Ok(written),
        Some(error) => Err(StoreError::Kept {
            path: written.path,
            source: Box::new(error),
        }),
    }
}
