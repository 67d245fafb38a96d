//! Losses by intervention, on made-up programs whose loss is known.

#[path = "../../../tests/traces/simulate.rs"]
#[allow(dead_code)]
mod simulate;

use analysis::interference::{Analyser, Options};
use profile::*;
use simulate::*;

const MS: u64 = 1000 * US;

/// A made-up program: a thread that executes one block after another, and is slower while others run.
#[derive(Clone, Copy)]
struct Program {
    loss: f64,
    /// Loss in placebos: the method's error.
    error: f64,
    /// Mean time of an execution together.
    length: u64,
    intervals: u64,
    seed: u64,
    /// In one of so many intervals the thread waits for a held one.
    halts: u64,
}

impl Default for Program {
    fn default() -> Self {
        Self {
            loss: 0.0,
            error: 0.0,
            length: 10 * US,
            intervals: 200,
            seed: 1,
            halts: u64::MAX,
        }
    }
}

impl Program {
    fn intervals(self) -> Vec<SoloInterval> {
        let mut chance = Chance::new(self.seed);
        let mut at = MS;
        let intervals = (0..self.intervals).map(|number| {
            at += 3 * MS + chance.below(3 * MS);
            let start = at;
            at += 6 * MS;
            SoloInterval {
                before: (start, start + 2 * MS),
                alone: (start + 2 * MS + 50 * US, start + 3 * MS + 50 * US),
                after: (start + 4 * MS, start + 6 * MS),
                placebo: number % 4 == 3,
                busy: 2,
            }
        });
        intervals.collect()
    }

    /// The trace, and how long the thread's executions took together, by its own clock.
    fn trace(self) -> Trace {
        let mut trace = Trace::new("solo");
        let outer = trace.block("outer", &[]);
        let inner = trace.block("inner", &[]);
        trace.thread("worker", 0);
        let mut chance = Chance::new(self.seed + 77);
        let mut now = 0;
        let intervals = self.intervals();
        let mut next = intervals.iter().peekable();
        let mut begun = intervals.iter().enumerate().peekable();
        let end = intervals.last().unwrap().after.1 + 20 * MS;
        let mut halted = u64::MAX;
        while now < end {
            let enter = now;
            for _ in 0..2 {
                let start = now;
                let mut work = (self.length / 4 + chance.below(self.length / 2)) as f64;
                // The work of an execution goes on faster where nobody disturbs it.
                while work > 0.0 {
                    while next.next_if(|interval| interval.alone.1 <= now).is_some() {}
                    let interval = next.peek();
                    let (speed, until) = match interval {
                        Some(i) if now >= i.alone.0 => {
                            let number =
                                intervals.partition_point(|other| other.alone.0 < i.alone.0);
                            if !i.placebo && (number as u64 + 1).is_multiple_of(self.halts) {
                                halted = now;
                                now = i.alone.1;
                                continue;
                            }
                            let gain = if i.placebo { self.error } else { self.loss };
                            (1.0 / (1.0 - gain), i.alone.1)
                        }
                        Some(i) => (1.0, i.alone.0),
                        None => (1.0, u64::MAX),
                    };
                    let takes = ((work / speed).ceil() as u64).clamp(1, until - now);
                    work -= takes as f64 * speed;
                    now += takes;
                }
                while let Some((_, interval)) = begun.next_if(|(_, i)| i.before.0 < now) {
                    trace.items[0].push(TraceItem::Solo(*interval));
                }
                if halted != u64::MAX {
                    let woken = intervals
                        .iter()
                        .find(|i| i.alone.1 > halted)
                        .unwrap()
                        .alone
                        .1;
                    trace.wait(0, futex(halted, woken, 0, None));
                    halted = u64::MAX;
                }
                trace.execute(0, inner, start, now - start);
            }
            trace.execute(0, outer, enter, now - enter);
        }
        trace.end();
        trace
    }

    fn report(self) -> SoloReport {
        analyse(&self.trace())
    }
}

fn analyse(trace: &Trace) -> SoloReport {
    interference(trace).solo
}

fn interference(trace: &Trace) -> Interference {
    let mut analyser = Analyser::new(&trace.head.blocks, Options::default());
    for batch in trace.batches(TICKS_PER_SECOND / 20, usize::MAX) {
        analyser.push(&batch);
    }
    analyser.finish(&trace.head)
}

#[test]
fn intervals_have_the_loss_of_the_program_and_of_its_functions() {
    let (mut right, mut all) = (0, 0);
    for loss in [0.0, 0.1, 0.5, 0.9] {
        // Also executions that are longer than the time alone.
        for length in [5 * US, 30 * US, 900 * US, 5 * MS] {
            for seed in 0..2 {
                let program = Program {
                    loss,
                    length,
                    seed,
                    ..Program::default()
                };
                let report = program.report();
                let found = report.program.expect("known");
                assert_eq!(report.intervals, 150);
                let losses = report.blocks.iter().map(|block| block.loss.loss);
                for Between { low, high, .. } in losses.chain([found.loss]) {
                    right += u32::from((low - 0.01..=high + 0.01).contains(&loss));
                    all += 1;
                }
                let claimed = loss - found.loss.low < 0.1 && loss >= 0.5;
                assert!(loss > 0.05 || !found.is_claimed, "{found:?}");
                assert!(found.is_claimed || !claimed, "{found:?}");
            }
        }
    }
    assert!(right * 100 >= all * 90, "{right} of {all}");
}

#[test]
fn losses_within_the_error_of_the_method_are_silent() {
    let report = |error| {
        Program {
            loss: 0.3,
            error,
            ..Program::default()
        }
        .report()
    };
    assert_eq!(report(0.0).verdict, SoloVerdict::Interference);
    let disturbed = report(0.3);
    assert_eq!(disturbed.verdict, SoloVerdict::NotFound);
    assert!(disturbed.blocks.iter().all(|block| !block.loss.is_claimed));
}

#[test]
fn halts_are_cut_off_and_many_of_them_are_dependence() {
    let report = |halts| {
        Program {
            loss: 0.4,
            halts,
            ..Program::default()
        }
        .report()
    };
    let few = report(10);
    assert!(few.stuck > 5, "{few:?}");
    let Between { low, high, .. } = few.program.expect("known").loss;
    assert!(low < 0.4 && 0.4 < high, "{low} {high}");
    assert_eq!(few.verdict, SoloVerdict::Interference);
    let all = report(1);
    assert_eq!(all.stuck, all.intervals);
    assert_eq!(all.verdict, SoloVerdict::Dependence);
}

#[test]
fn a_run_that_is_read_late_has_the_same_result() {
    let program = Program {
        loss: 0.5,
        ..Program::default()
    };
    let mut trace = program.trace();
    let in_time = analyse(&trace);
    trace.items[0].sort_by_key(|item| !matches!(item, TraceItem::Solo(_)));
    assert_eq!(analyse(&trace), in_time);
}

#[test]
fn one_busy_thread_is_said_to_be_one() {
    let mut trace = Trace::new("alone");
    let block = trace.block("f", &[]);
    trace.thread("main", 0);
    trace.execute(0, block, 0, MS);
    trace.end();
    trace.head.solo.one_busy = 30;
    assert_eq!(analyse(&trace).verdict, SoloVerdict::OneThread);
    trace.head.solo.refused = Some("no BPF".into());
    assert_eq!(analyse(&trace).verdict, SoloVerdict::NotMeasured);
}

#[test]
fn findings_say_what_the_intervention_says() {
    let result = |loss| {
        let program = Program {
            loss,
            ..Program::default()
        };
        interference(&program.trace())
    };
    let listed = |result: &Interference| {
        let findings = result.findings.iter();
        let lost = findings.filter(|finding| finding.score.standing == Standing::Interference);
        lost.map(|finding| finding.name.clone()).collect::<Vec<_>>()
    };
    let slow = result(0.5);
    // What the outer function loses it loses in the inner one.
    assert_eq!(listed(&slow), ["inner"], "{:?}", slow.solo);
    let first = &slow.findings[0];
    let Between { low, high, .. } = first.score.program;
    assert!(low < 0.5 && 0.5 < high, "{:?}", first.score);
    assert!(first.causes.iter().all(|cause| cause.measured));
    assert!(listed(&result(0.0)).is_empty());
}
