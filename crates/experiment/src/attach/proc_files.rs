//! Files in `/proc` about processes and threads.

use crate::Error;
use sampler::process_file;
use std::ffi::OsString;
use std::fs::{self, File};
use std::os::unix::ffi::OsStringExt;
use std::path::PathBuf;

/// A thread's `/proc/PID/task/TID/status`.
pub(super) struct ThreadStatus(String);

impl ThreadStatus {
    /// Reads the file; `None`: the thread has ended.
    pub fn read(pid: u32, tid: u32) -> Option<Self> {
        let text = fs::read_to_string(format!("/proc/{pid}/task/{tid}/status"));
        text.ok().map(Self)
    }

    /// Returns the value of a field.
    pub fn field(&self, name: &str) -> Option<&str> {
        let mut lines = self.0.lines();
        let line = lines.find_map(|line| line.strip_prefix(name)?.strip_prefix(':'));
        line.map(str::trim)
    }

    /// Returns a set of signals, or 0; the lowest bit is signal 1.
    pub fn signals(&self, name: &str) -> u64 {
        let set = self.field(name);
        set.and_then(|set| u64::from_str_radix(set, 16).ok())
            .unwrap_or(0)
    }

    /// Returns whether an unblocked signal is pending.
    pub fn is_signalled(&self) -> bool {
        let pending = self.signals("SigPnd") | self.signals("ShdPnd");
        pending & !self.signals("SigBlk") != 0
    }
}

/// Returns the number and arguments of the system call that a thread waits in.
pub(super) fn awaited_call(pid: u32, tid: u32) -> Option<(i64, [u64; 6])> {
    let text = fs::read_to_string(format!("/proc/{pid}/task/{tid}/syscall")).ok()?;
    let mut words = text.split_whitespace();
    let number: i64 = words.next()?.parse().ok()?;
    let mut arguments = [0; 6];
    for argument in &mut arguments {
        let word = words.next()?.trim_start_matches("0x");
        *argument = u64::from_str_radix(word, 16).ok()?;
    }
    Some((number, arguments))
}

/// Returns the words of a process's command line, or its name if it has none.
pub(crate) fn command_of(pid: u32) -> Vec<OsString> {
    let mut bytes = fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
    // A program that overwrites its command line pads it.
    while bytes.pop_if(|byte| matches!(byte, 0 | b' ')).is_some() {}
    let words = bytes.split(|byte| *byte == 0);
    let words: Vec<OsString> = words
        .map(|word| OsString::from_vec(word.to_vec()))
        .collect();
    if words.iter().any(|word| !word.is_empty()) {
        return words;
    }
    let name = fs::read_to_string(format!("/proc/{pid}/comm")).unwrap_or_default();
    vec![name.trim().into()]
}

/// Returns a path by which a mapped file of a process can be read, even one that was replaced.
pub(crate) fn mapped_file(pid: u32, start: u64, end: u64, path: &str) -> PathBuf {
    let direct = PathBuf::from(process_file(pid, &format!("map_files/{start:x}-{end:x}")));
    if direct.exists() {
        return direct;
    }
    process_file(pid, &format!("root{path}")).into()
}

/// Opens a file of the target by its descriptor there.
pub(super) fn open_descriptor(pid: u32, descriptor: u64) -> Result<File, Error> {
    let path = format!("/proc/{pid}/fd/{descriptor}");
    let file = File::options().read(true).write(true).open(path);
    file.map_err(Error::wrap_io(format!("sharing memory with process {pid}")))
}
