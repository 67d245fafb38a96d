//! A process with all threads stopped for a moment.

use super::borrowed::BorrowedThread;
use super::refuse::not_traceable;
use super::urgent::Urgent;
use crate::Error;
use rustc_hash::FxHashSet;
use sampler::process_file;
use sampler::thread_ids;
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::time::{Duration, Instant};

/// Time limit for the threads to stop: others are stopped meanwhile.
const PATIENCE: Duration = Duration::from_millis(10);
/// Time limit for late threads (those that wait for a disk) while the others run.
const LONG_PATIENCE: Duration = Duration::from_secs(10);
/// Time between two checks of them.
const PAUSE: Duration = Duration::from_micros(100);

/// The process. On drop it continues.
pub(crate) struct StoppedProcess {
    threads: Vec<BorrowedThread>,
    /// The memory of the process.
    pub memory: File,
    /// Raised priority until all threads continue, not only the first.
    _urgent: Urgent,
}

impl StoppedProcess {
    /// Stops all threads. `None`: one of them does not stop now.
    ///
    /// # Errors
    /// [`Error::NotAttachable`].
    pub fn stop_threads(pid: u32) -> Result<Option<Self>, Error> {
        let path = process_file(pid, "mem");
        let memory = File::options().read(true).write(true).open(path);
        let mut stopped = Self {
            threads: Vec::new(),
            memory: memory.map_err(|error| not_traceable(pid, &error))?,
            _urgent: Urgent::begin(),
        };
        let mut known = FxHashSet::default();
        loop {
            let new: Vec<u32> = thread_ids(pid)
                .into_iter()
                .filter(|tid| known.insert(*tid))
                .collect();
            // Stopped threads create no new ones.
            if new.is_empty() {
                return Ok(Some(stopped));
            }
            let mut asked = Vec::new();
            let mut refused = None;
            for tid in new {
                match BorrowedThread::seize_thread(pid, tid) {
                    Ok(thread) => asked.extend(thread),
                    Err(error) => refused = Some(error),
                }
            }
            while refused.is_none()
                && let Some(thread) = asked.last_mut()
                && thread.stands_within(PATIENCE)
            {
                stopped.threads.extend(asked.pop());
            }
            if refused.is_some() || !asked.is_empty() {
                drop(stopped);
                release_late(asked);
                return refused.map_or(Ok(None), Err);
            }
        }
    }

    /// Returns the threads of the program, without the runtime's own.
    pub fn threads(&self, guard: u32) -> impl Iterator<Item = StoppedThread<'_>> {
        let own = self.threads.iter().filter(move |thread| {
            let id = thread.held_id();
            id.is_some_and(|id| id != guard)
        });
        own.map(|thread| StoppedThread { thread })
    }
}

/// Releases threads that have not stopped yet: only a stopped thread can be detached.
fn release_late(mut threads: Vec<BorrowedThread>) {
    let end = Instant::now() + LONG_PATIENCE;
    loop {
        threads.retain_mut(|thread| !thread.stands_within(Duration::ZERO));
        // The kernel detaches the rest when vitalfew ends.
        if threads.is_empty() || Instant::now() >= end {
            return;
        }
        std::thread::sleep(PAUSE);
    }
}

/// A thread of the process.
pub(crate) struct StoppedThread<'a> {
    thread: &'a BorrowedThread,
}

impl StoppedThread<'_> {
    /// Returns the thread's instruction pointer.
    pub fn instruction(&self) -> u64 {
        self.thread.registers.rip
    }

    /// Returns the thread pointer, the base of thread-local storage.
    pub fn thread_pointer(&self) -> u64 {
        self.thread.registers.fs_base
    }

    /// Returns the words on top of the thread's stack, at most `bytes` bytes.
    pub fn stack_words(&self, bytes: usize) -> Vec<u64> {
        let mut stack = vec![0; bytes];
        let read = (self.thread.memory).read_at(&mut stack, self.thread.registers.rsp);
        stack.truncate(read.unwrap_or(0));
        let words = stack.chunks_exact(8);
        words
            .filter_map(|word| Some(u64::from_le_bytes(word.try_into().ok()?)))
            .collect()
    }
}
