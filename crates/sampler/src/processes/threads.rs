//! Threads of a process.

use std::fs;

/// The threads of a process; none where they cannot be listed, as of one that is gone.
pub fn thread_ids(pid: u32) -> Vec<u32> {
    numbers_in(&format!("/proc/{pid}/task")).collect()
}

/// The threads of a process; the process itself where they cannot be listed.
pub fn threads_or_process(pid: u32) -> Vec<u32> {
    let ids = thread_ids(pid);
    match ids.is_empty() {
        true => vec![pid],
        false => ids,
    }
}

/// Names in a directory that are numbers.
pub(crate) fn numbers_in(directory: &str) -> impl Iterator<Item = u32> + use<> {
    let entries = fs::read_dir(directory).into_iter().flatten().flatten();
    entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok())
}
