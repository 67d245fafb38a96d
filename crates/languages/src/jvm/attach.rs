//! The protocol for commands to a running JVM: a file asks it to listen, a signal makes it look for
//! the file, and a socket takes the command.

use super::error::AttachError;
use super::process::JvmProcess;
use std::fs::{File, OpenOptions};
use std::io::{self, Read, Write};
use std::os::unix::fs::{FileTypeExt, MetadataExt, OpenOptionsExt, fchown};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// Version 1 of the protocol, the command, and its three arguments.
const ORDER: &[u8] = b"1\0jcmd\0Compiler.perfmap\0\0\0";
/// Interval between two checks whether the JVM listens.
const LOOK: Duration = Duration::from_millis(5);
/// Maximum number of bytes read of an answer.
const MOST_ANSWER: u64 = 4096;

/// Makes the JVM of a process write its perf map, and waits for it until `deadline`.
///
/// # Errors
/// If it cannot, or must not be asked: see [`AttachError`]. The JVM is then unaffected.
pub fn write_perf_map(process: &JvmProcess, deadline: Instant) -> Result<(), AttachError> {
    let socket = process.temporary(&format!(".java_pid{}", process.own_pid));
    if !is_own_socket(&socket, process)? {
        if let Some(objection) = process.objection() {
            return Err(objection);
        }
        let _asking = Request::place(process)?;
        send_quit(process.pid)?;
        while !is_own_socket(&socket, process)? {
            if Instant::now() >= deadline {
                return Err(AttachError::Silent);
            }
            std::thread::sleep(LOOK);
        }
    }
    give_order(&socket, deadline)
}

/// Returns whether the JVM listens there.
fn is_own_socket(path: &Path, process: &JvmProcess) -> Result<bool, AttachError> {
    match path.symlink_metadata() {
        Ok(data) if data.file_type().is_socket() && data.uid() == process.user => Ok(true),
        Ok(_) => Err(AttachError::Foreign),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
        Err(error) => Err(error.into()),
    }
}

fn give_order(socket: &Path, deadline: Instant) -> Result<(), AttachError> {
    let mut stream = UnixStream::connect(socket)?;
    let left = deadline.saturating_duration_since(Instant::now());
    let left = left.max(Duration::from_millis(1));
    stream.set_write_timeout(Some(left))?;
    stream.set_read_timeout(Some(left))?;
    stream.write_all(ORDER)?;
    let mut answer = Vec::new();
    stream.take(MOST_ANSWER).read_to_end(&mut answer)?;
    judge_answer(&String::from_utf8_lossy(&answer))
}

/// Checks an answer, whose first line is 0 if the command was executed.
fn judge_answer(answer: &str) -> Result<(), AttachError> {
    let (code, text) = answer.split_once('\n').unwrap_or((answer, ""));
    if text.contains("Unknown diagnostic command") {
        return Err(AttachError::TooOld);
    }
    match code.trim() {
        "0" => Ok(()),
        _ => {
            let line = text.lines().next().unwrap_or_default();
            let printable = line.chars().filter(|c| !c.is_control()).take(120);
            let reason: String = printable.collect();
            Err(AttachError::Failed(format!(
                "it answered {code:?} {reason}"
            )))
        }
    }
}

fn send_quit(pid: u32) -> Result<(), AttachError> {
    let pid = i32::try_from(pid)
        .ok()
        .and_then(rustix::process::Pid::from_raw);
    let pid = pid.ok_or(AttachError::Ended)?;
    rustix::process::kill_process(pid, rustix::process::Signal::QUIT)
        .map_err(|error| AttachError::Failed(io::Error::from(error).to_string()))
}

/// The file that makes a JVM listen at the signal. Dropping this value removes it.
struct Request {
    path: PathBuf,
}

impl Request {
    fn place(process: &JvmProcess) -> Result<Self, AttachError> {
        let path = process.temporary(&format!(".attach_pid{}", process.own_pid));
        // Left behind by another tool whose command never arrived.
        let _ = std::fs::remove_file(&path);
        let file: File = OpenOptions::new()
            .write(true)
            .create_new(true)
            .mode(0o600)
            .open(&path)?;
        let request = Self { path };
        // The JVM obeys only its own user.
        if file.metadata()?.uid() != process.user {
            fchown(&file, Some(process.user), Some(process.group))?;
        }
        Ok(request)
    }
}

impl Drop for Request {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.path);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answers_are_understood() {
        assert_eq!(judge_answer("0\n"), Ok(()));
        assert_eq!(judge_answer("0\nwritten\n"), Ok(()));
        let old = "1\njava.lang.IllegalArgumentException: Unknown diagnostic command\n";
        assert_eq!(judge_answer(old), Err(AttachError::TooOld));
        for odd in ["", "101\nno\u{1b}[31m", "x"] {
            let Err(AttachError::Failed(text)) = judge_answer(odd) else {
                panic!("{odd:?}");
            };
            assert!(!text.contains('\u{1b}'), "{text:?}");
        }
    }

    #[test]
    fn a_process_that_is_no_jvm_gets_no_signal() {
        // This process does not handle SIGQUIT, which would end it.
        let own = JvmProcess::read(std::process::id()).unwrap();
        let soon = Instant::now() + Duration::from_secs(5);
        assert_eq!(write_perf_map(&own, soon), Err(AttachError::NotReady));
        assert_eq!(JvmProcess::read(u32::MAX), Err(AttachError::Ended));
    }
}
