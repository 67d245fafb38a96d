//! What may have slowed a block down, by what was seen of its waits, by names, and by who else was there.

use super::doubts::Known;
use super::evidence::{Verdict, evidence};
use super::functions::{SystemCall, Waits, call, ends_waits_of, waits_for};
use super::waits::{Fate, WaitPart};
use profile::{Cause, CauseKind, TraceHead};
use std::collections::BTreeMap;

/// Smaller shares are not worth a line.
const SLIGHT: f64 = 0.02;

/// Evidence for one cause, in ticks.
#[derive(Default)]
struct Case {
    ticks: f64,
    measured: f64,
    waits: u64,
    calls: BTreeMap<&'static str, f64>,
    /// Blocks that ended waits, with the threads that were in them.
    wakers: BTreeMap<String, (f64, BTreeMap<String, f64>)>,
    other: Vec<String>,
}

/// The causes of what a block lost, the largest first.
pub(super) fn causes(known: &Known<'_>, head: &TraceHead) -> Vec<Cause> {
    if known.excess < 1.0 {
        return Vec::new();
    }
    let mut cases: BTreeMap<CauseKind, Case> = BTreeMap::new();
    if head.waits {
        scheduler(known, head, &mut cases);
        blocked(known, head, &mut cases);
        running(known, head, &mut cases);
    } else {
        by_name(known, &mut cases);
    }
    for (kind, case) in &mut cases {
        case.resource(*kind, known, head);
    }
    let causes = cases
        .into_iter()
        .map(|(kind, case)| case.cause(kind, known));
    let mut causes: Vec<Cause> = causes.filter(|cause| cause.share >= SLIGHT).collect();
    causes.sort_by(|a, b| b.share.total_cmp(&a.share).then(a.kind.cmp(&b.kind)));
    causes
}

impl Case {
    fn cause(self, kind: CauseKind, known: &Known<'_>) -> Cause {
        let mut evidence = Vec::new();
        let blocked: f64 = self.calls.values().sum();
        if self.waits > 0 {
            let calls: Vec<&str> = largest(&self.calls)
                .map(|(name, _)| *name)
                .take(3)
                .collect();
            let ms = blocked * known.ns / 1e6;
            evidence.push(format!(
                "blocked for {ms:.1} ms in {} waits ({})",
                self.waits,
                calls.join(", ")
            ));
        }
        evidence.extend(self.ended_by(kind, blocked));
        evidence.extend(self.other);
        Cause {
            kind,
            share: (self.ticks / known.excess).min(1.0),
            measured: 2.0 * self.measured > self.ticks,
            evidence,
        }
    }
}

impl Case {
    /// Returns who ended most of it. Of a lock, that is who held it.
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

    /// Says which lock it is, where a name on the way to it is known.
    fn resource(&mut self, kind: CauseKind, known: &Known<'_>, head: &TraceHead) {
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

/// Returns what is waited for, in words, if one of these names says so.
fn resource_of<'a>(kind: CauseKind, names: impl Iterator<Item = &'a str>) -> Option<&'static str> {
    match kind {
        CauseKind::Allocator => return Some("the allocator's lock: threads share an arena"),
        CauseKind::AddressSpace => {
            return Some(
                "the lock of the process's memory map (mmap_lock), which maps, unmaps and page faults of all its threads take",
            );
        }
        CauseKind::Lock | CauseKind::Barrier | CauseKind::Pool => {}
        _ => return None,
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

/// Ready, and no CPU.
fn scheduler(known: &Known<'_>, head: &TraceHead, cases: &mut BTreeMap<CauseKind, Case>) {
    let waits = &known.state.waits;
    let ms = |ticks: u64| ticks as f64 * known.ns / 1e6;
    let case = cases.entry(CauseKind::Scheduler).or_default();
    case.ticks = known.parts.scheduler;
    case.measured = case.ticks;
    case.other.push(format!(
        "ready without a CPU: {:.1} ms after {} preemptions, {:.1} ms after waking up, on {} CPUs",
        ms(waits.preempted),
        waits.preemptions,
        ms(waits.queued),
        head.host.cpus
    ));
}

/// Waits, by what they were for. Of those that are compared, the least that every execution waits is taken off all alike; those that
/// were asked for are none, but where threads take turns.
fn blocked(known: &Known<'_>, head: &TraceHead, cases: &mut BTreeMap<CauseKind, Case>) {
    let fates = &known.state.fates;
    let turns = if known.turn.is_some() { fates.asked } else { 0 };
    let whole = known.exact * fates.lost.saturating_add(turns) as f64;
    let compared = (known.parts.blocked - whole).max(0.0) / (fates.compared as f64).max(1.0);
    let name = |at: Option<u32>| Some(head.blocks.get(at? as usize)?.name.as_str());
    let mut explained = 0.0;
    for part in &known.state.waits.parts {
        let number = part.reason.system_call;
        let system_call = number.and_then(|number| call(number, known.aarch64));
        let waker_block = name(part.reason.waker_block);
        // What it called and waited in says more than its own name.
        let within = name(part.reason.within);
        let own = within.and_then(waits_for);
        let own = own.or_else(|| waits_for(&known.block.name));
        let scale = match part.reason.fate(own, known.aarch64) {
            Fate::Lost => known.exact,
            Fate::Compared => compared,
            Fate::Asked if known.turn.is_some() => known.exact,
            Fate::Asked => continue,
        };
        let function = within.unwrap_or(&known.block.name);
        let turn = part
            .reason
            .within
            .and_then(|at| *known.turns.get(at as usize)?);
        let (kind, measured) = match (own, turn.or(known.turn)) {
            (Some(CauseKind::Pool), Some(turn)) => (turn, true),
            _ => reason(own, part, system_call, waker_block, function),
        };
        let ticks = part.blocked as f64 * scale;
        explained += ticks;
        let case = cases.entry(kind).or_default();
        case.ticks += ticks;
        case.waits += part.n;
        if measured {
            case.measured += ticks;
        }
        let name = match (system_call, number) {
            (Some(call), _) => call.name,
            (None, Some(_)) => "another system call",
            (None, None) => "no system call",
        };
        *case.calls.entry(name).or_default() += part.blocked as f64;
        let waker = part.reason.waker;
        let waker = waker.and_then(|at| head.threads.get(at as usize));
        let ended_by = match (waker_block, waker) {
            (Some(block), _) => block.to_owned(),
            (None, Some(_)) => "code outside any traced function".to_owned(),
            (None, None) if Some(kind) == known.turn => "the time that was asked for".to_owned(),
            (None, None) => "no thread of the program".to_owned(),
        };
        let (ticks, threads) = case.wakers.entry(ended_by).or_default();
        *ticks += part.blocked as f64;
        if let Some(thread) = waker {
            let namesakes = head.threads.iter().filter(|t| t.name == thread.name);
            let label = match namesakes.count() {
                0 | 1 => thread.name.clone(),
                _ => format!("{} ({})", thread.name, thread.tid),
            };
            *threads.entry(label).or_default() += part.blocked as f64;
        }
    }
    let rest = known.parts.blocked - explained;
    if rest > 0.0 {
        cases.entry(CauseKind::OtherWait).or_default().ticks += rest;
    }
}

/// Returns what a wait was for in a function, and whether that was seen or goes by names.
fn reason(
    own: Option<CauseKind>,
    part: &WaitPart,
    system_call: Option<SystemCall>,
    waker_block: Option<&str>,
    function: &str,
) -> (CauseKind, bool) {
    let woken = part.reason.waker.is_some();
    let Some(system_call) = system_call else {
        return match part.reason.system_call {
            None if woken => (CauseKind::AddressSpace, true),
            None => (CauseKind::PageFault, true),
            Some(_) => (CauseKind::OtherWait, false),
        };
    };
    match system_call.waits_for {
        Waits::Futex => {
            let by_waker = waker_block.and_then(ends_waits_of);
            match (own, by_waker) {
                (Some(own @ (CauseKind::Lock | CauseKind::Barrier)), by_waker) => {
                    (own, by_waker == Some(own) || woken)
                }
                (Some(CauseKind::Allocator), _) => (CauseKind::Allocator, woken),
                (_, Some(kind)) => (kind, true),
                (Some(own), None) => (own, woken),
                // Who is let go on from where it waits itself waits for a turn.
                (None, None) if waker_block == Some(function) => (CauseKind::Lock, true),
                (None, None) => (CauseKind::OtherWait, false),
            }
        }
        Waits::File if own == Some(CauseKind::Network) => (CauseKind::Network, true),
        Waits::File if woken => (CauseKind::Pool, true),
        // A disk, or a process that is not traced.
        Waits::File => (CauseKind::Disk, false),
        Waits::Disk => (CauseKind::Disk, true),
        Waits::Network => (CauseKind::Network, true),
        Waits::Poll => (CauseKind::Pool, woken),
        Waits::Sleep => (CauseKind::Sleep, true),
        Waits::Child => (CauseKind::OtherWait, true),
        Waits::FileLock | Waits::Yield => (CauseKind::Lock, true),
        Waits::AddressSpace => (CauseKind::AddressSpace, true),
    }
}

/// Time on the CPU.
fn running(known: &Known<'_>, head: &TraceHead, cases: &mut BTreeMap<CauseKind, Case>) {
    let ticks = known.parts.running;
    let ratio = known.slower_with_others();
    let disturbed = ratio.is_some_and(|ratio| ratio >= 1.1);
    let (verdict, mut evidence) = evidence(known);
    let (mut kind, mut text) = by_others(known, ratio);
    let mut measured = false;
    if !matches!(kind, CauseKind::Lock | CauseKind::Barrier) {
        match verdict {
            Verdict::Work if disturbed => {
                kind = CauseKind::Lock;
                evidence.push("it may spin, or try again".to_owned());
            }
            Verdict::Faults => (kind, measured) = (CauseKind::PageFault, true),
            Verdict::Work => (kind, measured) = (CauseKind::Work, true),
            Verdict::Memory => (kind, measured) = (CauseKind::Memory, true),
            Verdict::Neither => kind = CauseKind::Core,
            Verdict::Unknown => {}
        }
        if !matches!(verdict, Verdict::Unknown) {
            text = with_others(ratio);
        }
    }
    if let (CauseKind::Memory, Some(reason)) = (kind, &head.no_events) {
        evidence.push(format!(
            "cache misses, which would tell, were not counted: {reason}"
        ));
    }
    let case = cases.entry(kind).or_default();
    case.ticks += ticks;
    if measured {
        case.measured += ticks;
    }
    case.other.push(text);
    case.other.append(&mut evidence);
}

/// Returns what names and the presence of others say of it.
fn by_others(known: &Known<'_>, ratio: Option<f64>) -> (CauseKind, String) {
    let spins = |part: &WaitPart| {
        let number = part.reason.system_call;
        let system_call = number.and_then(|number| call(number, known.aarch64));
        system_call.is_some_and(|call| call.waits_for == Waits::Yield)
    };
    let own = known.turn.or_else(|| waits_for(&known.block.name));
    let spinning = known.state.waits.parts.iter().any(spins);
    let consistent = match ratio {
        _ if own == Some(CauseKind::Lock) || spinning => {
            let text = "it runs meanwhile: it spins, or the lock's cache line is elsewhere";
            return (CauseKind::Lock, text.to_owned());
        }
        _ if own == Some(CauseKind::Barrier) => {
            let text = "it runs meanwhile: it spins until the others arrive";
            return (CauseKind::Barrier, text.to_owned());
        }
        Some(ratio) if ratio >= 1.1 && own == Some(CauseKind::AddressSpace) => {
            let text = "the kernel spins for the lock of the memory map (mmap_lock), or tells other CPUs of the change";
            return (
                CauseKind::AddressSpace,
                format!("{}: {text}", with_others(Some(ratio))),
            );
        }
        Some(ratio) if ratio >= 1.1 && own == Some(CauseKind::Allocator) => {
            let text = "the allocator's lock, or memory that threads pass to each other";
            return (
                CauseKind::Allocator,
                format!("{}: {text}", with_others(Some(ratio))),
            );
        }
        Some(ratio) if ratio >= 1.1 => {
            "consistent with a cache line that others write, or with memory that is slow"
        }
        None if known.threads > 1 => "consistent with slow or shared memory, and with more work",
        Some(_) => return (CauseKind::Work, with_others(ratio)),
        None => {
            let text = "it runs meanwhile, in one thread only";
            return (CauseKind::Work, text.to_owned());
        }
    };
    (
        CauseKind::Memory,
        format!("{}: {consistent}", with_others(ratio)),
    )
}

fn with_others(ratio: Option<f64>) -> String {
    let times = |ratio: f64| match ratio >= 1.1 {
        true => format!("{ratio:.1}"),
        false => format!("{ratio:.2}"),
    };
    let others = ratio.map(|ratio| {
        let times = times(ratio);
        format!(", {times} times as long while another thread is in the block")
    });
    format!("it runs meanwhile{}", others.unwrap_or_default())
}

/// Without waits: what is known is the name, and who else was there.
fn by_name(known: &Known<'_>, cases: &mut BTreeMap<CauseKind, Case>) {
    let named = waits_for(&known.block.name);
    let computes =
        |kind: &CauseKind| matches!(kind, CauseKind::Allocator | CauseKind::AddressSpace);
    let Some(kind) = named.filter(|kind| !computes(kind)) else {
        return running_unknown(known, cases);
    };
    let case = cases.entry(kind).or_default();
    case.ticks = known.excess;
    case.other
        .push("by its name only: waits were not measured".to_owned());
}

fn running_unknown(known: &Known<'_>, cases: &mut BTreeMap<CauseKind, Case>) {
    let (verdict, words) = evidence(known);
    let kind = match verdict {
        Verdict::Faults => CauseKind::PageFault,
        Verdict::Work => CauseKind::Work,
        Verdict::Memory => CauseKind::Memory,
        Verdict::Neither | Verdict::Unknown => return by_concurrency(known, cases),
    };
    let case = cases.entry(kind).or_default();
    (case.ticks, case.measured) = (known.excess, known.excess);
    case.other.extend(words);
    let waits = "whether it waits was not measured";
    case.other.push(waits.to_owned());
}

fn by_concurrency(known: &Known<'_>, cases: &mut BTreeMap<CauseKind, Case>) {
    let Some(ratio) = known.slower_with_others().filter(|ratio| *ratio >= 1.1) else {
        return;
    };
    let case = cases.entry(CauseKind::Memory).or_default();
    case.ticks = known.excess;
    case.other.push(format!(
        "it takes {ratio:.1} times as long while another thread is in the block; whether it waits was not measured"
    ));
}
