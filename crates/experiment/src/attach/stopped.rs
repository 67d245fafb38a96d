//! A process all of whose threads stand still for a moment.

use super::borrowed::BorrowedThread;
use super::proc_files::{ThreadStatus, thread_ids};
use super::refuse::not_traceable;
use crate::Error;
use rustc_hash::FxHashSet;
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::time::Duration;

/// Time limit for the threads to stand: others stand already meanwhile.
const PATIENCE: Duration = Duration::from_millis(10);
/// Time limit for one that does not (a disk keeps it waiting) while the others run.
const LONG_PATIENCE: Duration = Duration::from_secs(1);

/// The process. Dropped, it goes on.
pub(crate) struct StoppedProcess {
    threads: Vec<BorrowedThread>,
    /// The memory of the process.
    pub memory: File,
}

impl StoppedProcess {
    /// Stops all threads. `None`: one of them does not stop now.
    ///
    /// # Errors
    /// [`Error::NotAttachable`].
    pub fn stop_threads(pid: u32) -> Result<Option<Self>, Error> {
        let path = format!("/proc/{pid}/mem");
        let memory = File::options().read(true).write(true).open(path);
        let mut stopped = Self {
            threads: Vec::new(),
            memory: memory.map_err(|error| not_traceable(pid, &error))?,
        };
        let mut known = FxHashSet::default();
        loop {
            let new: Vec<u32> = thread_ids(pid)
                .into_iter()
                .filter(|tid| known.insert(*tid))
                .collect();
            // Threads that stand make no new ones.
            if new.is_empty() {
                return Ok(Some(stopped));
            }
            let mut asked = Vec::new();
            for tid in new {
                asked.extend(BorrowedThread::seize_thread(pid, tid)?);
            }
            while let Some(mut thread) = asked.pop() {
                if !thread.stands_within(PATIENCE) {
                    drop(stopped);
                    asked.push(thread);
                    release_late(asked);
                    return Ok(None);
                }
                stopped.threads.push(thread);
            }
        }
    }

    /// The threads of the program, but for ours.
    pub fn threads(&self) -> impl Iterator<Item = StoppedThread<'_>> {
        let living = self.threads.iter().filter(|thread| {
            let status = |tid| ThreadStatus::read(thread.process_id(), tid);
            let status = thread.held_id().and_then(status);
            status.is_some_and(|status| status.field("Name") != Some("vitalfew"))
        });
        living.map(|thread| StoppedThread { thread })
    }
}

/// Lets threads go on that were to stop and may not have.
fn release_late(threads: Vec<BorrowedThread>) {
    for mut thread in threads {
        // Only what stands can be let go; the kernel does it for the rest when we end.
        thread.stands_within(LONG_PATIENCE);
    }
}

/// One of its threads.
pub(crate) struct StoppedThread<'a> {
    thread: &'a BorrowedThread,
}

impl StoppedThread<'_> {
    /// Where it is.
    pub fn instruction(&self) -> u64 {
        self.thread.registers.rip
    }

    /// The address by which its own variables are found.
    pub fn thread_pointer(&self) -> u64 {
        self.thread.registers.fs_base
    }

    /// The words on top of its stack, at most so many bytes.
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
