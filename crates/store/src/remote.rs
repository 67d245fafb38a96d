//! A database in a bucket: `day=…/host=…/epoch=…/piece=…/`, with the members of a recording as
//! objects.
//!
//! # Nothing is lost or doubled
//!
//! A piece is a closed epoch. Its name is the hash of its `recording.json`, which has the length
//! and checksum of each table. So a piece that is sent again has the same keys, and objects are
//! only created. `recording.json` is written last: without it, a piece does not count. The sender
//! removes its own copy only after the bucket has listed each object at its full length.
//!
//! # Reading
//!
//! Lists say which pieces there are; only the days and the host of the question are listed. Files
//! are fetched into the mirror (`remote_place`) when they are first read, and checked there:
//! `recording.json` against the piece's name, tables against `recording.json`. What is damaged on
//! the way is fetched once more, and never kept.

use crate::error::StoreError;
use crate::manifest::{self, Manifest, ManifestMember};
use crate::names::{LEVELS, RUN, encode_name, epoch_order, utc_name};
use crate::range::TimeRange;
use crate::remote_place::MirrorPath;
use bucket::{Bucket, BucketError, Patience, StoredObject};
use sha2::{Digest, Sha256};
use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::SystemTime;
use whole_file::write_whole_file;

/// Number of requests at a time: a store answers each in tens of milliseconds.
const AT_A_TIME: usize = 16;

/// Limit on the size of a mirror. The pieces that were used least recently are removed first.
const MOST_MIRRORED: u64 = 2 << 30;

/// Limit on the length of a result of `run`.
const MOST_RUN: u64 = 64 << 20;

/// Number of digits of a piece's name.
const NAME_DIGITS: usize = 32;

/// The bucket of a database, and its mirror.
#[derive(Debug)]
pub(crate) struct RemoteDatabase {
    bucket: Bucket,
    directory: PathBuf,
}

/// Returns the database in a bucket whose mirror contains a path, and the path within it; `None`
/// for other paths.
///
/// # Errors
/// [`StoreError::Bucket`].
pub(crate) fn remote_of(path: &Path) -> Result<Option<(Arc<RemoteDatabase>, String)>, StoreError> {
    static OPENED: Mutex<BTreeMap<PathBuf, Arc<RemoteDatabase>>> = Mutex::new(BTreeMap::new());
    let Some(mirror) = MirrorPath::parse_path(path) else {
        return Ok(None);
    };
    let mut opened = OPENED.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(remote) = opened.get(&mirror.directory) {
        return Ok(Some((Arc::clone(remote), mirror.below)));
    }
    let bucket = Bucket::open(&mirror.address, Patience::default())?;
    let directory = mirror.directory.clone();
    let remote = Arc::new(RemoteDatabase { bucket, directory });
    remote.trim_mirror(MOST_MIRRORED);
    opened.insert(mirror.directory, Arc::clone(&remote));
    Ok(Some((remote, mirror.below)))
}

/// Fetches the description of the piece at a path in a mirror, unless it is there.
///
/// # Errors
/// [`StoreError::Bucket`], [`StoreError::Damaged`], [`StoreError::Io`].
pub(crate) fn fetch_manifest(piece: &Path) -> Result<(), StoreError> {
    match remote_of(piece)? {
        Some((remote, below)) if is_piece(&below) => remote.fetch_description(piece),
        _ => Ok(()),
    }
}

/// Fetches a table of the piece at a path in a mirror, in place of the one that is there. Returns
/// false for other paths.
///
/// # Errors
/// As those of [`fetch_manifest`], [`StoreError::Truncated`], [`StoreError::Checksum`].
pub(crate) fn fetch_table(
    piece: &Path,
    name: &str,
    member: &ManifestMember,
) -> Result<bool, StoreError> {
    match remote_of(piece)? {
        Some((remote, below)) if is_piece(&below) => {
            remote.fetch_member(piece, name, member)?;
            Ok(true)
        }
        _ => Ok(false),
    }
}

/// Fetches the wanted tables of pieces that are not there, many at a time. Readers meet failures
/// again, and report them.
pub(crate) fn prefetch_tables(pieces: &[&Path], is_wanted: impl Fn(&str) -> bool) {
    let mut missing = Vec::new();
    for piece in pieces {
        let Ok(Some((remote, below))) = remote_of(piece) else {
            continue;
        };
        let Some(manifest) = is_piece(&below).then(|| read_description(piece)).flatten() else {
            continue;
        };
        for (name, member) in manifest.members {
            if is_wanted(&name) && !piece.join(&name).exists() {
                missing.push((Arc::clone(&remote), *piece, name, member));
            }
        }
    }
    at_a_time(&missing, |(remote, piece, name, member)| {
        remote.fetch_member(piece, name, member)
    });
}

impl RemoteDatabase {
    /// Returns the pieces that began in a range of time and, if given, on one host, by time. Their
    /// descriptions are fetched, as far as they can be.
    ///
    /// # Errors
    /// [`StoreError::Bucket`] if the bucket cannot be listed.
    pub fn list_pieces(
        &self,
        range: &TimeRange,
        host: Option<&str>,
    ) -> Result<Vec<PathBuf>, StoreError> {
        let days = self.list_days()?;
        let days = days.into_iter().filter(|day| range.contains_day(day));
        self.pieces_below(
            days.map(|day| directory_of_day(&day, host)).collect(),
            |path| range.contains_epoch(path),
        )
    }

    /// Returns the newest pieces: those of the last days, until there are so many.
    ///
    /// # Errors
    /// As those of [`RemoteDatabase::list_pieces`].
    pub fn list_newest(&self, most: usize) -> Result<Vec<PathBuf>, StoreError> {
        let mut newest = Vec::new();
        for day in self.list_days()?.into_iter().rev() {
            let mut pieces = self.pieces_below(vec![directory_of_day(&day, None)], |_| true)?;
            pieces.append(&mut newest);
            newest = pieces;
            if newest.len() >= most {
                break;
            }
        }
        Ok(newest)
    }

    /// Returns the pieces below a directory of the database.
    ///
    /// # Errors
    /// As those of [`RemoteDatabase::list_pieces`].
    pub fn list_below(&self, below: &str) -> Result<Vec<PathBuf>, StoreError> {
        self.pieces_below(vec![format!("{below}/")], |_| true)
    }

    /// Returns the names of the directories of days, by time.
    ///
    /// # Errors
    /// [`StoreError::Bucket`].
    pub fn list_days(&self) -> Result<Vec<String>, StoreError> {
        let mut days = self.bucket.list_directories("")?;
        days.retain(|name| name.starts_with(LEVELS[0]));
        days.sort_unstable();
        Ok(days)
    }

    fn pieces_below(
        &self,
        directories: Vec<String>,
        is_wanted: impl Fn(&Path) -> bool,
    ) -> Result<Vec<PathBuf>, StoreError> {
        let listed = at_a_time(&directories, |prefix| self.bucket.list_objects(prefix));
        let mut pieces = Vec::new();
        for objects in listed {
            for StoredObject { key, .. } in objects? {
                let piece = key.strip_suffix(manifest::NAME);
                if let Some(piece) = piece.and_then(|piece| piece.strip_suffix('/'))
                    && is_piece(piece)
                {
                    let path = self.directory.join(piece);
                    pieces.extend(is_wanted(&path).then_some(path));
                }
            }
        }
        pieces.sort_by_cached_key(|path| epoch_order(path));
        pieces.dedup();
        at_a_time(&pieces, |path| self.fetch_description(path));
        Ok(pieces)
    }

    fn key_of(&self, piece: &Path, name: &str) -> String {
        let below = piece.strip_prefix(&self.directory).unwrap_or(piece);
        format!("{}/{name}", below.display())
    }

    fn fetch_description(&self, piece: &Path) -> Result<(), StoreError> {
        if piece.join(manifest::NAME).exists() {
            return Ok(());
        }
        let name = piece.file_name().unwrap_or_default().to_string_lossy();
        let expected = name.strip_prefix(LEVELS[3]).unwrap_or_default();
        self.fetch_named(piece, manifest::NAME, expected, manifest::MAX_LEN)
    }

    /// Fetches an object whose hash is in its name, or in that of its directory.
    fn fetch_named(
        &self,
        directory: &Path,
        name: &str,
        expected: &str,
        most: u64,
    ) -> Result<(), StoreError> {
        let key = self.key_of(directory, name);
        self.fetch_checked(directory, name, || {
            let bytes = self.bucket.read_object(&key, most)?;
            if content_name(&bytes) == expected {
                return Ok(bytes);
            }
            Err(StoreError::Damaged {
                path: directory.to_owned(),
                member: name.to_owned(),
                what: "its hash is not that of its name: it was cut short or changed".to_owned(),
                at: crate::error::ErrorPlace::Offset(0),
            })
        })
    }

    fn fetch_member(
        &self,
        piece: &Path,
        name: &str,
        member: &ManifestMember,
    ) -> Result<(), StoreError> {
        let key = self.key_of(piece, name);
        let failed = |found| StoreError::Truncated {
            path: piece.to_owned(),
            member: name.to_owned(),
            expected: member.bytes,
            found,
        };
        self.fetch_checked(piece, name, || {
            let bytes = match self.bucket.read_object(&key, member.bytes) {
                Err(BucketError::NoObject { .. }) => return Err(failed(0)),
                bytes => bytes?,
            };
            if bytes.len() as u64 != member.bytes {
                return Err(failed(bytes.len() as u64));
            }
            match crc32fast::hash(&bytes) {
                found if found == member.crc32 => Ok(bytes),
                found => Err(StoreError::Checksum {
                    path: piece.to_owned(),
                    member: name.to_owned(),
                    expected: member.crc32,
                    found,
                }),
            }
        })
    }

    /// Stores in the mirror what `read` returns, at the second try if the first fails for damage.
    fn fetch_checked(
        &self,
        piece: &Path,
        name: &str,
        read: impl Fn() -> Result<Vec<u8>, StoreError>,
    ) -> Result<(), StoreError> {
        let bytes = match read() {
            Err(StoreError::Bucket(error)) => return Err(error.into()),
            Err(_) => read()?,
            Ok(bytes) => bytes,
        };
        fs::create_dir_all(piece).map_err(StoreError::wrap_io("create", piece))?;
        let path = piece.join(name);
        write_whole_file(&path, &bytes).map_err(StoreError::wrap_io("write", &path))
    }

    /// Returns the path, in the mirror, of the piece that an epoch of a local database becomes.
    ///
    /// # Errors
    /// [`StoreError::Io`] and the errors of damage if it cannot be read.
    pub fn piece_of(&self, epoch: &Path) -> Result<PathBuf, StoreError> {
        let path = epoch.join(manifest::NAME);
        let description = fs::read(&path).map_err(StoreError::wrap_io("read", &path))?;
        let host = Manifest::from_bytes(&description, epoch)?.host.name;
        let piece = piece_directory(epoch, &host, &description);
        Ok(self.directory.join(piece))
    }

    /// Sends a closed epoch of a local database. When this returns, the bucket has all of it.
    ///
    /// # Errors
    /// [`StoreError::Bucket`] if it could not be sent; [`StoreError::Io`] and the errors of damage
    /// if it cannot be read.
    pub fn send_epoch(&self, epoch: &Path) -> Result<(), StoreError> {
        let read = |name: &str| {
            let path = epoch.join(name);
            fs::read(&path).map_err(StoreError::wrap_io("read", &path))
        };
        let description = read(manifest::NAME)?;
        let manifest = Manifest::from_bytes(&description, epoch)?;
        let mut objects = Vec::new();
        for (name, member) in &manifest.members {
            let bytes = read(name)?;
            let found = crc32fast::hash(&bytes);
            if found != member.crc32 {
                // Damaged on this disk: readers of the bucket would only learn that it is damaged.
                return Err(StoreError::Checksum {
                    path: epoch.to_owned(),
                    member: name.clone(),
                    expected: member.crc32,
                    found,
                });
            }
            objects.push((name.as_str(), bytes));
        }
        let piece = piece_directory(epoch, &manifest.host.name, &description);
        objects.push((manifest::NAME, description));
        for (name, bytes) in &objects {
            let key = format!("{piece}/{name}");
            self.bucket.create_object(&key, bytes.clone())?;
        }
        self.verify_piece(&piece, &objects)
    }

    /// Checks that the bucket lists each object at its full length. One of another length was cut
    /// short by an earlier writer or by the store, and is written again.
    fn verify_piece(&self, piece: &str, objects: &[(&str, Vec<u8>)]) -> Result<(), StoreError> {
        let wrong = || -> Result<Vec<&(&str, Vec<u8>)>, StoreError> {
            let listed = self.bucket.list_objects(&format!("{piece}/"))?;
            let is_listed = |(name, bytes): &(&str, Vec<u8>)| {
                let key = format!("{piece}/{name}");
                let mut same = listed.iter().filter(|object| object.key == key);
                same.any(|object| object.bytes == bytes.len() as u64)
            };
            Ok(objects.iter().filter(|object| !is_listed(object)).collect())
        };
        let first = wrong()?;
        if first.is_empty() {
            return Ok(());
        }
        for (name, bytes) in first {
            self.bucket
                .replace_object(&format!("{piece}/{name}"), bytes.clone())?;
        }
        match wrong()?.first() {
            None => Ok(()),
            Some((name, bytes)) => Err(StoreError::Bucket(BucketError::Server {
                place: format!("{}/{piece}/{name}", self.bucket.bucket_address()),
                what: format!(
                    "it took {} bytes and does not list them; they are kept and sent again",
                    bytes.len()
                ),
            })),
        }
    }

    /// Sends a result of `run`, named by time and content, and returns its address.
    ///
    /// # Errors
    /// [`StoreError::Bucket`].
    pub fn send_run(&self, start_unix_ns: u64, json: Vec<u8>) -> Result<String, StoreError> {
        let start = utc_name(start_unix_ns / 1000);
        let (day, name) = (&start[..8], content_name(&json));
        let key = format!("day={day}/{RUN}{start}/{name}.json");
        self.bucket.create_object(&key, json)?;
        Ok(format!("{}/{key}", self.bucket.bucket_address()))
    }

    /// Fetches a result of `run`: the one at a path in the database, or the newest of all.
    ///
    /// # Errors
    /// [`StoreError::Bucket`], [`StoreError::Damaged`], [`StoreError::Io`].
    pub fn fetch_run(&self, below: &str) -> Result<PathBuf, StoreError> {
        let key = match below {
            "" => self.newest_run()?,
            below => Some(below.to_owned()),
        };
        let Some((key, hash)) = key.as_ref().and_then(|key| Some((key, hash_of_run(key)?))) else {
            return Err(StoreError::Bucket(BucketError::NoObject {
                place: format!("{}/day=…/{RUN}…/….json", self.bucket.bucket_address()),
            }));
        };
        let path = self.directory.join(key);
        if let (Some(directory), false) = (path.parent(), path.exists()) {
            self.fetch_named(directory, &format!("{hash}.json"), hash, MOST_RUN)?;
        }
        Ok(path)
    }

    fn newest_run(&self) -> Result<Option<String>, StoreError> {
        for day in self.list_days()?.iter().rev() {
            let objects = self.bucket.list_objects(&format!("{day}/{RUN}"))?;
            let keys = objects.into_iter().map(|object| object.key);
            if let Some(newest) = keys.filter(|key| hash_of_run(key).is_some()).max() {
                return Ok(Some(newest));
            }
        }
        Ok(None)
    }

    /// Removes a piece from the bucket and the mirror. Its description goes last: if this process
    /// is killed before, the next removal finds the piece again.
    ///
    /// # Errors
    /// [`StoreError::Bucket`].
    pub fn remove_piece(&self, piece: &Path) -> Result<(), StoreError> {
        let prefix = self.key_of(piece, "");
        let mut keys: Vec<String> = self
            .bucket
            .list_objects(&prefix)?
            .into_iter()
            .map(|object| object.key)
            .collect();
        keys.sort_by_key(|key| key.ends_with(manifest::NAME));
        self.bucket.remove_objects(&keys)?;
        let _ = fs::remove_dir_all(piece);
        Ok(())
    }

    /// Removes the pieces that were fetched longest ago while the mirror exceeds a limit.
    fn trim_mirror(&self, most: u64) {
        let mut pieces = Vec::new();
        collect_pieces(&self.directory, LEVELS.len(), &mut pieces);
        let mut size: u64 = pieces.iter().map(|(_, bytes, _)| bytes).sum();
        pieces.sort_unstable();
        for (_, bytes, path) in pieces {
            if size <= most {
                return;
            }
            size -= bytes;
            let _ = fs::remove_dir_all(path);
        }
    }
}

/// Adds the directories so many levels below one, with their times and sizes.
fn collect_pieces(directory: &Path, levels: usize, found: &mut Vec<(SystemTime, u64, PathBuf)>) {
    let entries = fs::read_dir(directory).into_iter().flatten().flatten();
    let directories = entries.filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir()));
    for path in directories.map(|entry| entry.path()) {
        if levels > 1 {
            collect_pieces(&path, levels - 1, found);
            continue;
        }
        let files = fs::read_dir(&path).into_iter().flatten().flatten();
        let bytes = files
            .filter_map(|file| Some(file.metadata().ok()?.len()))
            .sum();
        let changed = fs::metadata(&path).and_then(|data| data.modified());
        found.push((changed.unwrap_or(SystemTime::UNIX_EPOCH), bytes, path));
    }
}

/// Returns the name of a piece by its `recording.json`.
fn content_name(description: &[u8]) -> String {
    let digest = Sha256::digest(description);
    let digits = digest.iter().map(|byte| format!("{byte:02x}"));
    digits.take(NAME_DIGITS / 2).collect()
}

/// Returns the directory of a piece in its database.
fn piece_directory(epoch: &Path, host: &str, description: &[u8]) -> String {
    let parent = epoch.parent().and_then(Path::file_name).unwrap_or_default();
    let epoch = parent.to_string_lossy();
    let day: String = epoch.chars().filter(char::is_ascii_digit).take(8).collect();
    let (host, name) = (encode_name(host), content_name(description));
    format!("day={day}/host={host}/{epoch}/piece={name}")
}

fn directory_of_day(day: &str, host: Option<&str>) -> String {
    match host {
        None => format!("{day}/"),
        Some(host) => format!("{day}/host={}/", encode_name(host)),
    }
}

/// Returns whether a path in a database is that of a piece. Keys may come from anybody.
fn is_piece(below: &str) -> bool {
    let parts: Vec<&str> = below.split('/').collect();
    let named = parts.iter().zip(LEVELS).all(|(part, level)| {
        let rest = part.strip_prefix(level);
        rest.is_some_and(|rest| !rest.is_empty() && !rest.contains(char::is_control))
    });
    let name = parts.last().and_then(|last| last.strip_prefix(LEVELS[3]));
    parts.len() == LEVELS.len() && named && name.is_some_and(is_hash)
}

/// Returns the hash in the key of a result of `run`; `None` for other keys.
fn hash_of_run(key: &str) -> Option<&str> {
    let mut parts = key.split('/');
    let (day, start, name) = (parts.next()?, parts.next()?, parts.next()?);
    let is_plain = |text: &str| !text.contains(char::is_control);
    let hash = name.strip_suffix(".json")?;
    let is_run = day.starts_with(LEVELS[0]) && start.starts_with(RUN) && is_hash(hash);
    (is_run && is_plain(key) && parts.next().is_none()).then_some(hash)
}

fn is_hash(name: &str) -> bool {
    name.len() == NAME_DIGITS && name.chars().all(|c| matches!(c, '0'..='9' | 'a'..='f'))
}

fn read_description(piece: &Path) -> Option<Manifest> {
    Manifest::from_bytes(&fs::read(piece.join(manifest::NAME)).ok()?, piece).ok()
}

/// Applies a function to each item, to many at a time. Returns the results in order.
fn at_a_time<T: Sync, R: Send>(items: &[T], apply: impl Fn(&T) -> R + Sync) -> Vec<R> {
    let next = std::sync::atomic::AtomicUsize::new(0);
    let work = || {
        let mut done = Vec::new();
        loop {
            let at = next.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
            match items.get(at) {
                Some(item) => done.push((at, apply(item))),
                None => return done,
            }
        }
    };
    let mut done: Vec<(usize, R)> = std::thread::scope(|scope| {
        let workers: Vec<_> = (0..items.len().min(AT_A_TIME))
            .map(|_| scope.spawn(work))
            .collect();
        let join = |worker: std::thread::ScopedJoinHandle<'_, Vec<_>>| {
            worker
                .join()
                .unwrap_or_else(|panic| std::panic::resume_unwind(panic))
        };
        workers.into_iter().flat_map(join).collect()
    });
    done.sort_unstable_by_key(|(at, _)| *at);
    done.into_iter().map(|(_, result)| result).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_keys_of_pieces_become_paths() {
        let name = "0123456789abcdef0123456789abcdef";
        assert!(is_piece(&format!(
            "day=20261121/host=h/epoch=e/piece={name}"
        )));
        for other in [
            "day=1/host=h/epoch=e/piece=".to_owned(),
            format!("day=1/host=h/epoch=e/piece={name}/x"),
            format!("day=1/host=h/epoch=e/piece={}", &name[1..]),
            format!("day=1/../epoch=e/piece={name}"),
            format!("host=h/epoch=e/piece={name}"),
            format!("day=1/host=/epoch=e/piece={name}"),
        ] {
            assert!(!is_piece(&other), "{other}");
        }
    }

    #[test]
    fn only_keys_of_runs_are_fetched() {
        let hash = "0123456789abcdef0123456789abcdef";
        let key = format!("day=20261121/run=x/{hash}.json");
        assert_eq!(hash_of_run(&key), Some(hash));
        for other in [
            format!("day=1/../{hash}.json"),
            format!("day=1/run=x/y/{hash}.json"),
            "day=1/run=x/last.json".to_owned(),
        ] {
            assert_eq!(hash_of_run(&other), None, "{other}");
        }
    }

    #[test]
    fn results_come_in_order() {
        let items: Vec<u32> = (0..100).collect();
        assert_eq!(
            at_a_time(&items, |item| item * 2),
            items.iter().map(|i| i * 2).collect::<Vec<_>>()
        );
    }
}
