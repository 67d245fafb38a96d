//! Cache of data that take time to find out, and can be found out again.

use std::path::PathBuf;

/// The directory of such files: `$XDG_CACHE_HOME/vitalfew`, else `~/.cache/vitalfew`; `None` if there is no place
/// for it.
pub fn cache_directory() -> Option<PathBuf> {
    let absolute = |path: &PathBuf| path.is_absolute();
    let base = std::env::var_os("XDG_CACHE_HOME")
        .map(PathBuf::from)
        .filter(absolute);
    let base = base.or_else(|| Some(std::env::home_dir().filter(absolute)?.join(".cache")))?;
    Some(base.join("vitalfew"))
}
