//! Tables of files: read from disk, or compiled and stored there.

use super::disk::TableFiles;
use profile::BuildId;
use std::fs::File;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};
use unwind::{CompactTable, ModuleData};

/// File locked by the process that makes tables between recordings.
const LOCK: &str = "making";

/// A file whose table is wanted.
pub(super) struct TableSource<'a> {
    pub name: &'a str,
    pub file: &'a File,
    /// Without a build-id, the table cannot be kept.
    pub build_id: Option<&'a BuildId>,
}

/// Result of the work on a table.
pub(super) enum MadeTable {
    Made(CompactTable),
    /// The file has no unwind information, as generated code in a file.
    Absent,
    /// There was no time to make it. A table is made whole or not at all.
    Unfinished,
}

impl TableSource<'_> {
    /// Returns the table from disk; if it is not there, makes it while `go_on` agrees, and stores
    /// it.
    pub fn find_or_make(
        &self,
        files: Option<&TableFiles>,
        go_on: &dyn Fn() -> bool,
    ) -> Result<MadeTable, unwind::Error> {
        let size = self.file.metadata().map_or(0, |data| data.len());
        let kept = files.zip(self.build_id);
        if let Some((files, build_id)) = kept
            && let Some(table) = files.read_table(build_id.as_bytes(), size)
        {
            return Ok(MadeTable::Made(table));
        }
        let Ok(module) = ModuleData::from_file(self.name, self.file) else {
            return Ok(MadeTable::Absent);
        };
        let Some(table) = CompactTable::compile_while(self.name, &module, go_on)? else {
            return Ok(MadeTable::Unfinished);
        };
        if let Some((files, build_id)) = kept {
            files.write_table(build_id.as_bytes(), size, &table);
        }
        Ok(MadeTable::Made(table))
    }

    /// Returns whether the table could be on disk and is not.
    pub fn is_missing(&self, files: Option<&TableFiles>) -> bool {
        let size = self.file.metadata().map_or(0, |data| data.len());
        let kept = files.zip(self.build_id);
        kept.is_some_and(|(files, id)| files.size_of(id.as_bytes(), size).is_none())
    }
}

/// Makes the tables of these files that `directory` lacks, for the next recording, at the lowest
/// priority and for at most `longest`. Does nothing while another process does so, and ends when
/// the directory is gone.
pub fn make_tables(directory: &Path, paths: &[PathBuf], longest: Duration) {
    let lock = File::create(directory.join(LOCK));
    let Ok(lock) = lock else { return };
    if lock.try_lock().is_err() {
        return;
    }
    yield_to_all();
    let files = TableFiles::new(directory);
    let end = Instant::now() + longest;
    let go_on = || Instant::now() < end && directory.is_dir();
    for path in paths {
        let Ok(file) = File::open(path) else { continue };
        let build_id = symbols::build_id_of_file(path).ok().flatten();
        let source = TableSource {
            name: &path.to_string_lossy(),
            file: &file,
            build_id: build_id.as_ref(),
        };
        if source.is_missing(Some(&files)) {
            // The next recording that meets the file reports a problem with its tables.
            let _ = source.find_or_make(Some(&files), &go_on);
        }
    }
}

/// Gives this process the lowest priority.
fn yield_to_all() {
    let nothing = libc::sched_param { sched_priority: 0 };
    // SAFETY: system calls about this process only; the kernel reads the structure.
    unsafe {
        libc::setpriority(libc::PRIO_PROCESS, 0, 19);
        libc::sched_setscheduler(0, libc::SCHED_IDLE, &raw const nothing);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tables_are_made_whole_or_not_at_all() {
        let directory = tempfile::tempdir().unwrap();
        let files = TableFiles::new(directory.path());
        let path = std::env::current_exe().unwrap();
        let file = File::open(&path).unwrap();
        let build_id = BuildId::new(&[1, 2]).unwrap();
        let source = TableSource {
            name: "this program",
            file: &file,
            build_id: Some(&build_id),
        };
        let made = source.find_or_make(Some(&files), &|| false);
        assert!(matches!(made, Ok(MadeTable::Unfinished)));
        assert!(source.is_missing(Some(&files)));
        let without = TableSource {
            build_id: None,
            ..source
        };
        assert!(!without.is_missing(Some(&files)), "it could not be kept");
        let made = source.find_or_make(Some(&files), &|| true);
        assert!(matches!(made, Ok(MadeTable::Made(_))));
        assert!(!source.is_missing(Some(&files)));
    }

    #[test]
    fn one_process_makes_tables() {
        let directory = tempfile::tempdir().unwrap();
        let files = TableFiles::new(directory.path());
        let path = std::env::current_exe().unwrap();
        let (file, id) = (File::open(&path).unwrap(), symbols::build_id_of_file(&path));
        let id = id.unwrap();
        let source = TableSource {
            name: "this program",
            file: &file,
            build_id: id.as_ref(),
        };
        let other = File::create(directory.path().join(LOCK)).unwrap();
        other.lock().unwrap();
        // Long enough not to end at once.
        let longest = Duration::from_secs(600);
        make_tables(directory.path(), std::slice::from_ref(&path), longest);
        assert!(source.is_missing(Some(&files)));
        drop(other);
        make_tables(directory.path(), std::slice::from_ref(&path), longest);
        assert!(!source.is_missing(Some(&files)));
        // No directory is created anew.
        let gone = directory.path().join("gone");
        make_tables(&gone, &[path], longest);
        assert!(!gone.exists());
    }
}
