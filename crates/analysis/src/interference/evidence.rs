//! Evidence from events for the time that a block ran longer than its floor.

use super::known::Known;
use profile::{EventContrast, EventScore};

/// Approximate time for a cache line from another core or from memory, in nanoseconds.
const MISS_NS: f64 = 100.0;
/// Time of a page fault that waits for no disk, in nanoseconds, about: on virtual machines 3,900 to 5,500 were measured with its
/// sample (`tests/programs/interference/faults.c`), so that half of them is explained up to 8,000.
const FAULT_NS: f64 = 4000.0;
/// A cause explains at least this part of the time.
const HALF: f64 = 0.5;
/// An event that explains less than this part of the time is no cause.
const TENTH: f64 = 0.1;

/// Event that counts the lines that are not in the core's own cache.
const OWN_CACHE: &str = "L1-dcache-load-misses";
const MISSES: [&str; 6] = [
    OWN_CACHE,
    "cache-misses",
    "LLC-load-misses",
    "LLC-store-misses",
    "node-load-misses",
    "node-store-misses",
];
/// Loads that missed every cache, and those of them that another node's memory answered.
const NODE: [&str; 2] = ["node-loads", "node-load-misses"];

/// Event that slow executions have more of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum EventVerdict {
    /// Page faults: the additional ones can account for the time.
    Faults,
    /// Instructions.
    Work,
    /// Cache misses: the additional ones can account for the time.
    Memory,
    /// Neither instructions nor cache misses.
    Neither,
    /// Unknown: not measured, or too seldom.
    Unknown,
}

/// Returns the verdict of the events, and its description.
pub(super) fn evidence(known: &Known<'_>) -> (EventVerdict, Vec<String>) {
    let faults = known
        .events
        .iter()
        .find(|event| plain(event) == "page-faults");
    if let Some((event, slow)) = faults.and_then(|event| Some((event, event.slow?)))
        && explains(&slow, FAULT_NS) >= HALF
    {
        return (EventVerdict::Faults, vec![one_for_each(event, &slow)]);
    }
    let instructions = known
        .events
        .iter()
        .find(|event| plain(event) == "instructions");
    let (mut verdict, mut words) = (EventVerdict::Unknown, Vec::new());
    if let Some((event, slow)) = instructions.and_then(|event| Some((event, event.slow?))) {
        words.push(sentence(event, &slow));
        if slow.at_least - 1.0 >= HALF * (slow.slower - 1.0) {
            return (EventVerdict::Work, words);
        }
    }
    let misses = || {
        let all = known.events.iter();
        all.filter(|event| MISSES.contains(&plain(event)))
    };
    let explained = |event: &&EventScore| event.slow.map_or(0.0, |slow| explains(&slow, MISS_NS));
    let most = misses().max_by(|a, b| explained(a).total_cmp(&explained(b)));
    if let Some(event) = most
        && let Some(slow) = event.slow.filter(|slow| explains(slow, MISS_NS) >= HALF)
    {
        verdict = EventVerdict::Memory;
        words.push(one_for_each(event, &slow));
        words.extend(other_node(known.events));
    } else if let Some(most) = at_most(known) {
        words.push(format!(
            "at {MISS_NS:.0} ns each, cache misses ({OWN_CACHE}) take {:.0} % of it at most",
            100.0 * most
        ));
        let no_work = |slow: EventContrast| {
            let most = slow.at_most.unwrap_or(f64::INFINITY);
            most - 1.0 < HALF * (slow.slower - 1.0)
        };
        if most < TENTH && instructions.and_then(|i| i.slow).is_some_and(no_work) {
            verdict = EventVerdict::Neither;
        }
    }
    (verdict, words)
}

/// The name without modifiers.
fn plain(event: &EventScore) -> &str {
    event.name.split(':').next().unwrap_or_default()
}

/// Returns the fraction of the slowdown that the extra events explain, at `ns` nanoseconds each.
fn explains(slow: &EventContrast, ns: f64) -> f64 {
    let more = slow.at_least > 1.0;
    let each = slow.ns_each.filter(|each| more && *each > 0.0);
    each.map_or(0.0, |each| ns / each)
}

fn one_for_each(event: &EventScore, slow: &EventContrast) -> String {
    let each = slow.ns_each.unwrap_or_default();
    format!(
        "{}, one for each {each:.0} ns that they ran longer",
        sentence(event, slow)
    )
}

/// The part of what was lost running that misses of the own cache can stand for at most: all that were seen.
fn at_most(known: &Known<'_>) -> Option<f64> {
    let event = known
        .events
        .iter()
        .find(|event| plain(event) == OWN_CACHE)?;
    let counted = known.event_samples.iter().zip(known.events);
    // A counter that never counts is none.
    let counts = counted
        .into_iter()
        .any(|(samples, of)| of.name == event.name && *samples > 0);
    let calls: u64 = known.groups.iter().map(|group| group.total().n).sum();
    let lost = known.parts.running * known.ns;
    (counts && lost > 0.0).then(|| event.per_execution * calls as f64 * MISS_NS / lost)
}

/// Slow executions against fast ones, in words.
fn sentence(event: &EventScore, slow: &EventContrast) -> String {
    let most = slow
        .at_most
        .map_or("…".to_owned(), |most| format!("{most:.1}"));
    let within = format!("[{:.1}, {most}]", slow.at_least);
    let times = match slow.times {
        Some(times) => format!("{times:.1} {within} times as many"),
        None => format!("{within} times as many"),
    };
    format!(
        "executions that ran {:.1} times as long had {times} {}",
        slow.slower, event.name
    )
}

/// Returns how many of the loads from memory came from another node.
fn other_node(events: &[EventScore]) -> Option<String> {
    let of = |name: &str| {
        let event = events.iter().find(|event| plain(event) == name)?;
        (event.samples > 0).then_some(event.per_execution)
    };
    let [all, far] = NODE;
    let share = of(far).unwrap_or(0.0) / of(all)?;
    Some(format!(
        "{:.0} % of the loads from memory were answered by another node",
        100.0 * share.min(1.0)
    ))
}
