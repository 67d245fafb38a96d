//! Recordings on disk: one in a file, or many of many hosts in a [`Database`] that other tools can
//! query directly.
//!
//! A recording is a description in JSON and up to seven tables in Parquet; `docs/format.md`
//! describes them. [`write_file`] and [`read_file`] keep one in a file, a zip archive;
//! [`Database::write_recording`] and [`Epoch::read_recording`] in a directory of its own among
//! others. Both appear whole or not at all, whenever a writer dies. [`open_path`] detects the kind
//! of a path, [`merge_recordings`] makes one recording of several. Causal profiles are files of
//! their own ([`append_causal`], [`read_causal`]), and so are traces ([`TraceWriter`],
//! [`TraceReader`]) and their results ([`write_interference`]).
//!
//! A recording is read back as it was written, except for details without meaning: the order of
//! samples and threads, the numbers of names and stacks, and names and stacks that nothing refers
//! to.
//!
//! # Reading is strict, writing is by a library
//!
//! The `parquet` crate writes the tables. A small decoder of this crate reads them (`thrift`,
//! `encoding`, `table_reader`). It supports only what this crate writes: a recording may come from
//! anybody, and a bad one must cause no more than an error (see `encoding`). Memory is bounded by
//! the length of the file: a table may decode to 64 MiB and 256 times its length, and a page to 16
//! MiB.
//!
//! # Effect of the layout
//!
//! Bytes a sample, for an invented minute of compiling (600,000 samples in 178,000 rows, 3,000
//! threads, 59 images, 4,000 symbols): **0.54**, 0.06 of them for the symbols. `cargo run --release
//! -p store --example measure` prints it. One choice changed at a time:
//!
//! | | |
//! |---|---|
//! | `offset` as a dictionary, as it is | 1.16, 0.64 |
//! | `count` as differences, as it is | 0.58, 0.57 |
//! | `weight` written where it equals `count` | 0.63 |
//! | sorted by image, process, offset; process, image, offset | 0.55, 0.56 |
//! | zstd level 1, 3, 19 (not 9) | 0.56, 0.55, 0.53 (twice the time) |
//! | pages of 20,000 rows, not of 1 MiB | 0.55 |
//! | statistics of all columns, not of four | 0.54 (+1.2 KB a file) |
//!
//! The names beside the ids (`event`, `image`, `build_id`), which make each table useful alone, are
//! runs of equal values: 1.0 KB together.
#![forbid(unsafe_code)]

mod accesses;
mod branches;
mod causal;
mod container;
mod database;
mod decode;
mod directories;
mod draft;
mod encode;
mod encoding;
mod envelope;
mod error;
mod file;
#[cfg(test)]
mod hostile;
mod image_columns;
mod interference;
mod manifest;
mod merge;
mod names;
mod open_epoch;
mod parts;
mod range;
mod rare_stacks;
mod remote;
mod remote_place;
mod row_check;
mod sniff;
mod spool;
mod summary;
mod table;
mod table_reader;
mod table_writer;
mod thrift;
mod trace;
mod trace_columns;

pub use causal::{append_causal, causal_path, is_causal, latest_causal, read_causal, save_causal};
pub use database::{Database, Epoch, read_all, read_as_slices};
pub use decode::Wanted;
pub use directories::cache_directory;
pub use error::{ErrorPlace, StoreError, is_left_out, left_out};
pub use file::{WrittenFile, read_file, write_file};
pub use interference::{
    StoredResult, interference_path, is_interference, latest_interference, read_interference,
    write_interference,
};
pub use merge::merge_recordings;
pub use open_epoch::OpenEpoch;
pub use parts::PartId;
pub use range::TimeRange;
pub use remote_place::{
    create_spool, default_spool, local_place, with_addresses, written_database,
};
pub use spool::{UnsentEpochs, send_epochs, store_recording};
pub use summary::RecordingSummary;
pub use trace::{TraceReader, TraceWriter, is_trace};

use profile::Recording;
use std::env;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

/// The kind of data at a path.
#[derive(Debug)]
pub enum Opened {
    /// A recording, from a file or the directory of an epoch.
    Recording(Box<Recording>),
    /// A database.
    Database(Database),
}

/// Opens `path` by its content. A database with a single epoch of one host alone opens as that
/// host's recording.
///
/// # Errors
/// All of [`StoreError`] but [`StoreError::Unstorable`].
pub fn open_path(path: &Path) -> Result<Opened, StoreError> {
    if let Some((remote, below)) = remote::remote_of(path)? {
        return match below.as_str() {
            "" => Database::open(path).map(Opened::Database),
            below => {
                let epochs = database::epochs_at(remote.list_below(below)?);
                if epochs.is_empty() {
                    return Err(StoreError::NotARecording {
                        path: path.to_owned(),
                        looks_like: "a directory without epochs",
                    });
                }
                let recording = read_all(&epochs, Wanted::ALL)?;
                Ok(Opened::Recording(Box::new(recording)))
            }
        };
    }
    if path.is_dir() && !path.join(manifest::NAME).exists() {
        if let [host] = &names::subdirectories(path, "host=")?[..] {
            return read_file(host).map(|recording| Opened::Recording(Box::new(recording)));
        }
        return Database::open(path).map(Opened::Database);
    }
    read_file(path).map(|recording| Opened::Recording(Box::new(recording)))
}

/// Sends a result of `run` to a database in a bucket, and returns its address; `None` for a local
/// database.
///
/// # Errors
/// [`StoreError::Bucket`] if it was not sent.
pub fn send_run(
    database: &Path,
    start_unix_ns: u64,
    json: Vec<u8>,
) -> Result<Option<String>, StoreError> {
    let remote = remote::remote_of(database)?;
    remote
        .map(|(remote, _)| remote.send_run(start_unix_ns, json))
        .transpose()
}

/// Returns the file of a result of `run`, which is fetched if it is in a bucket: the newest one if
/// the path is that of a database there.
///
/// # Errors
/// [`StoreError::Bucket`], [`StoreError::Damaged`], [`StoreError::Io`].
pub fn fetch_run(path: &Path) -> Result<PathBuf, StoreError> {
    match remote::remote_of(path)? {
        Some((remote, below)) => remote.fetch_run(&below),
        None => Ok(path.to_owned()),
    }
}

/// The database that the user has named.
static NAMED_DATABASE: OnceLock<PathBuf> = OnceLock::new();

/// Makes this the default database of the process. Only the first call counts.
pub fn name_database(path: &Path) {
    NAMED_DATABASE.get_or_init(|| path.to_owned());
}

/// Returns the database that the user has named.
pub fn named_database() -> Option<&'static Path> {
    NAMED_DATABASE.get().map(PathBuf::as_path)
}

/// Returns the default database: the named one, else `$VITALFEW_DB`, else
/// `$XDG_DATA_HOME/vitalfew`, else `~/.local/share/vitalfew`.
pub fn default_database() -> PathBuf {
    let named = named_database().map(Path::to_owned);
    named.unwrap_or_else(|| {
        let path = database_in(|name| env::var_os(name), env::home_dir());
        // Commands have checked it.
        local_place(&path).unwrap_or(path)
    })
}

/// Checks that the default database, if it is in a bucket, can be used. Sends nothing.
///
/// # Errors
/// A sentence.
pub fn check_default_database() -> Result<(), String> {
    let path = database_in(|name| env::var_os(name), env::home_dir());
    let checked = local_place(&path).map(drop);
    checked.map_err(|why| format!("VITALFEW_DB: {why}"))
}

fn database_in(var: impl Fn(&str) -> Option<OsString>, home: Option<PathBuf>) -> PathBuf {
    let named = var("VITALFEW_DB").map(PathBuf::from);
    if let Some(path) = named.filter(|path| !path.as_os_str().is_empty()) {
        return path;
    }
    directories::data_directory(var, home).join("vitalfew")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_default_database_follows_the_environment() {
        let at = |db: &str, xdg: &str| {
            let var = |name: &str| match name {
                "VITALFEW_DB" => Some(db.into()),
                "XDG_DATA_HOME" => Some(xdg.into()),
                _ => None,
            };
            database_in(var, Some("/home/u".into()))
        };
        assert_eq!(at("/db", "/data"), Path::new("/db"));
        assert_eq!(at("", "/data"), Path::new("/data/vitalfew"));
        assert_eq!(at("", "data"), Path::new("/home/u/.local/share/vitalfew"));
        let nowhere = database_in(|_| None, None);
        assert_eq!(nowhere, Path::new("/.local/share/vitalfew"));
    }
}
