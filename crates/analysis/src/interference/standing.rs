//! Standing of scores, and the order in which findings are listed.
//!
//! A score is a difference between executions. It is interference where others were seen to be the reason (waits show
//! that), or where they were present whenever executions were slow. The rest may be work that varies. Time that
//! somebody was asked to wait is not lost.

use super::blocks::BlockState;
use super::draft::{Draft, ENOUGH, SLIGHT, list_with_waits};
use super::evidence::{EventVerdict, evidence};
use super::known::{AnalysedRun, Known, over};
use profile::known_code::KnownOperation;
use profile::{Between, BlockScore, Cause, CauseKind, Doubt, DoubtKind, Standing, ThreadIndex};
use rustc_hash::{FxHashMap, FxHashSet};

/// Threads that were blocked for longer than the rest had nothing to hand out either.
/// Tuned by `benches/interference_cases.py`.
const BUSY: f64 = 0.5;
/// Threads that are blocked for all but this are helpers (tuned by `helpers` in benches/interference_cases.py, which have 0.02).
const WORKS: f64 = 0.05;
/// A loss is that of inner functions if these have so much of it.
/// Tuned by `benches/interference_cases.py`.
const COVERED: f64 = 0.75;

/// Standing of a score, and the part of it that others caused.
pub(super) struct Judged {
    pub standing: Standing,
    pub hindered: f64,
    /// The part of it for which other processes, or a control group's limit, left no CPU.
    pub machine: f64,
    /// The causes of that part.
    pub reasons: Vec<CauseKind>,
}

/// Judges what a score stands for.
pub(super) fn judge_standing(
    known: &Known<'_>,
    run: &AnalysedRun<'_>,
    causes: &[Cause],
    doubts: &[Doubt],
) -> Judged {
    let sci = known.sci();
    let share = |of: &dyn Fn(&Cause) -> bool| -> f64 {
        let causes = causes.iter().filter(|cause| of(cause));
        causes.map(|cause| cause.share).sum()
    };
    let alone = run.head.threads.len() <= 1;
    let several = known.threads > 1;
    let together = shares_process(known, run);
    let disturbed = several && together && known.disturbed();
    let sampled = matches!(
        evidence(known).0,
        EventVerdict::Memory | EventVerdict::Neither
    );
    let is_reason = |cause: &Cause| match cause.kind {
        CauseKind::Lock | CauseKind::Barrier | CauseKind::Allocator | CauseKind::AddressSpace => {
            !alone
        }
        CauseKind::Scheduler => true,
        CauseKind::Disk => several && cause.measured,
        CauseKind::PageFault => several && cause.measured,
        CauseKind::Memory | CauseKind::Core => !alone && (disturbed || sampled),
        CauseKind::OtherWait => several && !known.waits,
        CauseKind::Pool
        | CauseKind::Network
        | CauseKind::Sleep
        | CauseKind::Work
        | CauseKind::Throttle
        | CauseKind::OtherProcesses => false,
    };
    let by_others = share(&is_reason);
    let reasons = causes.iter().filter(|cause| is_reason(cause));
    let reasons = reasons.map(|cause| cause.kind).collect();
    let pool = share(&|cause| cause.kind == CauseKind::Pool);
    let outside = share(&|cause| {
        let blocked = matches!(
            cause.kind,
            CauseKind::Network | CauseKind::Disk | CauseKind::OtherWait
        );
        blocked && !(cause.kind == CauseKind::Disk && several && cause.measured)
    });
    let machine = share(&is_machine);
    let varies = (1.0 - by_others - pool - outside - machine).max(0.0);
    let hindered = (by_others * sci).min(sci);
    let idle = doubts.iter().any(|doubt| doubt.kind == DoubtKind::Idle);
    let standing = if sci < SLIGHT {
        Standing::Slight
    } else if idle || KnownOperation::Join.has_function(&known.block.name) {
        Standing::Idle
    } else if hindered >= ENOUGH || by_others >= 0.5 {
        Standing::Interference
    } else if machine >= pool.max(varies).max(outside) {
        Standing::Machine
    } else if pool >= varies.max(outside) {
        match wakers_are_busy(known, run) && waiters_work(known, run) {
            true => Standing::ForWork,
            false => Standing::Idle,
        }
    } else if outside > varies {
        Standing::Outside
    } else {
        Standing::Varies
    };
    Judged {
        standing,
        hindered,
        machine: (machine * sci).min(sci),
        reasons,
    }
}

/// Returns whether a cause has nothing to do with the program's threads: on another machine, or at another time, it is not there.
fn is_machine(cause: &Cause) -> bool {
    matches!(cause.kind, CauseKind::OtherProcesses | CauseKind::Throttle)
}

/// Returns whether two of its threads are of one process: others share no memory that the loss could be of.
fn shares_process(known: &Known<'_>, run: &AnalysedRun<'_>) -> bool {
    let mut threads = known.state.threads.clone();
    threads.sort_unstable();
    threads.dedup();
    let threads = threads.iter();
    let processes = threads.filter_map(|at| Some(run.head.threads.get(*at as usize)?.pid));
    let mut met = FxHashSet::default();
    processes.into_iter().any(|process| !met.insert(process))
}

/// Returns whether the threads that wait in a block also work. A thread that hardly does is a helper that is seldom
/// needed.
fn waiters_work(known: &Known<'_>, run: &AnalysedRun<'_>) -> bool {
    let threads = known.state.threads.iter();
    let busy = threads.map(|index| run.busy.get(*index as usize).copied().unwrap_or(0.0));
    let busy: Vec<f64> = busy.collect();
    busy.iter().sum::<f64>() >= WORKS * busy.len() as f64
}

/// Returns whether the threads that ended the waits in a block had something else to do than to wait themselves.
fn wakers_are_busy(known: &Known<'_>, run: &AnalysedRun<'_>) -> bool {
    let (mut busy, mut all) = (0.0, 0.0);
    for part in &known.state.waits.parts {
        if let Some(waker) = part.reason.waker {
            let blocked = part.blocked as f64;
            all += blocked;
            busy += blocked * run.busy.get(waker as usize).copied().unwrap_or(0.0);
        }
    }
    busy >= BUSY * all && all > 0.0
}

/// The functions that a block was called from, with the part of its stacks that each is on.
pub(super) fn callers(state: &BlockState, run: &AnalysedRun<'_>) -> FxHashMap<String, f64> {
    let mut callers: FxHashMap<String, f64> = FxHashMap::default();
    let all: u64 = state.stacks.all.iter().map(|stack| stack.count).sum();
    for stack in &state.stacks.all {
        let places = stack.places.iter();
        let mut names: Vec<&str> = places
            .filter_map(|place| Some(run.head.places.get(*place as usize)?.function.as_str()))
            .filter(|name| !name.is_empty())
            .collect();
        names.sort_unstable();
        names.dedup();
        for name in names {
            *callers.entry(name.to_owned()).or_default() += stack.count as f64 / all as f64;
        }
    }
    callers
}

/// The parts of a block's waits that were in other blocks.
pub(super) fn waits_in(state: &BlockState, run: &AnalysedRun<'_>) -> FxHashMap<String, f64> {
    let mut within: FxHashMap<String, f64> = FxHashMap::default();
    for part in &state.waits.parts {
        let block = part
            .reason
            .within
            .and_then(|at| run.head.blocks.get(at as usize));
        if let Some(block) = block {
            let part = part.blocked as f64 / (state.waits.blocked as f64).max(1.0);
            *within.entry(block.name.clone()).or_default() += part;
        }
    }
    within
}

/// The findings in the order in which they are listed, each loss once.
pub(super) fn ranked(run: &AnalysedRun<'_>, mut drafts: Vec<Draft>) -> Vec<BlockScore> {
    list_with_waits(&mut drafts);
    list_with_callers(&mut drafts);
    let time = program_time(run, &drafts);
    for draft in &mut drafts {
        let within = |ticks: f64| ticks.min(time);
        let excess = Between {
            estimate: within(draft.excess.estimate),
            low: within(draft.excess.low),
            high: within(draft.excess.high),
        };
        draft.block.score.program = over(excess, time);
    }
    list_once(&mut drafts);
    drafts.sort_by(|a, b| {
        let by = |of: &dyn Fn(&Draft) -> f64| of(b).total_cmp(&of(a));
        let standing = a.block.score.standing.cmp(&b.block.score.standing);
        standing
            .then_with(|| by(&|draft| f64::from(u8::from(by_own_threads(draft)))))
            .then_with(|| by(&|draft| weight(draft)))
            .then_with(|| by(&|draft| draft.block.score.program.estimate))
            .then_with(|| a.block.name.cmp(&b.block.name))
    });
    drafts.into_iter().map(|draft| draft.block).collect()
}

/// Returns whether it loses enough to what its threads wait for: too few CPUs, which all functions have alike, do not hide that.
fn by_own_threads(draft: &Draft) -> bool {
    let block = &draft.block;
    block.score.standing == Standing::Interference
        && block.score.hindered - by_too_few_cpus(block) >= ENOUGH
}

/// Returns the part of a score for which the program's own threads left no CPU.
fn by_too_few_cpus(block: &BlockScore) -> f64 {
    let mut causes = block.causes.iter();
    let cause = causes.find(|cause| cause.kind == CauseKind::Scheduler);
    cause.map_or(0.0, |cause| cause.share) * block.score.sci.estimate
}

/// Returns what counts for the order, in ticks: what others were the reason of. Waits were seen; of what ran longer, the lower end counts.
fn weight(draft: &Draft) -> f64 {
    let block = &draft.block;
    let lost = block.score.sci.estimate * draft.time;
    let seen = (block.breakdown.blocked + block.breakdown.scheduler) * draft.time;
    let ran = (draft.excess.low - seen).max(0.0);
    match block.score.standing {
        Standing::Interference => {
            let others = match by_own_threads(draft) {
                true => by_too_few_cpus(block) * draft.time,
                false => 0.0,
            };
            let waits = block
                .causes
                .iter()
                .filter(|cause| is_wait_for_threads(cause.kind));
            let waits: f64 = waits.map(|cause| cause.share * lost).sum();
            (block.score.hindered * draft.time).min(waits.min(seen) + ran) - others
        }
        Standing::Machine => block.breakdown.machine * draft.time,
        _ => draft.excess.low,
    }
}

/// Returns whether a cause is a wait of the program's threads for each other. Waits for work, or for something outside
/// of the program, do not make a longer-running function a likelier suspect (`gil` in benches/interference_cases.py:
/// the interpreter's loop).
fn is_wait_for_threads(kind: CauseKind) -> bool {
    matches!(
        kind,
        CauseKind::Lock
            | CauseKind::Barrier
            | CauseKind::Allocator
            | CauseKind::AddressSpace
            | CauseKind::Scheduler
            | CauseKind::Disk
            | CauseKind::PageFault
    )
}

/// The duration of all threads, without what they were idle for. Functions are inside each other: of a thread that function counts
/// in which it was idle for longest.
fn program_time(run: &AnalysedRun<'_>, drafts: &[Draft]) -> f64 {
    let mut idle: FxHashMap<ThreadIndex, f64> = FxHashMap::default();
    for draft in drafts {
        let waits = draft.block.score.standing == Standing::Idle;
        for (thread, lost, asked) in &draft.by_thread {
            let ticks = asked + if waits { *lost } else { 0.0 };
            let of = idle.entry(*thread).or_default();
            *of = of.max(ticks);
        }
    }
    let busy = |(thread, idle): (&ThreadIndex, &f64)| idle.min(run.thread_ticks(*thread));
    let idle: f64 = idle.iter().map(busy).sum();
    (run.thread_time - idle).max(1.0)
}

/// Lists the waits in functions that say nothing of the lock with the callers that waited there: the allocator's, streams'.
fn list_with_callers(drafts: &mut [Draft]) {
    for at in 0..drafts.len() {
        let Some(name) = drafts.get(at).map(|draft| draft.block.name.clone()) else {
            continue;
        };
        let waited = |draft: &&Draft| {
            let part = draft.waits_in.get(&name).copied().unwrap_or(0.0);
            part * draft.block.breakdown.blocked * draft.time
        };
        let callers = drafts.iter().filter(|draft| draft.block.name != name);
        let most = callers.max_by(|a, b| waited(a).total_cmp(&waited(b)));
        let most =
            most.filter(|most| KnownOperation::FutexLock.has_function(&name) && waited(most) > 0.0);
        let caller = most.map(|draft| draft.block.name.clone());
        if let (Some(caller), Some(draft)) = (caller, drafts.get_mut(at)) {
            draft.block.score.standing = Standing::Same;
            draft.block.score.same_as = Some(caller);
        }
    }
}

/// Marks those whose loss is that of functions that they call.
fn list_once(drafts: &mut [Draft]) {
    let mut order: Vec<usize> = (0..drafts.len()).collect();
    let excess = |at: &usize| drafts.get(*at).map_or(0.0, |draft| draft.excess.estimate);
    order.sort_by(|a, b| excess(a).total_cmp(&excess(b)).then(a.cmp(b)));
    for outer in order.iter().copied() {
        let Some(outermost) = drafts.get(outer) else {
            continue;
        };
        let (mut covered, mut largest): (f64, Option<(f64, String)>) = (0.0, None);
        for inner in order.iter().copied().filter(|inner| *inner != outer) {
            let Some(inner) = drafts.get(inner) else {
                continue;
            };
            let part = part_of(outermost, inner);
            covered += part;
            if part > largest.as_ref().map_or(0.0, |(part, _)| *part) {
                largest = Some((part, inner.block.name.clone()));
            }
        }
        let listed = !matches!(
            outermost.block.score.standing,
            Standing::Slight | Standing::Same
        );
        if let (true, Some((_, name))) = (listed, largest)
            && covered >= COVERED * outermost.excess.estimate
            && let Some(draft) = drafts.get_mut(outer)
        {
            draft.block.score.standing = Standing::Same;
            draft.block.score.same_as = Some(name);
        }
    }
}

/// Returns the part of a function's loss that is the loss of one of its callees.
fn part_of(outer: &Draft, inner: &Draft) -> f64 {
    let same = outer.block.score.standing == inner.block.score.standing;
    let (lost, inside) = (outer.excess.estimate, inner.excess.estimate);
    if !same || outer.block.name == inner.block.name || inside > 1.3 * lost {
        return 0.0;
    }
    let called = inner.callers.get(&outer.block.name).copied();
    let waited = outer.waits_in.get(&inner.block.name).copied();
    let waited = waited.unwrap_or(0.0) * outer.block.breakdown.blocked * outer.time;
    (called.unwrap_or(0.0) * inside).max(waited).min(lost)
}
