//! Directories of the user, by the XDG Base Directory Specification.

use std::env;
use std::ffi::OsString;
use std::path::PathBuf;

/// Returns the directory of the user's data.
pub(crate) fn data_directory(
    var: impl Fn(&str) -> Option<OsString>,
    home: Option<PathBuf>,
) -> PathBuf {
    // The specification of XDG_DATA_HOME demands that a relative path is ignored.
    let named = var("XDG_DATA_HOME").map(PathBuf::from);
    named
        .filter(|path| path.is_absolute())
        .unwrap_or_else(|| home.unwrap_or_else(|| "/".into()).join(".local/share"))
}

/// Returns the directory of data that take time to get, and can be got again:
/// `$XDG_CACHE_HOME/vitalfew`, else `~/.cache/vitalfew`; `None` if neither exists.
pub fn cache_directory() -> Option<PathBuf> {
    let absolute = |path: &PathBuf| path.is_absolute();
    let base = env::var_os("XDG_CACHE_HOME")
        .map(PathBuf::from)
        .filter(absolute);
    let base = base.or_else(|| Some(env::home_dir().filter(absolute)?.join(".cache")))?;
    Some(base.join("vitalfew"))
}
