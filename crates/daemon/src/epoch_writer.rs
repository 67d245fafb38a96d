//! The thread that writes to the database. Even if its file system is full or frozen, the thread
//! that drains the collector does not wait.

use crate::control::Asked;
use crate::lease::DatabaseLease;
use crate::merge_queue::MergeTask;
use crate::options::Retention;
use crate::program::HostProgram;
use crate::retention::remove_expired;
use crate::wall_clock::unix_ns;
use profile::{ImageKind, Recording};
use std::collections::VecDeque;
use std::path::PathBuf;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};
use store::{Database, OpenEpoch, PartId};

/// Pause before storing is retried.
const RETRY: Duration = Duration::from_secs(5);

/// A task of the writer; tasks are done in order.
pub(crate) enum WriterTask {
    /// Stores a drain.
    Store(Box<PendingDrain>),
    /// Begins a new epoch, and lets the old one be closed.
    Roll {
        /// Ticket of the request that waits for it; 0 if none does.
        ticket: u64,
    },
    /// Reports when all earlier tasks are done, so that the parts can be merged.
    Flush {
        /// Ticket of the request that waits for the merge.
        ticket: u64,
    },
    /// Checks that the database exists, and reads the facts about it.
    Look,
}

/// A drain that is not stored yet.
pub(crate) struct PendingDrain {
    /// Its name in the epoch.
    pub id: PartId,
    /// The counts.
    pub recording: Recording,
    /// True if an earlier daemon counted it.
    pub taken_over: bool,
}

/// A report of the writer.
pub(crate) enum WriterReport {
    /// A drain is on stable storage.
    Stored(PartId, SampleCounts),
    /// A task failed; it is retried, and no other task is done meanwhile.
    Failed(String),
    /// A task that failed before has succeeded.
    Recovered,
    /// The epoch at this path was begun; the one before it is to be merged.
    Rolled(MergeTask, PathBuf),
    /// Stored parts can be merged.
    Flushed(MergeTask),
    /// The database was created again: requests now come from here.
    Listening(Receiver<Asked>),
    /// Facts about the database.
    Looked(DatabaseFacts),
}

/// Facts about the database.
#[derive(Clone, Default)]
pub(crate) struct DatabaseFacts {
    /// The current epoch.
    pub epoch: PathBuf,
    /// Number of its parts.
    pub parts: usize,
    /// Number of epochs of this host.
    pub epochs: usize,
    /// Number of those that are closed.
    pub closed: usize,
    /// Their size, in bytes.
    pub bytes: u64,
    /// Number of epochs that were removed because the disk was full.
    pub sacrificed: u64,
}

/// Counts of samples so far.
#[derive(Clone, Copy, Default)]
pub(crate) struct SampleCounts {
    pub taken: u64,
    pub stored: u64,
    pub dropped: u64,
    pub taken_over: u64,
    pub unknown: u64,
}

impl SampleCounts {
    fn counts_of_drain(drained: &PendingDrain) -> Self {
        let recording = &drained.recording;
        let sum = |of: fn(&profile::Event) -> u64| recording.events.iter().map(of).sum();
        let stored = sum(|event| event.stored);
        let mut counts = Self {
            taken: sum(|event| event.taken),
            stored,
            dropped: sum(|event| event.dropped),
            taken_over: if drained.taken_over { stored } else { 0 },
            unknown: 0,
        };
        for sample in &recording.samples {
            let image = recording.stacks.frame(sample.stack).location.image;
            let kind = recording.image(image).kind;
            if matches!(kind, ImageKind::Unknown | ImageKind::Anonymous) {
                counts.unknown += sample.count;
            }
        }
        counts
    }

    /// Adds others.
    pub(crate) fn add_counts(&mut self, other: Self) {
        self.taken += other.taken;
        self.stored += other.stored;
        self.dropped += other.dropped;
        self.taken_over += other.taken_over;
        self.unknown += other.unknown;
    }
}

/// The handle of the writer's thread.
pub(crate) struct EpochWriter {
    tasks: Option<Sender<WriterTask>>,
    done: Receiver<WriterReport>,
    thread: Option<JoinHandle<()>>,
}

impl EpochWriter {
    /// Starts the thread, which adds to an epoch.
    pub(crate) fn start_thread(
        database: Database,
        host: String,
        lease: DatabaseLease,
        epoch: OpenEpoch,
        retention: Retention,
        program: HostProgram,
    ) -> std::io::Result<Self> {
        let (tasks, waiting) = channel();
        let (reports, done) = channel();
        let mut writer = WriterThread {
            database,
            host,
            lease,
            epoch,
            retention,
            program,
            queue: VecDeque::new(),
            retry_at: None,
            sacrificed: 0,
            reports,
        };
        let thread = std::thread::Builder::new().name("archive".into());
        let thread = thread.spawn(move || writer.run_tasks(&waiting))?;
        Ok(Self {
            tasks: Some(tasks),
            done,
            thread: Some(thread),
        })
    }

    /// Sends the thread a task.
    pub(crate) fn send_task(&self, task: WriterTask) {
        if let Some(tasks) = &self.tasks {
            // The thread ends only with this value.
            let _ = tasks.send(task);
        }
    }

    /// Returns the next report, if one comes within this time.
    pub(crate) fn wait_for_report(&self, timeout: Duration) -> Option<WriterReport> {
        self.done.recv_timeout(timeout).ok()
    }

    /// Waits until the thread has done all it can, and removes the socket.
    pub(crate) fn finish_tasks(mut self) {
        self.tasks = None;
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// The state of the writer's thread.
struct WriterThread {
    database: Database,
    host: String,
    lease: DatabaseLease,
    epoch: OpenEpoch,
    retention: Retention,
    program: HostProgram,
    queue: VecDeque<WriterTask>,
    retry_at: Option<Instant>,
    sacrificed: u64,
    reports: Sender<WriterReport>,
}

impl WriterThread {
    fn run_tasks(&mut self, tasks: &Receiver<WriterTask>) {
        loop {
            let now = Instant::now();
            let until_retry = self.retry_at.map(|at| at.saturating_duration_since(now));
            match tasks.recv_timeout(until_retry.unwrap_or(Duration::MAX)) {
                Ok(task) => self.queue.push_back(task),
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => {
                    self.work_off();
                    return self.lease.remove_socket();
                }
            }
            self.queue.extend(tasks.try_iter());
            // Tasks that arrive while storing fails must not postpone the next retry.
            if self.retry_at.is_none_or(|at| at <= Instant::now()) {
                self.work_off();
            }
        }
    }

    /// Performs the tasks in the queue, up to the first failure.
    fn work_off(&mut self) {
        while let Some(task) = self.queue.pop_front() {
            match self.perform_task(&task) {
                Ok(done) => {
                    if self.retry_at.take().is_some() {
                        let _ = self.reports.send(WriterReport::Recovered);
                    }
                    for done in done {
                        let _ = self.reports.send(done);
                    }
                }
                Err(error) => {
                    self.queue.push_front(task);
                    self.retry_at = Some(Instant::now() + RETRY);
                    let _ = self
                        .reports
                        .send(WriterReport::Failed((self.program.explain)(&error)));
                    return;
                }
            }
        }
    }

    fn perform_task(&mut self, task: &WriterTask) -> anyhow::Result<Vec<WriterReport>> {
        match task {
            WriterTask::Store(drained) => {
                self.store_drain(drained)?;
                Ok(vec![WriterReport::Stored(
                    drained.id,
                    SampleCounts::counts_of_drain(drained),
                )])
            }
            WriterTask::Roll { ticket } => Ok(vec![self.roll_epoch(*ticket)?]),
            WriterTask::Flush { ticket } => {
                let merge = MergeTask::merging_all(&self.epoch, *ticket);
                Ok(vec![WriterReport::Flushed(merge)])
            }
            WriterTask::Look => {
                let mut done = Vec::new();
                if let Some(requests) = self.lease.take_again(&self.database, &self.host)? {
                    self.program.print_line(
                        "the database was removed while it was written to; it is made again",
                    );
                    done.push(WriterReport::Listening(requests));
                }
                done.push(WriterReport::Looked(self.read_database_facts()));
                Ok(done)
            }
        }
    }

    /// Begins a new epoch, and lets the old one be closed.
    fn roll_epoch(&mut self, ticket: u64) -> anyhow::Result<WriterReport> {
        let next = self.database.begin_epoch(&self.host, unix_ns())?;
        let old = std::mem::replace(&mut self.epoch, next);
        let epoch = self.epoch.path().to_owned();
        let merge = MergeTask::closing_epoch(&old, ticket);
        Ok(WriterReport::Rolled(merge, epoch))
    }

    fn read_database_facts(&self) -> DatabaseFacts {
        let range = store::TimeRange::default();
        let epochs = self.database.select_epochs(&range, Some(&self.host));
        let epochs = epochs.unwrap_or_default();
        let read = epochs
            .iter()
            .filter_map(|epoch| epoch.summary.as_ref().ok());
        DatabaseFacts {
            epoch: self.epoch.path().to_owned(),
            parts: self.epoch.len().unwrap_or(0),
            epochs: epochs.len(),
            closed: epochs.iter().filter(|epoch| !epoch.open).count(),
            bytes: read.map(|summary| summary.bytes).sum(),
            sacrificed: self.sacrificed,
        }
    }

    /// Adds a drain to the epoch. On a full disk old epochs make room, if retention permits.
    fn store_drain(&mut self, drained: &PendingDrain) -> anyhow::Result<()> {
        let taken: u64 = drained.recording.events.iter().map(|e| e.taken).sum();
        if taken == 0 {
            return Ok(()); // a drain of an idle machine
        }
        if self.epoch.is_closed() {
            // Closed by the process of a daemon that was killed; nothing may be added to it.
            self.epoch = self.database.begin_epoch(&self.host, unix_ns())?;
        } else if !self.epoch.has_periods_of(&drained.recording)? {
            // An earlier daemon sampled at another rate. Reported at once: the next steps may fail
            // and be retried.
            let rolled = self.roll_epoch(0)?;
            let _ = self.reports.send(rolled);
        }
        loop {
            match self.epoch.add_part(drained.id, &drained.recording) {
                Ok(_) => return Ok(()),
                Err(error) if error.is_full() && self.make_room()? => {}
                Err(error) => return Err(error.into()),
            }
        }
    }

    /// Removes epochs that retention permits: those that are too old, else the oldest closed one if
    /// the total size is limited. Returns whether there were any.
    fn make_room(&mut self) -> anyhow::Result<bool> {
        let removed = remove_expired(&self.database, &self.host, &self.retention, true)?;
        for epoch in &removed {
            self.program.print_line(&format!(
                "the disk is full: removed the oldest epoch, {}, to store new samples",
                epoch.display()
            ));
        }
        self.sacrificed += removed.len() as u64;
        Ok(!removed.is_empty())
    }
}
