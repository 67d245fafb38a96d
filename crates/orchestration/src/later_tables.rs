//! Unwind tables that a recording had no time for. They are made after it.

use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// Returns the directory of unwind tables.
pub fn table_directory() -> Option<PathBuf> {
    store::cache_directory().map(|cache| cache.join("unwind"))
}

/// Starts a process of low priority that makes the tables of these files and outlives this process.
/// Returns whether it was started. Without it, the next recording begins the tables again.
pub fn make_tables_later(files: &[PathBuf]) -> bool {
    let Some(directory) = table_directory().filter(|_| !files.is_empty()) else {
        return false;
    };
    let start = || {
        std::fs::create_dir_all(directory)?;
        Command::new(std::env::current_exe()?)
            .args(["generate", "unwind-tables"])
            .args(files)
            .current_dir("/")
            .process_group(0)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
    };
    let Ok(mut maker) = start() else { return false };
    // The thread collects the process: a long-running caller, such as `top`, must not leave a
    // zombie.
    std::thread::spawn(move || maker.wait());
    true
}

/// Returns a note that the tables of these files are being made.
pub fn making_note(files: &[PathBuf]) -> String {
    let name = |path: &PathBuf| {
        let name = path.file_name().map(Path::new);
        name.unwrap_or(path).display().to_string()
    };
    let first = files.first().map(name).unwrap_or_default();
    let more = match files.len() {
        0 | 1 => String::new(),
        all => format!(" and {} other files", all - 1),
    };
    format!(
        "there was no time for the unwind tables of {first}{more}: they are being made in the background, for the next recording"
    )
}
