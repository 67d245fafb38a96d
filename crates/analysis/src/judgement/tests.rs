//! Tests with programs whose time is known.

use super::*;
use profile::known_code::RUNTIME;
use profile::{CallTreeBuilder, DraftNode, MemoryLimit, ValueType};

const MS: i64 = 1_000_000;
const RUNTIMES: [&str; 2] = ["garbage collection (", "loading shared"];

/// Returns a tree of these stacks, outermost first, each with the kind of its time and its
/// milliseconds.
fn tree(stacks: &[(&str, TimeKind, i64)]) -> CallTree {
    let value = |name: &str| ValueType {
        name: name.to_owned(),
        unit: "nanoseconds".to_owned(),
    };
    let kinds = TimeKind::ALL.iter().map(|kind| value(kind.phrase()));
    let mut builder = CallTreeBuilder::new(std::iter::once(value("time")).chain(kinds).collect());
    for (path, kind, time) in stacks {
        let mut node = DraftNode::ROOT;
        for name in path.split(';') {
            let module = match name {
                "malloc" | "free" | "strcoll" | "next_sequence" | "compare_part"
                | "pthread_mutex_lock" | "lll_unlock" | "lll_wake" | "clone3" => "/lib/libc.so.6",
                "operator new" => "/lib/libstdc++.so.6",
                "encoder_call" | "encoder_list" | "encoder_dict" | "_Py_read" => {
                    "/usr/bin/python3.11"
                }
                _ if name.starts_with("json.") => "/usr/lib/python3.11/json/__init__.py",
                _ if name.starts_with("http.") => "/usr/lib/python3.11/http/server.py",
                _ if name.starts_with("web.") => "/usr/lib/python3.11/site-packages/web/app.py",
                "page fault" | PROCESS_START | THREAD_START => "[kernel]",
                _ if RUNTIMES.iter().any(|work| name.starts_with(work)) => RUNTIME,
                _ if name.contains(" (system call)") => "[kernel]",
                "[function at 0x9a00]" | "[function at 0xab050]" if path.contains("libsqlite3") => {
                    "/usr/lib/libsqlite3.so.0"
                }
                _ if name.starts_with("libsqlite3.so:") => "/usr/lib/libsqlite3.so.0",
                _ => "app",
            };
            let method = builder.method(name, module).unwrap();
            node = builder.child(node, method).unwrap();
        }
        let at = TimeKind::ALL.iter().position(|k| k == kind).unwrap();
        builder.add(0, node, time * MS);
        builder.add(1 + at, node, time * MS);
    }
    builder.finish().unwrap()
}

static NO_WAITS: CpuWaits = CpuWaits {
    own_ns: 0,
    nobody_ns: 0,
    host_ns: 0,
    profiler_ns: 0,
    others: BTreeMap::new(),
};

fn measured(tree: &CallTree) -> Measured<'_> {
    Measured {
        tree,
        more_runs: &[],
        each_sample: 1e6,
        run_ns: 0.0,
        threads: &[],
        cpus: 2,
        dear_lines: &[],
        ended_waits: &[],
        cpu_waits: &NO_WAITS,
        confined: None,
        memory: None,
        stalls: &[],
        causal: &[],
        interference: &[],
        in_runtimes: &NO_FUNCTIONS,
        stored: "0",
        event: "cycles",
    }
}

static NO_FUNCTIONS: BTreeMap<String, &str> = BTreeMap::new();

fn predicted(claim: Claim, procedure: &str, value: f64, interval: [f64; 2]) -> Finding {
    Finding {
        claim,
        place: FindingPlace {
            image: None,
            what: PlaceInCode::Line {
                line: format!("{procedure}.c:7"),
                procedure: procedure.to_owned(),
            },
        },
        amount: FindingAmount {
            value,
            interval: Some(interval),
            unit: AmountUnit::Fraction,
            relative_to: AmountBase::Period("end".to_owned()),
            certainty: Certainty::Prediction,
        },
        evidence: vec![FindingEvidence::Experiments {
            experiments: 30,
            set_aside: 0,
            visits: 1000,
            slope: [value, interval[0], interval[1]],
            q: 0.01,
            at_speedup: 1.0,
        }],
        doubts: Vec::new(),
        next: Vec::new(),
    }
}

fn names(judgement: &Judgement) -> Vec<String> {
    let names = judgement.findings.iter().map(|f| f.place.what.name());
    names.collect()
}

const WAITING: (&str, TimeKind, i64) = ("main;save;fsync;fsync (system call)", TimeKind::Disk, 600);

#[test]
fn waiting_and_running_are_ranked_together() {
    let tree = tree(&[
        WAITING,
        ("main;compute", TimeKind::Computing, 300),
        ("main;print;write (system call)", TimeKind::SystemCalls, 90),
    ]);
    let judgement = judge_measured(&measured(&tree)).unwrap();
    assert_eq!(judgement.findings.len(), 3, "{:?}", names(&judgement));
    let first = &judgement.findings[0];
    assert_eq!(first.spent_on(), Some(TimeKind::Disk));
    assert!((first.amount.value - 600.0 / 990.0).abs() < 1e-6);
    assert_eq!(judgement.findings[1].spent_on(), Some(TimeKind::Computing));
    assert!((judgement.together - 1.0).abs() < 1e-6);
}

#[test]
fn swapping_is_a_finding_with_what_did_not_fit() {
    let tree = tree(&[
        ("main;look_up;page fault", TimeKind::Swapping, 700),
        ("main;look_up;page fault", TimeKind::PageFaults, 20),
        ("main;compute", TimeKind::Computing, 300),
    ]);
    let need = MemoryNeed {
        needed_bytes: 612_000_000,
        swapped_bytes: 356_000_000,
        allowed_bytes: 256_000_000,
        limit_of: MemoryLimit::ControlGroup,
    };
    let judgement = judge_measured(&Measured {
        memory: Some(need),
        ..measured(&tree)
    })
    .unwrap();
    let [swapping, computing] = &judgement.findings[..] else {
        panic!("{:?}", names(&judgement));
    };
    assert!((swapping.amount.value - 0.706).abs() < 0.001);
    assert!(
        swapping
            .evidence
            .contains(&FindingEvidence::MemoryShort { need })
    );
    // A part of it was sampled.
    let [low, high] = swapping.amount.interval.unwrap();
    assert!(low < swapping.amount.value && swapping.amount.value < high);
    let short = FindingEvidence::MemoryShort { need };
    assert!(swapping.evidence.contains(&short));
    assert!(!computing.evidence.contains(&short));
}

#[test]
fn who_touches_memory_that_does_not_fit_is_said_of_one_finding() {
    let touching = |fill, read| {
        let tree = tree(&[
            ("main;fill;page fault", TimeKind::Swapping, fill),
            ("main;price_of;page fault", TimeKind::Swapping, read),
            ("main;compute", TimeKind::Computing, 100),
        ]);
        judge_measured(&measured(&tree)).unwrap()
    };
    let both = touching(500, 400);
    assert_eq!(
        names(&both),
        ["touching memory that was swapped out", "compute"]
    );
    let first = &both.findings[0];
    assert!((first.amount.value - 0.9).abs() < 1e-9);
    let touches = |name: &str| {
        let mut evidence = first.evidence.iter();
        evidence.any(
            |one| matches!(one, FindingEvidence::TimeCalling { function, .. } if function == name),
        )
    };
    assert!(touches("fill") && touches("price_of"), "{first:?}");
    let one = touching(100, 800);
    assert_eq!(names(&one), ["page fault", "compute"]);
    assert!(path_of(&one.findings[0]).contains(&"price_of".to_owned()));
}

/// Every function of the program may touch the memory that does not fit.
#[test]
fn swapping_of_many_places_is_one_finding() {
    let paths: Vec<String> = (0..100)
        .map(|number| format!("main;part_{number};page fault"))
        .collect();
    let mut stacks: Vec<(&str, TimeKind, i64)> = paths
        .iter()
        .map(|path| (path.as_str(), TimeKind::Swapping, 7))
        .collect();
    stacks.push(("main;compute", TimeKind::Computing, 300));
    let tree = tree(&stacks);
    let judgement = judge_measured(&measured(&tree)).unwrap();
    let first = &judgement.findings[0];
    assert_eq!(first.spent_on(), Some(TimeKind::Swapping));
    assert!(first.amount.value > 0.6, "{:?}", names(&judgement));
    assert!(judgement.together <= 1.0);
}

#[test]
fn an_experiment_counts_more_than_the_times() {
    let tree = tree(&[
        ("main;a", TimeKind::Computing, 500),
        ("main;b", TimeKind::Computing, 400),
    ]);
    // With threads: the work of `a` is hidden behind that of `b`.
    let causal = [
        predicted(Claim::SpeedupWorthless, "a", 0.0, [-0.02, 0.02]),
        predicted(Claim::WorthSpeedup, "b", 0.3, [0.25, 0.35]),
    ];
    let judgement = judge_measured(&Measured {
        causal: &causal,
        ..measured(&tree)
    })
    .unwrap();
    assert_eq!(names(&judgement), ["b"]);
    assert_eq!(speedup_of(&judgement.findings[0]), Some([0.25, 0.35]));
}

#[test]
fn no_time_is_counted_twice() {
    let tree = tree(&[
        ("main;parse;malloc", TimeKind::Computing, 300),
        ("main;render;malloc", TimeKind::Computing, 300),
        ("main;render", TimeKind::Computing, 300),
    ]);
    let judgement = judge_measured(&measured(&tree)).unwrap();
    let sum: f64 = judgement.findings.iter().map(|f| f.amount.value).sum();
    assert!(sum <= 1.0 + 1e-9, "{sum}");
    assert_eq!(names(&judgement)[0], "malloc");
}

/// CPUs that other programs had are a statement about the machine; running code keeps its part of
/// the time.
#[test]
fn a_machine_without_room_is_said_apart() {
    let tree = tree(&[("main;a", TimeKind::Computing, 500)]);
    let waits = CpuWaits {
        own_ns: 700_000_000,
        nobody_ns: 0,
        host_ns: 0,
        profiler_ns: 0,
        others: BTreeMap::from([("cc1".to_owned(), 1_500_000_000)]),
    };
    let starved = Measured {
        cpu_waits: &waits,
        ..measured(&tree)
    };
    let judgement = judge_measured(&starved).unwrap();
    let machine = judgement.machine.expect("the machine");
    assert_eq!(machine.spent_on(), Some(TimeKind::NoCpu));
    assert!((machine.amount.value - 0.75).abs() < 1e-9);
    assert!(machine.cpu_taken_by().is_some_and(CpuTaker::is_stranger));
    assert_eq!(judgement.findings.len(), 1);
    assert!((judgement.findings[0].amount.value - 1.0).abs() < 1e-9);
}

/// Time that the hypervisor gave to other machines is waiting for a CPU, too.
#[test]
fn a_noisy_host_is_said_apart() {
    let tree = tree(&[("main;a", TimeKind::Computing, 500)]);
    let waits = CpuWaits {
        host_ns: 500_000_000,
        ..CpuWaits::default()
    };
    let judgement = judge_measured(&Measured {
        cpu_waits: &waits,
        ..measured(&tree)
    })
    .unwrap();
    let machine = judgement.machine.expect("the machine");
    assert!((machine.amount.value - 0.5).abs() < 1e-9);
    assert!(machine.cpu_taken_by().is_some_and(CpuTaker::is_stranger));
}

/// Waits of threads for each other's CPUs are a loss only if the program may not use all CPUs.
#[test]
fn own_threads_are_a_loss_only_where_they_may_not_use_all_cpus() {
    let tree = tree(&[("main;a", TimeKind::Computing, 500)]);
    let waits = CpuWaits {
        own_ns: 500_000_000,
        ..CpuWaits::default()
    };
    let free = Measured {
        cpu_waits: &waits,
        ..measured(&tree)
    };
    assert_eq!(names(&judge_measured(&free).unwrap()), ["a"]);
    let confined = Measured {
        confined: Some((1, 2)),
        ..free
    };
    let judgement = judge_measured(&confined).unwrap();
    let waits = judgement.findings.iter();
    let mut waits = waits.filter(|found| found.spent_on() == Some(TimeKind::NoCpu));
    assert!((waits.next().expect("a limit").amount.value - 0.5).abs() < 1e-9);
}

/// The scheduler's account does not include the wake-up time of idle CPUs.
#[test]
fn what_idle_cpus_take_to_wake_up_is_not_counted() {
    let mut waits = CpuWaits {
        own_ns: 5,
        nobody_ns: 10,
        host_ns: 0,
        profiler_ns: 0,
        others: BTreeMap::from([("cc1".to_owned(), 3)]),
    };
    waits.limit_to(9);
    assert_eq!((waits.own_ns, waits.nobody_ns, waits.total()), (5, 1, 9));
    waits.limit_to(2);
    assert_eq!(waits.total(), 8);
}

/// Stalls are evidence for the place that has most of their procedure's time.
#[test]
fn stalls_speak_of_the_place_that_computes_there() {
    let tree = tree(&[WAITING, ("main;walk_list", TimeKind::Computing, 300)]);
    let mut stalled = predicted(Claim::Stalls, "walk_list", 0.9, [0.8, 0.95]);
    stalled.evidence.push(FindingEvidence::StallCulprit {
        culprit: "D-cache miss".to_owned(),
        least: 0.0,
        most: 0.9,
    });
    let stalls = [stalled];
    let judgement = judge_measured(&Measured {
        stalls: &stalls,
        ..measured(&tree)
    })
    .unwrap();
    let has_culprit = |finding: &Finding| {
        let mut evidence = finding.evidence.iter();
        evidence.any(|e| matches!(e, FindingEvidence::StallCulprit { .. }))
    };
    let with_culprit: Vec<bool> = judgement.findings.iter().map(has_culprit).collect();
    assert_eq!(with_culprit, [false, true]);
}

#[test]
fn few_samples_are_worth_little() {
    // One sample in a hundred may be chance.
    let tree = tree(&[
        ("main;a", TimeKind::Computing, 97),
        ("main;b", TimeKind::Computing, 3),
    ]);
    let judgement = judge_measured(&measured(&tree)).unwrap();
    assert_eq!(names(&judgement), ["a"]);
}

/// A loss in a function whose wait is a sequence is evidence there, and is not counted twice.
#[test]
fn interference_speaks_of_the_sequence_that_it_waits_in() {
    let tree = tree(&[
        (
            "main;update;pthread_mutex_lock;lll_lock_wait;futex (system call)",
            TimeKind::Locks,
            600,
        ),
        ("main;prepare", TimeKind::Computing, 400),
    ]);
    let mut lost = predicted(Claim::LosesTime, "___pthread_mutex_lock", 0.5, [0.4, 0.6]);
    lost.evidence.push(FindingEvidence::LossCause {
        cause: CauseKind::Lock,
        shared_line: None,
    });
    let judgement = judge_measured(&Measured {
        interference: &[lost],
        ..measured(&tree)
    })
    .unwrap();
    assert_eq!(judgement.findings.len(), 2, "{:?}", names(&judgement));
    let has_evidence = |finding: &Finding| {
        let mut evidence = finding.evidence.iter();
        evidence.any(|e| matches!(e, FindingEvidence::LossCause { .. }))
    };
    assert!(has_evidence(&judgement.findings[0]));
    assert!(!has_evidence(&judgement.findings[1]));
    let contention = judgement.findings[0].evidence.iter().find_map(|e| match e {
        FindingEvidence::ContentionLoss { part, interval } => Some((*part, *interval)),
        _ => None,
    });
    assert_eq!(contention, Some((0.5, [0.4, 0.6])));
    assert_eq!(judgement.findings[0].saving(), 0.4);
}

#[test]
fn nothing_measured_is_an_error() {
    assert!(judge_measured(&measured(&tree(&[]))).is_err());
}

/// Several runs show how runs differ; the place is found in all of them by its path.
#[test]
fn several_runs_make_the_interval() {
    let run = |a: i64| {
        tree(&[
            ("main;a", TimeKind::Computing, a),
            ("main;b", TimeKind::Computing, 1000 - a),
        ])
    };
    let (first, more) = (run(600), [run(640), run(560), run(620)]);
    let judgement = judge_measured(&Measured {
        more_runs: &more,
        ..measured(&first)
    })
    .unwrap();
    let amount = &judgement.findings[0].amount;
    assert_eq!(names(&judgement)[0], "a");
    assert!((amount.value - 0.605).abs() < 1e-9, "{amount:?}");
    let [low, high] = amount.interval.unwrap();
    assert!(low < 0.56 && high > 0.64, "{amount:?}");
    assert_eq!(judgement.findings[0].doubts, []);
}

#[test]
fn a_system_call_belongs_to_each_that_asks_for_it() {
    use TimeKind::{Computing, Locks};
    let tree = tree(&[
        ("main;parse;futex (system call)", Locks, 300),
        ("main;store;futex (system call)", Locks, 280),
        ("main;rest;futex (system call)", Locks, 3),
        ("main;parse", Computing, 60),
        ("main;store", Computing, 50),
    ]);
    let judgement = judge_measured(&measured(&tree)).expect("a judgement");
    let paths: Vec<&Finding> = judgement.findings.iter().collect();
    let path = |finding: &Finding| match &finding.place.what {
        PlaceInCode::CallPath { path } => path.clone(),
        other => panic!("{other:?}"),
    };
    let mut locks = paths.clone();
    locks.retain(|finding| finding.spent_on() == Some(Locks));
    for finding in &locks {
        assert!(path(finding).len() > 1, "nobody asks: {finding:?}");
    }
    // No time is counted twice.
    assert!(judgement.together <= 1.0, "{}", judgement.together);
    let worth: f64 = locks.iter().map(|finding| finding.amount.value).sum();
    assert!((0.8..0.86).contains(&worth), "{paths:?}");
}

fn lost(procedure: &str, value: f64) -> Finding {
    let interval = [value - 0.01, value + 0.01];
    let mut lost = predicted(Claim::LosesTime, procedure, value, interval);
    lost.place.what = PlaceInCode::Procedure {
        name: procedure.to_owned(),
    };
    lost
}

/// The debug information has the name of the source, the symbols that of the compiler's clone.
#[test]
fn a_loss_in_a_clone_is_evidence_for_its_function() {
    let tree = tree(&[
        ("main;next_number", TimeKind::Computing, 900),
        ("main;other", TimeKind::Computing, 100),
    ]);
    let loss = lost("next_number.isra.0", 0.4);
    let judgement = judge_measured(&Measured {
        interference: &[loss],
        ..measured(&tree)
    })
    .unwrap();
    let first = &judgement.findings[0];
    assert_eq!(path_of(first).last().expect("a path"), "next_number");
    let is_loss = |it: &FindingEvidence| matches!(it, FindingEvidence::ContentionLoss { .. });
    assert!(first.evidence.iter().any(is_loss), "{first:?}");
    let is_lost = |it: &Finding| it.claim == Claim::LosesTime;
    assert!(!judgement.findings.iter().any(is_lost));
}

/// Time of sequences is no second finding for the function that loses it: the loss is evidence for
/// a sequence.
#[test]
fn a_loss_in_time_that_sequences_have_is_evidence_for_them() {
    use TimeKind::Computing;
    let tree = tree(&[
        ("main;work;lock", Computing, 200),
        ("main;work;unlock", Computing, 150),
        ("main;work;release", Computing, 150),
        ("main;other", Computing, 500),
    ]);
    let judge = |value: f64| {
        let mut loss = lost("work", value);
        loss.evidence.push(FindingEvidence::LossCause {
            cause: CauseKind::Lock,
            shared_line: None,
        });
        judge_measured(&Measured {
            interference: &[loss],
            ..measured(&tree)
        })
        .unwrap()
    };
    let judgement = judge(0.4);
    assert!(
        judgement
            .findings
            .iter()
            .all(|f| f.claim == Claim::TakesTime),
        "{:?}",
        names(&judgement)
    );
    let has_evidence = |finding: &&Finding| {
        let mut evidence = finding.evidence.iter();
        evidence.any(|e| matches!(e, FindingEvidence::LossCause { .. }))
    };
    let with_evidence: Vec<&Finding> = judgement.findings.iter().filter(has_evidence).collect();
    assert_eq!(with_evidence.len(), 1, "{:?}", names(&judgement));
    assert_eq!(with_evidence[0].place.what.name(), "lock");
    assert!(judgement.together <= 1.0, "{}", judgement.together);
}

/// Time that a sequence shares with more specific ones is reported, and not counted.
#[test]
fn what_sequences_share_is_said() {
    use TimeKind::Computing;
    let tree = tree(&[
        ("main;parse;malloc", Computing, 300),
        ("main;render;malloc", Computing, 300),
        ("main;render", Computing, 300),
    ]);
    let mut sequences = Sequences::new(&tree);
    for (name, module) in [("malloc", "/lib/libc.so.6"), ("render", "app")] {
        sequences.take_sequence(vec![(name.to_owned(), module.to_owned())]);
    }
    let render = &sequences.sequences[1];
    assert_eq!(render.time(), 300.0 * MS as f64);
    assert_eq!(render.shared.get(&0), Some(&(300.0 * MS as f64)));
}

/// An allocator works for its callers: the allocations and frees of one function are one finding,
/// of that function.
#[test]
fn what_one_function_calls_in_libraries_is_its_own() {
    use TimeKind::Computing;
    let tree = tree(&[
        ("main;split;operator new;malloc", Computing, 250),
        ("main;split;free", Computing, 200),
        ("main;split", Computing, 50),
        ("main;other;free", Computing, 20),
        ("main;other", Computing, 480),
    ]);
    let judgement = judge_measured(&measured(&tree)).expect("a judgement");
    let split: Vec<&Finding> = judgement
        .findings
        .iter()
        .filter(|finding| finding.place.what.name() == "split")
        .collect();
    assert_eq!(split.len(), 1, "{:?}", names(&judgement));
    let (least, most) = (0.45, 0.52);
    let worth = split[0].amount.value;
    assert!((least..=most).contains(&worth), "{:?}", split[0]);
    for name in ["malloc", "operator new", "free"] {
        assert_ne!(judgement.findings[0].place.what.name(), name);
    }
    let calls = split[0].evidence.iter();
    let calls = calls.filter(|e| matches!(e, FindingEvidence::TimeCalling { .. }));
    assert!(calls.count() >= 2, "{:?}", split[0].evidence);
}

/// The holder of a lock ends the waits for it: they are evidence for the holder's place, with the
/// function that waits.
#[test]
fn who_holds_a_lock_is_said_to_hold_up_others() {
    use TimeKind::{Computing, Locks};
    let stacks = [
        ("main;save", Computing, 500),
        ("main;handle;futex (system call)", Locks, 300),
        ("main;handle", Computing, 200),
    ];
    let tree = tree(&stacks);
    let wait = (0..tree.len() as u32)
        .map(NodeId)
        .find(|node| tree.cost(0, *node) == 300 * MS)
        .expect("the wait");
    let by = |function: &str, is_own| EndingThread {
        thread: "saver".to_owned(),
        is_own,
        function: Some(function.to_owned()),
    };
    let ended = |by| EndedWait {
        node: wait,
        by,
        ns: 300 * MS as u64,
    };
    let judge = |ended: &[EndedWait]| {
        judge_measured(&Measured {
            ended_waits: ended,
            ..measured(&tree)
        })
        .expect("a judgement")
    };
    let judgement = judge(&[ended(by("save", true))]);
    let found = |name: &str| {
        let mut found = judgement.findings.iter();
        found
            .find(|f| path_of(f).iter().any(|step| step == name))
            .unwrap_or_else(|| panic!("{name}: {:?}", names(&judgement)))
    };
    let save = found("save");
    let held = FindingEvidence::HoldsUp {
        waiting: "handle".to_owned(),
        on: Some(TimeKind::Locks),
        part: 0.3,
    };
    assert!(save.evidence.contains(&held), "{save:?}");
    let handle = found("handle");
    let by_save = FindingEvidence::WaitEnded {
        by: by("save", true),
        part: 1.0,
    };
    assert!(handle.evidence.contains(&by_save), "{handle:?}");
    // The function of another program is not this program's.
    let judgement = judge(&[ended(by("save", false))]);
    let held = judgement.findings.iter().flat_map(|f| &f.evidence);
    let held = held.filter(|e| matches!(e, FindingEvidence::HoldsUp { .. }));
    assert_eq!(held.count(), 0);
}

/// A query's time is spread over its callees: the finding is the function that asks for it, with
/// all of the time.
#[test]
fn what_is_spread_over_many_callees_is_who_called_them() {
    use TimeKind::{Computing, Disk};
    let query = "main;import;find;step;execute";
    let stacks = [
        (format!("{query};compare"), Computing, 210),
        (format!("{query};decode"), Computing, 110),
        (format!("{query};next"), Computing, 70),
        (format!("{query};seek"), Computing, 60),
        (query.to_owned(), Computing, 100),
        ("main;import;save;step;execute".to_owned(), Computing, 60),
        (
            "main;load;execute;sync;fsync (system call)".to_owned(),
            Disk,
            40,
        ),
        (
            "main;import;save;step;execute;sync;fsync (system call)".to_owned(),
            Disk,
            350,
        ),
    ];
    let stacks = stacks
        .each_ref()
        .map(|(path, kind, time)| (path.as_str(), *kind, *time));
    let tree_of_run = tree(&stacks);
    let judge = |more_runs: &[CallTree]| {
        judge_measured(&Measured {
            more_runs,
            ..measured(&tree_of_run)
        })
        .expect("a judgement")
    };
    for more_runs in [vec![], vec![tree(&stacks), tree(&stacks)]] {
        let judgement = judge(&more_runs);
        let found: Vec<(String, f64)> = judgement
            .findings
            .iter()
            .map(|finding| (finding.place.what.name(), finding.amount.value))
            .collect();
        assert_eq!(found[0].0, "find", "{found:?}");
        assert!((found[0].1 - 0.55).abs() < 0.01, "{found:?}");
        assert!(found[1].0.starts_with("fsync"), "{found:?}");
        let asked = FindingEvidence::OnBehalfOf {
            function: "save".to_owned(),
            part: 350.0 / 390.0,
        };
        assert!(judgement.findings[1].evidence.contains(&asked));
        assert!(found.iter().all(|(name, _)| name != "compare"), "{found:?}");
        assert!(judgement.together <= 1.0);
    }
}

/// Returns a thread that ran in functions for the given milliseconds; each function is at one place
/// of a tree.
fn thread(tree: &CallTree, functions: &[(&str, i64)]) -> ThreadWork {
    let sequences = Sequences::new(tree);
    let work = |(name, time): &(&str, i64)| NodeWork {
        node: NodeId(sequences.tree.nodes_below(name)[0].start as u32),
        running_ns: (time * MS) as u64,
        waiting_ns: 0,
    };
    ThreadWork {
        nodes: functions.iter().map(work).collect(),
    }
}

/// Returns the bounds of the first finding's virtual speedup. The run took 1,000 ms.
fn first_speedup(tree: &CallTree, threads: &[ThreadWork], cpus: u32) -> Option<[f64; 2]> {
    let judgement = judge_measured(&Measured {
        run_ns: 1000.0 * MS as f64,
        cpus,
        threads,
        ..measured(tree)
    });
    let judgement = judgement.expect("a judgement");
    assert_eq!(names(&judgement)[0], "checksum");
    speedup_of(&judgement.findings[0])
}

fn speedup_of(finding: &Finding) -> Option<[f64; 2]> {
    finding.evidence.iter().find_map(|evidence| match evidence {
        FindingEvidence::VirtualSpeedup { interval, .. } => Some(*interval),
        _ => None,
    })
}

fn assert_holds(ends: Option<[f64; 2]>, truth: f64) {
    let [low, high] = ends.expect("a virtual speedup");
    assert!(
        low <= truth && truth <= high && high - low < 0.2,
        "{low} {high}"
    );
}

/// Work that nothing else hides shortens the run by its own time.
#[test]
fn a_speedup_is_exact_where_threads_take_turns() {
    use TimeKind::Computing;
    let tree = tree(&[
        ("main;checksum", Computing, 700),
        ("main;digest", Computing, 300),
    ]);
    let alone = [thread(&tree, &[("checksum", 700), ("digest", 300)])];
    let turns = [
        thread(&tree, &[("checksum", 700)]),
        thread(&tree, &[("digest", 300)]),
    ];
    // Short processes each did too little to be reported singly.
    let short = [thread(&tree, &[("digest", 300)])];
    for threads in [&alone[..], &turns, &short, &[]] {
        assert_holds(first_speedup(&tree, threads, 0), 0.7);
    }
}

/// Two threads that do the same work share the saving of a speedup.
#[test]
fn a_speedup_of_threads_that_do_the_same_is_that_of_one() {
    use TimeKind::Computing;
    let tree = tree(&[
        ("main;checksum", Computing, 1200),
        ("main;digest", Computing, 800),
    ]);
    let one = thread(&tree, &[("checksum", 600), ("digest", 400)]);
    assert_holds(first_speedup(&tree, &[one.clone(), one], 0), 0.6);
}

/// Work that another thread's work may hide gets no speedup.
#[test]
fn a_speedup_that_the_times_do_not_tell_is_not_said() {
    use TimeKind::Computing;
    let tree = tree(&[
        ("main;checksum", Computing, 900),
        ("main;digest", Computing, 500),
        ("main;encode", Computing, 500),
    ]);
    let hidden = [
        thread(&tree, &[("checksum", 900)]),
        thread(&tree, &[("digest", 500), ("encode", 500)]),
    ];
    assert_eq!(first_speedup(&tree, &hidden, 0), None);
    // On one CPU the run cannot have been so short, so the counts are wrong.
    assert_eq!(first_speedup(&tree, &hidden, 1), None);
}

/// A saving may only make several idle threads wait for longer.
#[test]
fn a_speedup_is_not_said_where_threads_are_idle_together() {
    use TimeKind::Computing;
    let tree = tree(&[
        ("main;checksum", Computing, 300),
        ("main;digest", Computing, 200),
    ]);
    let turns = [
        thread(&tree, &[("checksum", 300)]),
        thread(&tree, &[("digest", 200)]),
    ];
    assert_eq!(first_speedup(&tree, &turns, 0), None);
    let alone = [thread(&tree, &[("checksum", 300), ("digest", 200)])];
    assert_holds(first_speedup(&tree, &alone, 0), 0.3);
}

/// Without its waits for CPUs, a run still takes at least as long as its busiest thread worked.
#[test]
fn a_run_is_as_long_as_its_busiest_thread() {
    use TimeKind::Computing;
    let tree = tree(&[
        ("main;checksum", Computing, 800),
        ("main;digest", Computing, 700),
        ("main;encode", Computing, 700),
    ]);
    let busy = [thread(
        &tree,
        &[("checksum", 800), ("digest", 700), ("encode", 700)],
    )];
    assert_holds(first_speedup(&tree, &busy, 0), 800.0 / 2200.0);
}

fn path_of(finding: &Finding) -> Vec<String> {
    match &finding.place.what {
        PlaceInCode::CallPath { path } => path.clone(),
        other => panic!("{other:?}"),
    }
}

/// A value is made and dropped, memory touched and given back: each pair is one cost.
#[test]
fn two_sides_of_one_cost_are_one_finding() {
    use TimeKind::{Computing, PageFaults, SystemCalls};
    let lifetime = tree(&[
        ("main;best_move;State::State(State const&)", Computing, 400),
        ("main;best_move;State::~State()", Computing, 300),
        ("main;digest", Computing, 300),
    ]);
    let judgement = judge_measured(&measured(&lifetime)).expect("a judgement");
    let path = path_of(&judgement.findings[0]);
    assert!(
        path.ends_with(&["State::State(State const&)".to_owned()]),
        "{path:?}"
    );
    let value = judgement.findings[0].amount.value;
    assert!((value - 0.7).abs() < 1e-9, "{value}");
    let names = "std::vector<std::string, std::allocator<std::string> >";
    let (made, dropped) = (
        format!("main;{names}::vector({names} const&)"),
        format!("main;{names}::~vector()"),
    );
    let lifetime = tree(&[
        (&made, Computing, 400),
        (&dropped, Computing, 300),
        ("main;digest", Computing, 300),
    ]);
    let judgement = judge_measured(&measured(&lifetime)).expect("a judgement");
    let value = judgement.findings[0].amount.value;
    assert!((value - 0.7).abs() < 1e-9, "{value}");
    let memory = tree(&[
        ("main;draw;page fault", PageFaults, 400),
        ("main;munmap (system call)", SystemCalls, 300),
        ("main;digest", Computing, 300),
    ]);
    let judgement = judge_measured(&measured(&memory)).expect("a judgement");
    assert_eq!(
        path_of(&judgement.findings[0]),
        ["main", "draw", "page fault"]
    );
    assert!((judgement.findings[0].amount.value - 0.7).abs() < 1e-9);
}

/// A function has the time of what is written inside of it; `main` has not.
#[test]
fn nameless_functions_belong_to_the_function_around_them() {
    use TimeKind::Computing;
    for (function, inside) in [
        (
            "limits.parse (limits.py:35)",
            "limits.parse.<locals>.<dictcomp> (limits.py:39)",
        ),
        ("limits::parse", "limits::parse::{closure#0}"),
        ("main.parse", "main.parse.func1"),
    ] {
        let read = format!("main;{function}");
        let convert = format!("main;{function};{inside}");
        let tree = tree(&[
            (&read, Computing, 300),
            (&convert, Computing, 250),
            ("main;digest", Computing, 250),
            ("main;main::{closure#0}", Computing, 200),
        ]);
        let judgement = judge_measured(&measured(&tree)).expect("a judgement");
        let parts: Vec<f64> = judgement.findings.iter().map(|f| f.amount.value).collect();
        assert_eq!(parts.len(), 3, "{:?}", names(&judgement));
        assert!(
            (parts[0] - 0.55).abs() < 1e-9,
            "{parts:?} {:?}",
            names(&judgement)
        );
        assert!(names(&judgement)[0].contains("parse"));
    }
}

/// A database's engine works for the line of the script that asks it, in a program of scripts only.
#[test]
fn native_libraries_work_for_scripts() {
    use TimeKind::Computing;
    let judged = |asker: &str| {
        let stock = format!("{asker};libsqlite3.so:exec;libsqlite3.so:compare");
        let other = format!("{asker};libsqlite3.so:exec");
        let tree = tree(&[
            (&stock, Computing, 400),
            (&other, Computing, 200),
            ("app.main (app.py:9);app.write (app.py:5)", Computing, 400),
        ]);
        let judgement = judge_measured(&measured(&tree)).expect("a judgement");
        names(&judgement)[0].clone()
    };
    let script = judged("app.main (app.py:9);app.stock_of (app.py:3)");
    assert!(script.contains("stock_of"), "{script}");
}

/// Starting threads is one cost with the calls that start them and wait for their end.
#[test]
fn threads_that_are_started_again_and_again_are_one_finding() {
    use TimeKind::{Computing, SystemCalls};
    let tree = tree(&[
        (THREAD_START, SystemCalls, 300),
        (
            "main;check_in_thread;clone3 (system call)",
            SystemCalls,
            250,
        ),
        (
            "main;check_in_thread;join;futex (system call)",
            SystemCalls,
            100,
        ),
        ("main;flush;write (system call)", SystemCalls, 100),
        ("main;digest", Computing, 250),
    ]);
    let judgement = judge_measured(&measured(&tree)).expect("a judgement");
    let first = &judgement.findings[0];
    assert_eq!(first.place.what.name(), THREAD_START);
    let paths: Vec<_> = judgement.findings.iter().map(path_of).collect();
    assert!((first.amount.value - 0.65).abs() < 1e-9, "{paths:?}");
    assert_eq!(judgement.findings.len(), 3, "{:?}", names(&judgement));
}

/// A runtime that works beside `main`, such as a compiler, does not make `main` a place.
#[test]
fn a_large_callee_says_more_than_main() {
    use TimeKind::Computing;
    let main = "Trades.main (Trades.java:95)";
    let paths = [
        "Window.rank (Trades.java:28)",
        "Trades.simulate (Trades.java:71)",
    ];
    let [rank, simulate] = paths.map(|callee| format!("{main};{callee}"));
    let tree = tree(&[
        (&rank, Computing, 500),
        (&simulate, Computing, 60),
        (main, Computing, 140),
        ("compiling", Computing, 300),
    ]);
    let judgement = judge_measured(&measured(&tree)).expect("a judgement");
    assert!(
        names(&judgement)[0].contains("rank"),
        "{:?}",
        names(&judgement)
    );
    assert!((judgement.findings[0].amount.value - 0.5).abs() < 1e-9);
}

/// Work of an interpreter for a script belongs to the script's function, by way of its standard
/// library.
#[test]
fn what_an_interpreter_does_is_the_scripts() {
    use TimeKind::{Computing, SystemCalls};
    let asked =
        "<module>;states.has_changed (states.py:16);json.dumps (__init__.py:183);encoder_call";
    let listed = format!("{asked};encoder_list;encoder_dict;encoder_list;encoder_dict");
    let read = "<module>;states.load (states.py:4);_Py_read;read (system call)";
    let tree = tree(&[
        (&listed, Computing, 400),
        (asked, Computing, 100),
        ("<module>;states.price_of (states.py:9)", Computing, 300),
        (read, SystemCalls, 200),
    ]);
    let judgement = judge_measured(&measured(&tree)).expect("a judgement");
    assert_eq!(names(&judgement)[0], "states.has_changed (states.py:16)");
    let value = judgement.findings[0].amount.value;
    assert!((value - 0.5).abs() < 1e-9, "{value}");
    let of_load = |finding: &Finding| {
        path_of(finding)
            .iter()
            .any(|step| step.starts_with("states.load"))
    };
    assert!(judgement.findings.iter().any(of_load), "{judgement:?}");
}

/// Nobody called a runtime's own thread: its function is the place, and not the thread's start.
#[test]
fn a_thread_of_a_runtime_is_named_by_its_function() {
    use TimeKind::Computing;
    let tree = tree(&[
        (
            "clone3;v8::Worker::Run;v8::Collect;v8::Mark",
            Computing,
            500,
        ),
        ("main;digest", Computing, 400),
    ]);
    let judgement = judge_measured(&measured(&tree)).expect("a judgement");
    let names = names(&judgement);
    assert!(
        names.iter().any(|name| name.starts_with("v8::Worker::Run")),
        "{names:?}"
    );
    assert!(
        names.iter().all(|name| !name.contains("clone3")),
        "{names:?}"
    );
}

/// A collection by the runtime's own threads is one finding, with the allocating function; a
/// collection below a function belongs to that function.
#[test]
fn collecting_garbage_belongs_to_who_allocates() {
    use TimeKind::Computing;
    let tree_of = |by_parse: i64, by_print: i64, alone: i64| {
        tree(&[
            (
                "main.main;main.parse;runtime.mallocgc;garbage collection (Go)",
                Computing,
                by_parse,
            ),
            (
                "main.main;main.print;runtime.mallocgc;garbage collection (Go)",
                Computing,
                by_print,
            ),
            ("garbage collection (Go)", Computing, alone),
            ("main.main;main.parse", Computing, 200),
            ("main.main;main.print", Computing, 300),
        ])
    };
    let (shared, single) = (tree_of(150, 50, 300), tree_of(290, 10, 30));
    let judgement = judge_measured(&measured(&shared)).expect("a judgement");
    let names_of = names(&judgement);
    let at = names_of
        .iter()
        .position(|name| name == "garbage collection (Go)");
    let finding = &judgement.findings[at.expect("a finding of collecting")];
    assert!(
        (finding.amount.value - 0.3).abs() < 1e-9,
        "{}",
        finding.amount.value
    );
    assert_eq!(finding.place.image, None);
    let allocators = finding
        .evidence
        .iter()
        .filter_map(|evidence| match evidence {
            FindingEvidence::AllocatedBy { function, part } => Some((function.as_str(), *part)),
            _ => None,
        });
    let allocators: Vec<_> = allocators.collect();
    assert_eq!(allocators, [("main.parse", 0.75), ("main.print", 0.25)]);
    let next = [
        "vitalfew",
        "report",
        "--callers",
        "runtime.mallocgc",
        "--event",
        "cycles",
        "0",
    ];
    assert_eq!(finding.next, next);
    // Nearly all of it is below one function.
    let judgement = judge_measured(&measured(&single)).expect("a judgement");
    assert_eq!(names(&judgement)[0], "main.parse");
}

/// A loss in a function of a collector is reported for the collection, because nobody changes that
/// function.
#[test]
fn losses_in_a_runtime_are_said_of_its_work() {
    let tree = tree(&[
        ("garbage collection (V8)", TimeKind::Computing, 500),
        ("main;digest", TimeKind::Computing, 500),
    ]);
    let lost = Finding {
        claim: Claim::LosesTime,
        ..predicted(Claim::LosesTime, "ScavengeObject", 0.2, [0.1, 0.3])
    };
    let functions = BTreeMap::from([("ScavengeObject".to_owned(), "garbage collection (V8)")]);
    let judgement = judge_measured(&Measured {
        interference: &[lost],
        in_runtimes: &functions,
        ..measured(&tree)
    });
    let names = names(&judgement.expect("a judgement"));
    assert_eq!(names.len(), 2, "{names:?}");
    assert!(
        names.iter().all(|name| !name.contains("ScavengeObject")),
        "{names:?}"
    );
}

/// A library without symbols, between a function and its disk, is not the place.
#[test]
fn who_asks_through_a_nameless_library_is_named() {
    use TimeKind::{Computing, Disk};
    let tree = tree(&[
        (
            "main;add_reading;[function at 0xab050];fdatasync (system call)",
            Disk,
            600,
        ),
        ("main;digest", Computing, 400),
    ]);
    let judgement = judge_measured(&measured(&tree)).expect("a judgement");
    let PlaceInCode::CallPath { path } = &judgement.findings[0].place.what else {
        panic!("{:?}", judgement.findings[0]);
    };
    assert!(path.iter().any(|name| name == "add_reading"), "{path:?}");
}

/// A loop that calls six small functions is one place, even if it is most of the program; a list of
/// stages is not.
#[test]
fn a_loop_around_small_functions_is_one_place() {
    use TimeKind::Computing;
    let areas = ["a", "b", "c", "d", "e", "f"].map(|area| format!("main;total;area_{area}"));
    for (own, first) in [(110, "total"), (0, "area_f")] {
        let mut stacks = vec![
            ("main;total", Computing, own),
            ("main;digest", Computing, 120),
        ];
        let areas = (120..).zip(&areas);
        stacks.extend(areas.map(|(time, path)| (path.as_str(), Computing, time)));
        stacks.retain(|(.., time)| *time > 0);
        let tree = tree(&stacks);
        let judgement = judge_measured(&measured(&tree)).expect("a judgement");
        assert_eq!(names(&judgement)[0], first, "{:?}", names(&judgement));
    }
}

/// `convert` works for others, too, so that it does not belong to `launch`, which only calls it.
#[test]
fn an_entry_that_hands_all_on_is_no_place() {
    use TimeKind::Computing;
    let parts = ["a", "b", "c", "d", "e", "f", "g", "h", "i", "j", "k"];
    let paths = parts.map(|part| format!("main;launch;convert;{part}"));
    let mut stacks: Vec<_> = paths.iter().map(|path| (&**path, Computing, 70)).collect();
    stacks.extend([
        ("main;launch;convert", Computing, 100),
        ("main;launch", Computing, 30),
        ("main;setup;convert;a", Computing, 60),
        ("main;other", Computing, 40),
    ]);
    let tree = tree(&stacks);
    let judgement = judge_measured(&measured(&tree)).expect("a judgement");
    let first = judgement.findings.first().expect("a finding");
    assert_eq!(path_of(first), ["convert"]);
}

/// Two callees that have most of a function's time say more than the function.
#[test]
fn what_few_callees_have_is_theirs() {
    use TimeKind::Computing;
    let tree = tree(&[
        ("main;render;blend", Computing, 300),
        ("main;render;scale", Computing, 250),
        ("main;render", Computing, 50),
        ("main;parse;lex", Computing, 200),
        ("main;parse;build", Computing, 200),
    ]);
    let judgement = judge_measured(&measured(&tree)).expect("a judgement");
    let names = names(&judgement);
    for name in ["blend", "scale", "lex", "build"] {
        assert!(names.iter().any(|found| found == name), "{names:?}");
    }
}

/// A nameless function says less than its first call in the C library, however deep the stack goes
/// on.
#[test]
fn what_a_nameless_function_calls_is_named_by_its_first_call() {
    use TimeKind::Computing;
    let tree = tree(&[
        (
            "main;[function at 0x9a00];strcoll;next_sequence",
            Computing,
            400,
        ),
        (
            "main;[function at 0x9a00];strcoll;compare_part",
            Computing,
            200,
        ),
        ("main;[function at 0x9a00];strcoll", Computing, 100),
        ("main;read_line", Computing, 300),
    ]);
    let judgement = judge_measured(&measured(&tree)).expect("a judgement");
    let first = &judgement.findings[0];
    assert_eq!(
        first.place.what.name(),
        "strcoll",
        "{:?}",
        names(&judgement)
    );
    assert!((first.amount.value - 0.7).abs() < 0.01, "{first:?}");
}

/// The cost of entering the kernel lies in the C library, and belongs to the call.
#[test]
fn the_way_to_the_kernel_belongs_to_the_call() {
    use TimeKind::{Computing, SystemCalls};
    let tree = tree(&[
        (
            "main;config_age;strcoll;newfstatat (system call)",
            SystemCalls,
            600,
        ),
        ("main;config_age;strcoll", Computing, 200),
        ("main;digest", Computing, 200),
    ]);
    let judgement = judge_measured(&measured(&tree)).expect("a judgement");
    let first = &judgement.findings[0];
    assert!(
        first.place.what.name().starts_with("newfstatat"),
        "{first:?}"
    );
    assert!((first.amount.value - 0.8).abs() < 0.01, "{first:?}");
    assert_eq!(first.spent_on(), Some(SystemCalls));
}

/// A function that works as much as its callee: both are findings, instead of one with everything.
#[test]
fn a_callee_with_much_of_a_function_is_a_finding_of_its_own() {
    use TimeKind::Computing;
    let tree = tree(&[
        ("main;matching", Computing, 540),
        ("main;matching;match_line;malloc", Computing, 200),
        ("main;matching;match_line;free", Computing, 160),
        ("main;matching;match_line", Computing, 100),
    ]);
    let judgement = judge_measured(&measured(&tree)).expect("a judgement");
    let worth = |name: &str| -> f64 {
        let found = judgement.findings.iter();
        let found = found.filter(|finding| finding.place.what.name() == name);
        found.map(|finding| finding.amount.value).sum()
    };
    assert!(
        (worth("matching") - 0.54).abs() < 0.01,
        "{:?}",
        judgement.findings
    );
    assert!(
        (worth("match_line") - 0.46).abs() < 0.01,
        "{:?}",
        judgement.findings
    );
}

/// Several functions ask the kernel through one function of the C library: each of them is a
/// finding.
#[test]
fn each_function_that_asks_through_a_library_is_a_finding() {
    use TimeKind::SystemCalls;
    let tree = tree(&[
        ("main;send;malloc;read (system call)", SystemCalls, 450),
        ("main;receive;malloc;read (system call)", SystemCalls, 400),
        ("main;other", TimeKind::Computing, 150),
    ]);
    let judgement = judge_measured(&measured(&tree)).expect("a judgement");
    for asker in ["send", "receive"] {
        let asked = judgement.findings.iter();
        let asked = asked.filter(|found| path_of(found).contains(&asker.to_owned()));
        assert_eq!(asked.count(), 1, "{asker}");
    }
}

/// Locking and unlocking are one cost.
#[test]
fn locking_and_unlocking_are_one_finding() {
    use TimeKind::{Computing, Locks, SystemCalls};
    let mut stacks = vec![
        (
            "main;enter;pthread_mutex_lock;futex (system call)".to_owned(),
            Locks,
            150,
        ),
        ("main;enter;pthread_mutex_lock".to_owned(), Computing, 200),
        ("main;insert".to_owned(), Computing, 240),
    ];
    for number in 0..16 {
        let page = format!("main;free_page_{number}");
        let woken = format!("{page};lll_unlock;lll_wake;futex (system call)");
        stacks.push((woken, SystemCalls, 15));
        stacks.push((page, Computing, 10));
    }
    let stacks: Vec<_> = stacks
        .iter()
        .map(|(path, kind, time)| (path.as_str(), *kind, *time))
        .collect();
    let tree = tree(&stacks);
    let more = [tree.clone(), tree.clone()];
    let judgement = judge_measured(&Measured {
        more_runs: &more,
        ..measured(&tree)
    })
    .expect("a judgement");
    let first = &judgement.findings[0];
    assert_eq!(first.place.what.name(), "locking and unlocking");
    assert!((first.amount.value - 0.59).abs() < 0.02, "{first:?}");
    assert!(judgement.together <= 1.0 + 1e-9);
}

/// Contention that is measured has all time below lock operations, also what a larger function
/// asks for: that is no work of the function.
#[test]
fn contention_has_the_time_that_a_large_function_spends_at_locks() {
    use TimeKind::{Computing, Locks, SystemCalls};
    let tree = tree(&[
        (
            "work;write;allocate;enter;pthread_mutex_lock",
            Computing,
            60,
        ),
        (
            "work;write;allocate;leave;lll_unlock;lll_wake;futex (system call)",
            SystemCalls,
            140,
        ),
        ("work;write;allocate", Computing, 50),
        ("work;write", Computing, 150),
        (
            "work;halt;enter;pthread_mutex_lock;futex (system call)",
            Locks,
            100,
        ),
        (
            "work;halt;leave;lll_unlock;lll_wake;futex (system call)",
            SystemCalls,
            120,
        ),
        ("work;halt", Computing, 80),
        ("work;step", Computing, 300),
    ]);
    let mut loss = lost("enter", 0.25);
    loss.evidence.push(FindingEvidence::LossCause {
        cause: CauseKind::Lock,
        shared_line: None,
    });
    let judgement = judge_measured(&Measured {
        interference: &[loss],
        ..measured(&tree)
    })
    .expect("a judgement");
    let of = |name: &str| {
        let mut findings = judgement.findings.iter();
        let found = findings.find(|f| f.place.what.name() == name);
        found.map_or(0.0, |found| found.amount.value)
    };
    assert_eq!(names(&judgement)[0], "locking and unlocking");
    assert!((of("locking and unlocking") - 0.42).abs() < 0.001);
    assert!((of("write") - 0.2).abs() < 0.001, "{:?}", names(&judgement));
}

/// Returns a prediction for a place's waits, as experiments make it.
fn predicted_wait(claim: Claim, procedure: &str, value: f64, interval: [f64; 2]) -> Finding {
    let mut finding = predicted(claim, procedure, value, interval);
    let call = "fsync".to_owned();
    finding.evidence.push(FindingEvidence::SpedUpWaits { call });
    finding
}

/// A line that waits and runs has two predictions: each applies to the place that mostly does the
/// same.
#[test]
fn a_prediction_of_waits_is_of_the_place_that_waits() {
    let tree = tree(&[
        ("main;save;fsync (system call)", TimeKind::Disk, 600),
        ("main;save", TimeKind::Computing, 30),
        ("main;compute", TimeKind::Computing, 500),
    ]);
    let causal = [
        predicted(Claim::SpeedupWorthless, "save", 0.0, [-0.02, 0.02]),
        predicted_wait(Claim::WorthSpeedup, "save", 0.4, [0.35, 0.45]),
        predicted(Claim::SpeedupWorthless, "compute", 0.0, [-0.02, 0.02]),
    ];
    let judgement = judge_measured(&Measured {
        causal: &causal,
        ..measured(&tree)
    })
    .expect("a judgement");
    assert_eq!(judgement.findings.len(), 1, "{:?}", names(&judgement));
    let first = &judgement.findings[0];
    assert_eq!(speedup_of(first), Some([0.35, 0.45]));
    assert_eq!(first.spent_on(), Some(TimeKind::Disk));
}

/// A wait in no sequence, such as a helper's sleep, is a finding if experiments say that it is
/// worth something.
#[test]
fn a_wait_that_others_depend_on_is_a_finding_by_its_prediction() {
    let tree = tree(&[("main;compute", TimeKind::Computing, 500)]);
    for (claim, value, interval, count) in [
        (Claim::WorthSpeedup, 0.6, [0.5, 0.7], 2),
        (Claim::SpeedupWorthless, 0.0, [-0.02, 0.02], 1),
    ] {
        let causal = [predicted_wait(claim, "read_device", value, interval)];
        let judgement = judge_measured(&Measured {
            causal: &causal,
            ..measured(&tree)
        })
        .expect("a judgement");
        let names = names(&judgement);
        assert_eq!(names.len(), count, "{names:?}");
        assert_eq!(
            names.iter().any(|name| name.contains("read_device")),
            count == 2,
            "{names:?}"
        );
    }
}

/// Memory that one function asks for through several library functions belongs to it, even if none
/// of these has most of it.
#[test]
fn what_several_library_functions_ask_for_belongs_to_one_asker() {
    use TimeKind::Computing;
    let tree = tree(&[
        (
            "main;count_fields;std::string::~string();free",
            Computing,
            130,
        ),
        (
            "main;count_fields;std::list<int>::clear();free",
            Computing,
            120,
        ),
        (
            "main;count_fields;std::string::string();operator new;malloc",
            Computing,
            100,
        ),
        (
            "main;count_fields;std::list<int>::push_back(int);operator new;malloc",
            Computing,
            110,
        ),
        ("main;count_fields", Computing, 140),
        ("main;digest", Computing, 400),
    ]);
    let judgement = judge_measured(&measured(&tree)).expect("a judgement");
    let first = &judgement.findings[0];
    assert_eq!(
        first.place.what.name(),
        "count_fields",
        "{:?}",
        names(&judgement)
    );
    // Its own work is included.
    assert!((first.amount.value - 0.6).abs() < 0.01, "{first:?}");
}

/// Two paths through a library without symbols to the same system call are one finding, of the
/// library's caller.
#[test]
fn what_a_stripped_library_asks_for_is_named_by_its_caller() {
    use TimeKind::{Computing, Disk};
    let library = "main;add_reading;libsqlite3.so:step;[function at 0x9a00]";
    let synced = format!("{library};libsqlite3.so:commit;fdatasync (system call)");
    let also = format!("{library};[function at 0xab050];fdatasync (system call)");
    let tree = tree(&[
        (&synced, Disk, 400),
        (&also, Disk, 200),
        ("main;digest", Computing, 400),
    ]);
    let judgement = judge_measured(&measured(&tree)).expect("a judgement");
    let first = &judgement.findings[0];
    assert_eq!(path_of(first), ["add_reading", "fdatasync (system call)"]);
    assert!((first.amount.value - 0.6).abs() < 0.01, "{first:?}");
}

/// The thread that ends waits for a lock works meanwhile: its place is its work, and not its own
/// waits for the lock.
#[test]
fn who_holds_a_lock_works_meanwhile() {
    use TimeKind::{Computing, Locks};
    let tree = tree(&[
        ("main;register;rate", Computing, 400),
        ("main;register;futex (system call)", Locks, 500),
        ("main;digest", Computing, 100),
    ]);
    let nodes = (0..tree.len() as u32).map(NodeId);
    let mut waits = nodes.filter(|node| tree.cost(0, *node) == 500 * MS);
    let ended = EndedWait {
        node: waits.next().expect("the wait"),
        by: EndingThread {
            thread: "app".to_owned(),
            is_own: true,
            function: Some("register".to_owned()),
        },
        ns: 500 * MS as u64,
    };
    let judgement = judge_measured(&Measured {
        ended_waits: &[ended],
        ..measured(&tree)
    })
    .expect("a judgement");
    let mut findings = judgement.findings.iter();
    let rate = findings.find(|finding| finding.place.what.name() == "rate");
    let rate = rate.expect("its work");
    let for_lock = |evidence: &FindingEvidence| {
        matches!(
            evidence,
            FindingEvidence::HoldsUp {
                on: Some(TimeKind::Locks),
                ..
            }
        )
    };
    assert!(rate.evidence.iter().any(for_lock), "{rate:?}");
}

/// One thread has most of the work, so that the others wait at the end of each step.
#[test]
fn a_thread_that_works_alone_is_said_to() {
    use TimeKind::Computing;
    let tree = tree(&[
        ("main;checksum", Computing, 1200),
        ("main;digest", Computing, 100),
    ]);
    let judge = |threads: &[ThreadWork]| {
        let judgement = judge_measured(&Measured {
            run_ns: 1000.0 * MS as f64,
            threads,
            ..measured(&tree)
        });
        let first = judgement.expect("a judgement").findings.swap_remove(0);
        first.evidence.iter().find_map(|evidence| match evidence {
            FindingEvidence::WorksAlone { part } => Some(*part),
            _ => None,
        })
    };
    let uneven = [
        thread(&tree, &[("checksum", 900), ("digest", 100)]),
        thread(&tree, &[("checksum", 300)]),
    ];
    let part = judge(&uneven).expect("works alone");
    assert!((part - 0.6).abs() < 0.01, "{part}");
    let even = [
        thread(&tree, &[("checksum", 600), ("digest", 50)]),
        thread(&tree, &[("checksum", 600), ("digest", 50)]),
    ];
    assert_eq!(judge(&even), None);
    assert_eq!(judge(&uneven[..1]), None);
}

/// The finding of starting processes names the function that starts them.
#[test]
fn who_starts_processes_is_named() {
    use TimeKind::{Computing, SystemCalls};
    let tree = tree(&[
        (PROCESS_START, Computing, 500),
        ("main;size_of;spawn;vfork (system call)", SystemCalls, 100),
        ("main;size_of", Computing, 200),
        ("main;digest", Computing, 200),
    ]);
    let judgement = judge_measured(&Measured {
        run_ns: 1000.0 * MS as f64,
        threads: &[thread(&tree, &[("size_of", 300), ("digest", 200)])],
        ..measured(&tree)
    })
    .expect("a judgement");
    let first = &judgement.findings[0];
    assert_eq!(first.place.what.name(), PROCESS_START);
    let asker = FindingEvidence::OnBehalfOf {
        function: "size_of".to_owned(),
        part: 1.0,
    };
    assert!(first.evidence.contains(&asker), "{first:?}");
}

/// A reason that explains more of all stalls of a place than its slowest instruction is named, also
/// in a procedure whose time lies in inlined functions.
#[test]
fn stalls_of_many_instructions_are_added_up() {
    use TimeKind::Computing;
    let tree = tree(&[
        ("main;run_opcodes;std::next(int)", Computing, 900),
        ("main;digest", Computing, 100),
    ]);
    let sum = |culprit: &str, most| FindingEvidence::StallSum {
        culprit: culprit.to_owned(),
        least: 0.0,
        most,
    };
    let mut stalled = predicted(Claim::Stalls, "run_opcodes", 0.2, [0.2, 0.2]);
    stalled.place.what = PlaceInCode::Instruction {
        procedure: "run_opcodes".to_owned(),
        address: 0x10,
    };
    stalled.evidence = vec![
        FindingEvidence::HotInstruction {
            procedure: "run_opcodes".to_owned(),
            address: 0x10,
            line: None,
            part: 0.2,
        },
        sum("Branch mispredict", 0.6),
        sum("D-cache miss", 0.2),
    ];
    let judgement = judge_measured(&Measured {
        stalls: &[stalled],
        ..measured(&tree)
    })
    .expect("a judgement");
    let sums = judgement.findings[0]
        .evidence
        .iter()
        .filter_map(|one| match one {
            FindingEvidence::StallSum { culprit, most, .. } => Some((culprit.as_str(), *most)),
            _ => None,
        });
    let sums: Vec<(&str, f64)> = sums.collect();
    assert_eq!(sums, [("Branch mispredict", 0.6)]);
}

/// If two activities take nearly the same part of a place's time, its sentence names both.
#[test]
fn a_sentence_names_two_activities() {
    use TimeKind::{Computing, SystemCalls};
    let tree = tree(&[
        ("main;log_event", Computing, 400),
        ("main;log_event", SystemCalls, 350),
        ("main;digest", Computing, 250),
    ]);
    let judgement = judge_measured(&measured(&tree)).expect("a judgement");
    let kinds = |finding: &Finding| -> Vec<TimeKind> {
        let kinds = finding
            .evidence
            .iter()
            .filter_map(|evidence| match evidence {
                FindingEvidence::TimeSpent { on, .. } => Some(*on),
                _ => None,
            });
        kinds.collect()
    };
    assert_eq!(kinds(&judgement.findings[0]), [Computing, SystemCalls]);
    assert_eq!(kinds(&judgement.findings[1]), [Computing]);
}

/// A loop that works itself is not the place if one of its callees has half of the program.
#[test]
fn a_callee_with_half_of_a_loop_is_the_place() {
    use TimeKind::{Computing, SystemCalls};
    let tree = tree(&[
        ("main;logging", Computing, 330),
        ("main;logging;log_event", Computing, 100),
        (
            "main;logging;log_event;write (system call)",
            SystemCalls,
            570,
        ),
    ]);
    let judgement = judge_measured(&measured(&tree)).expect("a judgement");
    let first = &judgement.findings[0];
    assert_eq!(
        path_of(first).last().map(String::as_str),
        Some("write (system call)")
    );
    assert!(path_of(first).contains(&"log_event".to_owned()));
}

/// The steps of an interpreter of queries on the way to a comparison say no more than the function
/// that asked for the query.
#[test]
fn work_on_the_way_to_a_callee_explains_nothing_of_the_caller() {
    use TimeKind::{Computing, Disk};
    let query = "main;find;sqlite3_step;sqlite3Step";
    let tree = tree(&[
        ("main;save;sqlite3_step;sqlite3Step;flush", Disk, 300),
        (query, Computing, 20),
        (&format!("{query};execute"), Computing, 200),
        (&format!("{query};execute;malloc"), Computing, 30),
        (&format!("{query};execute;compare"), Computing, 30),
        (&format!("{query};execute;compare;memcmp"), Computing, 170),
        (&format!("{query};execute;next"), Computing, 60),
        (&format!("{query};execute;parse"), Computing, 70),
        (&format!("{query};execute;read"), Computing, 60),
    ]);
    let judgement = judge_measured(&measured(&tree)).expect("a judgement");
    assert_eq!(names(&judgement)[0], "find");
}

/// Go's comparison of strings is assembly code without a package. It belongs to the function that
/// compares, like the rest of that function's work.
#[test]
fn a_leaf_of_a_runtime_belongs_to_its_caller() {
    use TimeKind::Computing;
    let find = "main.main;main.(*table).find";
    let tree = tree(&[
        (find, Computing, 260),
        (&format!("{find};runtime.memequal"), Computing, 70),
        (
            &format!("{find};runtime.memequal;memeqbody"),
            Computing,
            580,
        ),
        ("main.main;main.digest", Computing, 90),
    ]);
    let judgement = judge_measured(&measured(&tree)).expect("a judgement");
    assert_eq!(names(&judgement), ["main.(*table).find", "main.digest"]);
    let first = &judgement.findings[0];
    assert!((first.amount.value - 0.91).abs() < 1e-9, "{first:?}");
    let calls = FindingEvidence::TimeCalling {
        function: "runtime.memequal".to_owned(),
        part: 650.0 / 910.0,
    };
    assert!(first.evidence.contains(&calls), "{first:?}");
}

/// The own work of a function is found beside the callee that has most of its time.
#[test]
fn the_work_around_a_callee_is_a_finding() {
    use TimeKind::Computing;
    let tree = tree(&[
        ("main;look_up", Computing, 300),
        ("main;look_up;compare", Computing, 600),
        ("main;digest", Computing, 100),
    ]);
    let judgement = judge_measured(&measured(&tree)).expect("a judgement");
    assert_eq!(names(&judgement), ["compare", "look_up", "digest"]);
}

/// Two endpoints of a service ask for queries: a framework that calls them, through libraries, is
/// no place.
#[test]
fn a_framework_that_calls_the_program_is_no_place() {
    use TimeKind::Computing;
    let handle = "http.serve (server.py:1);web.handle (app.py:9)";
    let dispatch = format!("{handle};http.parse (server.py:5);web.dispatch (app.py:20)");
    let endpoints = ["shop.items (shop.py:3)", "shop.orders (shop.py:9)"];
    let mut stacks = vec![
        (format!("{handle};http.parse (server.py:5)"), 60),
        (format!("{dispatch};web.render (app.py:40)"), 40),
    ];
    for (endpoint, time) in endpoints.into_iter().zip([140, 70]) {
        let query = format!("{dispatch};{endpoint};libsqlite3.so:step");
        for part in ["compare", "seek", "decode", "next", "free"] {
            stacks.push((format!("{query};libsqlite3.so:{part}_{time}"), time));
        }
        stacks.push((format!("{dispatch};{endpoint}"), 10));
    }
    let stacks = stacks.iter();
    let stacks: Vec<_> = stacks
        .map(|(path, time)| (&**path, Computing, *time))
        .collect();
    let tree = tree(&stacks);
    let judgement = judge_measured(&measured(&tree)).expect("a judgement");
    let names = names(&judgement);
    assert_eq!(names[..2], endpoints, "{names:?}");
    let values = judgement.findings.iter().map(|found| found.amount.value);
    assert!(values.skip(2).all(|value| value < 0.1), "{names:?}");
}

/// A program's own wrapper of all requests, and its own dispatcher, say less than the endpoints
/// behind them.
#[test]
fn a_fork_into_places_is_no_place() {
    use TimeKind::Computing;
    let time = "main;serve;time_request;web.next (app.py:7);handle";
    let parts = ["a", "b", "c", "d", "e"];
    let endpoints = ["items", "orders"];
    let stacks = endpoints.iter().flat_map(|endpoint| {
        parts.map(|part| {
            (
                format!("{time};{endpoint};{endpoint}_{part}"),
                Computing,
                60,
            )
        })
    });
    let stacks: Vec<_> = stacks.collect();
    let mut stacks: Vec<_> = stacks
        .iter()
        .map(|(path, kind, ms)| (&**path, *kind, *ms))
        .collect();
    stacks.push(("main;digest", Computing, 400));
    let tree = tree(&stacks);
    let judgement = judge_measured(&measured(&tree)).expect("a judgement");
    let mut names = names(&judgement);
    names.sort();
    assert_eq!(names, ["digest", "items", "orders"]);
}

/// A function that a library calls back is the program's, and no part of the caller's time in the
/// library.
#[test]
fn what_a_library_calls_back_is_not_its_callers() {
    use TimeKind::Computing;
    let sort = "main;rank;std::sort(int*);std::introsort(int*)";
    let tree = tree(&[
        (sort, Computing, 300),
        (&format!("{sort};compare"), Computing, 300),
        (&format!("{sort};price_of"), Computing, 200),
        ("main;compare", Computing, 200),
    ]);
    let judgement = judge_measured(&measured(&tree)).expect("a judgement");
    assert_eq!(names(&judgement), ["compare", "rank", "price_of"]);
    let values = judgement.findings.iter().map(|found| found.amount.value);
    for (value, expected) in values.zip([0.5, 0.3, 0.2]) {
        assert!((value - expected).abs() < 1e-9, "{:?}", judgement.findings);
    }
}

/// A function that works within a call to itself works there, too.
#[test]
fn own_work_is_also_that_of_calls_inside_of_others() {
    use TimeKind::Computing;
    let tree = tree(&[
        ("main;step;strcoll", Computing, 1),
        ("main;step;parse;step;strcoll;malloc", Computing, 10),
        ("main;step;parse", Computing, 100),
    ]);
    let tree = timed_tree::TimedTree::new(&tree);
    let own = tree.own_work(&[("step".to_owned(), "app".to_owned())]);
    let time: i64 = own.iter().map(|node| tree.tree().cost(0, *node)).sum();
    assert_eq!(time, 11_000_000);
}

mod places {
    use super::*;
    use crate::bottleneck::interface::Profile;
    use proptest::prelude::*;

    const FUNCTIONS: [&str; 12] = [
        "load",
        "parse",
        "find",
        "store",
        "render",
        "check",
        "malloc",
        "strcoll",
        "std::sort(int*)",
        "web.call (app.py:3)",
        "http.serve (server.py:1)",
        "libsqlite3.so:step",
    ];

    fn stacks() -> impl Strategy<Value = Vec<(String, i64)>> {
        let path = proptest::collection::vec(0..FUNCTIONS.len(), 1..7);
        let stack = path.prop_map(|path| {
            let path = path.into_iter().map(|at| FUNCTIONS[at]);
            std::iter::once("main")
                .chain(path)
                .collect::<Vec<_>>()
                .join(";")
        });
        proptest::collection::vec((stack, 1..200_i64), 1..14)
    }

    proptest! {
        /// The rules between the search and the places lose nothing that the search found. They
        /// report no function that only leads to others where the search found one that works.
        #[test]
        fn a_place_is_never_worse_than_what_the_search_found(stacks in stacks()) {
            let stacks = stacks.iter().map(|(path, ms)| (&**path, TimeKind::Computing, *ms));
            let tree = tree(&stacks.collect::<Vec<_>>());
            let run = ProfiledRun { name: String::new(), tree: tree.clone(), value: 0, work: None };
            let forest = Forest::single(run).unwrap();
            let options = auto::Options { count: SOUGHT, coverage: COVERAGE, ..auto::Options::default() };
            let found = auto::search_causes(&forest, &options).unwrap();
            let sequences = find_sequences(&tree, &forest, &found, false);
            let covers = found.bottlenecks.iter().map(|found| forest.cover(&[&found.sequence]));
            let covers: Vec<_> = covers.map(|cover| cover.covered_spans()[0].clone()).collect();
            let is_covered = |node: NodeId| {
                let mut runs = covers.iter().flat_map(|cover| cover.runs());
                runs.any(|(start, end)| (*start..*end).contains(&node.0))
            };
            let mut in_places = 0;
            let worth = LEAST * sequences.working_ns;
            for (number, place) in sequences.sequences.iter().enumerate() {
                let itself: Vec<_> = place.path.last().cloned().into_iter().collect();
                let itself = sequences.tree.own_work(&itself);
                let [mut found, mut own, mut rest] = [0; 3];
                for (node, time) in sequences.nodes_of_sequence(number) {
                    match is_covered(node) {
                        true => found += time,
                        false if itself.contains(&node) => own += time,
                        false => rest += time,
                    }
                }
                in_places += found;
                let is_selected = (found + own) as f64 + worth >= rest as f64;
                prop_assert!(place.is_united || is_selected, "{:?} {found} {own} {rest}", place.path);
            }
            // If one function asks for nearly all calls, the others are left out.
            let kept = 0.8 * found.covered - 8.0 * worth;
            prop_assert!(in_places as f64 >= kept, "{in_places} of {}", found.covered);
        }
    }
}
