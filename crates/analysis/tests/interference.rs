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
    let block = trace.head.blocks.iter().position(|b| b.name == name).unwrap() as u32;
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
            .map(|f| (&f.name, f.program))
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
    } = first.sci;
    assert!(
        low <= estimate && estimate <= high && high < 2.0,
        "{:?}",
        first.sci
    );
}

#[test]
fn a_contended_lock_is_named() {
    let trace = contended_lock(4, 5_000, 10 * US, 4 * US);
    let result = analyse(&trace);
    first_is(&result, "pthread_mutex_lock", CauseKind::Lock);
    assert!(
        result.findings[0].sci.low > 0.2,
        "{:?}",
        result.findings[0].sci
    );
    assert!(result.findings[0].causes[0].measured);
    // Repaired: the lock is hardly ever taken.
    let repaired = analyse(&contended_lock(4, 5_000, 400 * US, US / 10));
    assert!(repaired.findings.iter().all(|f| f.sci.estimate < 0.1));
    // The floor is that of the lock without contention (Fig. 7).
    let (high, low) = (
        of(&result, "pthread_mutex_lock"),
        of(&repaired, "pthread_mutex_lock"),
    );
    let ratio = high.floor.ns / low.floor.ns;
    assert!((0.85..1.15).contains(&ratio), "{ratio}");
}

#[test]
fn an_imbalanced_barrier_is_named() {
    let result = analyse(&barrier(4, 2_000, 50 * US, 100 * US));
    first_is(&result, "pthread_barrier_wait", CauseKind::Barrier);
    assert!(result.findings[0].sci.low > 0.2, "{:?}", result.findings[0]);
    let repaired = analyse(&barrier(4, 2_000, 50 * US, 0));
    assert!(repaired.findings.iter().all(|f| f.sci.estimate < 0.1));
}

#[test]
fn falsely_shared_counters_are_named() {
    let result = analyse(&counters(50_000, 600, 6));
    first_is(&result, "add_fifty", CauseKind::Memory);
    assert!(result.findings[0].sci.low > 0.2, "{:?}", result.findings[0]);
    assert!(
        !result.findings[0].causes[0].measured,
        "it is only consistent with sharing"
    );
    let repaired = analyse(&counters(50_000, 600, 1));
    assert!(repaired.findings.iter().all(|f| f.sci.estimate < 0.1));
}

#[test]
fn a_disk_is_named() {
    let result = analyse(&disk(8, 1_000, 160 * US));
    first_is(&result, "pread64", CauseKind::Disk);
    assert!(result.findings[0].sci.low > 0.1, "{:?}", result.findings[0]);
    let repaired = analyse(&disk(8, 1_000, 20_000 * US));
    assert!(repaired.findings.iter().all(|f| f.sci.estimate < 0.1));
}

#[test]
fn a_pool_over_a_pipe_is_named() {
    let result = analyse(&pool(4, 10_000, 20 * US));
    first_is(&result, "read", CauseKind::Pool);
    assert!(result.findings[0].sci.low > 0.2, "{:?}", result.findings[0]);
}

#[test]
fn work_that_follows_an_argument_is_no_interference() {
    let trace = sizes(5_000);
    let result = analyse(&trace);
    let fill = of(&result, "fill");
    assert!(fill.sci.estimate > 0.5);
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
    assert!(fill.sci.estimate < 0.01, "{:?}", fill.sci);
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
