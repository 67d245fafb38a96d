//! The thread that writes to the database. Whatever its file system does (fill up, freeze), the thread that drains the collector
//! does not wait for it.

use super::control::Asked;
use super::merge::expire;
use super::merges::Merge;
use super::place::Place;
use super::run::{say, unix_ns};
use crate::args::Keep;
use crate::exit::message;
use profile::{ImageKind, Recording};
use std::collections::VecDeque;
use std::path::PathBuf;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};
use store::{Database, OpenEpoch, PartId};

/// How often storing is tried again when it failed.
const RETRY: Duration = Duration::from_secs(5);

/// What the archive is to do, in this order.
pub enum Task {
    /// Store a drain.
    Store(Box<Drained>),
    /// Begin a new epoch, and let the old one be closed.
    Roll {
        /// The request that waits for it; 0 if none does.
        ticket: u64,
    },
    /// Say when all before it is stored, so that it can be merged.
    Flush {
        /// The request that waits for the merge.
        ticket: u64,
    },
    /// Look whether the database is there, and what is in it.
    Look,
}

/// A drain that is not stored yet.
pub struct Drained {
    /// Its name in the epoch.
    pub id: PartId,
    /// What was counted.
    pub recording: Recording,
    /// Whether a daemon before this one counted it.
    pub taken_over: bool,
}

/// What the archive did.
pub enum Done {
    /// A drain is on stable storage.
    Stored(PartId, Counts),
    /// It could not be done; it is tried again, and nothing else is done meanwhile.
    Failed(String),
    /// What failed before is done.
    Recovered,
    /// This epoch was begun, and the one before it is to be merged.
    Rolled(Merge, PathBuf),
    /// What is stored can be merged.
    Flushed(Merge),
    /// The database was made again: requests come from here now.
    Listening(Receiver<Asked>),
    /// What is in the database.
    Looked(Facts),
}

/// What is in the database.
#[derive(Clone, Default)]
pub struct Facts {
    /// The epoch that is added to.
    pub epoch: PathBuf,
    /// Its parts.
    pub parts: usize,
    /// Epochs of this host.
    pub epochs: usize,
    /// Their size, in bytes.
    pub bytes: u64,
    /// Epochs that were removed because the disk was full.
    pub sacrificed: u64,
}

/// Samples so far.
#[derive(Clone, Copy, Default)]
pub struct Counts {
    pub taken: u64,
    pub stored: u64,
    pub dropped: u64,
    pub taken_over: u64,
    pub unknown: u64,
}

impl Counts {
    fn of(drained: &Drained) -> Self {
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
    pub fn add(&mut self, other: Self) {
        self.taken += other.taken;
        self.stored += other.stored;
        self.dropped += other.dropped;
        self.taken_over += other.taken_over;
        self.unknown += other.unknown;
    }
}

/// The thread, as others see it.
pub struct Archive {
    tasks: Option<Sender<Task>>,
    done: Receiver<Done>,
    thread: Option<JoinHandle<()>>,
}

impl Archive {
    /// Starts it, adding to an epoch.
    pub fn start(
        database: Database,
        host: String,
        place: Place,
        epoch: OpenEpoch,
        keep: Keep,
    ) -> std::io::Result<Self> {
        let (tasks, waiting) = channel();
        let (say, done) = channel();
        let mut writer = Writer {
            database,
            host,
            place,
            epoch,
            keep,
            queue: VecDeque::new(),
            retry_at: None,
            sacrificed: 0,
            say,
        };
        let thread = std::thread::Builder::new().name("archive".into());
        let thread = thread.spawn(move || writer.work(&waiting))?;
        Ok(Self {
            tasks: Some(tasks),
            done,
            thread: Some(thread),
        })
    }

    /// Asks it for something.
    pub fn ask(&self, task: Task) {
        if let Some(tasks) = &self.tasks {
            // It ends only when this value does.
            let _ = tasks.send(task);
        }
    }

    /// What it has done, if it does something within this time.
    pub fn wait(&self, timeout: Duration) -> Option<Done> {
        self.done.recv_timeout(timeout).ok()
    }

    /// Waits until it has done all it can, and removes the socket.
    pub fn finish(mut self) {
        self.tasks = None;
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// What the thread has.
struct Writer {
    database: Database,
    host: String,
    place: Place,
    epoch: OpenEpoch,
    keep: Keep,
    queue: VecDeque<Task>,
    retry_at: Option<Instant>,
    sacrificed: u64,
    say: Sender<Done>,
}

impl Writer {
    fn work(&mut self, tasks: &Receiver<Task>) {
        loop {
            let now = Instant::now();
            let until_retry = self.retry_at.map(|at| at.saturating_duration_since(now));
            match tasks.recv_timeout(until_retry.unwrap_or(Duration::MAX)) {
                Ok(task) => self.queue.push_back(task),
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => {
                    self.work_off();
                    return self.place.leave();
                }
            }
            self.queue.extend(tasks.try_iter());
            // Tasks that arrive while storing fails must not put the next try off.
            if self.retry_at.is_none_or(|at| at <= Instant::now()) {
                self.work_off();
            }
        }
    }

    /// Does what is in the queue, up to the first that fails.
    fn work_off(&mut self) {
        while let Some(task) = self.queue.pop_front() {
            match self.perform(&task) {
                Ok(done) => {
                    if self.retry_at.take().is_some() {
                        let _ = self.say.send(Done::Recovered);
                    }
                    for done in done {
                        let _ = self.say.send(done);
                    }
                }
                Err(error) => {
                    self.queue.push_front(task);
                    self.retry_at = Some(Instant::now() + RETRY);
                    let _ = self.say.send(Done::Failed(message(&error)));
                    return;
                }
            }
        }
    }

    fn perform(&mut self, task: &Task) -> anyhow::Result<Vec<Done>> {
        match task {
            Task::Store(drained) => {
                self.store(drained)?;
                Ok(vec![Done::Stored(drained.id, Counts::of(drained))])
            }
            Task::Roll { ticket } => {
                let next = self.database.begin_epoch(&self.host, unix_ns())?;
                let old = std::mem::replace(&mut self.epoch, next);
                let epoch = self.epoch.path().to_owned();
                Ok(vec![Done::Rolled(Merge::closing(&old, *ticket), epoch)])
            }
            Task::Flush { ticket } => {
                let merge = Merge::all(&self.epoch, *ticket);
                Ok(vec![Done::Flushed(merge)])
            }
            Task::Look => {
                let mut done = Vec::new();
                if let Some(requests) = self.place.take_again(&self.database, &self.host)? {
                    say("the database was removed while it was written to; it is made again");
                    done.push(Done::Listening(requests));
                }
                done.push(Done::Looked(self.look()));
                Ok(done)
            }
        }
    }

    fn look(&self) -> Facts {
        let range = store::Range::default();
        let epochs = self.database.select(&range, Some(&self.host));
        let epochs = epochs.unwrap_or_default();
        let read = epochs
            .iter()
            .filter_map(|epoch| epoch.summary.as_ref().ok());
        Facts {
            epoch: self.epoch.path().to_owned(),
            parts: self.epoch.len().unwrap_or(0),
            epochs: epochs.len(),
            bytes: read.map(|summary| summary.bytes).sum(),
            sacrificed: self.sacrificed,
        }
    }

    /// Adds a drain to the epoch, in place of old epochs if the disk is full and they may go.
    fn store(&mut self, drained: &Drained) -> anyhow::Result<()> {
        let taken: u64 = drained.recording.events.iter().map(|e| e.taken).sum();
        if taken == 0 {
            return Ok(()); // of an idle machine
        }
        if self.epoch.is_closed() {
            // By the process of a daemon that was killed; nothing may be added to it.
            self.epoch = self.database.begin_epoch(&self.host, unix_ns())?;
        }
        loop {
            match self.epoch.add(drained.id, &drained.recording) {
                Ok(_) => return Ok(()),
                Err(error) if error.is_full() && self.make_room()? => {}
                Err(error) => return Err(error.into()),
            }
        }
    }

    /// Removes epochs that may go: those that are too old, else the oldest closed one if the size of all is limited. Whether there
    /// were any.
    fn make_room(&mut self) -> anyhow::Result<bool> {
        let removed = expire(&self.database, &self.host, &self.keep, true)?;
        for epoch in &removed {
            say(&format!(
                "the disk is full: removed the oldest epoch, {}, to store new samples",
                epoch.display()
            ));
        }
        self.sacrificed += removed.len() as u64;
        Ok(!removed.is_empty())
    }
}
