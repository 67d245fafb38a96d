//! Makes JVMs write the names of their compiled code. A separate thread gives the orders, because a
//! JVM may answer slowly.

use crate::processes::images::ImageTable;
use crate::processes::maps::ProcessMaps;
use languages::jvm::{AttachError, JvmProcess, is_jvm_image, write_perf_map};
use rustc_hash::{FxHashMap, FxHashSet};
use std::collections::BTreeMap;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// Age at which a JVM is first asked: it does not handle signals right after its start.
const FIRST_AGE: Duration = Duration::from_secs(1);
/// Longest time between two orders. Until then a pause is as long as the JVM has been known.
const LONGEST_PAUSE: Duration = Duration::from_secs(30);
/// Longest wait for one JVM.
const PATIENCE: Duration = Duration::from_secs(2);
/// Longest wait for all JVMs at the end.
const LAST_PATIENCE: Duration = Duration::from_secs(4);
/// Time between two searches for new JVMs.
const LOOK: Duration = Duration::from_millis(250);
/// Maximum number of failures that are reported one by one.
const MOST_NOTES: usize = 4;

/// A known JVM.
struct KnownJvm {
    since: Instant,
    next: Instant,
    /// True if it ran before the recording: its code is known at the end, too.
    was_there: bool,
}

/// Results of the last order to each process.
type Answers = Arc<Mutex<BTreeMap<u32, Result<(), AttachError>>>>;

/// The JVMs of a recording.
pub(crate) struct JvmNames {
    /// True if the JVMs of the next look ran before the recording.
    joins: bool,
    looked: Option<Instant>,
    known: FxHashMap<u32, KnownJvm>,
    worker: Option<Orders>,
    answers: Answers,
}

/// The thread that gives orders.
struct Orders {
    jobs: Sender<u32>,
    thread: JoinHandle<()>,
}

impl JvmNames {
    /// Makes an empty set. `joins`: the recording may start while processes run.
    pub fn new(joins: bool) -> Self {
        Self {
            joins,
            looked: None,
            known: FxHashMap::default(),
            worker: None,
            answers: Answers::default(),
        }
    }

    /// Asks the JVMs that are due. Called several times a second: a program compiles most of its
    /// code early, and its names vanish when it ends.
    pub fn ask_due(
        &mut self,
        maps: &ProcessMaps,
        images: &ImageTable,
        is_target: impl Fn(u32) -> bool,
    ) {
        let now = Instant::now();
        if self.looked.is_some_and(|looked| now - looked < LOOK) {
            return;
        }
        self.looked = Some(now);
        let running = self.find_jvms(maps, images, is_target);
        self.known.retain(|pid, _| running.contains(pid));
        let was_there = std::mem::take(&mut self.joins);
        for pid in running {
            let known = self.known.entry(pid).or_insert(KnownJvm {
                since: now,
                next: now + FIRST_AGE,
                was_there,
            });
            if known.was_there || now < known.next {
                continue;
            }
            known.next = now + (now - known.since).min(LONGEST_PAUSE);
            self.order_names(pid);
        }
    }

    fn find_jvms(
        &self,
        maps: &ProcessMaps,
        images: &ImageTable,
        is_target: impl Fn(u32) -> bool,
    ) -> FxHashSet<u32> {
        let libraries = images.with_path(is_jvm_image);
        let mut processes = if libraries.is_empty() {
            FxHashSet::default()
        } else {
            maps.processes_with(&libraries)
        };
        processes.retain(|pid| is_target(*pid));
        processes
    }

    /// Asks all JVMs that still run, and waits for them for a limited time.
    pub fn ask_remaining(
        &mut self,
        maps: &ProcessMaps,
        images: &ImageTable,
        is_target: impl Fn(u32) -> bool,
    ) {
        for pid in self.find_jvms(maps, images, is_target) {
            self.order_names(pid);
        }
        let Some(Orders { jobs, thread }) = self.worker.take() else {
            return;
        };
        drop(jobs);
        let begin = Instant::now();
        while !thread.is_finished() && begin.elapsed() < LAST_PATIENCE {
            std::thread::sleep(Duration::from_millis(2));
        }
    }

    fn order_names(&mut self, pid: u32) {
        if self.worker.is_none() {
            let (jobs, inbox) = channel();
            let answers = self.answers.clone();
            let thread = std::thread::Builder::new().name("jvm-names".into());
            let thread = thread.spawn(move || give_orders(&inbox, &answers));
            self.worker = thread.ok().map(|thread| Orders { jobs, thread });
        }
        if let Some(worker) = &self.worker {
            // If the thread has ended, the names are missing, which is reported.
            let _ = worker.jobs.send(pid);
        }
    }

    /// Returns a note, one sentence each, on the processes that have samples.
    pub fn notes(&self, is_sampled: impl Fn(u32) -> bool) -> Vec<String> {
        let answers = self.answers.lock().unwrap_or_else(PoisonError::into_inner);
        let failed: Vec<_> = answers
            .iter()
            .filter_map(|(pid, answer)| Some((pid, answer.as_ref().err()?)))
            .filter(|(pid, error)| is_sampled(**pid) && **error != AttachError::Ended)
            .collect();
        let mut notes: Vec<String> = failed
            .iter()
            .take(MOST_NOTES)
            .map(|(pid, error)| {
                format!("Java process {pid} was not asked for the names of its functions: {error}")
            })
            .collect();
        if failed.len() > MOST_NOTES {
            let more = failed.len() - MOST_NOTES;
            notes.push(format!("neither were {more} other Java processes"));
        }
        notes
    }
}

fn give_orders(inbox: &Receiver<u32>, answers: &Answers) {
    while let Ok(pid) = inbox.recv() {
        let deadline = Instant::now() + PATIENCE;
        let answer = JvmProcess::read(pid).and_then(|jvm| write_perf_map(&jvm, deadline));
        let mut answers = answers.lock().unwrap_or_else(PoisonError::into_inner);
        // A JVM that has ended since keeps the names that it wrote before.
        let kept = answers.get(&pid).is_some_and(Result::is_ok);
        if !(kept && answer == Err(AttachError::Ended)) {
            answers.insert(pid, answer);
        }
    }
}
