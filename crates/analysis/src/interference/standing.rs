//! What a score stands for, and the order in which findings are listed.
//!
//! A score is a difference between executions. It is interference as far as others were seen to be the reason (waits say so), or
//! were there whenever executions were slow. The rest may be work that varies, and what somebody was asked to wait for is nothing that
//! was lost.

use super::blocks::BlockState;
use super::doubts::Known;
use super::evidence::{Verdict, evidence};
use super::finish::{Run, over};
use super::functions::is_join;
use profile::{Between, BlockScore, Cause, CauseKind, Doubt, DoubtKind, Standing, ThreadIndex};
use rustc_hash::FxHashMap;

/// A score is not worth a line below this.
const SLIGHT: f64 = 0.005;
/// So much of the duration is interference whatever else is lost with it.
const ENOUGH: f64 = 0.05;
/// Threads that were blocked for longer than the rest had nothing to hand out either.
const BUSY: f64 = 0.5;
/// Executions take so many times as long while others are in the block, or these do not disturb.
const DISTURBED: f64 = 1.1;
/// A loss is that of inner functions if these have so much of it.
const COVERED: f64 = 0.75;

/// A finding before it is known what the others are.
pub(super) struct Draft {
    pub score: BlockScore,
    /// In ticks, like all that follows.
    pub excess: Between,
    pub time: f64,
    /// What each thread lost, and what it was asked to wait.
    pub by_thread: Vec<(ThreadIndex, f64, f64)>,
    /// Functions on the stacks it was called from, with the part of the stacks they are on.
    pub callers: FxHashMap<String, f64>,
    /// The parts of its waits that were in other traced functions, by name.
    pub waits_in: FxHashMap<String, f64>,
}

/// What a score stands for, and the part of it that others are the reason of.
pub(super) struct Judged {
    pub standing: Standing,
    pub hindered: f64,
    /// The causes of that part.
    pub reasons: Vec<CauseKind>,
}

pub(super) fn judged(
    known: &Known<'_>,
    run: &Run<'_>,
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
    let disturbed = several && known.slower_with_others().is_some_and(|r| r >= DISTURBED);
    let sampled = matches!(evidence(known).0, Verdict::Memory | Verdict::Neither);
    let is_reason = |cause: &Cause| match cause.kind {
        CauseKind::Lock | CauseKind::Barrier | CauseKind::Allocator | CauseKind::AddressSpace => {
            !alone
        }
        CauseKind::Scheduler | CauseKind::Throttle => true,
        CauseKind::Disk => several && cause.measured,
        CauseKind::PageFault => several && cause.measured,
        CauseKind::Memory | CauseKind::Core => !alone && (disturbed || sampled),
        CauseKind::OtherWait => several && !known.waits,
        _ => false,
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
    let varies = (1.0 - by_others - pool - outside).max(0.0);
    let hindered = (by_others * sci).min(sci);
    let idle = doubts.iter().any(|doubt| doubt.kind == DoubtKind::Idle);
    let standing = if sci < SLIGHT {
        Standing::Slight
    } else if idle || is_join(&known.block.name) {
        Standing::Idle
    } else if hindered >= ENOUGH || by_others >= 0.5 {
        Standing::Interference
    } else if pool >= varies.max(outside) {
        match wakers_are_busy(known, run) {
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
        reasons,
    }
}

/// Returns whether those who ended the waits in a block had something else to do than to wait themselves.
fn wakers_are_busy(known: &Known<'_>, run: &Run<'_>) -> bool {
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
pub(super) fn callers(state: &BlockState, run: &Run<'_>) -> FxHashMap<String, f64> {
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
pub(super) fn waits_in(state: &BlockState, run: &Run<'_>) -> FxHashMap<String, f64> {
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
pub(super) fn ranked(run: &Run<'_>, mut drafts: Vec<Draft>) -> Vec<BlockScore> {
    let time = program_time(run, &drafts);
    for draft in &mut drafts {
        let within = |ticks: f64| ticks.min(time);
        let excess = Between {
            estimate: within(draft.excess.estimate),
            low: within(draft.excess.low),
            high: within(draft.excess.high),
        };
        draft.score.program = over(excess, time);
    }
    list_once(&mut drafts);
    drafts.sort_by(|a, b| {
        let by = |of: &dyn Fn(&Draft) -> f64| of(b).total_cmp(&of(a));
        let standing = a.score.standing.cmp(&b.score.standing);
        standing
            .then_with(|| by(&|draft| f64::from(u8::from(by_own_threads(draft)))))
            .then_with(|| by(&|draft| weight(draft)))
            .then_with(|| by(&|draft| draft.score.program.estimate))
            .then_with(|| a.score.name.cmp(&b.score.name))
    });
    drafts.into_iter().map(|draft| draft.score).collect()
}

/// Returns whether it loses enough to the program's own threads: other programs, which take CPUs from all functions alike, do not hide that.
fn by_own_threads(draft: &Draft) -> bool {
    let score = &draft.score;
    score.standing == Standing::Interference && score.hindered - score.scheduler >= ENOUGH
}

/// Returns what counts for the order, in ticks: what others were the reason of. Waits were seen; of what ran longer, the lower end counts.
fn weight(draft: &Draft) -> f64 {
    let score = &draft.score;
    let seen = (score.blocked + score.scheduler) * draft.time;
    let ran = (draft.excess.low - seen).max(0.0);
    match score.standing {
        Standing::Interference => {
            let others = match by_own_threads(draft) {
                true => score.scheduler * draft.time,
                false => 0.0,
            };
            (score.hindered * draft.time).min(seen + ran) - others
        }
        _ => draft.excess.low,
    }
}

/// The duration of all threads, without what they were idle for. Functions are inside each other: of a thread that function counts
/// in which it was idle for longest.
fn program_time(run: &Run<'_>, drafts: &[Draft]) -> f64 {
    let mut idle: FxHashMap<ThreadIndex, f64> = FxHashMap::default();
    for draft in drafts {
        let waits = draft.score.standing == Standing::Idle;
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
                largest = Some((part, inner.score.name.clone()));
            }
        }
        let listed = !matches!(outermost.score.standing, Standing::Slight | Standing::Same);
        if let (true, Some((_, name))) = (listed, largest)
            && covered >= COVERED * outermost.excess.estimate
            && let Some(draft) = drafts.get_mut(outer)
        {
            draft.score.standing = Standing::Same;
            draft.score.same_as = Some(name);
        }
    }
}

/// Returns what of a function's loss is that of one that it calls.
fn part_of(outer: &Draft, inner: &Draft) -> f64 {
    let same = outer.score.standing == inner.score.standing;
    let (lost, inside) = (outer.excess.estimate, inner.excess.estimate);
    if !same || outer.score.name == inner.score.name || inside > 1.3 * lost {
        return 0.0;
    }
    let called = inner.callers.get(&outer.score.name).copied();
    let waited = outer.waits_in.get(&inner.score.name).copied();
    let waited = waited.unwrap_or(0.0) * outer.score.blocked * outer.time;
    (called.unwrap_or(0.0) * inside).max(waited).min(lost)
}
