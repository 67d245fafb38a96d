//! Losses by intervention, on made-up programs whose loss is known.

#[path = "../../../tests/traces/simulate.rs"]
#[allow(dead_code)]
mod simulate;

use analysis::interference::Analyser;
use profile::*;
use simulate::*;

const MS: u64 = 1000 * US;

fn analyse(trace: &Trace) -> Interference {
    let mut analyser = Analyser::new(&trace.head.blocks, false);
    for batch in trace.batches(TICKS_PER_SECOND / 20, usize::MAX) {
        analyser.push(&batch);
    }
    analyser.finish(&trace.head)
}

fn loss_in(result: &Interference, name: &str) -> Between {
    let function = result
        .functions
        .iter()
        .find(|function| function.name == name);
    let loss = function.and_then(|function| function.loss);
    loss.unwrap_or_else(|| panic!("nothing on {name}"))
        .solo
        .loss
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
                let result = analyse(&program.trace());
                let found = result.solo.program.expect("known");
                assert_eq!(result.solo.intervals, 150);
                // The outer function does nothing but call the inner one.
                for (Between { low, high, .. }, truth) in [
                    (found.loss, loss),
                    (loss_in(&result, "inner"), loss),
                    (loss_in(&result, "outer"), 0.0),
                ] {
                    right += u32::from((low - 0.02..=high + 0.02).contains(&truth));
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

/// The time of records is no loss: the program takes it only while it is traced.
#[test]
fn the_time_of_records_is_no_part_of_a_loss() {
    for loss in [0.0, 0.5, 0.7] {
        let program = Program {
            loss,
            length: 8 * US,
            record: 2 * US,
            ..Program::default()
        };
        let trace = program.trace();
        let result = analyse(&trace);
        let found = result.solo.program.expect("known").loss;
        for Between { estimate, .. } in [found, loss_in(&result, "inner")] {
            assert!((estimate - loss).abs() < 0.03, "{loss}: {found:?}");
        }
        let mut unknown = trace;
        unknown.head.call_ticks = 0;
        let found = analyse(&unknown).solo.program.expect("known").loss;
        assert!(found.estimate < 0.75 * loss + 0.03, "{loss}: {found:?}");
    }
}

/// A recorded execution takes longer than the others that it represents. The function then seems to
/// have more time than there is, but a thread cannot lose more than all of its time.
#[test]
fn no_function_loses_more_than_all_time() {
    let program = Program {
        loss: 0.5,
        length: 5 * US,
        ..Program::default()
    };
    let mut trace = program.trace();
    let blocks = trace.head.blocks.iter();
    let inner = blocks.clone().position(|block| block.name == "inner");
    let block = inner.expect("a block") as BlockId;
    for items in &mut trace.items {
        items.insert(0, TraceItem::Period { block, period: 5 });
    }
    let Between {
        estimate,
        low,
        high,
    } = loss_in(&analyse(&trace), "inner");
    assert!(
        low <= estimate && estimate <= high && high <= 1.0,
        "{low} {estimate} {high}"
    );
    assert!((0.4..=0.6).contains(&estimate), "{estimate}");
}

/// A shared cache line is the cause of a loss if most of the function's samples access it.
#[test]
fn a_line_that_most_samples_share_is_the_cause() {
    let cause = |shared| {
        let program = Program {
            loss: 0.5,
            length: 30 * US,
            ..Program::default()
        };
        let mut trace = program.trace();
        for block in &mut trace.head.blocks {
            block.shared_line = Some(SharedLine {
                variable: Some("counts".into()),
                threads: 2,
                is_false: true,
                samples: 10,
                shared,
            });
        }
        let result = analyse(&trace);
        let inner = result.functions.iter().find(|it| it.name == "inner");
        inner.expect("a function").cause
    };
    assert_eq!(cause(8), Some(CauseKind::SharedLine));
    assert_eq!(cause(4), None);
}

#[test]
fn losses_within_the_error_of_the_method_are_silent() {
    let result = |error| {
        let program = Program {
            loss: 0.3,
            error,
            ..Program::default()
        };
        analyse(&program.trace())
    };
    assert_eq!(result(0.0).solo.verdict, SoloVerdict::Interference);
    let disturbed = result(0.3);
    assert_eq!(disturbed.solo.verdict, SoloVerdict::NotFound);
    let losses = disturbed
        .functions
        .iter()
        .filter_map(|function| function.loss);
    assert!(losses.into_iter().all(|loss| !loss.solo.is_claimed));
}

#[test]
fn halts_are_cut_off_and_many_of_them_are_dependence() {
    let result = |halts| {
        let program = Program {
            loss: 0.4,
            halts,
            ..Program::default()
        };
        analyse(&program.trace()).solo
    };
    let few = result(10);
    assert!(few.stuck > 5, "{few:?}");
    let Between { low, high, .. } = few.program.expect("known").loss;
    assert!(low < 0.4 && 0.4 < high, "{low} {high}");
    assert_eq!(few.verdict, SoloVerdict::Interference);
}

/// Begins an interval of the first thread, every fourth of which is a placebo. Returns the time
/// alone.
fn begin_interval(trace: &mut Trace, number: u64, start: u64) -> (u64, u64) {
    let alone = (start + 2 * MS, start + 3 * MS);
    trace.items[0].push(TraceItem::Solo(SoloInterval {
        before: (start, alone.0),
        alone,
        after: (alone.1 + MS, alone.1 + 3 * MS),
        placebo: number % 4 == 3,
        busy: 2,
    }));
    alone
}

/// Threads hand work to each other: alone, one does what it has and halts in its wait for more.
#[test]
fn threads_that_wait_for_work_depend_on_each_other() {
    let mut trace = Trace::new("hand");
    let (wait, work) = (trace.block("take"), trace.block("work"));
    trace.thread("worker", 0);
    let mut now = MS;
    for number in 0..200u64 {
        let start = now;
        let alone = begin_interval(&mut trace, number, start);
        while now < start + 7 * MS {
            // Of each 100 us it works for 40; in the time alone nobody ends its wait.
            now = trace.execute(0, work, now, 40 * US);
            let asked = now;
            let is_held = number % 4 != 3 && (alone.0..alone.1).contains(&now);
            now = if is_held { alone.1 + US } else { now + 60 * US };
            trace.wait(0, futex(asked, now, 0, Some(work)));
            trace.execute(0, wait, asked, now - asked);
        }
    }
    trace.end();
    let result = analyse(&trace);
    assert_eq!(
        result.solo.verdict,
        SoloVerdict::Dependence,
        "{:?}",
        result.solo
    );
}

/// Threads take turns, and each waits in a function for its turn. Half of the time the thread that
/// has the turn is held. The wait is a loss if the function is that of a lock.
#[test]
fn waits_at_a_lock_whose_holder_is_held_are_no_dependence() {
    let result = |wait: &str| {
        let mut trace = Trace::new("turns");
        let (wait, work) = (trace.block(wait), trace.block("work"));
        trace.thread("worker", 0);
        const TURN: u64 = 700 * US;
        let (mut now, mut turn_ends) = (MS, MS + TURN);
        for number in 0..200u64 {
            let start = now + number % 7 * 300 * US;
            let alone = begin_interval(&mut trace, number, start);
            while now < start + 7 * MS {
                let is_held = number % 4 != 3 && (alone.0..alone.1).contains(&now);
                if now < turn_ends || is_held {
                    now = trace.execute(0, work, now, 10 * US);
                    continue;
                }
                let asked = now;
                now += TURN;
                if number % 4 != 3 && (alone.0..alone.1).contains(&now) {
                    now = alone.1 + MS / 2;
                }
                turn_ends = now + TURN;
                trace.wait(0, futex(asked, now, 0, Some(work)));
                trace.execute(0, wait, asked, now - asked);
            }
        }
        trace.end();
        analyse(&trace).solo
    };
    let lock = result("std::sys::sync::mutex::futex::Mutex::lock_contended");
    assert!(lock.stuck * 4 > lock.intervals, "{lock:?}");
    assert_eq!(lock.verdict, SoloVerdict::Interference, "{lock:?}");
    let Between { low, high, .. } = lock.program.expect("known").loss;
    assert!((low - 0.02..=high + 0.02).contains(&0.5), "{low} {high}");
    let other = result("take_turn");
    assert_eq!(other.stuck, lock.stuck);
    assert_ne!(other.verdict, SoloVerdict::Interference, "{other:?}");
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
    let block = trace.block("f");
    trace.thread("main", 0);
    trace.execute(0, block, 0, MS);
    trace.end();
    trace.head.solo.one_busy = 30;
    assert_eq!(analyse(&trace).solo.verdict, SoloVerdict::OneThread);
    trace.head.solo.refused = Some("no BPF".into());
    assert_eq!(analyse(&trace).solo.verdict, SoloVerdict::NotMeasured);
}
