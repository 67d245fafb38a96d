//! The analyser against slow implementations that follow the definitions.

#[path = "../../../tests/traces/simulate.rs"]
#[allow(dead_code)]
mod simulate;

use analysis::interference::{Analyser, Options};
use profile::*;
use proptest::prelude::*;
use simulate::*;
use std::collections::BTreeMap;

/// A call with its callees.
#[derive(Clone, Debug)]
struct Call {
    block: BlockId,
    /// Pauses before its first callee, and after each.
    pauses: u64,
    inside: Vec<Call>,
}

impl Call {
    /// Returns its callees, in order, as text.
    fn shape(&self) -> String {
        let inside: Vec<String> = self.inside.iter().map(Call::shape).collect();
        format!("{}({})", self.block, inside.join(" "))
    }

    /// Writes it into a trace; returns the end time.
    fn write(
        &self,
        trace: &mut Trace,
        thread: usize,
        enter: u64,
        seen: &mut Vec<Seen>,
        outer: &[BlockId],
    ) -> u64 {
        let mut clock = enter + self.pauses;
        let mut within = outer.to_vec();
        within.push(self.block);
        for call in &self.inside {
            clock = call.write(trace, thread, clock, seen, &within) + self.pauses;
        }
        if !outer.contains(&self.block) {
            seen.push(Seen {
                thread,
                block: self.block,
                shape: self.shape(),
                duration: clock - enter,
            });
        }
        trace.execute(thread, self.block, enter, clock - enter)
    }
}

/// An outermost execution.
#[derive(Clone, Debug)]
struct Seen {
    thread: usize,
    block: BlockId,
    shape: String,
    duration: u64,
}

fn call() -> impl Strategy<Value = Call> {
    let leaf = (0u32..4, 1u64..50).prop_map(|(block, pauses)| Call {
        block,
        pauses,
        inside: Vec::new(),
    });
    leaf.prop_recursive(4, 12, 3, |inner| {
        (0u32..4, 1u64..50, proptest::collection::vec(inner, 0..3)).prop_map(
            |(block, pauses, inside)| Call {
                block,
                pauses,
                inside,
            },
        )
    })
}

/// Returns the floor, as the analysis defines it, of these durations.
fn floor(durations: &[u64]) -> u64 {
    let mut sorted = durations.to_vec();
    sorted.sort_unstable();
    sorted[(durations.len() / 50).min(3).min(durations.len() - 1)]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(150))]

    /// Computes exact kinds, outermost executions, warm-up, floors and sums, by the definitions.
    #[test]
    fn scores_are_what_the_definitions_say(
        calls in proptest::collection::vec((0usize..3, call(), 1u64..100, 1usize..30), 1..40),
        enough in prop_oneof![Just(1u64), Just(5), Just(1000)],
        cut in 1usize..50,
    ) {
        let mut trace = Trace::new("./tree");
        for name in ["a", "b", "c", "d"] {
            trace.block(name, &[]);
        }
        let mut clocks = [1000; 3];
        let mut seen = Vec::new();
        for _ in 0..3 {
            trace.thread("t", 0);
        }
        for (thread, call, pause, times) in &calls {
            for _ in 0..*times {
                clocks[*thread] = call.write(&mut trace, *thread, clocks[*thread] + pause, &mut seen, &[]);
            }
        }
        trace.end();
        let time: f64 = trace.head.threads.iter().map(|t| (t.end - t.start) as f64).sum();
        let mut analyser = Analyser::new(&trace.head.blocks, Options { enough, ..Options::default() });
        trace.batches(u64::MAX / 2, cut).iter().for_each(|batch| analyser.push(batch));
        let result = analyser.finish(&trace.head);

        // The first execution of each thread with ten or more is left out.
        let mut of_block: BTreeMap<BlockId, BTreeMap<String, Vec<u64>>> = BTreeMap::new();
        for thread in 0..3 {
            for block in 0..4 {
                let own: Vec<&Seen> = seen.iter().filter(|s| s.thread == thread && s.block == block).collect();
                let warm = usize::from(own.len() >= 10);
                for one in &own[warm..] {
                    of_block.entry(block).or_default().entry(one.shape.clone()).or_default().push(one.duration);
                }
            }
        }
        prop_assert_eq!(result.findings.len(), of_block.len());
        for (block, shapes) in of_block {
            let name = &trace.head.blocks[block as usize].name;
            let found = result.findings.iter().find(|f| f.name == *name).unwrap();
            let n: usize = shapes.values().map(Vec::len).sum();
            prop_assert_eq!(found.executions.calls, n as u64);
            prop_assert_eq!(found.kinds_total, shapes.len() as u64);
            let lost = |durations: &[u64]| {
                let floor = floor(durations) as f64;
                durations.iter().map(|d| *d as f64 - floor).sum::<f64>()
            };
            let total: u64 = shapes.values().flatten().sum();
            prop_assert!((found.durations.total_ns - total as f64 / 2.0).abs() < 1e-6);
            // If every execution has its own shape, or all have one, the definition is simple.
            let expected = match enough {
                1 => shapes.values().map(|d| lost(d)).sum::<f64>(),
                1000 => lost(&shapes.values().flatten().copied().collect::<Vec<_>>()),
                _ => continue,
            };
            let expected = expected.max(0.0) / time;
            prop_assert!((found.score.program.estimate - expected).abs() < 1e-9, "{} {}", found.score.program.estimate, expected);
            prop_assert!(found.score.program.low <= found.score.program.estimate && found.score.program.estimate <= found.score.program.high);
        }
    }

    /// The paper's algorithm finds the same sequences with the same numbers of executions, if
    /// distinct events separate the calls.
    #[test]
    fn the_papers_algorithm_finds_the_same_sequences(
        shapes in proptest::collection::vec(call(), 1..4),
        order in proptest::collection::vec(0usize..4, 2..9),
    ) {
        let mut trace = Trace::new("./paper");
        for name in ["a", "b", "c", "d"] {
            trace.block(name, &[]);
        }
        trace.thread("t", 0);
        let mut clock = 1000;
        let mut events = Vec::new();
        let mut tops: BTreeMap<String, Vec<u64>> = BTreeMap::new();
        for (number, which) in order.iter().enumerate() {
            let call = &shapes[which % shapes.len()];
            let (enter, mut seen) = (clock, Vec::new());
            clock = call.write(&mut trace, 0, enter, &mut seen, &[]);
            write_events(call, enter, &mut events);
            tops.entry(call.shape()).or_default().push(clock - enter);
            // An event that occurs once.
            events.push((1000 + number as u64, clock + 1, clock + 1));
            clock += 10;
        }
        let sequences = paper(events);
        for (shape, durations) in tops.iter().filter(|(_, durations)| durations.len() > 1) {
            // The same sequence may also have been found inside other calls.
            let has = |found: &&Vec<u64>| {
                let count = |of: &[u64], d: &u64| of.iter().filter(|other| *other == d).count();
                durations.iter().all(|d| count(found, d) >= count(durations, d))
            };
            prop_assert!(sequences.values().any(|found| has(&found)), "{shape} {durations:?} {sequences:?}");
        }
        // Ours has all of these kinds, and others that occur only inside.
        trace.end();
        let mut analyser = Analyser::new(&trace.head.blocks, Options { enough: 1, ..Options::default() });
        trace.batches(u64::MAX / 2, 5).iter().for_each(|batch| analyser.push(batch));
        let result = analyser.finish(&trace.head);
        let ours: u64 = result.findings.iter().map(|f| f.kinds_total).sum();
        prop_assert!(ours >= tops.len() as u64);
    }

    /// Items of any kind in any order cause no panic, and every result is a number.
    #[test]
    fn nonsense_is_survived(
        items in proptest::collection::vec((0u32..4, nonsense()), 0..300),
        costs in proptest::collection::vec(0u64..1000, 0..3),
    ) {
        let mut trace = contended_lock(2, 1, US, US);
        trace.event("cache-misses", 100);
        trace.event("page-faults", 0);
        let mut analyser = Analyser::new(&trace.head.blocks, Options { call_overhead: 7, enough: 3, event_costs: costs, ..Options::default() });
        for (thread, item) in items {
            analyser.push(&TraceBatch { thread, items: vec![item] });
        }
        let result = analyser.finish(&trace.head);
        for finding in &result.findings {
            for value in [finding.score.sci.low, finding.score.sci.estimate, finding.score.sci.high, finding.score.program.high, finding.score.own_floor, finding.durations.mean_ns, finding.breakdown.running, finding.breakdown.blocked, finding.breakdown.scheduler] {
                prop_assert!(value.is_finite() && value >= 0.0, "{finding:?}");
            }
            for event in &finding.events {
                let slow = event.slow.map(|slow| [slow.slower, slow.at_least, slow.times.unwrap_or(0.0), slow.ns_each.unwrap_or(0.0)]);
                let mut values = slow.iter().flatten().chain([&event.per_execution]);
                prop_assert!(values.all(|value| value.is_finite() && *value >= 0.0), "{finding:?}");
            }
        }
    }
}

fn nonsense() -> impl Strategy<Value = TraceItem> {
    let time = || prop_oneof![0u64..1000, any::<u64>(), (1u64 << 40)..(1 << 44)];
    prop_oneof![
        8 => (0u32..4, any::<bool>(), time(), time(), any::<[u64; 3]>()).prop_map(|(block, unwound, leave, duration, arguments)| {
            TraceItem::Execution(Execution { block, unwound, leave, duration, arguments })
        }),
        2 => (time(), time(), time(), any::<bool>(), any::<[Option<u32>; 3]>()).prop_map(|(start, end, queued, preempted, [a, b, c])| {
            TraceItem::Wait(Wait { start, end, queued, taken: queued / 3, held: queued % 7, preempted, system_call: a, waker: b, waker_block: c })
        }),
        1 => (any::<u32>(), proptest::collection::vec(any::<u32>(), 0..4)).prop_map(|(block, places)| TraceItem::Stack { block, places }),
        1 => (0u32..4, any::<u32>()).prop_map(|(block, period)| TraceItem::Period { block, period }),
        1 => any::<u64>().prop_map(TraceItem::Lost),
        2 => (time(), any::<u8>(), time()).prop_map(|(at, event, amount)| TraceItem::Event(EventSample { at, event, amount })),
        2 => ([time(), time(), time(), time(), time(), time()], any::<bool>()).prop_map(|([a, b, c, d, e, f], placebo)| {
            TraceItem::Solo(SoloInterval { before: (a, b), alone: (c, d), after: (e, f), placebo, busy: 2 })
        }),
    ]
}

/// An event, or a sequence of events: its identity, start and end.
type Event = (u64, u64, u64);

/// Writes the events of a call: entry and leave of a block are two.
fn write_events(call: &Call, enter: u64, events: &mut Vec<Event>) -> u64 {
    events.push((2 * u64::from(call.block), enter, enter));
    let mut clock = enter + call.pauses;
    for inside in &call.inside {
        clock = write_events(inside, clock, events) + call.pauses;
    }
    events.push((2 * u64::from(call.block) + 1, clock, clock));
    clock
}

/// Runs §3.3: takes the first pair of events; if the pair occurs again, replaces it everywhere by
/// an event of its own and goes on with that and the next; else goes on with the next pair. Returns
/// the durations of each such event.
fn paper(mut events: Vec<Event>) -> BTreeMap<u64, Vec<u64>> {
    let mut next = 1 << 32;
    let mut at = 0;
    while at + 1 < events.len() {
        let pair = (events[at].0, events[at + 1].0);
        let again = (at + 2..events.len().saturating_sub(1))
            .any(|i| (events[i].0, events[i + 1].0) == pair);
        if !again {
            at += 1;
            continue;
        }
        let mut replaced = Vec::new();
        let mut i = 0;
        while i < events.len() {
            if i >= at && i + 1 < events.len() && (events[i].0, events[i + 1].0) == pair {
                replaced.push((next, events[i].1, events[i + 1].2));
                i += 2;
            } else {
                replaced.push(events[i]);
                i += 1;
            }
        }
        events = replaced;
        next += 1;
    }
    let mut sequences: BTreeMap<u64, Vec<u64>> = BTreeMap::new();
    for (what, from, to) in events.into_iter().filter(|(what, _, _)| *what >= 1 << 32) {
        sequences.entry(what).or_default().push(to - from);
    }
    sequences
}
