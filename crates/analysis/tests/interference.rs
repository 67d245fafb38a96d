//! Interference on made-up traces whose truth is known.

#[path = "../../../tests/traces/simulate.rs"]
#[allow(dead_code)]
mod simulate;

use analysis::interference::{Analyser, Options, Pattern};
use profile::*;
use simulate::*;

fn analyse_with(trace: &Trace, options: Options) -> Interference {
    let mut analyser = Analyser::new(&trace.head.blocks, options);
    for batch in trace.batches(TICKS_PER_SECOND / 20, usize::MAX) {
        analyser.push(&batch);
    }
    analyser.finish(&trace.head)
}

fn analyse(trace: &Trace) -> Interference {
    analyse_with(trace, Options::default())
}

fn truth(trace: &Trace, name: &str, floor: u64) -> f64 {
    let block = trace
        .head
        .blocks
        .iter()
        .position(|b| b.name == name)
        .unwrap() as u32;
    let lost = trace.items.iter().flatten().map(|item| match item {
        TraceItem::Execution(e) if e.block == block => (e.duration - floor) as f64,
        _ => 0.0,
    });
    let time = trace.head.threads.iter().map(|t| (t.end - t.start) as f64);
    lost.sum::<f64>() / time.sum::<f64>()
}

fn of<'a>(result: &'a Interference, name: &str) -> &'a BlockScore {
    let found = result.findings.iter().find(|finding| finding.name == name);
    found.unwrap_or_else(|| panic!("no {name}"))
}

#[track_caller]
fn first_is(result: &Interference, name: &str, cause: CauseKind) {
    let first = &result.findings[0];
    assert_eq!(
        first.name,
        name,
        "{:#?}",
        result
            .findings
            .iter()
            .map(|f| (&f.name, f.score.program))
            .collect::<Vec<_>>()
    );
    assert_eq!(
        first.causes.first().map(|c| c.kind),
        Some(cause),
        "{:#?}",
        first.causes
    );
    let Between {
        estimate,
        low,
        high,
    } = first.score.sci;
    assert!(
        low <= estimate && estimate <= high && high < 2.0,
        "{:?}",
        first.score.sci
    );
}

#[test]
fn a_contended_lock_is_named() {
    let trace = contended_lock(4, 5_000, 10 * US, 4 * US);
    let result = analyse(&trace);
    first_is(&result, "pthread_mutex_lock", CauseKind::Lock);
    let truth = truth(&trace, "pthread_mutex_lock", 60);
    let found = result.findings[0].score.sci;
    assert!(
        truth > 0.1 && found.low <= truth && truth <= found.high,
        "{truth} {found:?}"
    );
    assert!((found.estimate / truth - 1.0).abs() < 0.02);
    assert!(result.findings[0].causes[0].measured);
    // Repaired: the lock is hardly ever taken.
    let repaired = analyse(&contended_lock(4, 5_000, 400 * US, US / 10));
    assert!(repaired.findings.iter().all(|f| f.score.sci.estimate < 0.1));
    // The floor is that of the lock without contention (Fig. 7).
    let (high, low) = (
        of(&result, "pthread_mutex_lock"),
        of(&repaired, "pthread_mutex_lock"),
    );
    let ratio = high.floor.ns / low.floor.ns;
    assert!((0.85..1.15).contains(&ratio), "{ratio}");
}

/// A block that calls a lock is held up by the lock, even if the thread that gave it back was in no
/// traced function.
#[test]
fn waits_in_a_called_lock_are_the_callers_too() {
    let mut trace = Trace::new("./counter");
    let count = trace.block("count", &[]);
    let lock = trace.block("pthread_mutex_lock", &[1]);
    let thread = trace.thread("worker", 0);
    trace.thread("other", 0);
    for n in 0..1_000 {
        let start = n * 100 * US;
        let waited = if n % 2 == 0 { 20 * US } else { 0 };
        if waited > 0 {
            trace.wait(thread, futex(start + 10, start + 10 + waited, 1, None));
        }
        trace.execute(thread, lock, start + 5, waited + 60);
        trace.execute(thread, count, start, waited + US);
    }
    trace.end();
    let result = analyse(&trace);
    for name in ["count", "pthread_mutex_lock"] {
        let cause = &of(&result, name).causes[0];
        assert_eq!(
            (cause.kind, cause.measured),
            (CauseKind::Lock, true),
            "{name}"
        );
    }
}

/// The interval covers the truth for a sampled block whose long executions are rare, if any of
/// those was recorded. Otherwise a doubt says that rarer ones may have been missed.
#[test]
fn intervals_of_sampled_blocks_cover_the_truth() {
    const RUNS: u32 = 60;
    let mut chance = Chance::new(5);
    for (every, rare) in [(16, 50), (64, 400), (512, 50), (512, 400)] {
        let (mut covered, mut runs) = (0, 0);
        for _ in 0..RUNS {
            let (trace, truth, seen) = sampled(&mut chance, every, rare);
            let result = analyse(&trace);
            let first = &result.findings[0];
            let said = first.doubts.iter().find(|d| d.kind == DoubtKind::Sampled);
            assert!(
                first.score.sci.estimate < 0.01 || said.is_some(),
                "{first:?}"
            );
            if seen > 0 {
                runs += 1;
                covered += u32::from(first.score.sci.low <= truth && truth <= first.score.sci.high);
            }
        }
        assert!(
            runs > RUNS / 3 && covered * 10 >= runs * 9,
            "{covered} of {runs}: one in {every}, {rare}"
        );
    }
}

/// Returns a trace with one in `every` of 200,000 executions, of which one in `rare` is long; also
/// the score of all, and the number of long ones in the trace.
fn sampled(chance: &mut Chance, every: u32, rare: u64) -> (Trace, f64, u32) {
    let mut trace = Trace::new("./sampled");
    let block = trace.block("block", &[]);
    let thread = trace.thread("worker", 0);
    trace.items[thread].push(TraceItem::Period {
        block,
        period: every,
    });
    let (mut clock, mut lost, mut seen) = (1_000, 0, 0);
    let mut left = chance.below(every.into());
    for _ in 0..200_000 {
        let slow = match chance.below(rare) {
            0 => 10_000 + chance.below(40_000),
            _ => 0,
        };
        let duration = 100 + chance.below(10) + slow;
        if left == 0 {
            trace.execute(thread, block, clock, duration);
            left = every.into();
            seen += u32::from(slow > 0);
        }
        left -= 1;
        lost += duration - 100;
        clock += duration + 300;
    }
    trace.end();
    trace.head.threads[thread].end = clock;
    (trace, lost as f64 / clock as f64, seen)
}

/// A main thread that waits for its workers is no victim; one that waits for a lock of theirs is.
#[test]
fn who_waits_for_the_work_of_others_is_ranked_behind() {
    for (name, idle) in [("pthread_cond_wait", true), ("pthread_mutex_lock", false)] {
        let mut trace = Trace::new("./compressor");
        let wait = trace.block(name, &[]);
        let work = trace.block("work", &[]);
        let main = trace.thread("main", 0);
        for _ in 0..2 {
            trace.thread("worker", 0);
        }
        for n in 0..500 {
            let start = 1_000 + n * 100 * US;
            let waited = if n % 2 == 0 { 80 * US } else { 0 };
            if waited > 0 {
                trace.wait(main, futex(start + 10, start + 10 + waited, 1, None));
            }
            trace.execute(main, wait, start, waited + 100);
            // A little slower now and then.
            for worker in 1..3 {
                trace.execute(worker, work, start, 50 * US + (n % 7) * US / 4);
            }
        }
        trace.end();
        let result = analyse(&trace);
        let first = &result.findings[0];
        assert_eq!(first.name == "work", idle, "{name}: {first:?}");
        let waits = of(&result, name);
        assert_eq!(
            waits.is_idle(),
            idle,
            "{:?} {:?}",
            waits.doubts,
            waits.causes
        );
        assert!(waits.score.sci.estimate > 0.3, "{:?}", waits.score.sci);
    }
}

/// In short functions a traced call adds less to its caller than the overhead measured at the
/// start.
#[test]
fn a_caller_takes_no_less_than_what_it_called() {
    let mut trace = Trace::new("./short");
    let outer = trace.block("outer", &[]);
    let inner = trace.block("inner", &[]);
    let thread = trace.thread("worker", 0);
    for n in 0..1_000 {
        let start = 1_000 + 1_000 * n;
        trace.execute(thread, inner, start + 10, 60);
        trace.execute(thread, inner, start + 80, 64);
        trace.execute(thread, outer, start, 160);
    }
    trace.end();
    let options = Options {
        call_overhead: 100,
        ..Options::default()
    };
    let result = analyse_with(&trace, options);
    // In nanoseconds; a tick is half of one.
    let outer = of(&result, "outer");
    assert_eq!((outer.floor.ns, outer.durations.mean_ns), (62.0, 62.0));
    let options = Options {
        call_overhead: 10,
        ..Options::default()
    };
    assert_eq!(
        of(&analyse_with(&trace, options), "outer")
            .durations
            .mean_ns,
        70.0
    );
}

#[test]
fn an_imbalanced_barrier_is_named() {
    let result = analyse(&barrier(4, 2_000, 50 * US, 100 * US));
    first_is(&result, "pthread_barrier_wait", CauseKind::Barrier);
    assert!(
        result.findings[0].score.sci.low > 0.2,
        "{:?}",
        result.findings[0]
    );
    let repaired = analyse(&barrier(4, 2_000, 50 * US, 0));
    assert!(repaired.findings.iter().all(|f| f.score.sci.estimate < 0.1));
}

#[test]
fn falsely_shared_counters_are_named() {
    let result = analyse(&counters(50_000, 600, 6));
    first_is(&result, "add_fifty", CauseKind::Memory);
    assert!(
        result.findings[0].score.sci.low > 0.2,
        "{:?}",
        result.findings[0]
    );
    assert!(
        !result.findings[0].causes[0].measured,
        "it is only consistent with sharing"
    );
    let repaired = analyse(&counters(50_000, 600, 1));
    assert!(repaired.findings.iter().all(|f| f.score.sci.estimate < 0.1));
}

#[test]
fn a_disk_is_named() {
    let result = analyse(&disk(8, 1_000, 160 * US));
    first_is(&result, "pread64", CauseKind::Disk);
    assert!(
        result.findings[0].score.sci.low > 0.1,
        "{:?}",
        result.findings[0]
    );
    let repaired = analyse(&disk(8, 1_000, 20_000 * US));
    assert!(repaired.findings.iter().all(|f| f.score.sci.estimate < 0.1));
}

#[test]
fn a_pool_over_a_pipe_is_named() {
    let result = analyse(&pool(4, 10_000, 20 * US));
    first_is(&result, "read", CauseKind::Pool);
    assert!(
        result.findings[0].score.sci.low > 0.2,
        "{:?}",
        result.findings[0]
    );
}

#[test]
fn work_that_follows_an_argument_is_no_interference() {
    let trace = sizes(5_000);
    let result = analyse(&trace);
    let fill = of(&result, "fill");
    assert!(fill.score.sci.estimate > 0.5);
    let doubt = fill
        .doubts
        .iter()
        .find(|d| d.kind == DoubtKind::Argument)
        .expect("a doubt");
    assert!(
        doubt.text.contains("--args 'fill=2'") && doubt.value > 0.95,
        "{doubt:?}"
    );
    assert!(
        of(&result, "steady")
            .doubts
            .iter()
            .all(|d| d.kind != DoubtKind::Argument)
    );
    let options = Options {
        arguments: vec![(Pattern::new("fill"), vec![2])],
        ..Options::default()
    };
    let regrouped = analyse_with(&trace, options);
    let fill = of(&regrouped, "fill");
    assert!(fill.score.sci.estimate < 0.01, "{:?}", fill.score.sci);
    assert_eq!(fill.kinds_total, 8);
    assert!(
        fill.kinds
            .iter()
            .all(|k| k.arguments.len() == 1 && k.arguments[0].0 == 2)
    );
    let options = Options {
        exclude: vec![Pattern::new("fi*")],
        ..Options::default()
    };
    let without = analyse_with(&trace, options);
    assert_eq!(without.findings.len(), 1);
    assert_eq!(without.left_out[0].why, "excluded");
}

/// A trace gives the same result, to the last bit, from memory, from a file, and cut in other ways.
#[test]
fn streaming_and_a_file_agree() {
    let mut trace = realistic(3, 3_000);
    trace.head.call_overhead = 20;
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("run.trace");
    let results: Vec<Interference> = [usize::MAX, 1, 7, 1000]
        .into_iter()
        .map(|items| {
            let options = Options {
                call_overhead: 20,
                ..Options::default()
            };
            let mut analyser = Analyser::new(&trace.head.blocks[..2], options.clone());
            analyser.set_blocks(&trace.head.blocks);
            let batches = trace.batches(TICKS_PER_SECOND / 1000, items);
            let mut writer = store::TraceWriter::create_file(&path).unwrap();
            for batch in &batches {
                analyser.push(batch);
                writer.write_batch(batch).unwrap();
            }
            writer.finish_trace(&trace.head).unwrap();
            let streamed = analyser.finish(&trace.head);
            let mut reader = store::TraceReader::open_trace(&path).unwrap();
            let mut analyser = Analyser::new(&reader.head().blocks, options);
            while let Some(batch) = reader.next_batch().unwrap() {
                analyser.push(batch);
            }
            assert_eq!(analyser.finish(reader.head()), streamed);
            streamed
        })
        .collect();
    assert!(results.iter().all(|result| *result == results[0]));
    assert!(results[0].findings.len() == 7 && results[0].executions > 10_000);
    // The result survives a round trip through its file.
    let path = directory.path().join("db/interference/run.json");
    store::write_interference(&results[0], &path).unwrap();
    assert_eq!(store::read_interference(&path).unwrap(), results[0]);
    assert_eq!(
        store::latest_interference(&directory.path().join("db")).unwrap(),
        Some(path)
    );
}

#[test]
fn one_execution_has_a_score_of_nothing() {
    let mut trace = Trace::new("./once");
    let main = trace.block("main_loop", &[]);
    trace.thread("main", 0);
    trace.execute(0, main, 100, 1_000_000);
    trace.block("never", &[]);
    trace.end();
    let result = analyse(&trace);
    let once = of(&result, "main_loop");
    assert_eq!((once.executions.calls, once.score.sci.high), (1, 0.0));
    assert_eq!(once.doubts[0].kind, DoubtKind::OneCall);
    assert!(once.causes.is_empty());
    assert_eq!(result.left_out[0].why, "never called");
}

/// The outermost execution counts, however deep and wide the recursion.
#[test]
fn recursion_counts_once() {
    fn tree(trace: &mut Trace, block: BlockId, enter: u64, depth: u32) -> u64 {
        let mut clock = enter + 10;
        if depth > 0 {
            for _ in 0..3 {
                clock = tree(trace, block, clock, depth - 1) + 10;
            }
        }
        trace.execute(0, block, enter, clock + 10 - enter)
    }
    let mut trace = Trace::new("./recursion");
    let walk = trace.block("walk", &[]);
    trace.thread("main", 0);
    let mut clock = 1000;
    for _ in 0..300 {
        clock = tree(&mut trace, walk, clock, 5) + 100;
    }
    trace.end();
    let result = analyse(&trace);
    let walk = of(&result, "walk");
    // The first is the warm-up.
    assert_eq!((walk.executions.calls, walk.executions.warm_up), (299, 1));
    assert!(
        walk.score.sci.estimate < 1e-9 && walk.score.sci.high < 1e-9,
        "{:?}",
        walk.score.sci
    );
    assert!(walk.doubts.iter().all(|d| d.kind != DoubtKind::Recursion));
    assert_eq!(walk.kinds[0].inside, Some(363));
    assert!(walk.durations.total_ns < result.thread_time_ns);
}

/// A slow first execution costs nothing, and one freak value makes no floor.
#[test]
fn warm_up_and_freaks_are_left_out() {
    let mut trace = Trace::new("./warm");
    let step = trace.block("step", &[]);
    for t in 0..2 {
        trace.thread("worker", 0);
        let mut clock = trace.execute(t, step, 1000, 500_000);
        for n in 0..1000 {
            let duration = if n == 500 { 3 } else { 1000 };
            clock = trace.execute(t, step, clock + 10, duration);
        }
    }
    trace.end();
    let result = analyse(&trace);
    let step = of(&result, "step");
    assert_eq!((step.executions.warm_up, step.executions.calls), (2, 2000));
    assert_eq!(step.floor.ns, 500.0);
    assert!(
        step.floor.low_ns < 2.0 && step.score.sci.estimate < 1e-6,
        "{:?}",
        step.score.sci
    );
}

/// Time without a CPU is not attributed to a lock.
#[test]
fn preemption_is_told_apart() {
    let mut trace = Trace::new("./busy");
    let step = trace.block("step", &[]);
    let mut chance = Chance::new(1);
    for t in 0..2 {
        trace.thread("worker", 0);
        let mut clock = 1000;
        for _ in 0..5_000 {
            let mut duration = 2_000;
            if chance.below(10) == 0 {
                let away = 4_000_000;
                let start = clock + 500;
                trace.wait(
                    t,
                    Wait {
                        start,
                        end: start + away,
                        queued: away,
                        taken: 0,
                        held: 0,
                        preempted: true,
                        system_call: None,
                        waker: None,
                        waker_block: None,
                    },
                );
                duration += away;
            }
            clock = trace.execute(t, step, clock, duration) + 100;
        }
    }
    trace.end();
    let result = analyse(&trace);
    first_is(&result, "step", CauseKind::Scheduler);
    let step = of(&result, "step");
    assert!(
        step.breakdown.scheduler > 0.99 * step.score.sci.estimate && step.breakdown.blocked < 1e-9
    );
}

/// Every N-th execution stands for N (Fig. 8), and the result says so.
#[test]
fn sampling_keeps_the_score() {
    let whole = contended_lock(4, 20_000, 10 * US, 4 * US);
    let truth = of(&analyse(&whole), "pthread_mutex_lock")
        .score
        .sci
        .estimate;
    for period in [4u32, 16, 64] {
        let mut sampled = whole.clone();
        for items in &mut sampled.items {
            let mut seen = 0;
            items.retain(|item| match item {
                TraceItem::Execution(_) => {
                    seen += 1;
                    (seen / 2) % period == 0
                }
                _ => true,
            });
            let announce = |block| TraceItem::Period { block, period };
            items.splice(0..0, [announce(0), announce(1)]);
        }
        let result = analyse(&sampled);
        let found = of(&result, "pthread_mutex_lock");
        let ratio = found.score.sci.estimate / truth;
        assert!((0.7..1.3).contains(&ratio), "{period}: {ratio}");
        assert!(found.doubts.iter().any(|d| d.kind == DoubtKind::Sampled));
        assert_eq!(found.executions.period, period);
    }
}

/// Recording itself may make executions longer (a lock is held meanwhile). Then the recorded ones
/// stand for an impossible time: the result says so, and claims no interference.
#[test]
fn no_thread_loses_more_time_than_it_has() {
    const PERIOD: u32 = 64;
    let run = |recorded_ns: u64| {
        let mut trace = Trace::new("./held");
        let block = trace.block("unlock", &[]);
        for thread in 0..2 {
            trace.thread("worker", 0);
            trace.items[thread].push(TraceItem::Period {
                block,
                period: PERIOD,
            });
            let mut clock = 1_000;
            for call in 0..128_000_u64 {
                if call % u64::from(PERIOD) == 0 {
                    let longer = if call % 640 == 0 { 10 } else { recorded_ns };
                    trace.execute(thread, block, clock, longer);
                    clock += longer;
                }
                clock += 400;
            }
        }
        trace.end();
        analyse(&trace)
    };
    let believable = run(100);
    let doubted = |result: &Interference| {
        let doubts = &of(result, "unlock").doubts;
        let found = doubts.iter().find(|d| d.kind == DoubtKind::Overstated);
        found.map(|doubt| doubt.value)
    };
    assert_eq!(doubted(&believable), None);
    let impossible = run(5_000);
    let ratio = doubted(&impossible).expect("a doubt");
    assert!((9.0..13.0).contains(&ratio), "{ratio}");
    let found = of(&impossible, "unlock");
    assert_eq!(found.score.sci.low, 0.0);
    assert!(found.score.sci.estimate <= 1.0, "{:?}", found.score.sci);
    assert_ne!(found.score.standing, Standing::Interference);
}

/// Threads adopt a sampling period when they notice it, each at another time. An execution recorded
/// before stands for itself, and the threads' own counts decide about the rest.
#[test]
fn periods_are_those_of_threads() {
    const CALLS: u64 = 64_000;
    let run = |announced: [Option<u64>; 2], counted: bool| {
        let mut trace = Trace::new("./late");
        let block = trace.block("block", &[]);
        for (thread, from) in announced.into_iter().enumerate() {
            trace.thread("worker", 0);
            let mut clock = 1_000;
            for call in 0..CALLS {
                let since = from.and_then(|from| call.checked_sub(from));
                if since == Some(0) {
                    trace.items[thread].push(TraceItem::Period { block, period: 64 });
                }
                if since.is_none_or(|since| since % 64 == 0) {
                    trace.execute(thread, block, clock, 100);
                }
                clock += 400;
            }
        }
        trace.end();
        trace.head.blocks[0].period = 64;
        if counted {
            trace.head.blocks[0].calls = 2 * CALLS + 6_400;
            trace.head.blocks[0].represented = 2 * CALLS;
        }
        let result = analyse(&trace);
        of(&result, "block").clone()
    };
    let close = |found: u64, truth: u64| found.abs_diff(truth) * 200 <= truth;
    for announced in [
        [Some(0), Some(0)],
        [Some(32_000), None],
        [Some(6_400), Some(57_600)],
    ] {
        let found = run(announced, false);
        assert!(
            close(found.executions.calls, 2 * CALLS),
            "{announced:?}: {}",
            found.executions.calls
        );
        let counted = run(announced, true);
        assert!(
            close(counted.executions.calls, 2 * CALLS + 6_400),
            "{announced:?}: {}",
            counted.executions.calls
        );
        let (time, more) = (found.durations.total_ns, counted.durations.total_ns);
        assert!(
            (more / time - 1.05).abs() < 0.001,
            "{announced:?}: {time} {more}"
        );
        assert_eq!(found.executions.period, 64);
    }
}

/// Executions of rare kinds are compared more coarsely, and the result says how much of the time
/// that is.
#[test]
fn rare_kinds_are_put_together() {
    let mut trace = Trace::new("./loops");
    let outer = trace.block("outer", &[]);
    let inner = trace.block("inner", &[]);
    let mut chance = Chance::new(3);
    trace.thread("main", 0);
    let mut clock = 1000;
    for call in 0..2_000 {
        let enter = clock;
        // Half of the calls have one shape, the others loops of many lengths.
        let n = if call % 2 == 0 {
            1
        } else {
            2 + chance.below(400)
        };
        for _ in 0..n {
            clock = trace.execute(0, inner, clock + 10, 100);
        }
        clock = trace.execute(0, outer, enter, clock + 10 - enter) + 50;
    }
    trace.end();
    let result = analyse(&trace);
    let outer = of(&result, "outer");
    assert!(
        outer.coverage.collapsed > 0.9 && outer.coverage.exact > 0.001,
        "{:?}",
        outer.coverage
    );
    let sum = outer.coverage.exact
        + outer.coverage.collapsed
        + outer.coverage.arguments
        + outer.coverage.block;
    assert!((sum - 1.0).abs() < 1e-9);
    // Loops of different lengths look like interference; the lower end and a doubt say that it may
    // be none.
    assert!(
        outer.score.sci.low < 0.05 && outer.score.sci.estimate > 0.3,
        "{:?}",
        outer.score.sci
    );
    assert!(outer.doubts.iter().any(|d| d.kind == DoubtKind::Mixed));
    assert!(outer.kinds_total <= 600);
}

/// The overhead of instrumentation in the calls inside is subtracted.
#[test]
fn overhead_is_taken_off() {
    let mut trace = Trace::new("./overhead");
    let outer = trace.block("outer", &[]);
    let inner = trace.block("inner", &[]);
    let mut chance = Chance::new(3);
    trace.thread("main", 0);
    let mut clock = 1000;
    for _ in 0..3_000 {
        let enter = clock;
        let n = chance.below(400);
        for _ in 0..n {
            clock = trace.execute(0, inner, clock, 0) + 50;
        }
        clock = trace.execute(0, outer, enter, 1000 + 50 * n) + 50;
    }
    trace.end();
    let options = Options {
        call_overhead: 50,
        ..Options::default()
    };
    let without = analyse_with(&trace, options);
    assert!(
        of(&without, "outer").score.sci.estimate < 1e-3,
        "{:?}",
        of(&without, "outer").score.sci
    );
    assert!(of(&analyse(&trace), "outer").score.sci.estimate > 0.3);
}

/// Lock and unlock are a sequence, with the data passed between them.
#[test]
fn critical_sections_are_sequences() {
    let trace = contended_lock(4, 5_000, 10 * US, 4 * US);
    let result = analyse(&trace);
    let locked = |s: &&SequenceScore| s.first == "pthread_mutex_lock";
    let section = result.sequences.iter().find(locked).unwrap();
    assert_eq!(
        (section.first.as_str(), section.second.as_str()),
        ("pthread_mutex_lock", "pthread_mutex_unlock")
    );
    assert_eq!(section.calls, 20_000);
    assert!(
        section.floor_ns > 4_000.0 && section.between < 0.01,
        "{section:?}"
    );
    assert!((section.program / result.findings[0].score.program.estimate - 1.0).abs() < 0.05);
}

/// More threads than are distinguished: the sums are right.
#[test]
fn thousands_of_threads_are_survived() {
    let mut trace = Trace::new("./threads");
    let step = trace.block("step", &[]);
    for t in 0..3_000 {
        let start = 10_000 * t as u64;
        trace.thread("short", start);
        for n in 0..3 {
            let duration = if n == 1 { 2_000 } else { 1_000 };
            trace.execute(t, step, start + 3_000 * n, duration);
        }
    }
    let result = analyse(&trace);
    let step = of(&result, "step");
    assert_eq!((step.executions.calls, step.threads_total), (9_000, 3_000));
    let truth = 3_000.0 * 1_000.0 / (3_000.0 * 7_000.0);
    assert!(
        (step.score.sci.estimate - truth).abs() < 1e-9,
        "{:?}",
        step.score.sci
    );
    assert!(
        result
            .warnings
            .iter()
            .any(|w| w.contains("so many threads"))
    );
}

/// Correlation of the mean duration and the score over the delay, as in Table 1.
#[test]
fn score_and_slowdown_go_together() {
    let points: Vec<(f64, f64)> = (0..10)
        .map(|n| {
            let result = analyse(&contended_lock(4, 2_000, (8 + 2 * n * n) * US, 2 * US));
            let lock = of(&result, "pthread_mutex_lock");
            (lock.durations.mean_ns, lock.score.sci.estimate)
        })
        .collect();
    let n = points.len() as f64;
    let mean = |of: fn(&(f64, f64)) -> f64| points.iter().map(of).sum::<f64>() / n;
    let (x, y) = (mean(|p| p.0), mean(|p| p.1));
    let sum = |of: &dyn Fn(&(f64, f64)) -> f64| points.iter().map(of).sum::<f64>();
    let xy = sum(&|p| (p.0 - x) * (p.1 - y));
    let rho = xy / (sum(&|p| (p.0 - x).powi(2)) * sum(&|p| (p.1 - y).powi(2))).sqrt();
    println!("rho = {rho:.3} {points:?}");
    assert!(rho > 0.95, "{rho}");
}

/// Makes a trace of threads that pass on something that only one of them can have, and work while
/// they have it: nobody ever finds it free. In truth, each waits for half of the time. `wait`
/// records the waits of an execution between two moments.
fn always_taken(names: [&str; 2], wait: impl Fn(&mut Trace, usize, (u64, u64), BlockId)) -> Trace {
    let mut trace = Trace::new("./turns");
    let (ask, give) = (trace.block(names[0], &[1]), trace.block(names[1], &[1]));
    for name in ["left", "right"] {
        trace.thread(name, 0);
    }
    let hold = 6_000 * US;
    for turn in 0..2_000u64 {
        let (own, start) = ((turn % 2) as usize, 1_000 + turn * hold);
        let address = [0x7000, 0, 0];
        if turn > 0 {
            wait(&mut trace, own, (start - hold + 200, start - 100), give);
            trace.execute_with(own, ask, start - hold + 100, hold - 200, address);
        }
        trace.execute_with(own, give, start + hold - 60, 50, address);
    }
    trace.end();
    trace
}

/// Returns the first finding, and checks that its threads lose half of their time to this cause,
/// seen, in one entry.
#[track_caller]
fn half_is_lost(trace: &Trace, name: &str, cause: CauseKind) -> Interference {
    let result = analyse(trace);
    first_is(&result, name, cause);
    let first = &result.findings[0];
    assert!(
        (first.score.sci.estimate - 0.5).abs() < 0.03,
        "{:?}",
        first.score.sci
    );
    assert!(
        first.score.sci.low > 0.4 && first.score.hindered > 0.4,
        "{first:#?}"
    );
    assert_eq!(first.score.standing, Standing::Interference);
    assert!(first.causes[0].measured, "{:?}", first.causes);
    result
}

#[test]
fn a_lock_that_is_never_free_is_lost_time_from_the_first_execution_on() {
    let woken = |trace: &mut Trace, own: usize, (start, end), give| {
        trace.wait(own, futex(start, end, 1 - own, Some(give)));
    };
    for (names, cause) in [
        (
            ["pthread_mutex_lock", "pthread_mutex_unlock"],
            CauseKind::Lock,
        ),
        (["sem_wait", "sem_post"], CauseKind::Lock),
        (
            [
                "<std::sys::sync::mutex::futex::Mutex>::lock_contended",
                "<std::sys::sync::mutex::futex::Mutex>::wake",
            ],
            CauseKind::Lock,
        ),
        (
            ["pthread_cond_wait", "pthread_cond_broadcast"],
            CauseKind::Barrier,
        ),
    ] {
        half_is_lost(&always_taken(names, woken), names[0], cause);
    }
}

/// Python asks for its lock every five milliseconds: most of the waiting ends at that timeout.
#[test]
fn waits_for_a_turn_that_time_out_are_lost_too() {
    let trace = always_taken(
        ["pthread_cond_timedwait", "pthread_cond_signal"],
        |trace, own, (start, end), give| {
            let out = start + 5_000 * US;
            let timer = Wait {
                waker: None,
                ..futex(start, out, 0, None)
            };
            trace.wait(own, timer);
            trace.wait(own, futex(out + 10, end, 1 - own, Some(give)));
        },
    );
    half_is_lost(&trace, "pthread_cond_timedwait", CauseKind::Lock);
    // A condition that no waiter signals makes it a timer.
    let trace = always_taken(
        ["pthread_cond_timedwait", "compute"],
        |trace, own, (start, end), _| {
            let timer = Wait {
                waker: None,
                ..futex(start, end, 0, None)
            };
            trace.wait(own, timer);
        },
    );
    let result = analyse(&trace);
    assert!(of(&result, "pthread_cond_timedwait").score.sci.high < 0.01);
}

/// Requested sleeps of any length, in any number of functions, are no interference.
#[test]
fn sleeps_that_were_asked_for_are_no_interference() {
    let mut trace = Trace::new("./sleeper");
    let names = ["clock_nanosleep", "nanosleep", "usleep"];
    let blocks = names.map(|name| trace.block(name, &[]));
    trace.thread("main", 0);
    let mut chance = Chance::new(9);
    let mut clock = 1_000;
    for _ in 0..1_000 {
        let length = chance.below(2_000 * US);
        let asleep = Wait {
            system_call: Some(230),
            waker: None,
            ..futex(clock + 300, clock + 300 + length, 0, None)
        };
        trace.wait(0, asleep);
        for (at, block) in (0..).zip(blocks) {
            trace.execute(0, block, clock + 200 - 100 * at, length + 400 + 200 * at);
        }
        clock += length + 100 * US;
    }
    trace.end();
    let result = analyse(&trace);
    for finding in &result.findings {
        assert!(
            finding.score.sci.high < 0.01,
            "{} {:?}",
            finding.name,
            finding.score.sci
        );
        assert_eq!(finding.score.standing, Standing::Slight);
    }
}

/// Threads that wait for work from others: these have too much to do, or wait themselves.
#[test]
fn who_waits_for_work_is_idle_unless_the_others_are_busy() {
    for (busy, standing) in [(true, Standing::ForWork), (false, Standing::Idle)] {
        let mut trace = Trace::new("./helpers");
        let wait = trace.block("pthread_cond_wait", &[]);
        let signal = trace.block("pthread_cond_signal", &[]);
        let main = trace.thread("main", 0);
        for _ in 0..2 {
            trace.thread("helper", 0);
        }
        for n in 0..1_000 {
            let start = 1_000 + n * 100 * US;
            let end = start + 90 * US;
            if !busy {
                let asleep = Wait {
                    system_call: Some(230),
                    waker: None,
                    ..futex(start, end - US, 0, None)
                };
                trace.wait(main, asleep);
            }
            trace.execute(main, signal, end - 100, 90);
            let helper = 1 + (n % 2) as usize;
            trace.wait(helper, futex(start + 50, end, main, Some(signal)));
            trace.execute(helper, wait, start, 91 * US);
        }
        trace.end();
        let result = analyse(&trace);
        assert_eq!(of(&result, "pthread_cond_wait").score.standing, standing);
    }
}

/// A loss is listed with the function that waits, and the functions that call this come after it.
#[test]
fn a_loss_is_listed_once() {
    let mut trace = Trace::new("./layers");
    let outer = trace.block("update", &[]);
    let lock = trace.block("pthread_mutex_lock", &[]);
    let other = trace.block("flush", &[]);
    for name in ["one", "two"] {
        trace.thread(name, 0);
    }
    for n in 0..1_000u64 {
        let (own, start) = ((n % 2) as usize, 1_000 + n * 100 * US);
        trace.wait(own, futex(start + 300, start + 60 * US, 1 - own, None));
        trace.execute(own, lock, start + 200, 60 * US);
        trace.execute(own, outer, start + 100, 70 * US);
        trace.wait(
            own,
            futex(start + 76 * US, start + 90 * US, 1 - own, Some(other)),
        );
        trace.execute(own, other, start + 75 * US, 16 * US);
    }
    trace.end();
    let result = analyse(&trace);
    let order: Vec<_> = result.findings.iter().map(|f| f.name.as_str()).collect();
    assert_eq!(order, ["pthread_mutex_lock", "flush", "update"]);
    let update = of(&result, "update");
    assert_eq!(update.score.standing, Standing::Same);
    assert_eq!(update.score.same_as.as_deref(), Some("pthread_mutex_lock"));
    // A thread that another one wakes from the function that it waits in waits for a turn.
    assert_eq!(of(&result, "flush").causes[0].kind, CauseKind::Lock);
}

/// Locks without a function of their own are known by where threads wait: the allocator's, the
/// memory map's, and spinning.
#[test]
fn locks_without_a_name_are_known_by_where_threads_wait() {
    let in_call = |name: &str, system_call: Option<u32>, waker: Option<&str>| {
        let mut trace = Trace::new("./waits");
        let block = trace.block(name, &[]);
        let waker = waker.map(|waker| trace.block(waker, &[]));
        for name in ["one", "two"] {
            trace.thread(name, 0);
        }
        for n in 0..1_000u64 {
            let (own, start) = ((n % 2) as usize, 1_000 + n * 100 * US);
            let wait = Wait {
                system_call,
                ..futex(start + 300, start + 60 * US, 1 - own, waker)
            };
            trace.wait(own, wait);
            trace.execute(own, block, start + 200, 60 * US);
        }
        trace.end();
        analyse(&trace)
    };
    for (name, system_call, waker, cause) in [
        ("malloc", Some(202), None, CauseKind::Allocator),
        ("free", Some(202), Some("malloc"), CauseKind::Allocator),
        ("munmap", Some(11), None, CauseKind::AddressSpace),
        ("fill_pages", None, None, CauseKind::AddressSpace),
        ("store_record", Some(73), None, CauseKind::Lock),
        (
            "park_condvar",
            Some(202),
            Some("tokio::sync::batch_semaphore::Semaphore::add_permits_locked"),
            CauseKind::Lock,
        ),
    ] {
        first_is(&in_call(name, system_call, waker), name, cause);
    }
}

/// A lock that yields until it is free: the loss belongs to yielding, whose executions have no
/// floor, and to the function that yields.
#[test]
fn yielding_is_waiting() {
    let mut trace = Trace::new("./spin");
    let outer = trace.block("take_turn", &[]);
    let give_way = trace.block("sched_yield", &[]);
    for name in ["one", "two"] {
        trace.thread(name, 0);
    }
    for n in 0..1_000u64 {
        let (own, start) = ((n % 2) as usize, 1_000 + n * 50 * US);
        let yields = [0, 3, 5, 7][(n / 2 % 4) as usize];
        for at in 0..yields {
            trace.execute(own, give_way, start + US + at * 5 * US, 5 * US - 200);
        }
        trace.execute(own, outer, start, 10 * US + yields * 5 * US);
    }
    trace.end();
    let result = analyse(&trace);
    let yields = of(&result, "sched_yield");
    assert_eq!(yields.floor.ns, 0.0);
    assert_eq!(yields.causes[0].kind, CauseKind::Lock);
    assert_eq!(yields.score.standing, Standing::Interference);
    let outer = of(&result, "take_turn");
    assert_eq!(outer.causes[0].kind, CauseKind::Lock, "{:#?}", outer.causes);
    assert_eq!(outer.score.same_as.as_deref(), Some("sched_yield"));
}

/// One thread whose work varies, and threads whose work varies whether others run or not.
#[test]
fn work_that_varies_is_no_interference() {
    for threads in [1, 2] {
        let mut trace = Trace::new("./varied");
        let block = trace.block("by_data", &[]);
        for t in 0..threads {
            trace.thread("worker", 0);
            let mut chance = Chance::new(20 + t as u64);
            let mut clock = 1_000;
            for _ in 0..3_000 {
                let work = 10 * US + chance.below(2_000 * US);
                clock = trace.execute(t, block, clock, work) + chance.below(2_000 * US);
            }
        }
        trace.end();
        let found = analyse(&trace);
        let found = of(&found, "by_data");
        assert!(found.score.sci.estimate > 0.3, "{:?}", found.score.sci);
        assert_eq!(
            found.score.standing,
            Standing::Varies,
            "{:#?}",
            found.causes
        );
        assert!(found.score.hindered < 0.05);
    }
}
