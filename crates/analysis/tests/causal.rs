//! Causal profiles of made-up programs, against their truth.

mod experiments;

use analysis::causal::*;
use experiments::{Line, Measured, QUIET, Random, run, steady, wandering};
use profile::{
    CausalProfile, Disturbance, Experiment, FindingDoubt, Progress, RunEnd, StandingTime,
    TargetTime,
};
use proptest::prelude::*;

fn report(profile: &CausalProfile) -> Analysis {
    analyse_profile(profile, &Options::default())
}

/// Reports with intervals of chance alone, because the simulation has no other error.
fn report_chance(profile: &CausalProfile) -> Analysis {
    let options = Options {
        chance_only: true,
        ..Options::default()
    };
    analyse_profile(profile, &options)
}

fn effect<'a>(analysis: &'a Analysis, name: &str) -> &'a Effect {
    let finding = analysis.fragments.iter().find(|f| f.name == name);
    &finding
        .unwrap_or_else(|| panic!("{name}: {analysis:?}"))
        .effects[0]
}

fn line<'a>(name: &'a str, truth: &'a dyn Fn(f64) -> f64) -> Line<'a> {
    Line {
        name,
        density: 0.5,
        truth,
    }
}

fn hill(s: f64) -> f64 {
    if s < 0.25 {
        0.6 * s
    } else {
        0.15 - 0.4 * (s - 0.25)
    }
}

/// The effect on a program of a speedup of a line.
type Truth = fn(f64) -> f64;

const TRUTHS: [(&str, Truth); 5] = [
    ("none", |_| 0.0),
    ("linear", |s| 0.6 * s),
    ("saturating", |s| (0.8 * s).min(0.05)),
    ("contention", |s| -0.4 * s),
    ("hill", hill),
];

/// Returns the slope of the regression without noise.
fn true_slope(effect: &Effect, truth: impl Fn(f64) -> f64) -> f64 {
    let sum = |of: &dyn Fn(f64) -> f64| -> f64 {
        let points = effect.points.iter();
        points
            .map(|p| p.visits as f64 * p.speedup * of(p.speedup))
            .sum()
    };
    sum(&truth) / sum(&|s| s)
}

/// Checks the coverage of 95 % intervals over many profiles of one program, and the mean errors of
/// estimates, with and without their sign.
#[test]
fn intervals_cover_the_truth() {
    let (mut covered, mut asked, mut slopes, mut profiles) = (0, 0, 0, 0);
    for experiments in [24, 80, 300] {
        for (name, truth) in TRUTHS {
            let (mut here, mut bias, mut off, mut n) = (0, 0.0, 0.0, 0);
            for seed in 0..30 {
                let mut random = Random(seed * 77 + 1);
                let measured = Measured {
                    experiments,
                    machine_noise: 0.04,
                    drift: 0.1,
                    ..QUIET
                };
                let analysis =
                    report_chance(&steady(&[line("line", &truth)], &measured, &mut random));
                let effect = effect(&analysis, "line");
                let slope = true_slope(effect, truth);
                slopes += usize::from((effect.slope.low..=effect.slope.high).contains(&slope));
                profiles += 1;
                for at in [0.25, 0.5, 0.75, 1.0] {
                    // With 24 experiments, the greatest speedup may not have been among them.
                    let Some(found) = effect.at(at) else { continue };
                    here += usize::from((found.low..=found.high).contains(&truth(at)));
                    bias += found.program - truth(at);
                    off += (found.program - truth(at)).abs();
                    n += 1;
                }
            }
            let (bias, off, rate) = (bias / n as f64, off / n as f64, here as f64 / n as f64);
            println!("{experiments:4} {name:12} covered {rate:.3} bias {bias:+.4} error {off:.4}");
            covered += here;
            asked += n;
            if experiments == 300 {
                assert!(bias.abs() < 0.01 && off < 0.03, "{name}: {bias} {off}");
            }
        }
    }
    let covered = covered as f64 / asked as f64;
    let slopes = slopes as f64 / profiles as f64;
    println!("all covered {covered:.3}, slopes {slopes:.3}");
    assert!((0.92..0.99).contains(&covered), "{covered}");
    assert!((0.91..0.99).contains(&slopes), "{slopes}");
}

/// A machine like virtual ones: every run has its own speed, which wanders by a third, and an
/// experiment in ten is much slower. The intervals keep their coverage, and the wandering hardly
/// widens them.
#[test]
fn intervals_cover_the_truth_on_a_machine_that_wanders() {
    let lines = [
        line("linear", &|s| 0.6 * s),
        line("none", &|_| 0.0),
        line("saturating", &|s| (0.8 * s).min(0.05)),
    ];
    let (mut covered, mut asked, mut slopes, mut profiles, mut off) = (0, 0, 0, 0, 0.0);
    for seed in 0..60 {
        let (runs, experiments) = [(1, 60), (1, 120), (4, 60)][seed as usize % 3];
        let profile = wandering(&lines, runs, experiments, &mut Random(seed * 31 + 5));
        let analysis = report_chance(&profile);
        for line in &lines {
            let finding = analysis.fragments.iter().find(|f| f.name == line.name);
            let Some(effect) = finding.map(|finding| &finding.effects[0]) else {
                continue; // too few speedups by chance
            };
            let slope = true_slope(effect, line.truth);
            slopes += usize::from((effect.slope.low..=effect.slope.high).contains(&slope));
            profiles += 1;
            for at in [0.25, 0.5, 0.75] {
                let Some(found) = effect.at(at) else { continue };
                let truth = (line.truth)(at);
                covered += usize::from((found.low..=found.high).contains(&truth));
                off += (found.program - truth).abs();
                asked += 1;
            }
        }
    }
    let rate = |n: usize, of: usize| n as f64 / of as f64;
    let (curves, slopes, off) = (
        rate(covered, asked),
        rate(slopes, profiles),
        off / asked as f64,
    );
    println!("wandering: curves {curves:.3} of {asked}, slopes {slopes:.3}, error {off:.4}");
    assert!((0.9..=0.99).contains(&curves), "{curves}");
    assert!((0.88..=0.99).contains(&slopes), "{slopes}");
    assert!(off < 0.035, "{off}");
}

/// Recorded disturbances of the machine are set aside, and counted.
#[test]
fn what_the_machine_did_for_others_is_set_aside() {
    let truth = |s: f64| 0.4 * s;
    let mut profile = steady(&[line("line", &truth)], &QUIET, &mut Random(4));
    let run = &mut profile.runs[0];
    run.host.cpus = 2;
    for (number, experiment) in run.experiments.iter_mut().enumerate() {
        // A third of the machine is taken in every fourth experiment, which only the record shows.
        let part = if number % 4 == 0 { 0.33 } else { 0.02 };
        let taken = part * 2.0 * experiment.duration_ns as f64;
        experiment.disturbance = Some(Disturbance {
            stolen_ns: (0.5 * taken) as u64,
            others_ns: (0.5 * taken) as u64,
            idle_ns: None,
            target: None,
        });
    }
    let analysis = report(&profile);
    assert_eq!(analysis.disturbed, 50);
    assert_eq!(effect(&analysis, "line").experiments, 150);
    assert_eq!(analysis.warnings, [""; 0]);
    // A constant disturbance is on both sides, and reported.
    for experiment in &mut profile.runs[0].experiments {
        let others_ns = experiment.duration_ns;
        experiment.disturbance = Some(Disturbance {
            stolen_ns: 0,
            others_ns,
            idle_ns: None,
            target: None,
        });
    }
    let analysis = report(&profile);
    assert_eq!(analysis.disturbed, 0);
    assert!(
        analysis.warnings[0].contains("50 %"),
        "{:?}",
        analysis.warnings
    );
}

/// Returns a profile of a program with a line that is worth `0.6 s`, in which each experiment has a
/// disturbance.
fn disturbed(cpus: u32, of: impl Fn(&mut Experiment) -> Disturbance) -> CausalProfile {
    let truth = |s: f64| 0.6 * s;
    let measured = Measured {
        experiments: 600,
        ..QUIET
    };
    let mut profile = steady(&[line("line", &truth)], &measured, &mut Random(7));
    let run = &mut profile.runs[0];
    run.host.cpus = cpus;
    for experiment in &mut run.experiments {
        let before = experiment.duration_ns;
        experiment.disturbance = Some(of(experiment));
        if experiment.speedup == 0.0 {
            run.undelayed_ns += experiment.duration_ns - before;
        }
    }
    profile
}

/// Returns the error of the line's prediction at 90 %.
fn off(profile: &CausalProfile) -> f64 {
    let analysis = report(profile);
    let effect = effect(&analysis, "line");
    // The line also ran during the disturbances.
    assert!(effect.phase.of > 0.99, "{:?}", effect.phase);
    assert!(analysis.disturbed < 10, "{}", analysis.disturbed);
    effect.at(0.9).expect("measured").program - 0.54
}

/// Other processes on idle processors cost the program nothing, however much they use.
#[test]
fn others_beside_the_program_cost_it_nothing() {
    let cases = [
        (2, 0.0),
        (2, 0.6),
        (2, 0.8),
        (2, 0.9),
        (4, 1.5),
        (4, 2.8),
        (8, 2.0),
        (8, 4.0),
        (8, 5.5),
    ];
    for (cpus, others) in cases {
        for recorded in [false, true] {
            let profile = disturbed(cpus, |experiment| {
                let part = |of: f64| (of * experiment.duration_ns as f64) as u64;
                Disturbance {
                    stolen_ns: 0,
                    others_ns: part(others),
                    idle_ns: Some(part(f64::from(cpus) - 1.0 - others)),
                    target: recorded.then_some(TargetTime {
                        ran_ns: part(0.99),
                        waited_ns: part(0.002),
                        ..TargetTime::default()
                    }),
                }
            });
            let off = off(&profile);
            assert!(off.abs() < 0.027, "{cpus} {others} {recorded}: {off}");
        }
    }
}

/// Waits of the program's threads for other processes are time that the program lost. The cases are
/// one thread that shares its processor with a hog, on a machine that is half idle, and threads
/// that fill a machine.
#[test]
fn waits_for_the_processors_of_others_are_no_part_of_its_time() {
    let shared = |recorded: bool, threads: f64, lost: f64| {
        disturbed(2, |experiment| {
            // A single thread causes delays and never stands still; of two, one stands still.
            let delay = (2.0 - threads) * experiment.delay_ns as f64;
            let own = experiment.duration_ns as f64 - experiment.delay_ns as f64 + delay;
            let lost = lost * own;
            experiment.duration_ns += lost as u64;
            let ran = threads * own;
            let others = threads * lost;
            let all = 2.0 * experiment.duration_ns as f64;
            Disturbance {
                stolen_ns: 0,
                others_ns: others as u64,
                idle_ns: Some((all - ran - others).max(0.0) as u64),
                target: recorded.then_some(TargetTime {
                    ran_ns: ran as u64,
                    waited_ns: (threads * lost) as u64,
                    ..TargetTime::default()
                }),
            }
        })
    };
    let hog = off(&shared(true, 1.0, 1.0));
    assert!(hog.abs() < 0.027, "{hog}");
    assert!(off(&shared(false, 1.0, 1.0)) < -0.1);
    let filled = off(&shared(true, 2.0, 0.15));
    assert!(filled.abs() < 0.06, "{filled}");
}

/// The thread that causes delays sleeps in the background, and the working thread stands still for
/// them. Its lack of a processor meanwhile costs nothing.
#[test]
fn waits_of_threads_that_stand_still_are_no_loss() {
    let standing = |counted: bool| {
        disturbed(2, |experiment| {
            let (all, delay) = (experiment.duration_ns, experiment.delay_ns);
            let waited_ns = delay / 3;
            let standing = StandingTime {
                total_ns: delay,
                waited_ns,
            };
            Disturbance {
                stolen_ns: all / 50,
                others_ns: all * 4 / 5,
                idle_ns: Some(all / 5),
                target: Some(TargetTime {
                    ran_ns: all - waited_ns,
                    waited_ns,
                    standing: counted.then_some(standing),
                    for_clients_ns: None,
                }),
            }
        })
    };
    let (counted, guessed) = (off(&standing(true)), off(&standing(false)));
    assert!(counted.abs() < 0.027, "{counted}");
    assert!(guessed > 0.04, "{guessed}");
}

/// Time that the hypervisor takes from a machine that the program fills is lost, in addition to its
/// delays.
#[test]
fn what_the_hypervisor_took_is_no_part_of_its_time() {
    let stolen = |idle_known: bool| {
        disturbed(2, |experiment| {
            let lost = (0.15 * experiment.duration_ns as f64) as u64;
            experiment.duration_ns += lost;
            Disturbance {
                stolen_ns: 2 * lost,
                others_ns: 0,
                idle_ns: idle_known.then_some(0),
                target: None,
            }
        })
    };
    let known = off(&stolen(true));
    assert!(known.abs() < 0.027, "{known}");
    // Recordings without idle time keep their error.
    assert!(off(&stolen(false)) < known - 0.02);
}

/// The baselines show how much of the hypervisor's time a program loses: one thread a part, threads
/// that meet nearly all.
#[test]
fn what_the_hypervisor_took_costs_what_it_is_seen_to_cost() {
    for part in [0.0, 0.3, 0.9] {
        let number = std::cell::Cell::new(0);
        let profile = disturbed(2, |experiment| {
            number.set(number.get() + 1);
            let parts = [0.0, 0.15, 0.3, 0.05, 0.2];
            let stolen = parts[number.get() % parts.len()] * experiment.duration_ns as f64;
            experiment.duration_ns += (part * stolen) as u64;
            Disturbance {
                stolen_ns: stolen as u64,
                others_ns: 0,
                idle_ns: Some(experiment.duration_ns),
                target: None,
            }
        });
        let off = off(&profile);
        assert!(off.abs() < 0.027, "{part}: {off}");
    }
}

/// Warnings of runs that differ only in their numbers are merged.
#[test]
fn a_kind_of_warning_is_listed_once() {
    let truth = |s: f64| 0.3 * s;
    let mut profile = steady(&[line("line", &truth)], &QUIET, &mut Random(4));
    profile.runs.push(profile.runs[0].clone());
    for (run, samples) in profile.runs.iter_mut().zip([2, 17]) {
        run.warnings = vec![format!("of {samples} samples none has a name")];
    }
    assert_eq!(report(&profile).warnings, ["of 2 samples none has a name"]);
}

/// Threads that meet more often than they are sampled are not delayed as required, and a warning
/// says so.
#[test]
fn progress_that_is_more_frequent_than_delays_is_said() {
    let truth = |s: f64| 0.3 * s;
    let mut profile = steady(&[line("line", &truth)], &QUIET, &mut Random(4));
    profile.runs[0].settings.sample_period_ns = 1_000_000;
    assert_eq!(report(&profile).warnings, [""; 0]);
    for experiment in &mut profile.runs[0].experiments {
        let Progress::Visits(visits) = &mut experiment.counts[0] else {
            panic!()
        };
        *visits *= 20;
    }
    let warnings = report(&profile).warnings;
    assert!(warnings[0].contains("if threads meet"), "{warnings:?}");
    // A single thread meets nobody.
    for experiment in &mut profile.runs[0].experiments {
        let target = TargetTime {
            ran_ns: experiment.duration_ns,
            ..TargetTime::default()
        };
        experiment.disturbance = Some(Disturbance {
            idle_ns: Some(experiment.duration_ns),
            target: Some(target),
            ..Disturbance::default()
        });
    }
    assert_eq!(report(&profile).warnings, [""; 0]);
}

/// Threads wait for each other more often than delays can follow: intervals reach towards nothing
/// and towards all of the line's time, a warning says so, and nothing is called worth it any more.
#[test]
fn meetings_that_delays_cannot_follow_widen_the_intervals() {
    // Half of the time of a line that runs half of the time.
    let truth = |s: f64| 0.25 * s;
    let mut profile = steady(&[line("line", &truth)], &QUIET, &mut Random(4));
    profile.runs[0].settings.sample_period_ns = 1_000_000;
    let measured = effect(&report(&profile), "line").clone();
    let mut every = |ms: f64| {
        for experiment in &mut profile.runs[0].experiments {
            let ran_ns = 2 * experiment.duration_ns;
            experiment.meetings = Some((ran_ns as f64 / 1e6 / ms) as u64);
            experiment.disturbance = Some(Disturbance {
                idle_ns: Some(0),
                target: Some(TargetTime {
                    ran_ns,
                    waited_ns: 0,
                    ..TargetTime::default()
                }),
                ..Disturbance::default()
            });
        }
        report(&profile)
    };
    let rare = every(8.0);
    assert_eq!(rare.warnings, [""; 0]);
    assert_eq!(effect(&rare, "line").curve, measured.curve);
    let (mut low, mut high) = (measured.slope.low, measured.slope.high);
    for ms in [6.0, 3.0, 2.0, 1.0, 0.1] {
        let often = every(ms);
        assert!(
            often.warnings[0].contains("wait for each other"),
            "{:?}",
            often.warnings
        );
        let found = effect(&often, "line");
        let slope = found.slope;
        assert_eq!(slope.estimate, measured.slope.estimate);
        assert!(slope.low <= low && slope.high >= high, "{ms} {slope:?}");
        (low, high) = (slope.low, slope.high);
        let claims = findings(&often.fragments, |_| Vec::new());
        let told = claims[0].doubts.iter().any(
            |doubt| matches!(doubt, FindingDoubt::FrequentMeetings { every_ns } if (every_ns / 1e6 / ms - 1.0).abs() < 0.01),
        );
        assert!(told, "{claims:?}");
    }
    assert_eq!(low, 0.0);
    assert!((0.54..0.56).contains(&high), "{high}");
    let often = every(0.1);
    assert_eq!(effect(&often, "line").verdict, EffectVerdict::Unclear);
    // Charged at the pace of the line, delays follow much better.
    for experiment in &mut profile.runs[0].experiments {
        experiment.at_pace = experiment.speedup > 0.0;
        experiment.meetings = experiment.meetings.map(|n| n / 5);
    }
    let at_pace = report(&profile);
    let slope = effect(&at_pace, "line").slope;
    assert!((0.09..0.2).contains(&slope.low), "{slope:?}");
    assert!((0.3..0.45).contains(&slope.high), "{slope:?}");
    assert!(
        at_pace.warnings[0].contains("spread"),
        "{:?}",
        at_pace.warnings
    );
    // There, the distance of samples does not matter.
    let run = &mut profile.runs[0];
    run.settings.sample_period_ns *= 4;
    for fragment in &mut run.fragments {
        fragment.samples /= 4;
        fragment.undelayed_samples /= 4;
    }
    for experiment in &mut run.experiments {
        experiment.samples /= 4;
    }
    let rare_samples = effect(&report(&profile), "line").slope;
    assert!(
        (rare_samples.low - slope.low).abs() < 0.01,
        "{rare_samples:?}"
    );
    assert!(
        (rare_samples.high - slope.high).abs() < 0.01,
        "{rare_samples:?}"
    );
    // An effect below 0 stays below 0.
    let harm = |s: f64| -0.2 * s;
    let mut profile = steady(&[line("line", &harm)], &QUIET, &mut Random(4));
    profile.runs[0].settings.sample_period_ns = 1_000_000;
    let before = effect(&report(&profile), "line").slope;
    for experiment in &mut profile.runs[0].experiments {
        experiment.meetings = Some(experiment.duration_ns / 100_000);
    }
    assert_eq!(effect(&report(&profile), "line").slope.low, before.low);
}

/// Threads that spin are not seen to meet: if progress is frequent too, the intervals include the
/// possible error.
#[test]
fn threads_that_spin_widen_the_intervals() {
    let truth = |s: f64| 0.25 * s;
    let mut profile = steady(&[line("line", &truth)], &QUIET, &mut Random(4));
    profile.runs[0].settings.sample_period_ns = 1_000_000;
    let measured = effect(&report(&profile), "line").slope;
    let mut spinning = |samples: u64, ms: f64| {
        for experiment in &mut profile.runs[0].experiments {
            let visits: u64 = match experiment.counts[0] {
                Progress::Visits(visits) => visits,
                Progress::Latency { .. } => 0,
            };
            experiment.meetings = Some(0);
            experiment.spinning = Some(samples);
            experiment.disturbance = Some(Disturbance {
                idle_ns: Some(0),
                target: Some(TargetTime {
                    ran_ns: (visits as f64 * ms * 1e6) as u64,
                    waited_ns: 0,
                    ..TargetTime::default()
                }),
                ..Disturbance::default()
            });
        }
        report(&profile)
    };
    // They do not spin, or the condition that they spin for is rare.
    for (samples, ms) in [(0, 1.0), (1_000_000, 8.0)] {
        let rare = spinning(samples, ms);
        assert_eq!(effect(&rare, "line").slope.low, measured.low);
    }
    let often = spinning(1_000_000, 1.0);
    assert_eq!(effect(&often, "line").slope.low, 0.0);
    assert!(often.warnings[0].contains("spin"), "{:?}", often.warnings);
}

/// Without any effect in truth, hardly any effect is claimed.
#[test]
fn nothing_is_made_of_noise() {
    let nothing = |_: f64| 0.0;
    let names: Vec<String> = (0..10).map(|n| format!("line {n}")).collect();
    let mut claimed = 0;
    for seed in 0..20 {
        let lines: Vec<Line<'_>> = names.iter().map(|name| line(name, &nothing)).collect();
        let measured = Measured {
            experiments: 400,
            machine_noise: 0.05,
            ..QUIET
        };
        let analysis = report(&steady(&lines, &measured, &mut Random(seed)));
        let effects = analysis.fragments.iter().flat_map(|f| &f.effects);
        let unclaimed =
            |e: &&Effect| !matches!(e.verdict, EffectVerdict::NoEffect | EffectVerdict::Unclear);
        claimed += usize::from(effects.filter(unclaimed).count() > 0);
    }
    // 5 % of the profiles are expected to have a false claim.
    assert!(claimed <= 4, "{claimed} of 20 profiles");
}

#[test]
fn what_is_worth_most_comes_first() {
    let small = |s: f64| (0.5 * s).min(0.05);
    let large = |s: f64| 0.5 * s;
    let worse = |s: f64| -0.6 * s;
    let lines = [
        line("none", &|_| 0.0),
        line("small", &small),
        line("worse", &worse),
        line("large", &large),
        line("hill", &hill),
    ];
    for seed in 0..10 {
        let measured = Measured {
            experiments: 1500,
            ..QUIET
        };
        let analysis = report(&steady(&lines, &measured, &mut Random(seed)));
        let order: Vec<&str> = analysis.fragments.iter().map(|f| f.name.as_str()).collect();
        assert_eq!(order[0], "large", "{order:?}");
        let verdict = |name| effect(&analysis, name).verdict;
        let EffectVerdict::WorthIt(up_to) = verdict("large") else {
            panic!("{:?}", verdict("large"));
        };
        assert!((up_to.program - 0.5).abs() < 0.05, "{up_to:?}");
        let EffectVerdict::Contention(down_to) = verdict("worse") else {
            panic!("{:?}", verdict("worse"));
        };
        assert!((down_to.program + 0.6).abs() < 0.15, "{down_to:?}");
        let EffectVerdict::WorthItUpTo(top) = verdict("hill") else {
            panic!("{:?}", verdict("hill"));
        };
        assert!((0.1..0.5).contains(&top.speedup), "{top:?}");
        assert!(matches!(
            verdict("none"),
            EffectVerdict::NoEffect | EffectVerdict::Unclear
        ));
    }
}

/// A neighbour that takes most of the machine now and then changes nothing, and is told of.
#[test]
fn copies_of_a_line_are_told_where_they_differ() {
    let shown = |long: &dyn Fn(f64) -> f64, short: &dyn Fn(f64) -> f64| {
        let both = |s| long(s) + short(s);
        let line = |name, density, truth| Line {
            name,
            density,
            truth,
        };
        let lines = [
            line("in.h:5", 0.9, &both as &dyn Fn(f64) -> f64),
            line("in.h:5 (inlined at a.c:1)", 0.6, long),
            line("in.h:5 (inlined at a.c:2)", 0.3, short),
            line("a.c:9", 0.1, &|_| 0.0),
        ];
        let mut profile = steady(&lines, &QUIET, &mut Random(11));
        for copy in &mut profile.runs[0].fragments[1..3] {
            copy.copy_of = Some("in.h:5".into());
        }
        let fragments = report(&profile).fragments;
        let share = fragments
            .iter()
            .find(|it| it.name == "in.h:5")
            .expect("the line")
            .share;
        // Samples of copies are those of the line.
        assert!((share - 0.9).abs() < 0.02, "{share}");
        let copies = fragments.iter().filter(|it| it.copy_of.is_some());
        copies.map(|it| it.name.clone()).collect::<Vec<_>>()
    };
    assert_eq!(shown(&|s| 0.4 * s, &|_| 0.0).len(), 2);
    assert_eq!(shown(&|s| 0.4 * s, &|s| 0.2 * s), Vec::<String>::new());
}

#[test]
fn disturbed_experiments_are_set_aside() {
    let truth = |s: f64| 0.4 * s;
    let mut profile = steady(&[line("line", &truth)], &QUIET, &mut Random(4));
    for experiment in profile.runs[0].experiments.iter_mut().step_by(29) {
        let Progress::Visits(visits) = &mut experiment.counts[0] else {
            panic!()
        };
        *visits /= 5;
    }
    let analysis = report_chance(&profile);
    let effect = effect(&analysis, "line");
    assert_eq!((effect.set_aside, effect.experiments), (7, 193));
    let all = effect.at(1.0).unwrap();
    assert!(all.low < 0.4 && 0.4 < all.high, "{all:?}");
    assert!(all.high - all.low < 0.06, "{all:?}");
}

/// Returns a profile with a line that runs only in a third of the time, in which it is worth 60 %:
/// 20 % of the whole run. Experiments with it begin while it runs, and only then.
fn phases(seed: u64, undelayed: bool) -> CausalProfile {
    let mut random = Random(seed);
    let mut run = run(&[line("phased", &|_| 0.0)], &["done"]);
    let density = 0.7;
    for number in 0..360 {
        let in_phase = (number / 12) % 3 == 0;
        // Between its experiments come those with other lines, half of which delayed it.
        let speedup = random.speedup();
        let chosen = in_phase && random.uniform() < 0.5;
        let samples = if in_phase { 500.0 * density } else { 0.0 };
        let effective = 0.5e9;
        let sped_up = if chosen { speedup } else { 0.0 };
        let delay = speedup * samples * 1e6;
        if chosen {
            let visits = 50.0 / (1.0 - 0.6 * sped_up) + 3.0 * random.normal();
            run.experiments.push(Experiment {
                fragment: 0,
                speedup,
                start_ns: run.duration_ns,
                duration_ns: (effective + delay) as u64,
                delay_ns: delay as u64,
                samples: samples as u64,
                counts: vec![Progress::Visits(visits.round() as u64)],
                disturbance: None,
                meetings: None,
                spinning: None,
                at_pace: false,
            });
        }
        run.duration_ns += (effective + delay) as u64;
        let fragment = &mut run.fragments[0];
        fragment.samples += samples as u64;
        if speedup == 0.0 {
            run.undelayed_ns += effective as u64;
            fragment.undelayed_samples += samples as u64;
        }
    }
    if !undelayed {
        run.undelayed_ns = 0;
    }
    CausalProfile { runs: vec![run] }
}

#[test]
fn a_phase_counts_for_its_part_of_the_run() {
    let mut covered = 0;
    for seed in 0..20 {
        let analysis = report(&phases(seed, true));
        let effect = effect(&analysis, "phased");
        assert!((effect.phase.of - 1.0 / 3.0).abs() < 0.08, "{effect:?}");
        let at_half = effect.at(0.5).unwrap();
        covered += usize::from((at_half.low..=at_half.high).contains(&0.1));
    }
    assert!(covered >= 17, "{covered} of 20");
    // Without the undelayed time there is no correction, and a warning says so.
    let unknown = report(&phases(1, false));
    assert_eq!(effect(&unknown, "phased").phase.of, 1.0);
    assert!(
        unknown.warnings[0].contains("phases"),
        "{:?}",
        unknown.warnings
    );
}

/// Returns the profile of a server: 2,000 requests a second arrive in any case, and take 5 ms, less
/// half of the speedup.
fn server(in_flight: impl Fn(f64) -> f64, departs: f64) -> CausalProfile {
    let mut random = Random(9);
    let mut run = run(&[line("handler", &|_| 0.0)], &["request", "request"]);
    for number in 0..120 {
        let speedup = random.speedup();
        let arrivals = 1000.0 + 20.0 * random.normal();
        run.experiments.push(Experiment {
            fragment: 0,
            speedup,
            start_ns: number * 1_000_000_000,
            duration_ns: 600_000_000,
            delay_ns: 100_000_000,
            samples: 100,
            counts: vec![
                Progress::Latency {
                    arrivals: arrivals as u64,
                    departures: (departs * arrivals) as u64,
                    in_flight: in_flight(speedup) * (1.0 + 0.05 * random.normal()),
                },
                Progress::Visits(arrivals as u64),
            ],
            disturbance: None,
            meetings: None,
            spinning: None,
            at_pace: false,
        });
    }
    run.duration_ns = 120_000_000_000;
    run.undelayed_ns = 60_000_000_000;
    run.fragments[0].undelayed_samples = 12_000;
    CausalProfile { runs: vec![run] }
}

#[test]
fn latency_is_by_littles_law_and_shorter_is_better() {
    let analysis = report(&server(|speedup| 10.0 * (1.0 - 0.5 * speedup), 1.0));
    assert_eq!(analysis.warnings, [""; 0]);
    let effects = &analysis.fragments[0].effects;
    let measures: Vec<Measure> = effects.iter().map(|e| e.measure).collect();
    // The measure with an effect comes first: clients determine the throughput.
    assert_eq!(measures, [Measure::Latency, Measure::Throughput]);
    let latency = &effects[0];
    assert!(
        (latency.baseline_ns - 5e6).abs() < 0.2e6,
        "{}",
        latency.baseline_ns
    );
    let all = latency.at(1.0).unwrap();
    assert!((all.program - 0.5).abs() < 0.04, "{all:?}");
    assert!(
        matches!(latency.verdict, EffectVerdict::WorthIt(_)),
        "{:?}",
        latency.verdict
    );
}

#[test]
fn an_overloaded_server_is_said_to_be_one() {
    let analysis = report(&server(|_| 10.0, 0.9));
    assert!(
        analysis.warnings[0].contains("Little's law"),
        "{:?}",
        analysis.warnings
    );
}

/// The paper's combination, done by hand on experiments of the same length.
#[test]
fn experiments_are_combined_by_adding() {
    let mut run = run(&[line("line", &|_| 0.0)], &["done"]);
    let mut add = |speedup, wall, delay, samples, visits| {
        run.experiments.push(Experiment {
            fragment: 0,
            speedup,
            start_ns: 0,
            duration_ns: wall,
            delay_ns: delay,
            samples,
            counts: vec![Progress::Visits(visits)],
            disturbance: None,
            meetings: None,
            spinning: None,
            at_pace: false,
        });
    };
    add(0.0, 1000, 0, 10, 10);
    add(0.0, 3000, 0, 30, 20);
    add(0.5, 2000, 500, 20, 20);
    add(0.5, 2500, 500, 20, 15);
    // No sample: neither a baseline nor a speedup.
    add(0.0, 1000, 0, 0, 500);
    add(0.5, 1000, 0, 0, 500);
    let options = Options {
        minimum_speedups: 2,
        ..Options::default()
    };
    let profile = CausalProfile { runs: vec![run] };
    let analysis = analyse_profile(&profile, &options);
    assert_eq!((analysis.experiments, analysis.without_sample), (6, 2));
    let effect = effect(&analysis, "line");
    assert_eq!(effect.baseline_ns, 4000.0 / 30.0);
    let point = effect.points[0];
    assert_eq!((point.experiments, point.visits), (2, 35));
    let expected = 1.0 - (3500.0 / 35.0) / (4000.0 / 30.0);
    assert!((point.program - expected).abs() < 1e-12, "{point:?}");
    // Two different speedups are too few, unless no more were requested.
    assert_eq!(report(&profile).left_out[0].why, Lack::Speedups(2));
    let mut asked = profile;
    asked.runs[0].settings.fixed_speedups = vec![0.5];
    assert_eq!(report(&asked).fragments.len(), 1);
}

#[test]
fn what_is_missing_is_said() {
    let why = |edit: &dyn Fn(&mut CausalProfile)| {
        let mut profile = steady(&[line("line", &|s| 0.5 * s)], &QUIET, &mut Random(3));
        edit(&mut profile);
        let analysis = report(&profile);
        assert!(analysis.fragments.is_empty());
        analysis.left_out[0].why
    };
    let experiments = |profile: &mut CausalProfile, keep: &dyn Fn(&Experiment) -> bool| {
        profile.runs[0].experiments.retain(keep);
    };
    let no_baseline = why(&|p| experiments(p, &|e| e.speedup > 0.0));
    assert_eq!(no_baseline, Lack::Baseline);
    let few = why(&|p| experiments(p, &|e| e.speedup < 0.17));
    assert!(matches!(few, Lack::Speedups(..5)), "{few:?}");
    let unvisited = why(&|p| {
        for experiment in &mut p.runs[0].experiments {
            experiment.counts[0] = Progress::Visits(u64::from(experiment.speedup > 0.0));
        }
    });
    assert_eq!(unvisited, Lack::Visits(0));
    let killed = {
        let mut profile = steady(&[line("line", &|s| 0.5 * s)], &QUIET, &mut Random(3));
        profile.runs[0].end = RunEnd::Signalled(11);
        report(&profile)
    };
    assert!(killed.warnings[0].contains("signal 11"));
    assert_eq!(killed.fragments.len(), 1, "what was measured counts");
}

/// A point that is hardly ever visited does not suppress another.
#[test]
fn a_rare_point_silences_nobody() {
    let mut profile = steady(&[line("line", &|s| 0.5 * s)], &QUIET, &mut Random(3));
    let point = profile.runs[0].points[0].clone();
    let rare = profile::ProgressPoint {
        name: "rare".into(),
        ..point
    };
    profile.runs[0].points.insert(0, rare);
    for experiment in &mut profile.runs[0].experiments {
        experiment.counts.insert(0, Progress::Visits(0));
    }
    let analysis = report(&profile);
    assert_eq!(analysis.fragments[0].effects.len(), 1);
    assert_eq!(analysis.left_out[0].point, "rare");
}

fn any_experiment() -> impl Strategy<Value = Experiment> {
    let count = prop_oneof![
        prop_oneof![0u64..100, Just(u64::MAX)].prop_map(Progress::Visits),
        (
            0u64..100,
            0u64..100,
            prop_oneof![Just(0.0), 0.0..1e3, Just(f64::MAX)]
        )
            .prop_map(|(arrivals, departures, in_flight)| Progress::Latency {
                arrivals,
                departures,
                in_flight
            }),
    ];
    let ns = || prop_oneof![0u64..10, 1_000_000u64..1_000_000_000, Just(u64::MAX)];
    let speedup = prop_oneof![Just(0.0), Just(1.0), 0.0..1.0];
    let counts = proptest::collection::vec(count, 0..3);
    (
        0u32..3,
        speedup,
        ns(),
        ns(),
        prop_oneof![0u64..50, Just(u64::MAX)],
        counts,
    )
        .prop_map(
            |(fragment, speedup, duration_ns, delay_ns, samples, counts)| Experiment {
                fragment,
                speedup,
                start_ns: 0,
                duration_ns,
                delay_ns,
                samples,
                counts,
                disturbance: None,
                meetings: None,
                spinning: None,
                at_pace: false,
            },
        )
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    /// Any experiments give numbers, with intervals around them.
    #[test]
    fn any_experiments_have_a_report(
        experiments in proptest::collection::vec(any_experiment(), 0..60),
        samples in prop_oneof![0u64..100, Just(u64::MAX)],
        duration in prop_oneof![0u64..100, Just(u64::MAX)],
    ) {
        let mut run = run(&[line("a", &|_| 0.0), line("b", &|_| 0.0)], &["p", "q"]);
        run.experiments = experiments;
        run.duration_ns = duration;
        run.undelayed_ns = duration / 2;
        run.fragments[0].samples = samples;
        run.fragments[0].undelayed_samples = samples;
        let profile = CausalProfile { runs: vec![run.clone(), run] };
        let options = Options { minimum_speedups: 2, minimum_visits: 1, ..Options::default() };
        let analysis = analyse_profile(&profile, &options);
        prop_assert_eq!(analysis.experiments, profile.runs[0].experiments.len() * 2);
        for effect in analysis.fragments.iter().flat_map(|finding| &finding.effects) {
            let slope = effect.slope;
            prop_assert!(slope.low <= slope.estimate && slope.estimate <= slope.high, "{:?}", slope);
            prop_assert!(effect.phase.of > 0.0 && effect.phase.of <= 1.0);
            for at in &effect.curve {
                prop_assert!(at.low <= at.program && at.program <= at.high, "{:?}", at);
            }
            for point in &effect.points {
                prop_assert!(point.program.is_finite() && point.error.is_finite(), "{:?}", point);
            }
        }
    }

    /// The order of runs and of experiments has no meaning, and their cut into runs hardly any:
    /// each run is taken to have its own speed.
    #[test]
    fn merging_is_adding(cut in 1usize..199) {
        let whole = steady(&[line("line", &|s| 0.5 * s)], &QUIET, &mut Random(5));
        let mut parts = vec![whole.runs[0].clone(), whole.runs[0].clone()];
        parts[1].experiments.drain(..cut);
        parts[0].experiments.truncate(cut);
        for run in &mut parts {
            run.duration_ns /= 2;
            run.undelayed_ns /= 2;
            run.fragments[0].samples /= 2;
            run.fragments[0].undelayed_samples /= 2;
        }
        let (one, two) = (report(&whole), report(&CausalProfile { runs: parts }));
        let (one, two) = (effect(&one, "line"), effect(&two, "line"));
        prop_assert!((one.slope.estimate - two.slope.estimate).abs() < 0.01);
        prop_assert_eq!(one.points.len(), two.points.len());
        prop_assert!((one.baseline_ns / two.baseline_ns - 1.0).abs() < 0.02);
    }
}
