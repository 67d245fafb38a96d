//! Recordings on disk.
#![forbid(unsafe_code)]

mod container;
mod database;
mod decode;
mod encode;
mod encoding;
mod error;
mod file;
mod manifest;
mod sniff;
mod table;
mod table_reader;
mod table_writer;
mod thrift;

pub use database::{Database, Epoch, Summary};
pub use error::{Error, Place};
pub use file::{Written, read_file, write_file};

use profile::Recording;
use std::env;
use std::ffi::OsString;
use std::path::{Path, PathBuf};

/// What there is at a path.
#[derive(Debug)]
pub enum Opened {
    /// A recording: it was a file, or the directory of an epoch.
    Recording(Box<Recording>),
    /// A database.
    Database(Database),
}

/// Opens what there is at `path`, which is found out from its content.
///
/// # Errors
/// All of [`Error`] but [`Error::Unstorable`].
pub fn open(path: &Path) -> Result<Opened, Error> {
    if path.is_dir() && !path.join(manifest::NAME).exists() {
        return Database::open(path).map(Opened::Database);
    }
    read_file(path).map(|recording| Opened::Recording(Box::new(recording)))
}

/// Where the database is unless somebody says otherwise: `$VITALFEW_DB`, else
/// `$XDG_DATA_HOME/vitalfew`, else `~/.local/share/vitalfew`.
pub fn default_database() -> PathBuf {
    database_in(|name| env::var_os(name), env::home_dir())
}

fn database_in(var: impl Fn(&str) -> Option<OsString>, home: Option<PathBuf>) -> PathBuf {
    let path = |name| var(name).map(PathBuf::from);
    if let Some(path) = path("VITALFEW_DB").filter(|path| !path.as_os_str().is_empty()) {
        return path;
    }
    // The specification of XDG_DATA_HOME says to ignore a relative one.
    path("XDG_DATA_HOME")
        .filter(|path| path.is_absolute())
        .unwrap_or_else(|| home.unwrap_or_else(|| "/".into()).join(".local/share"))
        .join("vitalfew")
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
