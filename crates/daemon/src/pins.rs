//! Finds a database's pinned collectors, and collectors without a reader.

use crate::lease::CollectorClaim;
use sampler::LeftBehind;
use serde::Serialize;
use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};

const PREFIX: &str = "vitalfew-";
/// Suffix of the link to the database, beside the directory of its collectors.
const DATABASE: &str = "-database";

/// Returns the directory for the collectors of this database, or the reason that there is none.
pub(crate) fn pin_directory(database: &Path) -> Result<PathBuf, String> {
    let mounted = sampler::bpf_file_system().map_err(|error| error.to_string())?;
    // Names in a BPF file system have no dots and a bounded length: FNV-1a of the database's path.
    let hash = database
        .as_os_str()
        .as_encoded_bytes()
        .iter()
        .fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
            (hash ^ u64::from(*byte)).wrapping_mul(0x100_0000_01b3)
        });
    let name = format!("{PREFIX}{hash:016x}");
    // Without the link, only the advice about an abandoned collector is poorer.
    let _ = symlink(database, mounted.join(format!("{name}{DATABASE}")));
    Ok(mounted.join(name))
}

/// Removes the link to the database of a directory that no longer exists.
pub(crate) fn remove_stale_mark(directory: &Path) {
    if let (false, Some(name)) = (directory.exists(), directory.file_name()) {
        let name = name.to_string_lossy();
        let _ = fs::remove_file(directory.with_file_name(format!("{name}{DATABASE}")));
    }
}

/// Collectors of one database that no daemon reads.
#[derive(Serialize)]
pub struct Abandoned {
    /// Directory in which they are pinned.
    pub directory: PathBuf,
    /// The database in which the next daemon would store their samples, if known; it may have been
    /// removed.
    pub database: Option<PathBuf>,
    /// Time since the last of them stopped by itself; null if one still samples.
    pub ceased_ago_ns: Option<u64>,
    /// Number of interrupts since they stopped, which are not sampled.
    pub overdue: u64,
    /// Number of samples in them that wait to be stored.
    pub waiting: u64,
}

/// Returns the state of the collectors in a directory: the time since the last one stopped,
/// interrupts since, samples.
fn look_into(directory: &Path) -> (Option<u64>, u64, u64) {
    let collectors = sampler::left_behind(directory).unwrap_or_default();
    let mut left = Vec::new();
    for (_, path) in collectors
        .iter()
        .filter(|(_, path)| sampler::may_count(path))
    {
        // A collector of another version cannot be read.
        let Ok(collector) = LeftBehind::open(path) else {
            return (None, 0, 0);
        };
        left.push(collector);
    }
    let taken = |left: &LeftBehind| left.samples_held().unwrap_or(0);
    let ceased = left.iter().map(|left| left.ceased_ago_ns().unwrap_or(None));
    let ceased: Option<Vec<u64>> = ceased.collect();
    let overdue = |left: &LeftBehind| left.overdue_interrupts().unwrap_or(0);
    (
        ceased.and_then(|ago_ns| ago_ns.into_iter().min()),
        left.iter().map(overdue).sum(),
        left.iter().map(taken).sum(),
    )
}

/// Returns the abandoned collectors of a database, which may have been removed.
pub fn abandoned_of(database: &Path) -> Option<Abandoned> {
    let database = store::written_database(database);
    let found = fs::canonicalize(&database).or_else(|_| std::path::absolute(&database));
    let database = found.ok()?;
    let mut all = abandoned_collectors().into_iter();
    all.find(|found| found.database.as_ref() == Some(&database))
}

/// Returns all abandoned collectors that this user may see.
pub fn abandoned_collectors() -> Vec<Abandoned> {
    let entries = sampler::mounted_bpf_file_system().and_then(|path| fs::read_dir(path).ok());
    let paths = entries.into_iter().flatten().flatten();
    let mut directories: Vec<PathBuf> = paths
        .filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir()))
        .filter(|entry| entry.file_name().to_string_lossy().starts_with(PREFIX))
        .map(|entry| entry.path())
        .collect();
    directories.sort_unstable();
    let counts = |directory: &PathBuf| {
        let collectors = sampler::left_behind(directory).unwrap_or_default();
        collectors.iter().any(|(_, path)| sampler::may_count(path))
    };
    directories.retain(counts);
    let abandoned = directories.into_iter().map(|directory| {
        let name = directory.file_name().unwrap_or_default().to_string_lossy();
        let link = directory.with_file_name(format!("{name}{DATABASE}"));
        let database = fs::read_link(link).ok();
        let (ceased_ago_ns, overdue, waiting) = look_into(&directory);
        Abandoned {
            directory,
            database,
            ceased_ago_ns,
            overdue,
            waiting,
        }
    });
    abandoned
        .filter(|found| !CollectorClaim::is_taken(&found.directory))
        .collect()
}
