//! Recordings of many times and hosts in a directory.

use crate::container::{Container, sync_directory, write_directory};
use crate::decode::{SampleSum, Wanted, decode_recording, decode_sums, is_for_sums, sums_do};
use crate::draft::{EpochDraft, remove_if_dead};
use crate::encode::encode_recording;
use crate::error::{StoreError, left_out};
use crate::file::WrittenFile;
use crate::merge::{BoundedMerger, MOST_CALLERS_READ, merge_sums};
use crate::names::{
    LEVELS, PREFIX, REMOVED, WRITING, closed_path, encode_name, epoch_order, host_of,
    subdirectories, utc_name,
};
use crate::parts;
use crate::range::TimeRange;
use crate::remote::{self, RemoteDatabase, remote_of};
use crate::summary::RecordingSummary;
use profile::Recording;
use std::fs;
use std::io;
use std::panic::resume_unwind;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// A directory of recordings, `epoch=<start>/host=<name>/`.
///
/// Any number of processes on any number of hosts may write and read at the same time: an epoch
/// appears whole or not at all, and is never changed.
#[derive(Clone, Debug)]
pub struct Database {
    path: PathBuf,
}

/// An epoch of a database.
#[derive(Debug)]
pub struct Epoch {
    /// Its directory.
    pub path: PathBuf,
    /// True if a daemon may still add to it.
    pub open: bool,
    /// The contents of its `recording.json`, or the reason why that cannot be read.
    pub summary: Result<RecordingSummary, StoreError>,
    /// Parts missing from the summary: parts of an open epoch with an unreadable description, and
    /// damaged files that were moved aside.
    pub damaged: Vec<StoreError>,
}

impl Database {
    /// Opens the database in the directory `path`; creates it if it is missing.
    ///
    /// # Errors
    /// [`StoreError::Io`].
    pub fn create(path: &Path) -> Result<Self, StoreError> {
        let database = Self {
            path: path.to_owned(),
        };
        if database.remote_database()?.is_none() {
            let writing = path.join(WRITING);
            fs::create_dir_all(&writing).map_err(StoreError::wrap_io("create", &writing))?;
        }
        Ok(database)
    }

    /// Opens the database in the directory `path`.
    ///
    /// # Errors
    /// [`StoreError::Io`], and [`StoreError::NotARecording`] if there is no epoch in `path` and it
    /// was not [created](Self::create).
    pub fn open(path: &Path) -> Result<Self, StoreError> {
        let database = Self {
            path: path.to_owned(),
        };
        if database.remote_database()?.is_some() {
            return Ok(database);
        }
        if database.local_directories()?.is_empty() && !path.join(WRITING).is_dir() {
            let looks_like = if subdirectories(path, "host=")?.is_empty() {
                "a directory without epochs"
            } else {
                "one epoch of a database: name one of its hosts, or the database"
            };
            return Err(StoreError::NotARecording {
                path: path.to_owned(),
                looks_like,
            });
        }
        Ok(database)
    }

    /// Returns its directory.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Returns its bucket, if its directory is the mirror of one.
    pub(crate) fn remote_database(&self) -> Result<Option<Arc<RemoteDatabase>>, StoreError> {
        let remote = remote_of(&self.path)?;
        Ok(remote
            .filter(|(_, below)| below.is_empty())
            .map(|(remote, _)| remote))
    }

    /// Asks the bucket, if it is in one, for its days.
    ///
    /// # Errors
    /// [`StoreError::Bucket`] if it cannot be listed.
    pub fn check_bucket(&self) -> Result<(), StoreError> {
        match self.remote_database()? {
            Some(remote) => remote.list_days().map(drop),
            None => Ok(()),
        }
    }

    /// Writes a recording as a new epoch of a local database and to stable storage, and
    /// [cleans](Self::clean).
    ///
    /// # Errors
    /// [`StoreError::Unstorable`], or [`StoreError::Io`]; nothing half-written remains.
    pub fn write_recording(&self, recording: &Recording) -> Result<WrittenFile, StoreError> {
        // Encoded first: a recording that cannot be stored leaves no trace in the directory.
        let encoded = encode_recording(recording)?;
        self.remove_leftovers()?;
        let draft = EpochDraft::new(&self.path.join(WRITING))?;
        write_directory(&encoded, &draft.epoch_path())?;
        let path = self.publish_epoch(&draft, recording)?;
        Ok(WrittenFile {
            path,
            bytes: encoded.len(),
        })
    }

    pub(crate) fn epoch_directory(&self, micros: u64) -> PathBuf {
        self.path.join(format!("epoch={}", utc_name(micros)))
    }

    /// Renames a finished epoch to its place, or to the next free microsecond.
    fn publish_epoch(
        &self,
        draft: &EpochDraft,
        recording: &Recording,
    ) -> Result<PathBuf, StoreError> {
        let host = format!("host={}", encode_name(&recording.host.name));
        let mut micros = recording.start_unix_ns / 1000;
        loop {
            let epoch = self.epoch_directory(micros);
            let path = epoch.join(&host);
            fs::create_dir_all(&epoch).map_err(StoreError::wrap_io("create", &epoch))?;
            match fs::rename(draft.epoch_path(), &path) {
                Ok(()) => {
                    // The host's name is in one directory and the epoch's in the other: a power
                    // failure must not lose either.
                    sync_directory(&epoch)?;
                    sync_directory(&self.path)?;
                    return Ok(path);
                }
                // The error kind depends on the file system.
                Err(e)
                    if e.kind() == io::ErrorKind::DirectoryNotEmpty
                        || e.kind() == io::ErrorKind::AlreadyExists =>
                {
                    micros += 1;
                }
                // Another process found the directory empty and removed it.
                Err(e) if e.kind() == io::ErrorKind::NotFound && draft.epoch_path().exists() => {}
                Err(e) => return Err(StoreError::wrap_io("rename", &path)(e)),
            }
        }
    }

    /// Removes the leftovers of writers that died, and returns their number.
    ///
    /// A living writer holds a lock, and its files stay.
    ///
    /// # Errors
    /// [`StoreError::Io`] if the list cannot be read.
    pub fn remove_leftovers(&self) -> Result<usize, StoreError> {
        let drafts = subdirectories(&self.path.join(WRITING), "")?;
        Ok(drafts.iter().filter(|draft| remove_if_dead(draft)).count())
    }

    /// Returns the epochs, oldest first. Reads only their `recording.json`.
    ///
    /// # Errors
    /// [`StoreError::Io`] if the directory cannot be read. An epoch that cannot be read is listed
    /// with the reason.
    pub fn epochs(&self) -> Result<Vec<Epoch>, StoreError> {
        self.select_epochs(&TimeRange::default(), None)
    }

    /// Returns at least so many of the newest epochs, oldest first, if there are so many: of a
    /// database in a bucket only these are listed, of others all.
    ///
    /// # Errors
    /// As [`Database::epochs`].
    pub fn newest_epochs(&self, most: usize) -> Result<Vec<Epoch>, StoreError> {
        self.newest_directories(most).map(epochs_at)
    }

    fn newest_directories(&self, most: usize) -> Result<Vec<PathBuf>, StoreError> {
        match self.remote_database()? {
            Some(remote) => remote.list_newest(most),
            None => self.local_directories(),
        }
    }

    /// Returns the newest readable epoch, `None` if there is none, and the errors of newer ones.
    ///
    /// # Errors
    /// [`StoreError::Io`] if the directory cannot be read.
    pub fn latest_epoch(&self) -> Result<(Option<Epoch>, Vec<StoreError>), StoreError> {
        let mut skipped = Vec::new();
        // A bucket's older days are listed only if its last one has no readable epoch.
        let tries: &[usize] = match self.remote_database()? {
            Some(_) => &[1, usize::MAX],
            None => &[usize::MAX],
        };
        for most in tries {
            skipped.clear();
            let directories = self.newest_directories(*most)?;
            for epoch in directories.into_iter().rev().map(Epoch::new) {
                if epoch.summary.is_ok() {
                    return Ok((Some(epoch), skipped));
                }
                if !epoch.is_empty() {
                    skipped.extend(epoch.summary.err());
                }
            }
        }
        Ok((None, skipped))
    }

    /// Returns the directory for a host's daemon beside the epochs, without creating it.
    pub fn daemon_directory(&self, host: &str) -> PathBuf {
        self.path.join(".daemon").join(encode_name(host))
    }

    /// Returns the directories of the epochs, by time, then host: also those of pieces, as in a
    /// copy of a bucket.
    fn local_directories(&self) -> Result<Vec<PathBuf>, StoreError> {
        let mut directories = Vec::new();
        for epoch in subdirectories(&self.path, "epoch=")? {
            let mut hosts = subdirectories(&epoch, "host=")?;
            let open = subdirectories(&epoch, PREFIX)?;
            // The open directory of a closed epoch stays for a moment; the closed one counts.
            let open = open.into_iter().filter(|open| !closed_path(open).is_dir());
            hosts.extend(open);
            hosts.sort_by_key(|host| closed_path(host));
            directories.append(&mut hosts);
        }
        let mut pieces = vec![self.path.clone()];
        for level in LEVELS {
            let below = pieces.iter().map(|path| subdirectories(path, level));
            pieces = below.collect::<Result<Vec<_>, _>>()?.concat();
        }
        if !pieces.is_empty() {
            directories.append(&mut pieces);
            directories.sort_by_cached_key(|path| epoch_order(path));
        }
        Ok(directories)
    }

    /// Returns the epochs that began in a range of time and, if given, on one host.
    ///
    /// # Errors
    /// As [`Database::epochs`].
    pub fn select_epochs(
        &self,
        range: &TimeRange,
        host: Option<&str>,
    ) -> Result<Vec<Epoch>, StoreError> {
        let directories = match self.remote_database()? {
            Some(remote) => remote.list_pieces(range, host)?,
            None => {
                let name = host.map(|host| format!("host={}", encode_name(host)));
                let mut directories = self.local_directories()?;
                directories.retain(|path| {
                    let named = |name: &String| host_of(path) == name.as_str();
                    range.contains_epoch(path) && name.as_ref().is_none_or(named)
                });
                directories
            }
        };
        Ok(epochs_at(directories))
    }

    /// Removes an epoch: readers see all of it or nothing.
    ///
    /// # Errors
    /// [`StoreError::Io`].
    pub fn remove_epoch(&self, epoch: &Epoch) -> Result<(), StoreError> {
        match self.remote_database()? {
            Some(remote) => remote.remove_piece(&epoch.path),
            None => self.remove_directory(&epoch.path),
        }
    }

    pub(crate) fn remove_directory(&self, path: &Path) -> Result<(), StoreError> {
        match EpochDraft::new(&self.path.join(WRITING)) {
            Ok(draft) => {
                fs::rename(path, draft.epoch_path())
                    .map_err(StoreError::wrap_io("remove", path))?;
                drop(draft);
            }
            // A new directory needs space, a new name does not.
            Err(error) if error.is_full() => {
                let name = path.file_name().unwrap_or_default().to_string_lossy();
                let aside = path.with_file_name(format!("{REMOVED}{name}"));
                fs::rename(path, &aside).map_err(StoreError::wrap_io("remove", path))?;
                fs::remove_dir_all(&aside).map_err(StoreError::wrap_io("remove", &aside))?;
            }
            Err(error) => return Err(error),
        }
        if let Some(epoch) = path.parent() {
            // Other hosts may have epochs in it.
            let _ = fs::remove_dir(epoch);
        }
        sync_directory(&self.path)
    }

    /// Writes a recording to `path`, a directory that must not exist yet.
    pub(crate) fn write_to(
        &self,
        recording: &Recording,
        path: &Path,
    ) -> Result<WrittenFile, StoreError> {
        let encoded = encode_recording(recording)?;
        let draft = EpochDraft::new(&self.path.join(WRITING))?;
        write_directory(&encoded, &draft.epoch_path())?;
        fs::rename(draft.epoch_path(), path).map_err(StoreError::wrap_io("rename", path))?;
        sync_directory(path.parent().unwrap_or(path))?;
        Ok(WrittenFile {
            path: path.to_owned(),
            bytes: encoded.len(),
        })
    }
}

/// Returns the epochs in these directories.
pub(crate) fn epochs_at(directories: Vec<PathBuf>) -> Vec<Epoch> {
    directories.into_iter().map(Epoch::new).collect()
}

/// Returns one recording of several epochs, with the wanted columns (and more where they cost no
/// extra work). Epochs that cannot be read are left out, and a warning names them.
///
/// # Errors
/// The first epoch's error, if none could be read; [`StoreError::Unmergeable`] for no epochs.
pub fn read_all(epochs: &[Epoch], wanted: Wanted) -> Result<Recording, StoreError> {
    let of_sums = epochs.iter().all(|epoch| epoch.sums_do(wanted));
    prefetch_epochs(epochs, |table| !of_sums || is_for_sums(table, wanted));
    let (mut merged, failed) = if of_sums {
        let (sums, failed) = read_each(epochs, |epoch| epoch.read_sums(wanted))?;
        (merge_sums(sums)?, failed)
    } else {
        match epochs {
            [epoch] => (epoch.read_recording()?, Vec::new()),
            _ => {
                let merger = BoundedMerger::new(MOST_CALLERS_READ);
                merge_epochs(epochs, merger, Epoch::read_recording)?
            }
        }
    };
    merged.warnings.extend(failed.iter().map(left_out));
    Ok(merged)
}

/// Returns one recording of several epochs, in which the slice of a sample is the index of its
/// epoch, for displays over time. A slice is as long as the longest epoch. Epochs that cannot be
/// read are left out, and a warning names them.
///
/// # Errors
/// As those of [`read_all`].
pub fn read_as_slices(epochs: &[Epoch]) -> Result<Recording, StoreError> {
    let read = |epoch: &Epoch| {
        let position = epochs.iter().position(|other| std::ptr::eq(other, epoch));
        let slice = position.and_then(|position| u32::try_from(position).ok());
        let mut recording = epoch.read_recording()?;
        for sample in &mut recording.samples {
            sample.slice = slice;
        }
        Ok(recording)
    };
    prefetch_epochs(epochs, |_| true);
    let merger = BoundedMerger::of_slices(MOST_CALLERS_READ);
    let (mut merged, failed) = merge_epochs(epochs, merger, read)?;
    merged.warnings.extend(failed.iter().map(left_out));
    Ok(merged)
}

/// Fetches the tables of epochs in a bucket, many at a time.
fn prefetch_epochs(epochs: &[Epoch], is_wanted: impl Fn(&str) -> bool) {
    let paths: Vec<&Path> = epochs.iter().map(|epoch| epoch.path.as_path()).collect();
    remote::prefetch_tables(&paths, is_wanted);
}

/// Merges the results of `read`, a few of which are in memory at a time. Returns the errors of the
/// other epochs, too.
fn merge_epochs(
    epochs: &[Epoch],
    mut merger: BoundedMerger,
    read: impl Fn(&Epoch) -> Result<Recording, StoreError> + Sync,
) -> Result<(Recording, Vec<StoreError>), StoreError> {
    let mut failed = Vec::new();
    for some in epochs.chunks(cpu_count()) {
        for result in read_results(some, &read) {
            match result {
                Ok(recording) => merger.add_part(&recording)?,
                Err(error) => failed.push(error),
            }
        }
    }
    if merger.is_empty() && !failed.is_empty() {
        Err(failed.swap_remove(0))
    } else {
        Ok((merger.finish()?, failed))
    }
}

fn cpu_count() -> usize {
    std::thread::available_parallelism().map_or(1, usize::from)
}

/// Applies `read` to the epochs, on all processors. Returns the results, and the errors of the
/// others.
fn read_each<T: Send>(
    epochs: &[Epoch],
    read: impl Fn(&Epoch) -> Result<T, StoreError> + Sync,
) -> Result<(Vec<T>, Vec<StoreError>), StoreError> {
    let results = read_results(epochs, &read);
    let (mut done, mut failed) = (Vec::new(), Vec::new());
    for result in results {
        match result {
            Ok(value) => done.push(value),
            Err(error) => failed.push(error),
        }
    }
    if done.is_empty() && !failed.is_empty() {
        Err(failed.swap_remove(0))
    } else {
        Ok((done, failed))
    }
}

/// Applies `read` to the epochs, on all processors.
fn read_results<T: Send>(
    epochs: &[Epoch],
    read: &(impl Fn(&Epoch) -> Result<T, StoreError> + Sync),
) -> Vec<Result<T, StoreError>> {
    let share = epochs.len().div_ceil(cpu_count()).max(1);
    std::thread::scope(|scope| {
        let readers: Vec<_> = epochs
            .chunks(share)
            .map(|epochs| scope.spawn(|| epochs.iter().map(read).collect::<Vec<_>>()))
            .collect();
        let join = |reader: std::thread::ScopedJoinHandle<'_, Vec<_>>| {
            reader.join().unwrap_or_else(|panic| resume_unwind(panic))
        };
        readers.into_iter().flat_map(join).collect()
    })
}

impl Epoch {
    fn new(path: PathBuf) -> Self {
        let open = closed_path(&path) != path;
        let (summary, mut damaged) = if open {
            parts::summarise_open_epoch(&path)
        } else {
            (RecordingSummary::read_summary(&path), Vec::new())
        };
        damaged.extend(parts::set_aside(&path));
        Self {
            path,
            open,
            summary,
            damaged,
        }
    }

    /// Returns whether the epoch is open and still empty.
    pub fn is_empty(&self) -> bool {
        self.open
            && self.damaged.is_empty()
            && matches!(self.summary, Err(StoreError::NotARecording { .. }))
    }

    /// Returns its name: the time at which it began.
    pub fn name(&self) -> String {
        let parent = self.path.parent().and_then(Path::file_name);
        let name = parent.unwrap_or_default().to_string_lossy();
        name.strip_prefix("epoch=").unwrap_or(&name).to_owned()
    }

    /// Reads the recording. Parts of an open epoch that cannot be read are left out, and a warning
    /// names them.
    ///
    /// # Errors
    /// All of [`StoreError`] but [`StoreError::Unstorable`].
    pub fn read_recording(&self) -> Result<Recording, StoreError> {
        if self.open {
            parts::read_open_epoch(&self.path)
        } else {
            decode_recording(&Container::open(&self.path)?)
        }
    }

    /// Reads the sums, and the recording without its samples.
    fn read_sums(&self, wanted: Wanted) -> Result<(Recording, Vec<SampleSum>), StoreError> {
        if !self.open {
            return decode_sums(&Container::open(&self.path)?, wanted);
        }
        let mut recording = parts::read_open_epoch(&self.path)?;
        let samples = std::mem::take(&mut recording.samples);
        let sums = samples
            .iter()
            .map(|sample| SampleSum::new(&recording, sample));
        let sums = sums.collect();
        Ok((recording, sums))
    }

    /// Returns whether the sums suffice for all that is wanted. Unreadable files count as
    /// sufficient, and fail when they are read.
    fn sums_do(&self, wanted: Wanted) -> bool {
        let do_they = |path: &Path| sums_do(&Container::open(path)?, wanted);
        let do_they = |path: &Path| do_they(path).unwrap_or(true);
        if self.open {
            let parts = parts::part_paths(&self.path);
            !parts.is_empty() && parts.iter().all(|part| do_they(part))
        } else {
            do_they(&self.path)
        }
    }
}
