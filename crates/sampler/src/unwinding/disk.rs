//! Compiled tables on disk, by build-id. A file is written whole or not at all, and a damaged one
//! is made anew.

use super::recent::RecentFiles;
use std::fs;
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};
use std::time::SystemTime;
use unwind::CompactTable;
use whole_file::WholeFile;

/// Maximum size of all files together, in bytes.
const MOST_BYTES: u64 = 512 << 20;

/// File with the names of the tables used last, and the maximum number of bytes read of it.
const RECENT: &str = "recent";
const LONGEST_RECENT: u64 = 4 << 20;

/// A directory of tables.
pub(crate) struct TableFiles {
    directory: PathBuf,
}

impl TableFiles {
    pub fn new(directory: &Path) -> Self {
        Self {
            directory: directory.to_owned(),
        }
    }

    /// Returns the path of a table. A stripped copy has the build-id of the original, but not its
    /// `.debug_frame`: the size tells them apart.
    fn table_path(&self, build_id: &[u8], size: u64) -> PathBuf {
        let digits: String = build_id.iter().map(|byte| format!("{byte:02x}")).collect();
        self.directory.join(format!("{digits}-{size:x}.rows"))
    }

    /// Returns the size of a table's file, if it exists.
    pub fn size_of(&self, build_id: &[u8], size: u64) -> Option<u64> {
        Some(fs::metadata(self.table_path(build_id, size)).ok()?.len())
    }

    /// Reads the programs and libraries whose tables were used, by target.
    pub fn recently_used(&self) -> RecentFiles {
        let mut text = String::new();
        let file = fs::File::open(self.directory.join(RECENT));
        let read = file.and_then(|file| file.take(LONGEST_RECENT).read_to_string(&mut text));
        read.map_or_else(|_| RecentFiles::default(), |_| RecentFiles::parse(&text))
    }

    /// Remembers the files that a target used.
    pub fn remember_used(&self, target: &str, used: Vec<PathBuf>) {
        let mut recent = self.recently_used();
        let before = recent.to_text();
        recent.add_used(target, used);
        let text = recent.to_text();
        if text != before {
            self.write_whole(&self.directory.join(RECENT), text.as_bytes());
        }
    }

    /// Reads a table; `None` if it does not exist, is damaged, or is of another version.
    pub fn read_table(&self, build_id: &[u8], size: u64) -> Option<CompactTable> {
        let path = self.table_path(build_id, size);
        let bytes = fs::read(&path).ok()?;
        let (table, sum) = bytes.split_last_chunk::<8>()?;
        if checksum(table).to_le_bytes() != *sum {
            return None;
        }
        let table = CompactTable::from_bytes(table)?;
        // Used tables stay: the oldest is removed first.
        let _ = fs::File::open(&path).and_then(|file| file.set_modified(SystemTime::now()));
        Some(table)
    }

    /// Writes a table. Without the right to write, the next recording makes it again.
    pub fn write_table(&self, build_id: &[u8], size: u64, table: &CompactTable) {
        let mut bytes = table.to_bytes();
        bytes.extend(checksum(&bytes).to_le_bytes());
        self.make_room(bytes.len() as u64);
        self.write_whole(&self.table_path(build_id, size), &bytes);
    }

    fn write_whole(&self, path: &Path, bytes: &[u8]) {
        let write = || {
            fs::create_dir_all(&self.directory)?;
            let mut file = WholeFile::create(path)?;
            file.write_all(bytes)?;
            file.commit_cached()
        };
        // On failure the next recording compiles the table again.
        let _: io::Result<()> = write();
    }

    fn make_room(&self, size: u64) {
        let entries = fs::read_dir(&self.directory)
            .into_iter()
            .flatten()
            .flatten();
        let mut files: Vec<(SystemTime, u64, PathBuf)> = entries
            .filter_map(|entry| {
                let data = entry.metadata().ok()?;
                Some((data.modified().ok()?, data.len(), entry.path()))
            })
            .collect();
        let mut total = size + files.iter().map(|file| file.1).sum::<u64>();
        files.sort_unstable();
        for (_, size, path) in files {
            if total <= MOST_BYTES {
                return;
            }
            let _ = fs::remove_file(path);
            total -= size;
        }
    }
}

/// Returns the FNV-1a hash by words, against damage, not against attackers.
fn checksum(bytes: &[u8]) -> u64 {
    let mix = |hash: u64, word: u64| (hash ^ word).wrapping_mul(0x100_0000_01b3).rotate_left(23);
    let (words, rest) = bytes.as_chunks::<8>();
    let hash = words.iter().fold(bytes.len() as u64, |hash, word| {
        mix(hash, u64::from_le_bytes(*word))
    });
    rest.iter()
        .fold(hash, |hash, byte| mix(hash, u64::from(*byte)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use unwind::ModuleData;

    #[test]
    fn what_was_used_is_remembered() {
        let directory = tempfile::tempdir().unwrap();
        let files = TableFiles::new(&directory.path().join("rows"));
        assert_eq!(files.recently_used(), RecentFiles::default());
        files.remember_used("make", vec![PathBuf::from("/a")]);
        files.remember_used("make", vec![PathBuf::from("/b")]);
        let paths = ["/b", "/a"].map(PathBuf::from);
        assert_eq!(files.recently_used().of_target("make"), paths);
    }

    #[test]
    fn a_damaged_file_is_no_table() {
        let directory = tempfile::tempdir().unwrap();
        let files = TableFiles::new(&directory.path().join("rows"));
        let module = ModuleData::open(&std::env::current_exe().unwrap()).unwrap();
        let table = CompactTable::compile("this program", &module).unwrap();
        assert_eq!(files.read_table(&[1, 2], 9), None);
        files.write_table(&[1, 2], 9, &table);
        assert_eq!(files.read_table(&[1, 2], 9), Some(table.clone()));
        assert_eq!(files.read_table(&[1, 2], 8), None);
        let path = files.table_path(&[1, 2], 9);
        let whole = fs::read(&path).unwrap();
        for at in [0, 9, 21, whole.len() / 2, whole.len() - 1] {
            let mut bytes = whole.clone();
            bytes[at] ^= 4;
            fs::write(&path, &bytes).unwrap();
            assert_eq!(files.read_table(&[1, 2], 9), None, "byte {at}");
        }
        fs::write(&path, &whole[..whole.len() - 1]).unwrap();
        assert_eq!(files.read_table(&[1, 2], 9), None);
        files.write_table(&[1, 2], 9, &table);
        assert_eq!(files.read_table(&[1, 2], 9), Some(table));
    }
}
