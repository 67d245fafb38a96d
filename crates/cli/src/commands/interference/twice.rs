//! The standard streams of a command that is run twice: the second run reads what the first one read, and what the first
//! one writes to a pipe or a file is not in the way of what the second one writes there.

use anyhow::Context;
use rustix::fs::{FileType, SeekFrom, fstat, seek};
use rustix::stdio::{dup2_stderr, dup2_stdin, dup2_stdout};
use std::fs::File;
use std::io::{self, PipeWriter, Read, Write, pipe};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::fs::FileExt;
use std::sync::atomic::{AtomicU64, Ordering::Acquire, Ordering::Release};
use std::sync::{Arc, Mutex, PoisonError};

/// Bytes that are passed on at a time.
const CHUNK: usize = 1 << 16;

/// Our own standard streams, which a command inherits, while it is run the first time.
pub struct FirstRun {
    input: Input,
    output: Option<OwnedFd>,
    errors: Option<OwnedFd>,
}

/// What becomes of the input.
enum Input {
    /// Nothing: a terminal, or what anybody can read again.
    Shared,
    /// A file, from where the command shall read it.
    File(u64),
    /// What comes through a pipe is kept.
    Pipe(Arc<KeptInput>),
}

impl FirstRun {
    /// Begins the first run.
    ///
    /// # Errors
    /// If no temporary file can be made for what comes through a pipe.
    pub fn begin() -> anyhow::Result<Self> {
        let stdin = io::stdin();
        let input = match file_type(stdin.as_fd()) {
            Some(FileType::RegularFile) => Input::File(seek(&stdin, SeekFrom::Current(0))?),
            Some(FileType::Fifo | FileType::Socket) => {
                let kept = KeptInput::new(stdin.as_fd())
                    .context("keeping standard input for the second run")?;
                let kept = Arc::new(kept);
                dup2_stdin(feed(Arc::clone(&kept))?)?;
                Input::Pipe(kept)
            }
            _ => Input::Shared,
        };
        let mut first = Self {
            input,
            output: None,
            errors: None,
        };
        if is_written_to(io::stdout().as_fd()) {
            first.output = Some(io::stdout().as_fd().try_clone_to_owned()?);
            dup2_stdout(sink()?)?;
        }
        if is_written_to(io::stderr().as_fd()) {
            first.errors = Some(io::stderr().as_fd().try_clone_to_owned()?);
            dup2_stderr(sink()?)?;
        }
        Ok(first)
    }

    /// Ends it; the command that is run next finds all as the first did.
    ///
    /// # Errors
    /// If the input could not be kept.
    pub fn end(mut self) -> anyhow::Result<()> {
        self.restore_output();
        match &self.input {
            Input::Shared => {}
            Input::File(position) => {
                seek(io::stdin(), SeekFrom::Start(*position))?;
            }
            Input::Pipe(kept) => {
                if let Some(error) = kept.failed() {
                    let what = "standard input could not be kept for the second run; -f FUNCTION needs only one";
                    return Err(anyhow::Error::new(error).context(what));
                }
                dup2_stdin(feed(Arc::clone(kept))?)?;
            }
        }
        Ok(())
    }

    fn restore_output(&mut self) {
        // There is nobody to tell if this fails: it is where errors go.
        if let Some(output) = self.output.take() {
            let _ = dup2_stdout(output);
        }
        if let Some(errors) = self.errors.take() {
            let _ = dup2_stderr(errors);
        }
    }
}

impl Drop for FirstRun {
    fn drop(&mut self) {
        self.restore_output();
    }
}

fn file_type(stream: BorrowedFd<'_>) -> Option<FileType> {
    let status = fstat(stream).ok()?;
    Some(FileType::from_raw_mode(status.st_mode))
}

/// Returns whether a stream keeps what is written to it, or hands it on: a terminal shows both runs.
fn is_written_to(stream: BorrowedFd<'_>) -> bool {
    let kinds = [FileType::RegularFile, FileType::Fifo, FileType::Socket];
    file_type(stream).is_some_and(|kind| kinds.contains(&kind))
}

/// A pipe that somebody reads, for nothing: commands that find /dev/null there do less.
fn sink() -> io::Result<OwnedFd> {
    let (mut read, write) = pipe()?;
    let swallow = move || {
        let mut buffer = vec![0; CHUNK];
        while matches!(read.read(&mut buffer), Ok(1..)) {}
    };
    std::thread::Builder::new().spawn(swallow)?;
    Ok(write.into())
}

/// What has come through a pipe so far, in a file that has no name. No more is read than a command asks for, but for a chunk.
struct KeptInput {
    source: OwnedFd,
    file: File,
    length: AtomicU64,
    /// Whoever holds it may read the source; how that ended.
    end: Mutex<Option<io::Result<()>>>,
}

impl KeptInput {
    fn new(source: BorrowedFd<'_>) -> io::Result<Self> {
        Ok(Self {
            source: source.try_clone_to_owned()?,
            file: tempfile::tempfile()?,
            length: AtomicU64::new(0),
            end: Mutex::new(None),
        })
    }

    /// Reads at a position, which is at most that of the last byte that came. 0: the end.
    fn read(&self, at: u64, buffer: &mut [u8]) -> io::Result<usize> {
        while self.length.load(Acquire) == at {
            let mut end = self.end.lock().unwrap_or_else(PoisonError::into_inner);
            if self.length.load(Acquire) > at {
                break; // another run has read it meanwhile
            }
            if end.is_some() {
                return Ok(0);
            }
            match self.append(at, buffer) {
                Ok(true) => {}
                Ok(false) => *end = Some(Ok(())),
                Err(error) => *end = Some(Err(error)),
            }
        }
        self.file.read_at(buffer, at)
    }

    /// Appends what comes next; false at the end.
    fn append(&self, at: u64, buffer: &mut [u8]) -> io::Result<bool> {
        let n = loop {
            match rustix::io::read(&self.source, &mut *buffer) {
                Err(rustix::io::Errno::INTR) => {}
                other => break other?,
            }
        };
        let new = buffer.get(..n).unwrap_or_default();
        self.file.write_all_at(new, at)?;
        self.length.store(at + n as u64, Release);
        Ok(n > 0)
    }

    /// Why not all was kept.
    fn failed(&self) -> Option<io::Error> {
        // Whoever waits for the source holds it, and has not failed.
        let mut end = self.end.try_lock().ok()?;
        match end.take() {
            Some(Err(error)) => Some(error),
            other => {
                *end = other;
                None
            }
        }
    }
}

/// A pipe in which a run finds all input from the start.
fn feed(kept: Arc<KeptInput>) -> io::Result<OwnedFd> {
    let (read, write) = pipe()?;
    std::thread::Builder::new().spawn(move || pour(&kept, write))?;
    Ok(read.into())
}

/// Writes until the end, or until nobody reads.
fn pour(kept: &KeptInput, mut to: PipeWriter) {
    let mut buffer = vec![0; CHUNK];
    let mut at = 0;
    while let Ok(n @ 1..) = kept.read(at, &mut buffer) {
        at += n as u64;
        if to.write_all(buffer.get(..n).unwrap_or_default()).is_err() {
            return;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Two runs read the same, though the first one stops early, and no more is taken from the source than they read.
    #[test]
    fn input_is_there_twice() {
        let (source, mut write) = pipe().unwrap();
        let kept = Arc::new(KeptInput::new(source.as_fd()).unwrap());
        write.write_all(b"first ").unwrap();
        let mut buffer = [0; 64];
        assert_eq!(kept.read(0, &mut buffer).unwrap(), 6);
        let second = Arc::clone(&kept);
        let run = std::thread::spawn(move || {
            let mut all = String::new();
            File::from(feed(second).unwrap())
                .read_to_string(&mut all)
                .unwrap();
            all
        });
        write.write_all(b"second").unwrap();
        drop(write);
        assert_eq!(run.join().unwrap(), "first second");
        assert_eq!(kept.read(0, &mut buffer).unwrap(), 12);
        assert!(kept.failed().is_none());
    }
}
