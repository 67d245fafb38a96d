//! Recordings of many times and hosts in a directory.

use crate::container::{Source, sync_directory, write_directory};
use crate::decode::{Sum, Wanted, decode, decode_sums, sums_do};
use crate::encode::encode;
use crate::error::{Error, left_out};
use crate::file::Written;
use crate::merge::{merge, merge_sums};
use crate::open_epoch;
use profile::{Recording, Target};
use std::fs::{self, File};
use std::io;
use std::panic::resume_unwind;
use std::path::{Path, PathBuf};
use tempfile::TempDir;

/// Where epochs are written before they are renamed into place: on the same file system, and not
/// where a reader looks.
pub(crate) const WRITING: &str = ".writing";
/// Names of epochs begin with this while they are removed from a full disk.
pub(crate) const REMOVED: &str = ".removed-";
/// In a directory there: the lock that its writer holds, and the epoch.
const LOCK: &str = "lock";
const EPOCH: &str = "epoch";

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
    /// Whether a daemon may still add to it.
    pub open: bool,
    /// What its `recording.json` says, or why that cannot be read.
    pub summary: Result<Summary, Error>,
    /// Pieces that the summary leaves out: parts of an open epoch whose description cannot be read,
    /// and files that were moved out of the way because they are damaged.
    pub damaged: Vec<Error>,
}

/// What an epoch says of itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Summary {
    /// Start, in nanoseconds since 1970-01-01 UTC.
    pub start_unix_ns: u64,
    /// Length, in nanoseconds.
    pub duration_ns: u64,
    /// Name of the host.
    pub host: String,
    /// What was measured.
    pub target: Target,
    /// Names of the events.
    pub events: Vec<String>,
    /// How many samples there are of all events.
    pub samples: u64,
    /// The length of its members, in bytes.
    pub bytes: u64,
}

impl Database {
    /// Opens the database in the directory `path`, made if it is missing.
    ///
    /// # Errors
    /// [`Error::Io`].
    pub fn create(path: &Path) -> Result<Self, Error> {
        let writing = path.join(WRITING);
        fs::create_dir_all(&writing).map_err(Error::io("create", &writing))?;
        let path = path.to_owned();
        Ok(Self { path })
    }

    /// Opens the database in the directory `path`.
    ///
    /// # Errors
    /// [`Error::Io`], and [`Error::NotARecording`] if there is no epoch in `path` and it was not
    /// [created](Self::create).
    pub fn open(path: &Path) -> Result<Self, Error> {
        let database = Self {
            path: path.to_owned(),
        };
        if database.directories()?.is_empty() && !path.join(WRITING).is_dir() {
            let looks_like = match subdirectories(path, "host=")?.is_empty() {
                true => "a directory without epochs",
                false => "one epoch of a database: name one of its hosts, or the database",
            };
            return Err(Error::NotARecording {
                path: path.to_owned(),
                looks_like,
            });
        }
        Ok(database)
    }

    /// Its directory.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Writes a recording as a new epoch and to stable storage, and [cleans](Self::clean).
    ///
    /// # Errors
    /// [`Error::Unstorable`], or [`Error::Io`]; nothing half-written remains.
    pub fn write(&self, recording: &Recording) -> Result<Written, Error> {
        let encoded = encode(recording)?;
        self.clean()?;
        let draft = Draft::new(&self.path.join(WRITING))?;
        write_directory(&encoded, &draft.epoch())?;
        let path = self.publish(&draft, recording)?;
        Ok(Written {
            path,
            bytes: encoded.len(),
        })
    }

    pub(crate) fn epoch_directory(&self, micros: u64) -> PathBuf {
        self.path.join(format!("epoch={}", utc(micros)))
    }

    /// Renames a finished epoch to its place, or to the next free microsecond.
    fn publish(&self, draft: &Draft, recording: &Recording) -> Result<PathBuf, Error> {
        let host = format!("host={}", encode_name(&recording.host.name));
        let mut micros = recording.start_unix_ns / 1000;
        loop {
            let epoch = self.epoch_directory(micros);
            let path = epoch.join(&host);
            fs::create_dir_all(&epoch).map_err(Error::io("create", &epoch))?;
            match fs::rename(draft.epoch(), &path) {
                Ok(()) => {
                    sync_directory(&epoch)?;
                    sync_directory(&self.path)?;
                    return Ok(path);
                }
                // Which of the two depends on the file system.
                Err(e)
                    if e.kind() == io::ErrorKind::DirectoryNotEmpty
                        || e.kind() == io::ErrorKind::AlreadyExists =>
                {
                    micros += 1;
                }
                // Somebody else found the directory empty and removed it.
                Err(e) if e.kind() == io::ErrorKind::NotFound && draft.epoch().exists() => {}
                Err(e) => return Err(Error::io("rename", &path)(e)),
            }
        }
    }

    /// Removes what writers left behind that died, and returns how many there were.
    ///
    /// A writer that lives holds a lock, and is left alone.
    ///
    /// # Errors
    /// [`Error::Io`] if the list cannot be read.
    pub fn clean(&self) -> Result<usize, Error> {
        let drafts = subdirectories(&self.path.join(WRITING), "")?;
        Ok(drafts.iter().filter(|draft| remove_if_dead(draft)).count())
    }

    /// The epochs, oldest first. Reads only their `recording.json`.
    ///
    /// # Errors
    /// [`Error::Io`] if the directory cannot be read. An epoch that cannot be read is listed, with
    /// the reason.
    pub fn epochs(&self) -> Result<Vec<Epoch>, Error> {
        Ok(self.directories()?.into_iter().map(Epoch::new).collect())
    }

    /// The newest epoch that can be read, `None` if there is none; and why newer ones cannot.
    ///
    /// # Errors
    /// [`Error::Io`] if the directory cannot be read.
    pub fn latest(&self) -> Result<(Option<Epoch>, Vec<Error>), Error> {
        let mut skipped = Vec::new();
        for epoch in self.directories()?.into_iter().rev().map(Epoch::new) {
            if epoch.summary.is_ok() {
                return Ok((Some(epoch), skipped));
            }
            if !epoch.is_empty() {
                skipped.extend(epoch.summary.err());
            }
        }
        Ok((None, skipped))
    }

    /// Where a daemon of a host keeps what it needs beside the epochs; not made here.
    pub fn daemon_directory(&self, host: &str) -> PathBuf {
        self.path.join(".daemon").join(encode_name(host))
    }

    /// The directories of the epochs, by time, then host.
    fn directories(&self) -> Result<Vec<PathBuf>, Error> {
        let mut directories = Vec::new();
        for epoch in subdirectories(&self.path, "epoch=")? {
            let mut hosts = subdirectories(&epoch, "host=")?;
            let open = subdirectories(&epoch, open_epoch::PREFIX)?;
            // What was closed is left open for a moment; the closed one counts.
            let open = open.into_iter().filter(|open| !closed(open).is_dir());
            hosts.extend(open);
            hosts.sort_by_key(|host| closed(host));
            directories.append(&mut hosts);
        }
        Ok(directories)
    }

    /// The epochs that began in a range of time, and on one host.
    ///
    /// # Errors
    /// As [`Database::epochs`].
    pub fn select(&self, range: &Range, host: Option<&str>) -> Result<Vec<Epoch>, Error> {
        let name = host.map(encode_name);
        let mut directories = self.directories()?;
        directories.retain(|path| {
            let named = |name: &String| closed(path).ends_with(format!("host={name}"));
            range.holds(path) && name.as_ref().is_none_or(named)
        });
        Ok(directories.into_iter().map(Epoch::new).collect())
    }

    /// Removes an epoch: readers see all of it or nothing.
    ///
    /// # Errors
    /// [`Error::Io`].
    pub fn remove(&self, epoch: &Epoch) -> Result<(), Error> {
        self.remove_directory(&epoch.path)
    }

    pub(crate) fn remove_directory(&self, path: &Path) -> Result<(), Error> {
        match Draft::new(&self.path.join(WRITING)) {
            Ok(draft) => {
                fs::rename(path, draft.epoch()).map_err(Error::io("remove", path))?;
                drop(draft);
            }
            // A new directory needs room, a new name does not.
            Err(error) if error.is_full() => {
                let name = path.file_name().unwrap_or_default().to_string_lossy();
                let aside = path.with_file_name(format!("{REMOVED}{name}"));
                fs::rename(path, &aside).map_err(Error::io("remove", path))?;
                fs::remove_dir_all(&aside).map_err(Error::io("remove", &aside))?;
            }
            Err(error) => return Err(error),
        }
        if let Some(epoch) = path.parent() {
            // Other hosts may have theirs in it.
            let _ = fs::remove_dir(epoch);
        }
        sync_directory(&self.path)
    }

    /// Writes a recording to `path`, a directory that must not exist yet.
    pub(crate) fn write_to(&self, recording: &Recording, path: &Path) -> Result<Written, Error> {
        let encoded = encode(recording)?;
        let draft = Draft::new(&self.path.join(WRITING))?;
        write_directory(&encoded, &draft.epoch())?;
        fs::rename(draft.epoch(), path).map_err(Error::io("rename", path))?;
        sync_directory(path.parent().unwrap_or(path))?;
        Ok(Written {
            path: path.to_owned(),
            bytes: encoded.len(),
        })
    }
}

/// Where an epoch is, or will be, once it is closed.
pub(crate) fn closed(path: &Path) -> PathBuf {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    match name.strip_prefix(open_epoch::PREFIX) {
        Some(host) => path.with_file_name(format!("host={host}")),
        None => path.to_owned(),
    }
}

/// Times at which epochs began, as digits of the date and time (UTC), as many as were given:
/// `20261121` is a day, `2026-11-21T03` an hour.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Range {
    from: Option<String>,
    to: Option<String>,
}

impl std::str::FromStr for Range {
    type Err = String;

    /// `A..B` (both included), `A..`, `..B`, `..`, or `A` alone.
    fn from_str(text: &str) -> Result<Self, String> {
        let (from, to) = text.split_once("..").unwrap_or((text, text));
        let digits = |text: &str| {
            let strange = |c: char| !c.is_ascii_digit() && !"-:.TZ ".contains(c);
            let digits: String = text.chars().filter(char::is_ascii_digit).collect();
            match (text.is_empty(), text.contains(strange) || digits.len() < 4) {
                (true, _) => Ok(None),
                (_, true) => Err(format!(
                    "'{text}' is not a time such as 2026, 20261121 or 2026-11-21T03:15"
                )),
                _ => Ok(Some(digits)),
            }
        };
        let (from, to) = (digits(from)?, digits(to)?);
        Ok(Self { from, to })
    }
}

impl Range {
    /// Whether an epoch's directory is of a time in the range.
    fn holds(&self, path: &Path) -> bool {
        let parent = path.parent().and_then(Path::file_name).unwrap_or_default();
        let name = parent.to_string_lossy();
        let digits: String = name.chars().filter(char::is_ascii_digit).collect();
        let prefix = |len: usize| digits.get(..len).unwrap_or(&digits);
        self.from
            .as_ref()
            .is_none_or(|from| prefix(from.len()) >= from.as_str())
            && self
                .to
                .as_ref()
                .is_none_or(|to| prefix(to.len()) <= to.as_str())
    }
}

/// One recording of several epochs, with what is wanted of them (and more where that is no more
/// work). What cannot be read is left out, and a warning names it.
///
/// # Errors
/// What kept the first from being read, if none could be; [`Error::Unmergeable`] of none.
pub fn read_all(epochs: &[Epoch], wanted: Wanted) -> Result<Recording, Error> {
    let (mut merged, failed) = match epochs.iter().all(|epoch| epoch.sums_do(wanted)) {
        true => {
            let (sums, failed) = read_each(epochs, |epoch| epoch.read_sums(wanted))?;
            (merge_sums(sums)?, failed)
        }
        false => {
            let (mut recordings, failed) = read_each(epochs, Epoch::read)?;
            let merged = match recordings.len() {
                1 => recordings.swap_remove(0),
                _ => merge(&recordings)?,
            };
            (merged, failed)
        }
    };
    merged.warnings.extend(failed.iter().map(left_out));
    Ok(merged)
}

/// What `read` makes of the epochs, on all processors, and what kept others from being read.
fn read_each<T: Send>(
    epochs: &[Epoch],
    read: impl Fn(&Epoch) -> Result<T, Error> + Sync,
) -> Result<(Vec<T>, Vec<Error>), Error> {
    let cpus = std::thread::available_parallelism().map_or(1, usize::from);
    let share = epochs.len().div_ceil(cpus).max(1);
    let results: Vec<Result<T, Error>> = std::thread::scope(|scope| {
        let readers: Vec<_> = epochs
            .chunks(share)
            .map(|epochs| scope.spawn(|| epochs.iter().map(&read).collect::<Vec<_>>()))
            .collect();
        let join = |reader: std::thread::ScopedJoinHandle<'_, Vec<_>>| {
            reader.join().unwrap_or_else(|panic| resume_unwind(panic))
        };
        readers.into_iter().flat_map(join).collect()
    });
    let (mut done, mut failed) = (Vec::new(), Vec::new());
    for result in results {
        match result {
            Ok(value) => done.push(value),
            Err(error) => failed.push(error),
        }
    }
    match done.is_empty() && !failed.is_empty() {
        true => Err(failed.swap_remove(0)),
        false => Ok((done, failed)),
    }
}

impl Epoch {
    fn new(path: PathBuf) -> Self {
        let open = closed(&path) != path;
        let (summary, mut damaged) = match open {
            true => open_epoch::summary(&path),
            false => (Summary::read(&path), Vec::new()),
        };
        damaged.extend(open_epoch::set_aside(&path));
        Self {
            path,
            open,
            summary,
            damaged,
        }
    }

    /// Whether it is one to which nothing was added yet.
    pub fn is_empty(&self) -> bool {
        self.open
            && self.damaged.is_empty()
            && matches!(self.summary, Err(Error::NotARecording { .. }))
    }

    /// Its name: when it began.
    pub fn name(&self) -> String {
        let parent = self.path.parent().and_then(Path::file_name);
        let name = parent.unwrap_or_default().to_string_lossy();
        name.strip_prefix("epoch=").unwrap_or(&name).to_owned()
    }

    /// Reads the recording. Parts of an open epoch that cannot be read are left out, and a warning
    /// names them.
    ///
    /// # Errors
    /// All of [`Error`] but [`Error::Unstorable`].
    pub fn read(&self) -> Result<Recording, Error> {
        match self.open {
            true => open_epoch::read(&self.path),
            false => decode(&Source::open(&self.path)?),
        }
    }

    /// Reads the sums, and the recording without its samples.
    fn read_sums(&self, wanted: Wanted) -> Result<(Recording, Vec<Sum>), Error> {
        if !self.open {
            return decode_sums(&Source::open(&self.path)?, wanted);
        }
        let mut recording = open_epoch::read(&self.path)?;
        let samples = std::mem::take(&mut recording.samples);
        let sums = samples.iter().map(|sample| Sum::new(&recording, sample));
        let sums = sums.collect();
        Ok((recording, sums))
    }

    /// Whether the sums alone have all that is wanted. What cannot be read says so when it is.
    fn sums_do(&self, wanted: Wanted) -> bool {
        let do_they = |path: &Path| sums_do(&Source::open(path)?, wanted);
        let do_they = |path: &Path| do_they(path).unwrap_or(true);
        match self.open {
            true => {
                let parts = open_epoch::part_paths(&self.path);
                !parts.is_empty() && parts.iter().all(|part| do_they(part))
            }
            false => do_they(&self.path),
        }
    }
}

impl Summary {
    /// Reads the summary of the recording at `path`, a file or the directory of an epoch.
    ///
    /// # Errors
    /// All of [`Error`] but [`Error::Unstorable`].
    pub fn read(path: &Path) -> Result<Self, Error> {
        let manifest = Source::open(path)?.manifest()?;
        let members = manifest.members.values();
        Ok(Self {
            bytes: members
                .map(|member| member.bytes)
                .fold(0, u64::saturating_add),
            start_unix_ns: manifest.start_unix_ns,
            duration_ns: manifest.duration_ns,
            host: manifest.host.name,
            target: manifest.target,
            events: manifest
                .events
                .into_iter()
                .map(|event| event.name)
                .collect(),
            samples: manifest.samples,
        })
    }
}

impl Summary {
    /// Of both together.
    pub(crate) fn and(mut self, other: &Self) -> Self {
        let end = |s: &Self| s.start_unix_ns.saturating_add(s.duration_ns);
        let end = end(&self).max(end(other));
        self.start_unix_ns = self.start_unix_ns.min(other.start_unix_ns);
        self.duration_ns = end.saturating_sub(self.start_unix_ns);
        self.samples = self.samples.saturating_add(other.samples);
        self.bytes = self.bytes.saturating_add(other.bytes);
        for event in &other.events {
            if !self.events.contains(event) {
                self.events.push(event.clone());
            }
        }
        self
    }
}

/// An epoch that is being written. Dropped, it takes with it what is left of it.
struct Draft {
    directory: TempDir,
    /// Held until then; where a file system has no locks nobody cleans either.
    _lock: File,
}

impl Draft {
    fn new(writing: &Path) -> Result<Self, Error> {
        fs::create_dir_all(writing).map_err(Error::io("create", writing))?;
        loop {
            let directory = tempfile::Builder::new()
                .prefix("")
                .tempdir_in(writing)
                .map_err(Error::io("create", writing))?;
            // A cleaner may come before the lock, and then takes the directory away: try again.
            let path = directory.path().join(LOCK);
            let lock = match File::create_new(&path) {
                Err(e) if e.kind() == io::ErrorKind::NotFound => continue,
                lock => lock.map_err(Error::io("create", &path))?,
            };
            if let Err(fs::TryLockError::WouldBlock) = lock.try_lock() {
                continue;
            }
            let epoch = directory.path().join(EPOCH);
            match fs::create_dir(&epoch) {
                Err(e) if e.kind() == io::ErrorKind::NotFound => {}
                Err(e) => return Err(Error::io("create", &epoch)(e)),
                Ok(()) => {
                    let _lock = lock;
                    return Ok(Self { directory, _lock });
                }
            }
        }
    }

    fn epoch(&self) -> PathBuf {
        self.directory.path().join(EPOCH)
    }
}

/// Removes a draft whose writer has died; whether it did. What cannot be removed stays and harms
/// nobody.
fn remove_if_dead(draft: &Path) -> bool {
    match File::options().write(true).open(draft.join(LOCK)) {
        // The lock is the first thing that a writer makes and the last that is removed here.
        Err(e) if e.kind() == io::ErrorKind::NotFound => fs::remove_dir(draft).is_ok(),
        Err(_) => false,
        Ok(lock) => {
            lock.try_lock().is_ok()
                && (fs::remove_dir_all(draft.join(EPOCH)).is_ok() || !draft.join(EPOCH).exists())
                && fs::remove_dir_all(draft).is_ok()
        }
    }
}

/// The subdirectories of `path` whose names begin with `prefix`, by name; none if it is missing.
pub(crate) fn subdirectories(path: &Path, prefix: &str) -> Result<Vec<PathBuf>, Error> {
    let entries = match fs::read_dir(path) {
        Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        entries => entries.map_err(Error::io("read", path))?,
    };
    let mut found = Vec::new();
    for entry in entries {
        let entry = entry.map_err(Error::io("read", path))?;
        let named = entry
            .file_name()
            .as_encoded_bytes()
            .starts_with(prefix.as_bytes());
        if named && entry.path().is_dir() {
            found.push(entry.path());
        }
    }
    found.sort_unstable();
    Ok(found)
}

/// A time of day and date whose order as text is that of time.
pub(crate) fn utc(unix_micros: u64) -> String {
    let micros = i64::try_from(unix_micros).unwrap_or(i64::MAX);
    let time = jiff::Timestamp::from_microsecond(micros).unwrap_or(jiff::Timestamp::MAX);
    time.strftime("%Y%m%dT%H%M%S.%6fZ").to_string()
}

/// A host name as a directory name: what is not a letter, digit, `.`, `-` or `_` as `%XX`, the
/// way Hive partitions do it.
pub(crate) fn encode_name(name: &str) -> String {
    let encode = |byte: u8| match byte {
        b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'.' | b'-' | b'_' => (byte as char).to_string(),
        _ => format!("%{byte:02X}"),
    };
    // The longest that a directory name can be, `host=` aside; recording.json has all of it.
    let encoded: String = name.bytes().take(83).map(encode).collect();
    match encoded.is_empty() {
        true => "unknown".to_owned(),
        false => encoded,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_sort_as_text() {
        assert_eq!(utc(1_795_230_900_123_456), "20261121T031500.123456Z");
        assert_eq!(utc(0), "19700101T000000.000000Z");
        let times = [
            0,
            1,
            999_999,
            1_000_000,
            1_795_230_900_123_456,
            u64::MAX / 1000,
        ];
        assert!(times.map(utc).is_sorted());
    }

    #[test]
    fn any_host_name_is_a_directory_name() {
        assert_eq!(encode_name("db-1.example.org"), "db-1.example.org");
        assert_eq!(encode_name("../a b"), "..%2Fa%20b");
        assert_eq!(encode_name(""), "unknown");
        assert!(encode_name(&"ä".repeat(300)).len() <= 250);
    }

    #[test]
    fn only_the_drafts_of_dead_writers_are_removed() {
        let directory = tempfile::tempdir().unwrap();
        let database = Database::create(directory.path()).unwrap();
        let writing = directory.path().join(WRITING);
        let alive = Draft::new(&writing).unwrap();
        let dead = Draft::new(&writing).unwrap();
        fs::write(dead.epoch().join("samples.parquet"), "half").unwrap();
        let Draft {
            directory: dead,
            _lock,
        } = dead;
        let dead = dead.keep();
        assert_eq!(database.clean().unwrap(), 0);
        drop(_lock);
        fs::create_dir(writing.join("killed before it had a lock")).unwrap();
        assert_eq!(database.clean().unwrap(), 2);
        assert!(alive.epoch().is_dir());
        assert!(!dead.exists());
        assert_eq!(fs::read_dir(&writing).unwrap().count(), 1);
        drop(alive);
        assert_eq!(fs::read_dir(&writing).unwrap().count(), 0);
    }
}
