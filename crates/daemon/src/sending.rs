//! Sends closed epochs to a bucket in child processes: a network that hangs holds nothing up, and
//! the memory for it ends with the process.

use crate::options::{BucketOptions, Retention, SendOptions};
use crate::program::HostProgram;
use crate::retention::remove_expired;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant, SystemTime};
use store::Database;

/// Time between two looks at what the bucket keeps: lists cost money.
const RETENTION_EVERY: Duration = Duration::from_secs(24 * 3600);

/// The result of a sending process.
#[derive(Debug, Default)]
pub struct SendOutcome {
    /// Epochs that could not be sent.
    pub unsent: store::UnsentEpochs,
    /// Epochs that were removed from the spool unsent, because it was full.
    pub lost: Vec<PathBuf>,
}

/// Sends the closed epochs of a spool, keeps the spool to its limit, and removes expired epochs of
/// this host from the bucket.
///
/// # Errors
/// If the spool cannot be read or written, or the bucket cannot be opened.
pub fn send_spool(options: &SendOptions) -> anyhow::Result<SendOutcome> {
    let _ = rustix::process::nice(10);
    let spool = Database::create(&options.spool)?;
    let to = Database::create(&options.bucket.database)?;
    let host = sampler::read_host().name;
    let unsent = store::send_epochs(&spool, &to)?;
    // Also if sending failed: so long as the network is gone, the spool is all that grows.
    let limit = Retention {
        longest: None,
        most_bytes: Some(options.bucket.spool_bytes),
    };
    let lost = remove_expired(&spool, &host, &limit, false)?;
    let looked = spool.path().join(".retention-looked");
    if unsent.stopped.is_none() && is_older(&looked, RETENTION_EVERY) {
        // Wrong credentials are said at the start, and not when the first epoch is closed.
        to.check_bucket()?;
        remove_expired(&to, &host, &options.bucket.retention, false)?;
        whole_file::write_whole_file(&looked, b"")?;
    }
    Ok(SendOutcome { unsent, lost })
}

fn is_older(file: &Path, age: Duration) -> bool {
    let changed = std::fs::metadata(file).and_then(|data| data.modified());
    let since = changed
        .ok()
        .and_then(|at| SystemTime::now().duration_since(at).ok());
    since.is_none_or(|since| since >= age)
}

/// Starts a sending process from time to time.
pub(crate) struct SendQueue {
    options: SendOptions,
    program: HostProgram,
    /// Start of the last process.
    last: Option<Instant>,
    working: Option<Child>,
    failing_since: Option<Instant>,
}

impl SendQueue {
    /// Makes a queue whose first process starts at once: an earlier daemon may have left epochs.
    pub(crate) fn new(spool: &Path, bucket: &BucketOptions, program: HostProgram) -> Self {
        Self {
            options: SendOptions {
                spool: spool.to_owned(),
                bucket: bucket.clone(),
            },
            program,
            last: None,
            working: None,
            failing_since: None,
        }
    }

    /// Returns the address of the bucket.
    pub(crate) fn bucket_address(&self) -> String {
        let path = self.options.bucket.database.display().to_string();
        store::with_addresses(&path).into_owned()
    }

    /// Returns for how long sending has failed, in nanoseconds; 0 if it has not.
    pub(crate) fn failing_ns(&self) -> u64 {
        let since = self.failing_since.map(|since| since.elapsed());
        since.map_or(0, |since| since.as_nanos() as u64)
    }

    /// Starts a process when it is time, and looks whether the running one has ended.
    pub(crate) fn keep_sending(&mut self) -> std::io::Result<()> {
        if let Some(child) = &mut self.working {
            let Some(status) = child.try_wait()? else {
                return Ok(());
            };
            self.working = None;
            if status.success() {
                self.failing_since = None;
            } else {
                self.failing_since.get_or_insert_with(Instant::now);
            }
        }
        let every = self.options.bucket.every;
        if self.last.is_none_or(|last| last.elapsed() >= every) {
            self.last = Some(Instant::now());
            self.start_process();
        }
        Ok(())
    }

    fn start_process(&mut self) {
        match self.send_command().spawn() {
            Ok(child) => self.working = Some(child),
            Err(error) => {
                self.failing_since.get_or_insert_with(Instant::now);
                let line = format!("sending cannot be started: {error}");
                self.program.print_line(&line);
            }
        }
    }

    fn send_command(&self) -> Command {
        let mut command = (self.program.send_command)(&self.options);
        command.stdin(Stdio::null());
        command
    }

    /// Sends for the last time, for at most so long; what is not sent then stays in the spool for
    /// the next daemon.
    pub(crate) fn finish_sending(mut self, most: Duration) {
        let end = Instant::now() + most;
        for again in [true, false] {
            while let Some(child) = &mut self.working {
                match child.try_wait() {
                    Ok(None) if Instant::now() < end => {
                        std::thread::sleep(Duration::from_millis(20));
                    }
                    Ok(None) => {
                        let _ = child.kill();
                        let _ = child.wait();
                        return;
                    }
                    _ => self.working = None,
                }
            }
            if again {
                self.start_process();
            }
        }
    }
}
