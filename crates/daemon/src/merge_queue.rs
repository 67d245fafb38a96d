//! Runs the child processes that merge the daemon's stored parts, one at a time.

use crate::options::{MergeOptions, Retention};
use crate::program::HostProgram;
use std::collections::VecDeque;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};
use store::OpenEpoch;

/// A merge to do.
pub(crate) struct MergeTask {
    epoch: PathBuf,
    all: bool,
    close: bool,
    /// Ticket of the request that waits for it, if one does.
    ticket: u64,
}

impl MergeTask {
    /// Makes the task to close an epoch.
    pub(crate) fn closing_epoch(epoch: &OpenEpoch, ticket: u64) -> Self {
        Self {
            epoch: epoch.path().to_owned(),
            all: true,
            close: true,
            ticket,
        }
    }

    /// Makes the task to merge all parts of an epoch into one.
    pub(crate) fn merging_all(epoch: &OpenEpoch, ticket: u64) -> Self {
        Self {
            epoch: epoch.path().to_owned(),
            all: true,
            close: false,
            ticket,
        }
    }
}

/// A merge that has ended.
pub(crate) struct FinishedMerge {
    /// True if an epoch was closed.
    pub closed: bool,
}

/// Due merges, and the running one.
pub(crate) struct MergeQueue {
    database: PathBuf,
    retention: Retention,
    program: HostProgram,
    every: Duration,
    due: VecDeque<MergeTask>,
    working: Option<(Child, MergeTask)>,
    /// End of the last merge.
    last: Instant,
    /// The latest request whose merge is done.
    pub reached: u64,
}

impl MergeQueue {
    /// Makes an empty queue.
    pub(crate) fn new(
        database: &Path,
        retention: &Retention,
        every: Duration,
        program: HostProgram,
    ) -> Self {
        Self {
            database: database.to_owned(),
            retention: retention.clone(),
            program,
            every,
            due: VecDeque::new(),
            working: None,
            last: Instant::now(),
            reached: 0,
        }
    }

    /// Appends a merge.
    pub(crate) fn push_task(&mut self, merge: MergeTask) {
        self.due.push_back(merge);
    }

    /// Keeps one child process at work on the due merges, and merges the current epoch from time to
    /// time. Returns the merge that has ended, if one has.
    pub(crate) fn keep_working(&mut self, epoch: &Path) -> std::io::Result<Option<FinishedMerge>> {
        let mut merged = None;
        if let Some((child, merge)) = &mut self.working {
            let Some(status) = child.try_wait()? else {
                return Ok(None);
            };
            if !status.success() {
                self.program.print_line(&format!(
                    "merging failed ({status}); it will be tried again"
                ));
            }
            self.reached = self.reached.max(merge.ticket);
            merged = Some(FinishedMerge {
                closed: merge.close,
            });
            self.working = None;
            self.last = Instant::now();
        }
        if self.due.is_empty() && self.last.elapsed() >= self.every {
            self.last = Instant::now();
            self.due.push_back(MergeTask {
                epoch: epoch.to_owned(),
                all: false,
                close: false,
                ticket: 0,
            });
        }
        if let Some(merge) = self.due.pop_front() {
            match self.merge_command(&merge).spawn() {
                Ok(child) => self.working = Some((child, merge)),
                Err(error) => {
                    self.reached = self.reached.max(merge.ticket);
                    self.program
                        .print_line(&format!("merging cannot be started: {error}"));
                }
            }
        }
        Ok(merged)
    }

    fn merge_command(&self, merge: &MergeTask) -> Command {
        let mut command = (self.program.merge_command)(&MergeOptions {
            database: self.database.clone(),
            epoch: merge.epoch.clone(),
            all: merge.all,
            close: merge.close,
            retention: self.retention.clone(),
        });
        command.stdin(Stdio::null());
        command
    }

    /// Waits for the running merge.
    pub(crate) fn wait_for_merge(&mut self) {
        if let Some((child, _)) = &mut self.working {
            let _ = child.wait();
        }
    }
}
