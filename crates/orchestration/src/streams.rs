//! Standard streams of a repeated command. Each run reads the same input, and only one run writes
//! to the user's output.

use anyhow::Context;
use rustix::fs::{FileType, SeekFrom, fstat, seek};
use rustix::stdio::{dup2_stderr, dup2_stdin, dup2_stdout};
use std::fs::File;
use std::io::{self, PipeWriter, Read, Write, pipe};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::fs::FileExt;
use std::sync::atomic::{AtomicU64, Ordering::Acquire, Ordering::Release};
use std::sync::{Arc, Mutex, PoisonError};

/// Number of bytes that are copied at a time.
const CHUNK: usize = 1 << 16;

/// The standard streams that a repeated command inherits.
pub struct RepeatedStreams {
    input: Input,
    output: Option<OwnedFd>,
    errors: Option<OwnedFd>,
}

/// Selection of the streams that are silenced.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Silenced {
    /// Streams that store or pass on data. Terminals are left out.
    Kept,
    /// All streams.
    All,
}

/// The source of the input.
enum Input {
    /// A source that is not rewound: a terminal, or one that can be read repeatedly.
    Shared,
    /// A file, with the position at which the command starts to read.
    File(u64),
    /// A pipe, whose data are stored.
    Pipe(Arc<KeptInput>),
    /// A pipe whose data are not stored, and so cannot be read again.
    Gone,
}

impl RepeatedStreams {
    /// Prepares the streams for the first run.
    ///
    /// # Errors
    /// If no temporary file can be created for the data of a pipe.
    pub fn keep_input() -> anyhow::Result<Self> {
        Self::with_pipes(|| {
            let kept = KeptInput::new(io::stdin().as_fd())
                .context("keeping standard input for the second run")?;
            let kept = Arc::new(kept);
            dup2_stdin(input_pipe(Arc::clone(&kept))?)?;
            Ok(Input::Pipe(kept))
        })
    }

    /// Prepares the streams for the first run, without storing a pipe's data. Such data cannot be
    /// read again.
    ///
    /// # Errors
    /// If the position in a file is unknown.
    pub fn begin_without_pipes() -> anyhow::Result<Self> {
        Self::with_pipes(|| Ok(Input::Gone))
    }

    fn with_pipes(pipe: impl FnOnce() -> anyhow::Result<Input>) -> anyhow::Result<Self> {
        let stdin = io::stdin();
        let input = match file_type(stdin.as_fd()) {
            Some(FileType::RegularFile) => Input::File(seek(&stdin, SeekFrom::Current(0))?),
            Some(FileType::Fifo | FileType::Socket) => pipe()?,
            _ => Input::Shared,
        };
        Ok(Self {
            input,
            output: None,
            errors: None,
        })
    }

    /// Discards the output of runs from now on.
    ///
    /// # Errors
    /// If no pipe can be created.
    pub fn silence_output(&mut self, which: Silenced) -> anyhow::Result<()> {
        let goes = |stream: BorrowedFd<'_>| which == Silenced::All || is_written_to(stream);
        if goes(io::stdout().as_fd()) {
            self.silence_stdout()?;
        }
        if self.errors.is_none() && goes(io::stderr().as_fd()) {
            self.errors = Some(io::stderr().as_fd().try_clone_to_owned()?);
            dup2_stderr(draining_pipe()?)?;
        }
        Ok(())
    }

    /// Discards the standard output of runs from now on. Standard error stays.
    ///
    /// # Errors
    /// If no pipe can be created.
    pub fn silence_stdout(&mut self) -> anyhow::Result<()> {
        if self.output.is_none() {
            self.output = Some(io::stdout().as_fd().try_clone_to_owned()?);
            dup2_stdout(draining_pipe()?)?;
        }
        Ok(())
    }

    /// Redirects the standard output of runs to standard error from now on.
    ///
    /// # Errors
    /// If a stream cannot be duplicated.
    pub fn move_output_to_errors(&mut self) -> anyhow::Result<()> {
        if self.output.is_none() {
            self.output = Some(io::stdout().as_fd().try_clone_to_owned()?);
            dup2_stdout(io::stderr())?;
        }
        Ok(())
    }

    /// Rewinds the input after a run, so that the next run reads the same input.
    ///
    /// # Errors
    /// If the input could not be stored.
    pub fn rewind_input(&mut self) -> anyhow::Result<()> {
        match &self.input {
            Input::Shared => {}
            Input::Gone => anyhow::bail!("what came through a pipe cannot be read again"),
            Input::File(position) => {
                seek(io::stdin(), SeekFrom::Start(*position))?;
            }
            Input::Pipe(kept) => {
                if let Some(error) = kept.keeping_error() {
                    let what = "standard input could not be kept for the next run";
                    return Err(anyhow::Error::new(error).context(what));
                }
                dup2_stdin(input_pipe(Arc::clone(kept))?)?;
            }
        }
        Ok(())
    }

    /// Restores the output of runs, and of our own messages.
    pub fn restore_output(&mut self) {
        // A failure cannot be reported, because errors go to this stream.
        if let Some(output) = self.output.take() {
            let _ = dup2_stdout(output);
        }
        if let Some(errors) = self.errors.take() {
            let _ = dup2_stderr(errors);
        }
    }
}

impl Drop for RepeatedStreams {
    fn drop(&mut self) {
        self.restore_output();
    }
}

fn file_type(stream: BorrowedFd<'_>) -> Option<FileType> {
    let status = fstat(stream).ok()?;
    Some(FileType::from_raw_mode(status.st_mode))
}

/// Returns whether a stream stores or passes on its data. A terminal only shows them.
fn is_written_to(stream: BorrowedFd<'_>) -> bool {
    let kinds = [FileType::RegularFile, FileType::Fifo, FileType::Socket];
    file_type(stream).is_some_and(|kind| kinds.contains(&kind))
}

/// Returns a pipe whose data are discarded. It replaces /dev/null, because commands do less work
/// with that as output.
fn draining_pipe() -> io::Result<OwnedFd> {
    let (mut read, write) = pipe()?;
    let swallow = move || {
        let mut buffer = vec![0; CHUNK];
        while matches!(read.read(&mut buffer), Ok(1..)) {}
    };
    std::thread::Builder::new().spawn(swallow)?;
    Ok(write.into())
}

/// Data read from a pipe so far, stored in an unnamed file. At most a chunk more is read than a
/// command asks for.
struct KeptInput {
    source: OwnedFd,
    file: File,
    length: AtomicU64,
    /// Result of the source's end. The holder of the lock may read the source.
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

    /// Reads at a position, which is at most the stored length. Returns 0 at the end of the input.
    fn read(&self, at: u64, buffer: &mut [u8]) -> io::Result<usize> {
        while self.length.load(Acquire) == at {
            let mut end = self.end.lock().unwrap_or_else(PoisonError::into_inner);
            if self.length.load(Acquire) > at {
                break; // another run has read the data meanwhile
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

    /// Appends the next data. Returns false at the end of the input.
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

    /// Returns the error that prevented storing all input.
    fn keeping_error(&self) -> Option<io::Error> {
        // A thread that waits for the source holds the lock. It has not failed.
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

/// Returns a pipe that delivers all input from the start.
fn input_pipe(kept: Arc<KeptInput>) -> io::Result<OwnedFd> {
    let (read, write) = pipe()?;
    std::thread::Builder::new().spawn(move || pour_input(&kept, write))?;
    Ok(read.into())
}

/// Writes the input until its end, or until the reader closes the pipe.
fn pour_input(kept: &KeptInput, mut to: PipeWriter) {
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

    /// Two runs read the same input, although the first one stops early. No more is taken from the
    /// source than the runs read.
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
            File::from(input_pipe(second).unwrap())
                .read_to_string(&mut all)
                .unwrap();
            all
        });
        write.write_all(b"second").unwrap();
        drop(write);
        assert_eq!(run.join().unwrap(), "first second");
        assert_eq!(kept.read(0, &mut buffer).unwrap(), 12);
        assert!(kept.keeping_error().is_none());
    }
}
