//! Threads of a process.

use crate::Error;
use std::{fs, io};

/// Returns the threads of a process; none if they cannot be listed, as after its end.
pub fn thread_ids(pid: u32) -> Vec<u32> {
    numbers_in(&format!("/proc/{pid}/task")).collect()
}

/// Returns the threads of a process; the process itself if they cannot be listed.
pub fn threads_or_process(pid: u32) -> Vec<u32> {
    let ids = thread_ids(pid);
    if ids.is_empty() { vec![pid] } else { ids }
}

/// Returns the path in `/proc` of a file about the memory of a process (`maps`, `mem`, `exe`,
/// `root`, `map_files/…`). If the first thread has ended and others run on, the kernel shows these
/// files only under such a thread's number.
pub fn process_file(pid: u32, name: &str) -> String {
    let has_no_memory = |id: u32| {
        let program = fs::read_link(format!("/proc/{id}/exe"));
        program.is_err_and(|error| error.kind() == io::ErrorKind::NotFound)
    };
    let mut id = pid;
    if has_no_memory(pid) {
        let mut threads = thread_ids(pid).into_iter();
        id = threads.find(|tid| !has_no_memory(*tid)).unwrap_or(pid);
    }
    format!("/proc/{id}/{name}")
}

/// Returns the name of a process: that of its first thread, which stays after the thread's end.
pub(crate) fn process_name(pid: u32) -> Option<String> {
    let name = fs::read(format!("/proc/{pid}/comm")).ok()?;
    Some(String::from_utf8_lossy(&name).trim_end().to_owned())
}

/// Returns whether a process whose first thread has ended has others that run on.
pub fn has_running_threads(pid: u32) -> bool {
    thread_ids(pid).into_iter().any(|tid| tid != pid)
}

/// Returns the process of a thread id.
///
/// # Errors
/// [`Error::NoSuchProcess`].
pub fn process_of_thread(id: u32) -> Result<u32, Error> {
    let status = fs::read_to_string(format!("/proc/{id}/status"));
    let status = status.map_err(|_| Error::NoSuchProcess { pid: id })?;
    let process = status.lines().find_map(|line| line.strip_prefix("Tgid:"));
    Ok(process
        .and_then(|text| text.trim().parse().ok())
        .unwrap_or(id))
}

/// Returns the names in a directory that are numbers.
pub(crate) fn numbers_in(directory: &str) -> impl Iterator<Item = u32> + use<> {
    let entries = fs::read_dir(directory).into_iter().flatten().flatten();
    entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_of_a_process_are_those_of_its_first_thread_while_that_runs() {
        let own = std::process::id();
        assert_eq!(process_file(own, "maps"), format!("/proc/{own}/maps"));
        let ended = u32::MAX;
        assert_eq!(process_file(ended, "exe"), format!("/proc/{ended}/exe"));
    }

    #[test]
    fn the_process_of_a_thread_is_found() {
        let own = std::process::id();
        let thread = std::thread::spawn(|| {
            // SAFETY: a system call without pointers.
            let id = unsafe { libc::syscall(libc::SYS_gettid) } as u32;
            (id, process_of_thread(id))
        });
        let (id, process) = thread.join().unwrap();
        assert_ne!(id, own);
        assert_eq!(process.unwrap(), own);
        let none = process_of_thread(u32::MAX);
        assert!(matches!(none, Err(Error::NoSuchProcess { .. })));
    }
}
