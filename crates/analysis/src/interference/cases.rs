//! The evidence for each cause, and the words for it.

use super::known::Known;
use profile::{Cause, CauseKind, TraceHead, WaitEnder};
use std::collections::BTreeMap;

/// The evidence for each cause.
pub(super) type Cases = BTreeMap<CauseKind, Case>;

/// Maximum number of named blocks that ended waits.
const ENDERS: usize = 6;

/// Evidence for one cause, in ticks.
#[derive(Default)]
pub(super) struct Case {
    pub ticks: f64,
    pub measured: f64,
    pub waits: u64,
    /// Ready after these waits, without a CPU.
    pub woken: f64,
    pub calls: BTreeMap<&'static str, f64>,
    /// Blocks that ended waits, with the threads that were in them.
    pub wakers: BTreeMap<String, (f64, BTreeMap<String, f64>)>,
    pub other: Vec<String>,
    /// Times that a thread lost its CPU to one that it woke, and for how long that was.
    handed_over: (u64, f64),
}

impl Case {
    /// Returns the evidence as a cause of a block's loss.
    pub fn cause(self, kind: CauseKind, known: &Known<'_>) -> Cause {
        let mut evidence = Vec::new();
        let blocked: f64 = self.calls.values().sum();
        if self.waits > 0 {
            let calls: Vec<&str> = largest(&self.calls)
                .map(|(name, _)| *name)
                .take(3)
                .collect();
            let ms = |ticks: f64| ticks * known.ns / 1e6;
            let again = match self.woken >= 0.1 * blocked {
                true => format!(", and {:.1} ms more until it ran again", ms(self.woken)),
                false => String::new(),
            };
            evidence.push(format!(
                "blocked for {:.1} ms in {} waits ({}){again}",
                ms(blocked),
                self.waits,
                calls.join(", ")
            ));
        }
        let ended_by = self.wait_enders(known);
        evidence.extend(self.ended_by(kind, blocked));
        let (times, ticks) = self.handed_over;
        if times > 0 {
            evidence.push(format!(
                "{times} times a thread that ended a wait lost its CPU to the one that it woke, for {:.1} ms",
                ticks * known.ns / 1e6
            ));
        }
        evidence.extend(self.other);
        Cause {
            kind,
            share: (self.ticks / known.excess).min(1.0),
            measured: 2.0 * self.measured > self.ticks,
            evidence,
            ended_by,
        }
    }
}

impl Case {
    /// Adds times that a thread lost its CPU to one that it woke.
    pub fn add_hand_overs(&mut self, ticks: f64, n: u64) {
        self.ticks += ticks;
        self.measured += ticks;
        self.handed_over.0 += n;
        self.handed_over.1 += ticks;
    }

    /// The blocks that ended most of its waits.
    fn wait_enders(&self, known: &Known<'_>) -> Vec<WaitEnder> {
        let mut enders: Vec<WaitEnder> = (self.wakers.iter())
            .map(|(block, (ticks, threads))| WaitEnder {
                block: block.clone(),
                ns: ticks * known.ns,
                thread: largest(threads).next().map(|(thread, _)| thread.clone()),
            })
            .collect();
        enders.sort_by(|a, b| b.ns.total_cmp(&a.ns));
        enders.truncate(ENDERS);
        enders
    }

    /// Describes the block and the thread that ended most of the waits. For a lock, that thread held it.
    fn ended_by(&self, kind: CauseKind, blocked: f64) -> Option<String> {
        let first = |a: &(f64, _), b: &(f64, _)| a.0.total_cmp(&b.0);
        let waker = self.wakers.iter().max_by(|a, b| first(a.1, b.1));
        let (block, (ticks, threads)) = waker?;
        let share = 100.0 * ticks / blocked.max(1.0);
        let of = match (largest(threads).next(), threads.len()) {
            (None, _) => String::new(),
            (Some((thread, _)), 1) => format!(" of {thread}"),
            (Some((thread, _)), n) => format!(" of {n} threads, most of {thread}"),
        };
        let held = matches!(
            kind,
            CauseKind::Lock | CauseKind::Allocator | CauseKind::AddressSpace
        );
        let mut owners: BTreeMap<&str, f64> = BTreeMap::new();
        for (thread, ticks) in self.wakers.values().flat_map(|(_, threads)| threads) {
            *owners.entry(thread).or_default() += ticks;
        }
        let owner = largest(&owners).next().filter(|_| held);
        let owner = owner.map_or(String::new(), |(thread, ticks)| {
            let share = 100.0 * ticks / blocked.max(1.0);
            format!(", so that {thread} held it for {share:.0} %")
        });
        Some(format!("{share:.0} % of it ended by {block}{of}{owner}"))
    }

    /// Adds the name of the lock, if a name on the way to it is known.
    pub fn resource(&mut self, kind: CauseKind, known: &Known<'_>, head: &TraceHead) {
        let stacks = known.state.stacks.all.iter();
        let places = stacks.flat_map(|stack| &stack.places);
        let callers = places.filter_map(|place| head.places.get(*place as usize));
        let callers = callers.map(|place| place.function.as_str());
        let own = std::iter::once(known.block.name.as_str());
        let within = known.state.waits.parts.iter();
        let within = within.filter_map(|part| head.blocks.get(part.reason.within? as usize));
        let wakers = self.wakers.keys().map(String::as_str);
        let names = within.map(|block| block.name.as_str());
        let names = own.chain(names).chain(wakers).chain(callers);
        let said = resource_of(kind, names);
        self.other.extend(said.map(str::to_owned));
    }
}

/// Returns a description of the resource that is waited for, if one of these names tells it.
fn resource_of<'a>(kind: CauseKind, names: impl Iterator<Item = &'a str>) -> Option<&'static str> {
    match kind {
        CauseKind::Allocator => return Some("the allocator's lock: threads share an arena"),
        CauseKind::AddressSpace => {
            return Some(
                "the lock of the process's memory map (mmap_lock), which maps, unmaps and page faults of all its threads take",
            );
        }
        CauseKind::Lock | CauseKind::Barrier | CauseKind::Pool => {}
        CauseKind::Disk
        | CauseKind::Network
        | CauseKind::Scheduler
        | CauseKind::PageFault
        | CauseKind::Memory
        | CauseKind::Sleep
        | CauseKind::OtherWait
        | CauseKind::Core
        | CauseKind::Work
        | CauseKind::Throttle
        | CauseKind::OtherProcesses => return None,
    }
    const RESOURCES: &[(&str, &str)] = &[
        ("take_gil", "Python's global interpreter lock"),
        ("batch_semaphore", "tokio's semaphore"),
        ("parking_lot::", "parking_lot's lock"),
        ("mutex::futex::Mutex", "Rust's std::sync::Mutex"),
        ("rwlock::futex::RwLock", "Rust's std::sync::RwLock"),
        ("GOMP_barrier", "OpenMP's barrier"),
        ("GOMP_critical", "OpenMP's critical section"),
        (
            "sched_yield",
            "spinning: it yields its CPU until somebody else is done",
        ),
        (
            "sem_wait",
            "a semaphore that is used as a lock: those who wait for it post it",
        ),
    ];
    let names: Vec<&str> = names.collect();
    let found = RESOURCES
        .iter()
        .find(|(part, _)| names.iter().any(|name| name.contains(part)));
    let lock = |text: &&str| kind == CauseKind::Lock || !text.contains("used as a lock");
    found.map(|(_, text)| *text).filter(lock)
}

fn largest<K: Ord>(of: &BTreeMap<K, f64>) -> impl Iterator<Item = (&K, &f64)> {
    let mut all: Vec<(&K, &f64)> = of.iter().collect();
    all.sort_by(|a, b| b.1.total_cmp(a.1).then(a.0.cmp(b.0)));
    all.into_iter()
}
