//! Samples of events on made-up traces, and the causes that follow from them.

#[path = "../../../tests/traces/simulate.rs"]
#[allow(dead_code)]
mod simulate;

use analysis::interference::{Analyser, Options};
use profile::*;
use simulate::*;

/// Cost of a sample, in ticks.
const COST: u64 = 50;

fn analyse(trace: &Trace) -> Interference {
    let options = Options {
        event_costs: trace.head.events.iter().map(|event| event.cost).collect(),
        ..Options::default()
    };
    let mut analyser = Analyser::new(&trace.head.blocks, options);
    for batch in trace.batches(TICKS_PER_SECOND / 20, usize::MAX) {
        analyser.push(&batch);
    }
    analyser.finish(&trace.head)
}

/// Makes a trace of two threads whose increments are slow while the other counts too, in phases:
/// with a shared line, or without.
fn phases() -> (Trace, BlockId) {
    let (mut quick, slow) = (counters(10_000, 40_000, 1), counters(10_000, 100, 4));
    let offset = quick.head.threads[0].end + 1000;
    for (items, later) in quick.items.iter_mut().zip(&slow.items) {
        items.extend(later.iter().map(|item| match item {
            TraceItem::Execution(execution) => TraceItem::Execution(Execution {
                leave: execution.leave + offset,
                ..*execution
            }),
            other => other.clone(),
        }));
    }
    for (thread, later) in quick.head.threads.iter_mut().zip(&slow.head.threads) {
        thread.end = later.end + offset;
    }
    (quick, 0)
}

fn first_cause(trace: &Trace) -> (Cause, BlockScore) {
    let finding = analyse(trace).findings.remove(0);
    (finding.causes[0].clone(), finding)
}

/// The floor in ticks, of a block that always does the same.
const FLOOR: u64 = 400;

/// Returns a miss for each 100 ns above the floor.
fn often(duration: u64) -> u64 {
    1 + duration.saturating_sub(FLOOR) / 200
}

/// Returns the means of some executions, by their duration: ticks, and misses as in [`often`].
fn mean(trace: &Trace, which: impl Fn(u64) -> bool) -> (f64, f64) {
    let durations = trace.items.iter().flatten().filter_map(|item| match item {
        TraceItem::Execution(execution) => Some(execution.duration),
        _ => None,
    });
    let some: Vec<u64> = durations.filter(|duration| which(*duration)).collect();
    let n = some.len() as f64;
    let misses: u64 = some.iter().map(|duration| often(*duration)).sum();
    (some.iter().sum::<u64>() as f64 / n, misses as f64 / n)
}

#[test]
fn misses_that_explain_the_time_are_the_cause() {
    let (mut trace, block) = phases();
    let (cause, _) = first_cause(&trace);
    assert!(
        cause.kind == CauseKind::Memory && !cause.measured,
        "{cause:?}"
    );

    let misses = trace.event("L1-dcache-load-misses", COST);
    trace.sample(misses, block, 10, often);
    let work = trace.event("instructions:u", COST);
    trace.sample(work, block, 10_000, |_| 150);
    let (cause, finding) = first_cause(&trace);
    assert!(
        cause.kind == CauseKind::Memory && cause.measured,
        "{cause:?}"
    );
    assert!(
        cause
            .evidence
            .iter()
            .any(|words| words.contains("L1-dcache-load-misses")),
        "{cause:?}"
    );
    let slow = finding.events[0].slow.expect("slow ones and fast ones");
    let ((quick, few), (long, many)) = (
        mean(&trace, |d| d <= 2 * FLOOR),
        mean(&trace, |d| d > 2 * FLOOR),
    );
    let within = slow.at_least..slow.at_most.expect("some in fast ones");
    assert!(within.contains(&(many / few)), "{slow:?}: {}", many / few);
    assert!((slow.slower / (long / quick) - 1.0).abs() < 0.1, "{slow:?}");
    let each = slow.ns_each.expect("more misses") / ((long - quick) / 2.0 / (many - few));
    assert!((each - 1.0).abs() < 0.25, "{slow:?}: {each}");
    let same = finding.events[1].slow.expect("slow ones and fast ones");
    assert!(
        same.at_least <= 1.0 && same.at_most.is_some_and(|most| most >= 1.0),
        "{same:?}"
    );
    let truth: u64 = trace.head.events.iter().map(|event| event.samples).sum();
    let seen: u64 = finding.events.iter().map(|event| event.samples).sum();
    // The warm-up is left out.
    assert!(seen <= truth && seen + 10 >= truth, "{seen} of {truth}");
    assert!(
        (finding.events[1].per_execution - 150.0).abs() < 8.0,
        "{finding:?}"
    );
}

#[test]
fn neither_misses_nor_work_is_a_cause_of_its_own() {
    let (mut trace, block) = phases();
    let misses = trace.event("L1-dcache-load-misses", COST);
    trace.sample(misses, block, 10, |_| 1);
    // Only one in 20 executions has one.
    trace.head.events[usize::from(misses)].scale = 0.05;
    let (cause, _) = first_cause(&trace);
    // Whether it has more work is unknown.
    assert_eq!(cause.kind, CauseKind::Memory, "{cause:?}");
    assert!(
        cause
            .evidence
            .iter()
            .any(|words| words.contains("% of it at most")),
        "{cause:?}"
    );
    let work = trace.event("instructions:u", COST);
    trace.sample(work, block, 10_000, |_| 150);
    let (cause, finding) = first_cause(&trace);
    assert!(
        cause.kind == CauseKind::Core && !cause.measured,
        "{cause:?}"
    );
    assert!(
        finding
            .doubts
            .iter()
            .all(|doubt| doubt.kind != DoubtKind::Work)
    );
}

/// A counter that never counts is no evidence.
#[test]
fn no_samples_are_no_evidence() {
    let (mut trace, block) = phases();
    trace.event("L1-dcache-load-misses", COST);
    let work = trace.event("instructions:u", COST);
    trace.sample(work, block, 10_000, |_| 150);
    let (cause, _) = first_cause(&trace);
    assert!(
        cause.kind == CauseKind::Memory && !cause.measured,
        "{cause:?}"
    );
}

#[test]
fn more_instructions_are_more_work() {
    let mut trace = sizes(20_000);
    let work = trace.event("instructions:u", COST);
    trace.sample(work, 0, 10_000, |duration| 3 * duration);
    let misses = trace.event("cache-misses", COST);
    trace.sample(misses, 0, 100, |duration| duration / 300);
    let (cause, finding) = first_cause(&trace);
    assert_eq!(finding.name, "fill");
    assert!(cause.kind == CauseKind::Work && cause.measured, "{cause:?}");
    let doubt = finding
        .doubts
        .iter()
        .find(|doubt| doubt.kind == DoubtKind::Work);
    assert!(
        doubt.is_some_and(|doubt| doubt.text.contains("instructions:u")),
        "{:?}",
        finding.doubts
    );
}

#[test]
fn page_faults_that_explain_the_time_are_the_cause() {
    let (mut trace, block) = phases();
    let faults = trace.event("page-faults", 0);
    trace.sample(faults, block, 1, |duration| {
        duration.saturating_sub(FLOOR) / 1000
    });
    let (cause, _) = first_cause(&trace);
    assert!(
        cause.kind == CauseKind::PageFault && cause.measured,
        "{cause:?}"
    );
}

#[test]
fn memory_of_another_node_is_named() {
    let (mut trace, block) = phases();
    for (name, often) in [
        ("LLC-load-misses", 1),
        ("node-loads", 10),
        ("node-load-misses", 4),
    ] {
        let event = trace.event(name, COST);
        trace.sample(event, block, 100, move |duration| {
            often * duration.saturating_sub(FLOOR) / 200
        });
    }
    let (cause, _) = first_cause(&trace);
    assert!(
        cause.kind == CauseKind::Memory && cause.measured,
        "{cause:?}"
    );
    let said = cause.evidence.join("; ");
    assert!(
        said.contains("40 % of the loads") || said.contains("39 %") || said.contains("41 %"),
        "{said}"
    );
}

/// Samples do not change the scores, and the cut of a trace does not change the result.
#[test]
fn samples_leave_the_scores_alone() {
    let mut trace = realistic(3, 2_000);
    let bare = analyse(&trace);
    for (name, block) in [
        ("cache-misses", 0),
        ("instructions:u", 2),
        ("page-faults", 4),
    ] {
        let event = trace.event(name, COST);
        trace.sample(event, block, 500, |duration| duration / 3);
    }
    let sampled = analyse(&trace);
    assert!(
        sampled
            .findings
            .iter()
            .any(|finding| finding.events[2].samples > 0)
    );
    // A request contains the samples of its callees.
    let samples = |name: &str, event: usize| {
        let named = sampled.findings.iter().find(|finding| finding.name == name);
        named.map_or(0, |finding| finding.events[event].samples)
    };
    let (inner, outer) = (samples("lookup", 1), samples("handle_request", 1));
    assert!(
        inner > 100 && inner.abs_diff(outer) <= 10,
        "{inner} {outer}"
    );
    assert_eq!(samples("lookup", 0), 0);
    // They may explain a score, and so change the order.
    assert_eq!(bare.findings.len(), sampled.findings.len());
    for one in &bare.findings {
        let other = sampled.findings.iter().find(|f| f.name == one.name);
        let other = other.unwrap_or_else(|| panic!("no {}", one.name));
        assert_eq!(
            (&one.name, one.score.sci, &one.floor),
            (&other.name, other.score.sci, &other.floor)
        );
    }
    let mut analyser = Analyser::new(
        &trace.head.blocks,
        Options {
            event_costs: vec![COST; 3],
            ..Options::default()
        },
    );
    for batch in trace.batches(TICKS_PER_SECOND / 20, 7) {
        analyser.push(&batch);
    }
    assert_eq!(analyser.finish(&trace.head), sampled);
}
