//! Local directories that stand for databases in buckets.
//!
//! `s3://bucket/prefix` stands for a directory of the cache, a mirror of the bucket in which files
//! appear when they are read. All code that reads a local database reads it there. A file in it,
//! [`MARK`], holds the address.

use crate::directories::{cache_directory, data_directory};
use crate::error::StoreError;
use crate::names::{LEVELS, RUN, subdirectories};
use bucket::{BucketAddress, SCHEME};
use std::env;
use std::fs::{self, DirBuilder};
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};

/// File in a database's directory with the address of its bucket.
pub(crate) const MARK: &str = ".bucket";

/// Directory of the cache with the mirrors of buckets. Its name makes paths resemble addresses.
const MIRRORS: &str = "s3:";

/// Returns the local directory for a path that the user named: the path itself, unless it is an
/// address in a bucket. Sends nothing.
///
/// # Errors
/// A sentence, if it is no valid address, or there is no place for a cache.
pub fn local_place(path: &Path) -> Result<PathBuf, String> {
    let Some(text) = path.to_str().filter(|text| text.starts_with(SCHEME)) else {
        return Ok(path.to_owned());
    };
    if !bucket::IS_BUILT_IN {
        let error = bucket::BucketError::NotBuiltIn { place: text.into() };
        return Err(error.to_string());
    }
    let (database, below) = split_address(text);
    let address: BucketAddress = database.parse()?;
    let cache = mirrors_directory()
        .ok_or("no place for a cache: neither XDG_CACHE_HOME nor HOME is set")?;
    let directory = cache.join(&address.to_string()[SCHEME.len()..]);
    let failed = |error| format!("cannot create {}: {error}", directory.display());
    let mut private = DirBuilder::new();
    private.recursive(true).mode(0o700);
    private.create(&directory).map_err(failed)?;
    let mark = directory.join(MARK);
    if !mark.exists() {
        fs::write(&mark, address.to_string()).map_err(failed)?;
    }
    if below.is_empty() {
        return Ok(directory);
    }
    let place = directory.join(below);
    if below.contains(RUN) {
        return Ok(place);
    }
    private.create(&place).map_err(failed)?;
    Ok(place)
}

/// Splits an address into that of the database and a path within it.
fn split_address(text: &str) -> (&str, &str) {
    let is_level = |part: &str| LEVELS.iter().any(|level| part.starts_with(level));
    let mut at = SCHEME.len();
    for part in text.get(at..).unwrap_or_default().split('/') {
        if is_level(part) {
            return (&text[..at - 1], text[at..].trim_end_matches('/'));
        }
        at += part.len() + 1;
    }
    (text, "")
}

fn mirrors_directory() -> Option<PathBuf> {
    Some(cache_directory()?.join(MIRRORS))
}

/// A path in the mirror of a bucket.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct MirrorPath {
    /// The address of the database.
    pub address: BucketAddress,
    /// The directory of the database.
    pub directory: PathBuf,
    /// The path within it, as in keys: without a slash at its ends.
    pub below: String,
}

impl MirrorPath {
    /// Parses a path; `None` if it is no path in a mirror.
    pub fn parse_path(path: &Path) -> Option<Self> {
        let mirrors = mirrors_directory()?;
        path.strip_prefix(&mirrors).ok()?;
        let directories = path.ancestors().take_while(|above| **above != *mirrors);
        for directory in directories {
            let Ok(text) = fs::read_to_string(directory.join(MARK)) else {
                continue;
            };
            let below = path.strip_prefix(directory).ok()?.to_str()?;
            return Some(Self {
                address: text.parse().ok()?,
                directory: directory.to_owned(),
                below: below.to_owned(),
            });
        }
        None
    }
}

/// Returns a text with addresses instead of paths in mirrors.
pub fn with_addresses(text: &str) -> std::borrow::Cow<'_, str> {
    let Some(mirrors) = mirrors_directory() else {
        return text.into();
    };
    let path = format!("{}/", mirrors.display());
    if text.contains(&path) {
        text.replace(&path, SCHEME).into()
    } else {
        text.into()
    }
}

/// Returns the directory in which a daemon keeps what it has not sent yet to the database at this
/// path; `None` for a local database, which is written to directly.
pub fn default_spool(database: &Path) -> Option<PathBuf> {
    let mirror = MirrorPath::parse_path(database)?;
    let data = data_directory(|name| env::var_os(name), env::home_dir());
    let address = mirror.address.to_string();
    let name = address[SCHEME.len()..]
        .replace('%', "%25")
        .replace('/', "%2F");
    Some(data.join("vitalfew-spool").join(name))
}

/// Returns the local directory for what only this machine writes and reads, and for the open epoch
/// of its daemon: this database, or the default spool of one in a bucket.
pub fn written_database(database: &Path) -> PathBuf {
    default_spool(database).unwrap_or_else(|| database.to_owned())
}

/// Makes a directory the spool of a database in a bucket.
///
/// # Errors
/// [`StoreError::Unstorable`] if it has other data, which would be sent and removed.
pub fn create_spool(directory: &Path, database: &Path) -> Result<(), StoreError> {
    let Some(mirror) = MirrorPath::parse_path(database) else {
        return Ok(());
    };
    mark_spool(directory, &mirror.address.to_string())
}

fn mark_spool(directory: &Path, address: &str) -> Result<(), StoreError> {
    fs::create_dir_all(directory).map_err(StoreError::wrap_io("create", directory))?;
    let mark = directory.join(MARK);
    match fs::read_to_string(&mark) {
        Ok(text) if text == address => return Ok(()),
        Ok(other) => {
            let shown = directory.display();
            let what = format!("{shown} is the spool of {other}; --spool DIR names another");
            return Err(StoreError::unstorable(what));
        }
        Err(_) => {}
    }
    if !subdirectories(directory, "epoch=")?.is_empty() {
        let what = format!(
            "{} has epochs, and those of a spool are sent and removed; --spool DIR names another",
            directory.display()
        );
        return Err(StoreError::unstorable(what));
    }
    whole_file::write_whole_file(&mark, address.as_bytes())
        .map_err(StoreError::wrap_io("write", &mark))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_may_name_a_part_of_a_database() {
        let split = |text| split_address(text);
        assert_eq!(split("s3://b/p/q"), ("s3://b/p/q", ""));
        assert_eq!(split("s3://b"), ("s3://b", ""));
        assert_eq!(split("s3://b/day=1/host=h/"), ("s3://b", "day=1/host=h"));
        let (database, below) = split("s3://b/p/day=1/host=h/epoch=e/piece=0");
        assert_eq!(database, "s3://b/p");
        assert_eq!(below, "day=1/host=h/epoch=e/piece=0");
    }

    #[test]
    fn a_spool_is_empty_or_of_the_same_bucket() {
        let directory = tempfile::tempdir().unwrap();
        let spool = directory.path().join("spool");
        mark_spool(&spool, "s3://b/p").unwrap();
        fs::write(spool.join("x"), "").unwrap();
        mark_spool(&spool, "s3://b/p").unwrap();
        let other = mark_spool(&spool, "s3://b/q").unwrap_err().to_string();
        assert!(other.contains("spool of s3://b/p"), "{other}");
        let full = directory.path().join("database");
        fs::create_dir_all(full.join("epoch=1/host=h")).unwrap();
        let full = mark_spool(&full, "s3://b/p").unwrap_err();
        assert!(full.to_string().contains("has epochs"), "{full}");
    }
}
