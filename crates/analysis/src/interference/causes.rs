//! Causes that may have slowed a block down: from its waits, from names, and from the other threads present.

use super::cases::Cases;
use super::evidence::{EventVerdict, evidence};
use super::functions::{CallTarget, SystemCall, ends_waits_of, find_system_call, waits_for};
use super::hand_over::{HandedOver, hand_overs};
use super::known::Known;
use super::wait_sum::{Fate, WaitPart};
use profile::{Cause, CauseKind, TraceHead, TracedCpuUser, TracedThread};

/// Smaller shares are not worth a line.
const SLIGHT: f64 = 0.02;

/// The causes of what a block lost, the largest first.
/// Also what was lost by handing locks over, in ticks.
pub(super) fn find_causes(known: &Known<'_>, head: &TraceHead) -> (Vec<Cause>, f64) {
    if known.excess < 1.0 {
        return (Vec::new(), 0.0);
    }
    let mut cases = Cases::new();
    let mut handed_over = HandedOver::default();
    if head.waits {
        let woken = charge_waits(known, head, &mut cases);
        handed_over = hand_overs(known, head, &mut cases);
        let listed = Ready {
            ticks: woken + handed_over.recorded,
            taken: handed_over.taken,
        };
        charge_ready_time(known, head, listed, &mut cases);
        charge_running_time(known, head, &mut cases);
    } else {
        charge_by_name(known, &mut cases);
    }
    for (kind, case) in &mut cases {
        case.resource(*kind, known, head);
    }
    let causes = cases
        .into_iter()
        .map(|(kind, case)| case.cause(kind, known));
    let mut causes: Vec<Cause> = causes.filter(|cause| cause.share >= SLIGHT).collect();
    causes.sort_by(|a, b| b.share.total_cmp(&a.share).then(a.kind.cmp(&b.kind)));
    (causes, handed_over.locks)
}

/// Time of one kind, ready without a CPU.
#[derive(Clone, Copy, Debug, Default)]
struct Ready {
    ticks: f64,
    /// The part of it in which other processes had the CPUs.
    taken: f64,
}

/// Charges time ready without a CPU to the processes that had the CPUs. `listed` of it is already listed with locks: a
/// thread that no lock stops needs no CPU again.
fn charge_ready_time(known: &Known<'_>, head: &TraceHead, listed: Ready, cases: &mut Cases) {
    let waits = &known.state.waits;
    let ms = |ticks: f64| ticks * known.ns / 1e6;
    let recorded = (waits.queued.saturating_add(waits.preempted) as f64 - listed.ticks).max(0.0);
    let taken = ((waits.taken as f64 - listed.taken) / recorded.max(1.0)).clamp(0.0, 1.0);
    let ready = (known.parts.scheduler - listed.ticks * known.ready_scale()).max(0.0);
    let limited = ready * known.throttled;
    if let Some(limit) = head.throttled.as_ref().filter(|_| limited > 0.0) {
        let case = cases.entry(CauseKind::Throttle).or_default();
        case.ticks = limited;
        case.measured = limited;
        case.other.push(format!(
            "the control group {} had used up its CPU time {} times, for {:.1} ms of all its CPUs (cpu.stat)",
            limit.group,
            limit.times,
            limit.ns as f64 / 1e6
        ));
    }
    let away = |part: f64| {
        format!(
            "ready without a CPU: {:.1} ms after {} preemptions, {:.1} ms after waking up",
            ms(part * waits.preempted as f64),
            waits.preemptions,
            ms(part * (waits.queued as f64 - listed.ticks).max(0.0)),
        )
    };
    let others = (ready - limited) * taken;
    if others > 0.0 {
        let case = cases.entry(CauseKind::OtherProcesses).or_default();
        case.ticks += others;
        case.measured += others;
        case.other.push(away(taken));
        case.other.extend(cpu_users(head, false));
    }
    let case = cases.entry(CauseKind::Scheduler).or_default();
    case.ticks = ready - limited - others;
    case.measured = case.ticks;
    case.other
        .push(format!("{}, on {} CPUs", away(1.0 - taken), head.host.cpus));
    case.other.extend(cpu_users(head, true));
}

/// Puts ticks of waiting for threads that other processes held up down to these, with words for it that end before the time.
fn by_other_processes(
    known: &Known<'_>,
    ticks: f64,
    measured: bool,
    text: &str,
    cases: &mut Cases,
) {
    let case = cases.entry(CauseKind::OtherProcesses).or_default();
    case.ticks += ticks;
    if measured {
        case.measured += ticks;
    }
    case.other
        .push(format!("{text} {:.1} ms", ticks * known.ns / 1e6));
}

/// Describes the processes that had the CPUs, in the whole run: other processes, or all.
fn cpu_users(head: &TraceHead, own: bool) -> Option<String> {
    const NAMED: usize = 3;
    let users = head.cpu_users.iter().filter(|user| own || !user.target);
    let all: u64 = users.clone().map(|user| user.ns).sum();
    let part = |user: &TracedCpuUser| {
        let of = match user.target {
            true => "of the program itself".to_owned(),
            false if user.pid == 0 => "outside of this container".to_owned(),
            false => format!("process {}", user.pid),
        };
        let share = 100.0 * user.ns as f64 / all.max(1) as f64;
        format!("{} ({of}) {share:.0} %", user.name)
    };
    let users: Vec<String> = users.take(NAMED).map(part).collect();
    let text = format!("the CPUs were taken by {}", users.join(", "));
    (!users.is_empty()).then_some(text)
}

/// Charges waits to what they were for. Of those that are compared, the least that every execution waits is taken off all alike; those that
/// were asked for are none, but where threads take turns. Returns the ticks ready without a CPU that are part of such waits.
fn charge_waits(known: &Known<'_>, head: &TraceHead, cases: &mut Cases) -> f64 {
    let fates = &known.state.fates;
    let turns = if known.turn.is_some() { fates.asked } else { 0 };
    let whole = known.exact * fates.lost.saturating_add(turns) as f64;
    let compared = (known.parts.blocked - whole).max(0.0) / (fates.compared as f64).max(1.0);
    let (mut explained, mut all_woken, mut held_up) = (0.0, 0.0, 0.0);
    let parts = known.state.waits.parts.iter();
    for part in parts.filter(|part| !part.reason.handed_over) {
        let wait = NamedWait::find_names(known, head, part);
        let scale = match part.reason.fate(wait.own, known.aarch64) {
            Fate::Lost => known.exact,
            Fate::Compared => compared,
            Fate::Asked if known.turn.is_some() => known.exact,
            Fate::Asked => continue,
        };
        let (kind, measured) = wait.cause(known);
        // Whoever ended the wait was itself held up: that part is not its doing.
        let held = part.held as f64 * scale;
        let ticks = part.blocked.saturating_sub(part.held) as f64 * scale;
        explained += ticks + held;
        held_up += held;
        // While other processes have the CPUs, a thread that is not stopped loses its CPU, too.
        let woken = match stops_others(kind) {
            true => part.queued.saturating_sub(part.taken) as f64,
            false => 0.0,
        };
        all_woken += woken;
        let case = cases.entry(kind).or_default();
        case.ticks += ticks + woken * known.ready_scale();
        case.measured += woken * known.ready_scale();
        case.woken += woken;
        case.waits += part.n;
        if measured {
            case.measured += ticks;
        }
        *case.calls.entry(wait.call_name()).or_default() += part.blocked as f64;
        let ended_by = wait.ended_by(Some(kind) == known.turn);
        let (ticks, threads) = case.wakers.entry(ended_by).or_default();
        *ticks += part.blocked as f64;
        if let Some(thread) = wait.waker {
            *threads.entry(thread_label(thread, head)).or_default() += part.blocked as f64;
        }
    }
    if held_up > 0.0 {
        let text =
            "blocked until a thread did what it waited for that itself had no CPU meanwhile, for";
        by_other_processes(known, held_up, true, text, cases);
    }
    let rest = known.parts.blocked - explained;
    if rest > 0.0 {
        cases.entry(CauseKind::OtherWait).or_default().ticks += rest;
    }
    all_woken
}

/// Returns whether waits of this kind stop a thread that would otherwise have kept its CPU, so that getting one again is part of the wait.
fn stops_others(kind: CauseKind) -> bool {
    match kind {
        CauseKind::Lock | CauseKind::Barrier | CauseKind::Allocator | CauseKind::AddressSpace => {
            true
        }
        CauseKind::Pool
        | CauseKind::Disk
        | CauseKind::Network
        | CauseKind::Scheduler
        | CauseKind::PageFault
        | CauseKind::Memory
        | CauseKind::Sleep
        | CauseKind::OtherWait
        | CauseKind::Core
        | CauseKind::Work
        | CauseKind::Throttle
        | CauseKind::OtherProcesses => false,
    }
}

/// Returns a thread's name, with its number where others have that name.
fn thread_label(thread: &TracedThread, head: &TraceHead) -> String {
    let namesakes = head.threads.iter().filter(|t| t.name == thread.name);
    match namesakes.count() {
        0 | 1 => thread.name.clone(),
        _ => format!("{} ({})", thread.name, thread.tid),
    }
}

/// A wait with the names of what took part in it.
struct NamedWait<'a> {
    part: &'a WaitPart,
    /// The system call in which it waited, if it is a known one.
    system_call: Option<SystemCall>,
    /// The cause that waits of that function have, by its name.
    own: Option<CauseKind>,
    /// The function that it waited in.
    function: &'a str,
    /// The thread that ended the wait, and the block that it was in.
    waker: Option<&'a TracedThread>,
    waker_block: Option<&'a str>,
}

impl<'a> NamedWait<'a> {
    fn find_names(known: &Known<'a>, head: &'a TraceHead, part: &'a WaitPart) -> Self {
        let name = |at: Option<u32>| Some(head.blocks.get(at? as usize)?.name.as_str());
        let within = name(part.reason.within);
        // What it called and waited in says more than its own name, but for the allocator, whose locks are its own.
        let own = match waits_for(&known.block.name) {
            Some(CauseKind::Allocator) => Some(CauseKind::Allocator),
            own => within.and_then(waits_for).or(own),
        };
        let number = part.reason.system_call;
        let waker = part.reason.waker;
        Self {
            part,
            system_call: number.and_then(|number| find_system_call(number, known.aarch64)),
            own,
            function: within.unwrap_or(&known.block.name),
            waker: waker.and_then(|at| head.threads.get(at as usize)),
            waker_block: name(part.reason.waker_block),
        }
    }

    /// Returns what it was for, and whether that was seen or goes by names.
    fn cause(&self, known: &Known<'_>) -> (CauseKind, bool) {
        let within = self.part.reason.within;
        let turn = within.and_then(|at| *known.turns.get(at as usize)?);
        match (self.own, turn.or(known.turn)) {
            (Some(CauseKind::Pool), Some(turn)) => (turn, true),
            _ => self.cause_by_call(),
        }
    }

    fn call_name(&self) -> &'static str {
        match (self.system_call, self.part.reason.system_call) {
            (Some(call), _) => call.name,
            (None, Some(_)) => "another system call",
            (None, None) => "no system call",
        }
    }

    fn ended_by(&self, by_time: bool) -> String {
        match (self.waker_block, self.waker) {
            (Some(block), _) => block.to_owned(),
            (None, Some(_)) => "code outside any traced function".to_owned(),
            (None, None) if by_time => "the time that was asked for".to_owned(),
            (None, None) => "no thread of the program".to_owned(),
        }
    }

    fn cause_by_call(&self) -> (CauseKind, bool) {
        let woken = self.part.reason.waker.is_some();
        let Some(system_call) = self.system_call else {
            return match self.part.reason.system_call {
                None if woken => (CauseKind::AddressSpace, true),
                None => (CauseKind::PageFault, true),
                Some(_) => (CauseKind::OtherWait, false),
            };
        };
        match system_call.waits_for {
            CallTarget::Futex => self.cause_by_names(woken),
            CallTarget::File if self.own == Some(CauseKind::Network) => (CauseKind::Network, true),
            CallTarget::File if woken => (CauseKind::Pool, true),
            // A disk, or a process that is not traced.
            CallTarget::File => (CauseKind::Disk, false),
            CallTarget::Disk => (CauseKind::Disk, true),
            CallTarget::Network => (CauseKind::Network, true),
            CallTarget::Poll => (CauseKind::Pool, woken),
            CallTarget::Sleep => (CauseKind::Sleep, true),
            CallTarget::Child => (CauseKind::OtherWait, true),
            CallTarget::FileLock | CallTarget::Yield => (CauseKind::Lock, true),
            CallTarget::AddressSpace => (CauseKind::AddressSpace, true),
        }
    }

    /// Returns the cause of a futex wait, from names: the kernel does not know what a futex stands for.
    fn cause_by_names(&self, woken: bool) -> (CauseKind, bool) {
        let by_waker = self.waker_block.and_then(ends_waits_of);
        match (self.own, by_waker) {
            (Some(own @ (CauseKind::Lock | CauseKind::Barrier)), by_waker) => {
                (own, by_waker == Some(own) || woken)
            }
            (Some(CauseKind::Allocator), _) => (CauseKind::Allocator, woken),
            (_, Some(kind)) => (kind, true),
            (Some(own), None) => (own, woken),
            // A thread that another one wakes from the function that it waits in waits for a turn.
            (None, None) if self.waker_block == Some(self.function) => (CauseKind::Lock, true),
            (None, None) => (CauseKind::OtherWait, false),
        }
    }
}

/// Charges time on the CPU.
fn charge_running_time(known: &Known<'_>, head: &TraceHead, cases: &mut Cases) {
    let ticks = known.parts.running;
    let ratio = known.slower_with_others();
    let disturbed = known.disturbed();
    let (verdict, mut evidence) = evidence(known);
    let (mut kind, mut text) = by_others(known, ratio);
    let mut measured = false;
    if !matches!(kind, CauseKind::Lock | CauseKind::Barrier) {
        match verdict {
            EventVerdict::Work if disturbed => {
                kind = CauseKind::Lock;
                evidence.push("it may spin, or try again".to_owned());
            }
            EventVerdict::Faults => (kind, measured) = (CauseKind::PageFault, true),
            EventVerdict::Work => (kind, measured) = (CauseKind::Work, true),
            EventVerdict::Memory => (kind, measured) = (CauseKind::Memory, true),
            EventVerdict::Neither => kind = CauseKind::Core,
            EventVerdict::Unknown => {}
        }
        if !matches!(verdict, EventVerdict::Unknown) {
            text = with_others(ratio);
        }
    }
    if let (CauseKind::Memory, Some(reason)) = (kind, &head.no_events) {
        evidence.push(format!(
            "cache misses, which would tell, were not counted: {reason}"
        ));
    }
    let spun = match kind {
        CauseKind::Lock | CauseKind::Barrier => spun_for_held_up(known).min(ticks),
        _ => 0.0,
    };
    if spun > 0.0 {
        let text =
            "it runs meanwhile, perhaps until threads that had no CPU have one again, for up to";
        by_other_processes(known, spun, false, text, cases);
    }
    let case = cases.entry(kind).or_default();
    case.ticks += ticks - spun;
    if measured {
        case.measured += ticks - spun;
    }
    case.other.push(text);
    case.other.append(&mut evidence);
}

/// Returns an upper bound, in ticks, of the time that threads spun for threads that other processes held up. Any
/// held-up thread may hold up all others; nobody records which thread is spun for.
fn spun_for_held_up(known: &Known<'_>) -> f64 {
    known.taken * known.threads.saturating_sub(1) as f64
}

/// Returns the cause of time on the CPU, from names and from the presence of other threads.
fn by_others(known: &Known<'_>, ratio: Option<f64>) -> (CauseKind, String) {
    let spins = |part: &WaitPart| {
        let number = part.reason.system_call;
        let system_call = number.and_then(|number| find_system_call(number, known.aarch64));
        system_call.is_some_and(|call| call.waits_for == CallTarget::Yield)
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
        Some(ratio)
            if ratio >= 1.1 && (own == Some(CauseKind::AddressSpace) || waits_for_map(known)) =>
        {
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
        Some(ratio) if ratio >= 1.1 && known.follows_argument() => {
            let text = "its duration follows an argument";
            return (
                CauseKind::Work,
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

/// Returns whether the blocked time, besides waits for CPUs, was lost to the lock of the memory map. Then time lost
/// running is likely lost to it, too.
fn waits_for_map(known: &Known<'_>) -> bool {
    const SOME: f64 = 0.05;
    let of_map = |part: &&WaitPart| match part.reason.system_call {
        Some(number) => find_system_call(number, known.aarch64)
            .is_some_and(|call| call.waits_for == CallTarget::AddressSpace),
        None => part.reason.waker.is_some(),
    };
    let parts = known.state.waits.parts.iter();
    let ticks: u64 = parts.filter(of_map).map(|part| part.blocked).sum();
    let ticks = ticks as f64;
    ticks >= 0.5 * known.state.waits.blocked as f64
        && ticks * known.exact >= SOME * known.parts.running
        && ticks > 0.0
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

/// Charges the loss by the block's name and by concurrency, if waits were not measured.
fn charge_by_name(known: &Known<'_>, cases: &mut Cases) {
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

fn running_unknown(known: &Known<'_>, cases: &mut Cases) {
    let (verdict, words) = evidence(known);
    let kind = match verdict {
        EventVerdict::Faults => CauseKind::PageFault,
        EventVerdict::Work => CauseKind::Work,
        EventVerdict::Memory => CauseKind::Memory,
        EventVerdict::Neither | EventVerdict::Unknown => return by_concurrency(known, cases),
    };
    let case = cases.entry(kind).or_default();
    (case.ticks, case.measured) = (known.excess, known.excess);
    case.other.extend(words);
    let waits = "whether it waits was not measured";
    case.other.push(waits.to_owned());
}

fn by_concurrency(known: &Known<'_>, cases: &mut Cases) {
    let Some(ratio) = known.slower_with_others().filter(|ratio| *ratio >= 1.1) else {
        return;
    };
    let case = cases.entry(CauseKind::Memory).or_default();
    case.ticks = known.excess;
    case.other.push(format!(
        "it takes {ratio:.1} times as long while another thread is in the block; whether it waits was not measured"
    ));
}
