//! Files that appear at their path whole or not at all.
//!
//! A [`WholeFile`] is written under another name in the directory of its path, and renamed when it
//! is complete. A reader of the path finds the former file or the new one. A writer that fails or
//! is dropped leaves nothing behind.
//!
//! A path that leads to a device or a pipe (`/dev/stdout`) is written to directly: a rename would
//! replace the device.
#![forbid(unsafe_code)]

use std::fs::{self, File, Permissions};
use std::io::{self, Write};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use tempfile::NamedTempFile;

/// Name of an unfinished file: the start and the end, with random letters between them.
const UNFINISHED: (&str, &str) = (".vitalfew-", ".tmp");

/// A file that is being written and does not stand at its path yet.
#[derive(Debug)]
pub struct WholeFile {
    path: PathBuf,
    output: Output,
}

/// Destination of the bytes until the file is complete.
#[derive(Debug)]
enum Output {
    /// A file beside the path.
    Unfinished(NamedTempFile),
    /// The device or pipe at the path.
    Device(File),
}

impl WholeFile {
    /// Begins the file that will stand at `path`. Its mode is that of other new files.
    ///
    /// # Errors
    /// If nothing can be written in the directory of the path, which must be there.
    pub fn create(path: &Path) -> io::Result<Self> {
        Self::with_mode(path, 0o666)
    }

    /// Begins a file that nobody but its owner can read.
    ///
    /// # Errors
    /// As [`WholeFile::create`].
    pub fn create_private(path: &Path) -> io::Result<Self> {
        Self::with_mode(path, 0o600)
    }

    fn with_mode(path: &Path, mode: u32) -> io::Result<Self> {
        // Through a symbolic link to the file: a rename would replace the link.
        let path = fs::canonicalize(path).unwrap_or_else(|_| path.to_owned());
        let output = match fs::metadata(&path) {
            Ok(present) if !present.is_file() => {
                Output::Device(File::options().write(true).open(&path)?)
            }
            // In the same directory: a rename is atomic only within one file system.
            _ => Output::Unfinished(
                tempfile::Builder::new()
                    .prefix(UNFINISHED.0)
                    .suffix(UNFINISHED.1)
                    .permissions(Permissions::from_mode(mode))
                    .tempfile_in(directory_of(&path))?,
            ),
        };
        Ok(Self { path, output })
    }

    /// Returns the file to write to.
    pub fn file_mut(&mut self) -> &mut File {
        match &mut self.output {
            Output::Unfinished(file) => file.as_file_mut(),
            Output::Device(file) => file,
        }
    }

    /// Returns where the bytes are until the file is complete.
    pub fn unfinished_path(&self) -> &Path {
        match &self.output {
            Output::Unfinished(file) => file.path(),
            Output::Device(_) => &self.path,
        }
    }

    /// Puts the file at its path, where it stays after a crash of the machine, too.
    ///
    /// # Errors
    /// If the disk is full, or the file cannot be renamed.
    pub fn commit(self) -> io::Result<()> {
        let Output::Unfinished(file) = self.output else {
            return Ok(());
        };
        // Before the rename: after a crash the name must not lead to bytes that never reached the
        // disk.
        file.as_file().sync_all()?;
        file.persist(&self.path).map_err(|error| error.error)?;
        // The rename is safe only when the directory is.
        File::open(directory_of(&self.path))?.sync_all()
    }

    /// Puts a file at its path without syncing: a crash of the machine may lose it. For files that
    /// can be made again and whose readers detect damage.
    ///
    /// # Errors
    /// If the file cannot be renamed.
    pub fn commit_cached(self) -> io::Result<()> {
        if let Output::Unfinished(file) = self.output {
            file.persist(&self.path).map_err(|error| error.error)?;
        }
        Ok(())
    }
}

impl Write for WholeFile {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.file_mut().write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.file_mut().flush()
    }
}

/// Writes a whole file.
///
/// # Errors
/// As [`WholeFile::create`] and [`WholeFile::commit`].
pub fn write_whole_file(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let mut file = WholeFile::create(path)?;
    file.write_all(bytes)?;
    file.commit()
}

fn directory_of(path: &Path) -> &Path {
    match path.parent() {
        Some(parent) if parent != Path::new("") => parent,
        _ => Path::new("."),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::{FileTypeExt, symlink};

    fn names(directory: &Path) -> Vec<String> {
        let entries = fs::read_dir(directory).unwrap();
        let name = |entry: io::Result<fs::DirEntry>| entry.unwrap().file_name();
        let mut names: Vec<String> = entries
            .map(|entry| name(entry).into_string().unwrap())
            .collect();
        names.sort();
        names
    }

    #[test]
    fn the_former_file_stands_until_the_new_one_is_complete() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("result");
        write_whole_file(&path, b"former").unwrap();
        let mut file = WholeFile::create(&path).unwrap();
        file.write_all(b"new").unwrap();
        assert_eq!(fs::read(&path).unwrap(), b"former");
        file.commit().unwrap();
        assert_eq!(fs::read(&path).unwrap(), b"new");
        assert_eq!(names(directory.path()), ["result"]);
    }

    #[test]
    fn a_writer_that_gives_up_leaves_nothing() {
        let directory = tempfile::tempdir().unwrap();
        let mut file = WholeFile::create(&directory.path().join("result")).unwrap();
        file.write_all(b"half").unwrap();
        assert!(file.unfinished_path().exists());
        drop(file);
        assert!(names(directory.path()).is_empty());
        assert!(WholeFile::create(&directory.path().join("none/result")).is_err());
    }

    #[test]
    fn a_link_and_a_pipe_stay_what_they_are() {
        let directory = tempfile::tempdir().unwrap();
        let (path, link) = (directory.path().join("file"), directory.path().join("link"));
        fs::write(&path, "former").unwrap();
        symlink(&path, &link).unwrap();
        write_whole_file(&link, b"new").unwrap();
        assert_eq!(fs::read(&path).unwrap(), b"new");
        assert!(fs::symlink_metadata(&link).unwrap().is_symlink());
        write_whole_file(Path::new("/dev/null"), b"anything").unwrap();
        let null = fs::metadata("/dev/null").unwrap();
        assert!(null.file_type().is_char_device());
    }

    #[test]
    fn only_the_owner_reads_a_private_file() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("cache");
        let mut file = WholeFile::create_private(&path).unwrap();
        file.write_all(b"tree").unwrap();
        file.commit_cached().unwrap();
        let mode = fs::metadata(&path).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
        assert_eq!(fs::read(&path).unwrap(), b"tree");
    }
}
