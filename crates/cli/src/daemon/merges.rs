//! The processes that merge what the daemon stored, one at a time.

use super::run::say;
use crate::args::Keep;
use std::collections::VecDeque;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};
use store::OpenEpoch;

/// Something to merge.
pub struct Merge {
    epoch: PathBuf,
    all: bool,
    close: bool,
    /// The request that waits for it, if one does.
    ticket: u64,
}

impl Merge {
    /// Closes an epoch.
    pub fn closing(epoch: &OpenEpoch, ticket: u64) -> Self {
        Self {
            epoch: epoch.path().to_owned(),
            all: true,
            close: true,
            ticket,
        }
    }

    /// Makes one part of an epoch.
    pub fn all(epoch: &OpenEpoch, ticket: u64) -> Self {
        Self {
            epoch: epoch.path().to_owned(),
            all: true,
            close: false,
            ticket,
        }
    }
}

/// A merge that has ended.
pub struct Merged {
    /// Whether an epoch was closed.
    pub closed: bool,
}

/// Merges that are due, and the one at work.
pub struct Merges {
    database: PathBuf,
    keep: Keep,
    every: Duration,
    due: VecDeque<Merge>,
    working: Option<(Child, Merge)>,
    /// When the last one ended.
    last: Instant,
    /// The latest request of which the merge was done.
    pub reached: u64,
}

impl Merges {
    /// Begins with none.
    pub fn new(database: &Path, keep: &Keep, every: Duration) -> Self {
        Self {
            database: database.to_owned(),
            keep: keep.clone(),
            every,
            due: VecDeque::new(),
            working: None,
            last: Instant::now(),
            reached: 0,
        }
    }

    /// Puts one behind the others.
    pub fn push(&mut self, merge: Merge) {
        self.due.push_back(merge);
    }

    /// Keeps one process at work on what is due; an epoch that is added to is merged from time to time. What has ended, if something
    /// has.
    pub fn work(&mut self, epoch: &Path) -> std::io::Result<Option<Merged>> {
        let mut merged = None;
        if let Some((child, merge)) = &mut self.working {
            let Some(status) = child.try_wait()? else {
                return Ok(None);
            };
            if !status.success() {
                say(&format!(
                    "merging failed ({status}); it will be tried again"
                ));
            }
            self.reached = self.reached.max(merge.ticket);
            merged = Some(Merged {
                closed: merge.close,
            });
            self.working = None;
            self.last = Instant::now();
        }
        if self.due.is_empty() && self.last.elapsed() >= self.every {
            self.last = Instant::now();
            self.due.push_back(Merge {
                epoch: epoch.to_owned(),
                all: false,
                close: false,
                ticket: 0,
            });
        }
        if let Some(merge) = self.due.pop_front() {
            match self.command(&merge).spawn() {
                Ok(child) => self.working = Some((child, merge)),
                Err(error) => {
                    self.reached = self.reached.max(merge.ticket);
                    say(&format!("merging cannot be started: {error}"));
                }
            }
        }
        Ok(merged)
    }

    fn command(&self, merge: &Merge) -> Command {
        // This program, even if its file was replaced meanwhile.
        let mut command = Command::new("/proc/self/exe");
        command
            .args(["daemon", "merge", "--db"])
            .arg(&self.database)
            .arg("--epoch")
            .arg(&merge.epoch)
            .stdin(Stdio::null());
        if merge.all {
            command.arg("--all");
        }
        if merge.close {
            command.arg("--close");
        }
        if let Some(keep) = self.keep.keep {
            let seconds = format!("{}s", keep.as_secs_f64());
            command.arg("--keep").arg(seconds);
        }
        if let Some(size) = self.keep.keep_size {
            command.arg("--keep-size").arg(size.to_string());
        }
        command
    }

    /// Waits for the one at work.
    pub fn finish(&mut self) {
        if let Some((child, _)) = &mut self.working {
            let _ = child.wait();
        }
    }
}
