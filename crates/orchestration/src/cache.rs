//! Cache of data that take time to compute, and that can be computed again.

use std::path::PathBuf;

/// Returns the cache directory: `$XDG_CACHE_HOME/vitalfew`, else `~/.cache/vitalfew`; `None` if
/// neither exists.
pub fn cache_directory() -> Option<PathBuf> {
    let absolute = |path: &PathBuf| path.is_absolute();
    let base = std::env::var_os("XDG_CACHE_HOME")
        .map(PathBuf::from)
        .filter(absolute);
    let base = base.or_else(|| Some(std::env::home_dir().filter(absolute)?.join(".cache")))?;
    Some(base.join("vitalfew"))
}
