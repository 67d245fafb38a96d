//! Counts, waits and their causes, on made-up traces whose truth is known.

#[path = "../../../tests/traces/simulate.rs"]
#[allow(dead_code)]
mod simulate;

use analysis::interference::Analyser;
use profile::*;
use proptest::prelude::*;
use simulate::*;

fn analyse_in(trace: &Trace, ticks: u64, items: usize) -> Interference {
    let mut analyser = Analyser::new(&trace.head.blocks, false);
    for batch in trace.batches(ticks, items) {
        analyser.push(&batch);
    }
    analyser.finish(&trace.head)
}

fn analyse(trace: &Trace) -> Interference {
    analyse_in(trace, TICKS_PER_SECOND / 20, usize::MAX)
}

fn function<'a>(result: &'a Interference, name: &str) -> &'a TracedFunction {
    let found = result
        .functions
        .iter()
        .find(|function| function.name == name);
    found.unwrap_or_else(|| panic!("nothing on {name}"))
}

fn waited_ns(result: &Interference, name: &str, kind: CauseKind) -> f64 {
    let waits = function(result, name).waits.iter();
    waits
        .filter(|waits| waits.kind == kind)
        .map(|waits| waits.ns)
        .sum()
}

/// Ticks that a made-up trace's threads wait.
fn waits_of(trace: &Trace) -> u64 {
    let items = trace.items.iter().flatten();
    let waits = items.filter_map(|item| match item {
        TraceItem::Wait(wait) => Some(wait.end - wait.start),
        _ => None,
    });
    waits.sum()
}

#[test]
fn waits_for_a_lock_are_its_functions_and_name_the_function_that_ended_them() {
    let trace = contended_lock(4, 1_000, 10 * US, 4 * US);
    let result = analyse(&trace);
    let ns = waits_of(&trace) as f64 * 1e9 / TICKS_PER_SECOND as f64;
    let found = waited_ns(&result, "pthread_mutex_lock", CauseKind::Lock);
    assert!((found / ns - 1.0).abs() < 1e-9, "{found} {ns}");
    let lock = function(&result, "pthread_mutex_lock");
    let ended_by = lock.waits[0].ended_by[0].function.as_deref();
    assert_eq!(ended_by, Some("pthread_mutex_unlock"));
    assert_eq!(lock.calls, 4_000);
    assert_eq!(lock.threads_total, 4);
    assert_eq!(lock.stacks[0].frames, ["add main.c:17"]);
    assert!(lock.loss.is_none() && result.solo.verdict == SoloVerdict::NotMeasured);
    assert!(function(&result, "pthread_mutex_unlock").waits.is_empty());
}

#[test]
fn kinds_of_waits_are_told_apart() {
    let mut trace = Trace::new("barrier");
    let barrier = trace.block("pthread_barrier_wait");
    for thread in 0..2 {
        trace.thread("worker", 0);
        trace.wait(thread, futex(1_100, 9_000, 1 - thread, Some(barrier)));
        trace.execute(thread, barrier, 1_000, 8_100);
    }
    trace.end();
    let of_barrier = analyse(&trace);
    assert!(waited_ns(&of_barrier, "pthread_barrier_wait", CauseKind::Barrier) > 0.0);
    let of_pool = analyse(&pool(4, 3_000, 20 * US));
    assert!(waited_ns(&of_pool, "read", CauseKind::Pool) > 0.0);
}

/// Threads that signal the semaphore or condition variable that they wait for take turns at it, as
/// at a lock or a barrier.
#[test]
fn what_its_waiters_signal_is_a_lock_or_a_barrier() {
    let kinds = |[waiting, signalling]: [&str; 2], waiter_posts: bool| {
        let mut trace = Trace::new("turns");
        let wait = trace.block(waiting);
        let post = trace.block(signalling);
        for name in ["a", "b", "master"] {
            trace.thread(name, 0);
        }
        let mut now = 1000;
        for round in 0..1_000usize {
            let (own, other) = (round % 2, (round + 1) % 2);
            let waker = if waiter_posts { other } else { 2 };
            trace.wait(own, futex(now + 100, now + 5 * US, waker, Some(post)));
            trace.execute_with(own, wait, now, 6 * US, 0x40);
            now += 8 * US;
            let poster = if waiter_posts { own } else { 2 };
            trace.execute_with(poster, post, now, 100, 0x40);
            now += US;
        }
        trace.end();
        let result = analyse(&trace);
        let waits = function(&result, waiting).waits.clone();
        waits
            .into_iter()
            .map(|waits| waits.kind)
            .collect::<Vec<_>>()
    };
    let semaphore = ["sem_wait", "sem_post"];
    assert_eq!(kinds(semaphore, true), [CauseKind::Lock]);
    assert_eq!(kinds(semaphore, false), [CauseKind::Pool]);
    let condition = ["pthread_cond_wait", "pthread_cond_broadcast"];
    assert_eq!(kinds(condition, true), [CauseKind::Barrier]);
    assert_eq!(kinds(condition, false), [CauseKind::Pool]);
}

/// A wait belongs to the innermost function around it, and to no caller of that.
#[test]
fn waits_belong_to_the_innermost_function() {
    let mut trace = Trace::new("nested");
    let (inner, outer) = (trace.block("inner"), trace.block("outer"));
    trace.thread("main", 0);
    let wait = |start, end| Wait {
        system_call: Some(74),
        waker: None,
        ..futex(start, end, 0, None)
    };
    trace.wait(0, wait(1_200, 1_300));
    trace.execute(0, inner, 1_100, 400);
    trace.wait(0, wait(1_600, 1_800));
    trace.execute(0, outer, 1_000, 1_000);
    trace.end();
    let result = analyse(&trace);
    let ticks = |name| waited_ns(&result, name, CauseKind::Disk) * TICKS_PER_SECOND as f64 / 1e9;
    assert_eq!(
        (ticks("inner").round(), ticks("outer").round()),
        (100.0, 200.0)
    );
}

/// One in ten executions is recorded: each stands for ten, and the thread's own count is exact.
#[test]
fn recorded_executions_stand_for_the_others() {
    let mut trace = Trace::new("sampled");
    let block = trace.block("f");
    trace.thread("main", 0);
    trace.items[0].push(TraceItem::Period { block, period: 10 });
    let mut now = 1_000;
    for _ in 0..100 {
        now = trace.execute(0, block, now, 50) + 500;
    }
    trace.end();
    assert_eq!(function(&analyse(&trace), "f").calls, 1_000);
    (trace.head.blocks[0].calls, trace.head.blocks[0].represented) = (1_013, 1_000);
    let found = analyse(&trace);
    let f = function(&found, "f");
    assert_eq!((f.calls, f.recorded), (1_013, 100));
    assert!((f.mean_ns - 25.0).abs() < 1e-6, "{}", f.mean_ns);
}

#[test]
fn items_that_contradict_the_clock_are_left_out_with_a_word() {
    let mut trace = Trace::new("bad");
    let block = trace.block("f");
    trace.thread("main", 0);
    trace.execute(0, block, 1_000, 50);
    for (block, leave, duration) in [(block, 10, 5_000), (9, 2_000, 10)] {
        trace.items[0].push(TraceItem::Execution(Execution {
            block,
            unwound: false,
            leave,
            duration,
            address: 0,
        }));
    }
    trace.end();
    let result = analyse(&trace);
    assert_eq!(result.executions, 1);
    let warnings = result.warnings.join(" ");
    assert!(warnings.contains("contradict the clock") && warnings.contains("not described"));
}

proptest! {
    /// The division into batches makes no difference.
    #[test]
    fn batches_make_no_difference(ticks in 1_000u64..TICKS_PER_SECOND, items in 1usize..200) {
        let trace = contended_lock(3, 200, 10 * US, 4 * US);
        prop_assert_eq!(analyse_in(&trace, ticks, items), analyse(&trace));
    }
}
