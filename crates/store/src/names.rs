//! Names of directories in a database.

use crate::error::StoreError;
use std::ffi::OsString;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

/// Directory in which epochs are written before they are renamed into place: on the same file
/// system, and skipped by readers.
pub(crate) const WRITING: &str = ".writing";
/// Prefix of an epoch's name while it is removed from a full disk.
pub(crate) const REMOVED: &str = ".removed-";
/// Prefix of the directories of open epochs.
pub(crate) const PREFIX: &str = "open=";

/// Prefixes of the directories above and of a piece in a bucket, or in a copy of it.
pub(crate) const LEVELS: [&str; 4] = ["day=", "host=", "epoch=", "piece="];

/// Prefix of the directories of results of `run` in a bucket, which are below their days.
pub(crate) const RUN: &str = "run=";

/// Returns the name of an epoch's directory with its host: that of the epoch itself, or two levels
/// above a piece.
pub(crate) fn host_of(path: &Path) -> OsString {
    let closed = closed_path(path);
    let is_piece = name_at(&closed, 0)
        .as_encoded_bytes()
        .starts_with(b"piece=");
    name_at(&closed, if is_piece { 2 } else { 0 })
}

/// Returns the key by which epochs are sorted: by time, then host.
pub(crate) fn epoch_order(path: &Path) -> [OsString; 3] {
    [name_at(path, 1), host_of(path), name_at(path, 0)]
}

/// Returns the name so many levels above a path.
fn name_at(path: &Path, levels: usize) -> OsString {
    let above = path.ancestors().nth(levels).and_then(Path::file_name);
    above.unwrap_or_default().to_owned()
}

/// Returns the path of an epoch after it is closed.
pub(crate) fn closed_path(path: &Path) -> PathBuf {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    match name.strip_prefix(PREFIX) {
        Some(host) => path.with_file_name(format!("host={host}")),
        None => path.to_owned(),
    }
}

/// Returns the subdirectories of `path` whose names begin with `prefix`, by name; none if it is
/// missing.
pub(crate) fn subdirectories(path: &Path, prefix: &str) -> Result<Vec<PathBuf>, StoreError> {
    let entries = match fs::read_dir(path) {
        Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        entries => entries.map_err(StoreError::wrap_io("read", path))?,
    };
    let mut found = Vec::new();
    for entry in entries {
        let entry = entry.map_err(StoreError::wrap_io("read", path))?;
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

/// Returns a date and time of day as text that sorts by time.
pub(crate) fn utc_name(unix_micros: u64) -> String {
    let micros = i64::try_from(unix_micros).unwrap_or(i64::MAX);
    let time = jiff::Timestamp::from_microsecond(micros).unwrap_or(jiff::Timestamp::MAX);
    time.strftime("%Y%m%dT%H%M%S.%6fZ").to_string()
}

/// Returns a host name as a directory name: characters other than letters, digits, `.`, `-` and `_`
/// become `%XX`, as in Hive partitions.
pub(crate) fn encode_name(name: &str) -> String {
    let encode = |byte: u8| match byte {
        b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'.' | b'-' | b'_' => (byte as char).to_string(),
        _ => format!("%{byte:02X}"),
    };
    // Limit of a directory name without `host=`; recording.json has the full name.
    let encoded: String = name.bytes().take(83).map(encode).collect();
    if encoded.is_empty() {
        "unknown".to_owned()
    } else {
        encoded
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_sort_as_text() {
        assert_eq!(utc_name(1_795_230_900_123_456), "20261121T031500.123456Z");
        assert_eq!(utc_name(0), "19700101T000000.000000Z");
        let times = [
            0,
            1,
            999_999,
            1_000_000,
            1_795_230_900_123_456,
            u64::MAX / 1000,
        ];
        assert!(times.map(utc_name).is_sorted());
    }

    #[test]
    fn any_host_name_is_a_directory_name() {
        assert_eq!(encode_name("db-1.example.org"), "db-1.example.org");
        assert_eq!(encode_name("../a b"), "..%2Fa%20b");
        assert_eq!(encode_name(""), "unknown");
        assert!(encode_name(&"ä".repeat(300)).len() <= 250);
    }
}
