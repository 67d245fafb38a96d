//! Reasons that a score may not be interference (§3.4, §5.6).

use super::evidence::{EventVerdict, evidence};
use super::floor::Group;
use super::known::{BELIEVABLE, Known, UNSEEN, is_followed};
use profile::{Cause, CauseKind, Doubt, DoubtKind, Level, Quality};

/// Part of a thread's loss that is waiting for work, from which on the thread counts as idle.
const IDLE: f64 = 0.9;

/// Score below which most doubts are not worth a mention.
const SLIGHT: f64 = 0.01;

/// All doubts about a score.
pub(super) fn doubts(known: &Known<'_>, causes: &[Cause]) -> Vec<Doubt> {
    let n: u64 = known.groups.iter().map(|group| group.recorded).sum();
    if n == 1 {
        return vec![Doubt {
            kind: DoubtKind::OneCall,
            text: "one execution only: it is its own floor, and the score is 0 whatever slowed it down; \
                   trace what it calls, or mark blocks in its loop"
                .to_owned(),
            value: 1.0,
        }];
    }
    let all = [
        overstated(known),
        sampled(known),
        recursion(known),
        floor(known),
        mixed(known),
        fast_path(known),
        not_concurrent(known),
        work(known),
        idle(known, causes).or_else(|| one_thread(known)),
    ];
    let slight = known.sci() < SLIGHT;
    let always = |doubt: &Doubt| {
        matches!(
            doubt.kind,
            DoubtKind::Floor | DoubtKind::Recursion | DoubtKind::Overstated
        )
    };
    let all = all.into_iter().flatten().chain(arguments(known));
    all.filter(|doubt| !slight || always(doubt)).collect()
}

fn doubt(kind: DoubtKind, value: f64, text: String) -> Option<Doubt> {
    Some(Doubt { kind, text, value })
}

fn sampled(known: &Known<'_>) -> Option<Doubt> {
    let period = known.state.period.max(known.block.period);
    let recorded: u64 = known.groups.iter().map(|group| group.recorded).sum();
    let text = format!(
        "at the end one in {period} executions was recorded, {recorded} in all: the floor is likelier to be missed, and of what \
         happens in fewer than one in {:.0} executions nothing may have been seen",
        (recorded as f64 / UNSEEN).max(1.0)
    );
    (period > 1).then(|| doubt(DoubtKind::Sampled, period.into(), text))?
}

/// The threads that record hold their locks for longer, so that others come to wait for just those executions.
fn overstated(known: &Known<'_>) -> Option<Doubt> {
    let ratio = known.overstated;
    let text = format!(
        "the recorded executions stand for {ratio:.1} times the time that its threads had: being recorded makes them longer, or they \
         are long by chance; the durations are too high by as much, and so was the score before it was divided by that"
    );
    (ratio > BELIEVABLE).then(|| doubt(DoubtKind::Overstated, ratio, text))?
}

fn recursion(known: &Known<'_>) -> Option<Doubt> {
    let twice = known.state.twice;
    let text = format!(
        "it calls itself so widely that inner executions of {twice} calls may count beside the outer ones"
    );
    (twice > 0).then(|| doubt(DoubtKind::Recursion, twice as f64, text))?
}

fn floor(known: &Known<'_>) -> Option<Doubt> {
    let floor = known.floor.filter(|f| f.quality == Quality::Doubtful)?;
    let text = format!("the floor is not trustworthy: {}", floor.reasons.join("; "));
    doubt(DoubtKind::Floor, floor.n as f64, text)
}

/// Returns what is lost among executions that were compared although they differ.
fn mixed(known: &Known<'_>) -> Option<Doubt> {
    let several = |g: &&Group| g.members.len() > 1 && g.level >= Level::Collapsed;
    let lost = |group: &Group| group.excess(group.floor());
    let mixed: f64 = known.groups.iter().filter(several).map(lost).sum();
    let share = mixed / known.excess.max(1.0);
    let text = format!(
        "{:.0} % of it is of executions of different kinds, each too rare to have a floor: part of the difference may be \
         in what they do",
        100.0 * share
    );
    (share > 0.5).then(|| doubt(DoubtKind::Mixed, share, text))?
}

fn fast_path(known: &Known<'_>) -> Option<Doubt> {
    let group = known
        .groups
        .first()
        .filter(|group| group.recorded >= 1000)?;
    let floor = group.floor();
    let second = group.unhindered.quantile(0.01);
    if second < 10 * floor.max(1) {
        return None;
    }
    let rest = known.excess - group.excess(floor) + group.excess(second).max(0.0);
    let score = rest / known.time;
    let text = format!(
        "99 % of the executions take more than ten times the floor ({:.0} ns): if the few fast ones do something else, \
         the score is {score:.2}",
        floor as f64 * known.ns
    );
    doubt(DoubtKind::FastPath, score, text)
}

fn not_concurrent(known: &Known<'_>) -> Option<Doubt> {
    let ratio = known.slower_with_others().filter(|ratio| *ratio < 1.1)?;
    // Whoever waits, waits for somebody elsewhere.
    if known.waits && known.parts.running < 0.5 * known.excess {
        return None;
    }
    let text = format!(
        "executions run {ratio:.2} times as long while another thread is in the block as without: it does not disturb itself"
    );
    doubt(DoubtKind::NotConcurrent, ratio, text)
}

fn work(known: &Known<'_>) -> Option<Doubt> {
    let share = known.parts.running / known.excess.max(1.0);
    let disturbed = known.disturbed();
    let (verdict, words) = evidence(known);
    let other = matches!(
        verdict,
        EventVerdict::Faults | EventVerdict::Memory | EventVerdict::Neither
    );
    if !known.waits || share < 0.8 || disturbed || other {
        return None;
    }
    let more = match (verdict, words.first()) {
        (EventVerdict::Work, Some(words)) => words,
        _ => "longer executions may just have more to do",
    };
    let text = format!("{:.0} % of it is time on the CPU: {more}", 100.0 * share);
    doubt(DoubtKind::Work, share, text)
}

fn one_thread(known: &Known<'_>) -> Option<Doubt> {
    let text =
        "one thread only executes it: if others slow it down, they do so from elsewhere".to_owned();
    (known.threads == 1).then(|| doubt(DoubtKind::OneThread, 1.0, text))?
}

/// A single waiter for work or its results, which other threads of the program were seen to bring, is no victim: a main
/// thread that waits for its workers would do nothing else if they were faster. Whoever answers it may wait for it in the same function, but
/// hardly ever (`requests` in benches/interference_cases.py).
fn idle(known: &Known<'_>, causes: &[Cause]) -> Option<Doubt> {
    let share = known.parts.blocked / known.excess.max(1.0);
    let pool = causes.first().is_some_and(|cause| {
        cause.kind == CauseKind::Pool && cause.measured && cause.share >= IDLE
    });
    if known.largest_loser < IDLE || !pool || share < IDLE {
        return None;
    }
    let text = "one thread only waits here, for what the program's other threads do: it is idle, and loses nothing as long as \
                they are not held up; ranked behind all others"
        .to_owned();
    doubt(DoubtKind::Idle, share, text)
}

/// Arguments that the duration follows and that executions are not told apart by.
fn arguments(known: &Known<'_>) -> Vec<Doubt> {
    let follows = known.state.follows.iter().zip(&known.block.arguments);
    let doubts = follows.filter_map(|(regression, number)| {
        let (r_squared, slope) = regression.r_squared()?;
        if !is_followed((r_squared, slope)) {
            return None;
        }
        let text = format!(
            "the duration follows argument {number} (R² = {r_squared:.2} of the logarithms): tell executions apart with \
             --args '{}={number}'",
            known.block.name
        );
        doubt(DoubtKind::Argument, r_squared, text)
    });
    doubts.collect()
}
