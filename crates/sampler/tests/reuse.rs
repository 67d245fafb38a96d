//! Live tests of addresses, process ids, inodes and files that are reused during a recording.
//! Skipped where this machine cannot be measured, unless REQUIRE_LIVE is set.

mod machine;

use machine::live;
use profile::{CallGraph, Recording};
use sampler::{ContinuousOptions, EventSpec, Options, Rate, Separation, TargetSpec};
use std::path::{Path, PathBuf};
use std::process::{Child, Command};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// Compiles a program of `tests/programs`.
fn compile(source: &str, flags: &[&str], to: &Path) {
    let programs = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/programs");
    let status = Command::new("cc")
        .args(["-O2", "-g", "-fno-omit-frame-pointer", "-pthread"])
        .args(flags)
        .arg("-o")
        .args([to, &programs.join(source)])
        .status()
        .expect("a C compiler");
    assert!(status.success(), "{source} does not compile");
}

fn text(path: &Path) -> String {
    path.to_str().expect("UTF-8").to_owned()
}

fn options(command: Vec<String>) -> Options {
    let mut options = Options::new(TargetSpec::Command(
        command.into_iter().map(Into::into).collect(),
    ));
    options.rate = Rate::Frequency(2000);
    options
}

fn record(options: &Options) -> Recording {
    let outcome = sampler::record(options, &AtomicBool::new(false), &mut |_| ());
    let outcome = outcome.expect("it can be recorded");
    if let Some(exit) = outcome.exit {
        assert_eq!(exit.exit_code(), 0, "{:?}", options.target);
    }
    outcome.recording
}

/// Returns the samples whose innermost frame is in the image with that file name.
fn samples_in(recording: &Recording, name: &str) -> u64 {
    let inside = recording.samples.iter().filter(|sample| {
        let leaf = recording.stacks.frame(sample.stack).location;
        recording.image(leaf.image).path.ends_with(name)
    });
    inside.map(|sample| sample.count).sum()
}

/// The ways of collecting samples.
const WAYS: [(sampler::Path, CallGraph); 5] = [
    (sampler::Path::Kernel, CallGraph::None),
    (sampler::Path::Kernel, CallGraph::FramePointer),
    (sampler::Path::Kernel, CallGraph::Tables),
    (sampler::Path::Rings, CallGraph::None),
    (sampler::Path::Rings, CallGraph::Dwarf),
];

struct Libraries {
    swapped: PathBuf,
    libraries: [PathBuf; 2],
    out: PathBuf,
}

impl Libraries {
    fn new(directory: &Path) -> Self {
        let path = |name: &str| directory.join(name);
        let all = Self {
            swapped: path("swapped"),
            libraries: ["first_", "second"].map(|name| path(&format!("lib{name}.so"))),
            out: path("out"),
        };
        compile("swapped.c", &[], &all.swapped);
        for (library, name) in all.libraries.iter().zip(["first_", "second"]) {
            let name = format!("-DNAME={name}");
            compile("swapped_library.c", &["-shared", "-fPIC", &name], library);
        }
        all
    }

    fn command(&self, rounds: u32) -> Vec<String> {
        let [first, second] = &self.libraries;
        let rounds = rounds.to_string();
        vec![
            text(&self.swapped),
            text(first),
            text(second),
            rounds,
            text(&self.out),
        ]
    }

    fn start(&self, rounds: u32) -> Child {
        let command = self.command(rounds);
        let started = Command::new(&command[0]).args(&command[1..]).spawn();
        started.expect("it runs")
    }

    /// Checks that the libraries' shares of a recording match those of the program's clock.
    fn check(&self, recording: &Recording, way: &str) {
        let [first, second] =
            ["libfirst_.so", "libsecond.so"].map(|name| samples_in(recording, name) as f64);
        let (n, truth) = (first + second, self.truth());
        assert!(n > 300.0, "{way}: {n} samples");
        let allowed = 0.02 + 4.0 * (truth * (1.0 - truth) / n).sqrt();
        assert!(
            (first / n - truth).abs() < allowed,
            "{way}: the first library has {first} of {n}, not {truth}"
        );
        eprintln!(
            "{way}: the first library has {:.3} of {n}, truth {truth:.3}",
            first / n
        );
    }

    /// Returns the first library's share of the CPU time, by the program's own clock.
    fn truth(&self) -> f64 {
        let out = std::fs::read_to_string(&self.out).expect("the program wrote it");
        let numbers: Vec<f64> = out.split_whitespace().map(|n| n.parse().unwrap()).collect();
        let [first, second, same] = numbers[..] else {
            panic!("{out}")
        };
        assert!(same > 0.0, "the libraries were never at one address");
        first / (first + second)
    }
}

#[test]
fn libraries_that_take_turns_at_an_address_are_told_apart() {
    let Some(_alone) = live() else { return };
    let directory = tempfile::tempdir().unwrap();
    let programs = Libraries::new(directory.path());
    for (path, call_graph) in WAYS {
        let mut options = options(programs.command(120));
        (options.path, options.call_graph) = (path, call_graph);
        programs.check(&record(&options), &format!("{path:?} {call_graph:?}"));
    }
}

#[test]
fn libraries_are_told_apart_on_the_whole_machine() {
    let Some(_alone) = live() else { return };
    let directory = tempfile::tempdir().unwrap();
    let programs = Libraries::new(directory.path());
    for call_graph in [CallGraph::None, CallGraph::FramePointer, CallGraph::Tables] {
        let mut options = options(Vec::new());
        options.target = TargetSpec::Machine;
        options.call_graph = call_graph;
        let stop = AtomicBool::new(false);
        let recording = std::thread::scope(|scope| {
            // The program starts before its recording, with stacks some seconds earlier: its
            // libraries alternate all the time.
            let mut child = programs.start(400);
            let stop = &stop;
            scope.spawn(move || {
                let status = child.wait().expect("it was started");
                stop.store(true, Ordering::Relaxed);
                assert!(status.success());
            });
            let outcome = sampler::record(&options, stop, &mut |_| ());
            outcome.expect("the machine can be recorded").recording
        });
        programs.check(&recording, &format!("machine {call_graph:?}"));
    }
}

#[test]
fn libraries_are_told_apart_by_the_daemon() {
    let Some(_alone) = live() else { return };
    let directory = tempfile::tempdir().unwrap();
    let programs = Libraries::new(directory.path());
    let options = ContinuousOptions {
        events: vec![EventSpec::cpu_clock()],
        rate: Rate::Frequency(2000),
        interval: Duration::from_secs(60),
        outlive: Duration::from_secs(60),
        pins: None,
        stacks: None,
        find_names: Box::new(sampler::find_names),
    };
    let recording = sampler::sample_continuously(options, |continuous| {
        continuous.enable().expect("it counts");
        let mut child = programs.start(120);
        while child.try_wait().expect("it was started").is_none() {
            continuous.wait_for_records(Duration::from_millis(50));
            continuous.tick().expect("it goes on");
        }
        let drain = continuous.drain().expect("what was counted");
        continuous.forget_stored().expect("it forgets");
        continuous.end_collector().expect("it ends");
        drain.recording
    });
    programs.check(&recording.expect("it was loaded"), "daemon");
}

#[test]
fn processes_that_have_one_id_are_all_followed() {
    let Some(_alone) = live() else { return };
    let directory = tempfile::tempdir().unwrap();
    let program = directory.path().join("one_id");
    compile("one_id.c", &[], &program);
    for path in [sampler::Path::Kernel, sampler::Path::Rings] {
        let mut options = options(vec![text(&program), "300".into(), "1000000".into()]);
        options.path = path;
        options.separation = Separation::Processes;
        let before = children_cpu_ns();
        let recording = record(&options);
        let spent = (children_cpu_ns() - before) as f64 / 1e9;
        let taken = recording.events[0].stored as f64;
        let expected = 2000.0 * spent;
        assert!(
            taken > 0.8 * expected,
            "{path:?}: {taken} samples of {expected}"
        );
    }
}

#[test]
fn no_more_samples_are_taken_than_there_was_time_for() {
    let Some(_alone) = live() else { return };
    let directory = tempfile::tempdir().unwrap();
    let program = directory.path().join("storm");
    compile("storm.c", &[], &program);
    // Other processes must neither be counted nor crowd the samples out.
    let mut other = Command::new("sh")
        .args(["-c", "while :; do /bin/true; done"])
        .spawn()
        .unwrap();
    for (path, call_graph) in WAYS {
        let mut options = options(vec![text(&program), "400".into()]);
        (options.path, options.call_graph) = (path, call_graph);
        let before = children_cpu_ns();
        let recording = record(&options);
        let spent = (children_cpu_ns() - before) as f64 / 1e9;
        let event = &recording.events[0];
        // The launcher's own time is included, the recorder's is not; the scheduler counts in
        // ticks.
        let most = event.frequency.unwrap() * spent * 1.15 + 50.0;
        let (taken, lost) = (event.taken, event.lost + event.dropped);
        assert_eq!(taken, event.stored + lost);
        assert!(
            (taken as f64) < most,
            "{path:?} {call_graph:?}: {taken} samples of {most} at most"
        );
        assert!(
            (lost as f64) < 0.01 * taken as f64,
            "{path:?} {call_graph:?}: {lost} of {taken} lost"
        );
    }
    other.kill().unwrap();
    other.wait().unwrap();
}

#[test]
fn a_recorder_that_cannot_keep_up_lowers_the_rate_before_samples_are_lost() {
    let Some(_alone) = live() else { return };
    let directory = tempfile::tempdir().unwrap();
    let program = directory.path().join("deep_threads");
    compile("deep_threads.c", &[], &program);
    let mut options = options(vec![text(&program), "12000".into()]);
    // The kernel lowers its limit where samples take long.
    let limit = std::fs::read_to_string("/proc/sys/kernel/perf_event_max_sample_rate").unwrap();
    let asked = limit
        .trim()
        .parse()
        .map_or(20_000, |limit: u64| limit.min(20_000));
    options.rate = Rate::Frequency(asked);
    (options.path, options.call_graph) = (sampler::Path::Rings, CallGraph::Dwarf);
    let before = children_cpu_ns();
    let recording = record(&options);
    let spent = (children_cpu_ns() - before) as f64 / 1e9;
    let event = &recording.events[0];
    assert_eq!(event.taken, event.stored + event.dropped + event.lost);
    // Without a lower rate, nine in ten are lost. Some are lost before it takes effect: up to seven
    // in ten on a busy machine.
    assert!(event.missing_fraction() < 0.85, "{event:?}");
    // Earlier samples are thinned out, so that each sample stands for the same time.
    let rate = event.frequency.unwrap();
    let known = event.taken as f64 / rate / spent;
    assert!((0.85..1.15).contains(&known), "{known}: {event:?}");
    let lowered = recording.warnings.iter().any(|one| one.contains("lowered"));
    assert_eq!(
        lowered,
        rate < 0.95 * asked as f64,
        "{:?}",
        recording.warnings
    );
}

#[test]
fn programs_that_remove_or_replace_themselves_keep_their_names() {
    let Some(_alone) = live() else { return };
    let directory = tempfile::tempdir().unwrap();
    let path = |name: &str| directory.path().join(name);
    for (way, _) in [WAYS[0], WAYS[3]] {
        for replaced in [false, true] {
            let program = path("vanishing");
            compile("vanishing.c", &[], &program);
            let mut command = vec![text(&program), "300000000".to_owned()];
            if replaced {
                compile("three_to_one.c", &[], &path("other"));
                command.push(text(&path("other")));
            }
            let mut options = options(command);
            options.path = way;
            let recording = record(&options);
            let named = recording
                .symbols
                .iter()
                .any(|symbol| symbol.name == "vanished_work");
            assert!(
                named,
                "{way:?}, replaced: {replaced}: {:?}",
                recording.images
            );
            assert!(samples_in(&recording, "vanishing") > 50);
        }
    }
}

/// Returns the CPU time of ended child processes.
fn children_cpu_ns() -> u64 {
    // SAFETY: the kernel fills the structure in.
    let usage = unsafe {
        let mut usage = std::mem::zeroed::<libc::rusage>();
        libc::getrusage(libc::RUSAGE_CHILDREN, &mut usage);
        usage
    };
    [usage.ru_utime, usage.ru_stime]
        .iter()
        .map(|t| t.tv_sec as u64 * 1_000_000_000 + t.tv_usec as u64 * 1000)
        .sum()
}
