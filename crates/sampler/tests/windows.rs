//! Live: recordings in windows, one after the other.
//! Skipped where this machine cannot be measured, unless REQUIRE_LIVE is set.

use profile::{CallGraph, Recording};
use sampler::{Error, Options, Separation, TargetSpec, record_windows};
use std::process::{Command, Stdio};
use std::sync::atomic::AtomicBool;
use std::time::Duration;

/// Whether this machine can be measured.
fn live() -> bool {
    let probed = sampler::capabilities::probe_machine();
    let Err(gap) = probed.system_wide().and(probed.bpf()) else {
        return true;
    };
    assert!(
        std::env::var_os("REQUIRE_LIVE").is_none(),
        "REQUIRE_LIVE is set and this machine cannot be measured: {}",
        gap.missing
    );
    eprintln!("skipped: {}", gap.missing);
    false
}

fn options(pid: u32) -> Options {
    let mut options = Options::new(TargetSpec::Process(pid));
    options.call_graph = CallGraph::Tables;
    options.off_cpu = true;
    options.separation = Separation::Threads;
    options
}

/// The weight of an event's samples, in its unit.
fn weight_of(recording: &Recording, event: &str) -> u64 {
    let of_event = |sample: &&profile::Sample| recording.event(sample.event).name == event;
    let samples = recording.samples.iter().filter(of_event);
    samples.map(|sample| sample.weight).sum()
}

/// A thread sleeps for 0.7 s again and again; windows of 0.3 s end in the middle of its waits. What it waited in each of them is no more than the window, and all
/// together is what it waited.
#[test]
fn waits_are_divided_among_windows() {
    if !live() {
        return;
    }
    let sleeps = "import time\nwhile True: time.sleep(0.7)";
    let mut child = Command::new("python3")
        .args(["-c", sleeps])
        .stdout(Stdio::null())
        .spawn()
        .expect("python3");
    std::thread::sleep(Duration::from_millis(500));
    let mut windows: Vec<Recording> = Vec::new();
    let lengths = std::iter::repeat_n(Duration::from_millis(300), 15);
    let ended = record_windows(
        &options(child.id()),
        &AtomicBool::new(false),
        lengths,
        &mut |recording| {
            windows.push(recording);
            true
        },
    );
    child.kill().expect("it runs");
    child.wait().expect("it has ended");
    ended.expect("it can be recorded");
    assert_eq!(windows.len(), 15);
    for window in &windows {
        let waited = weight_of(window, "off-cpu");
        assert!(
            waited <= window.duration_ns,
            "{waited} of {}",
            window.duration_ns
        );
        for event in &window.events {
            assert_eq!(event.taken, event.stored + event.dropped + event.lost);
        }
    }
    let ends: Vec<u64> = (windows.iter())
        .map(|window| window.start_unix_ns + window.duration_ns)
        .collect();
    for (window, end) in windows[1..].iter().zip(&ends) {
        let gap = window.start_unix_ns.abs_diff(*end);
        assert!(gap < 50_000_000, "a gap of {gap} ns");
    }
    // From its first wait on it nearly always waits; windows that it waits through have nothing.
    let counted = windows.iter().filter(|w| weight_of(w, "off-cpu") > 0);
    let (waited, all) = counted.fold((0, 0), |(waited, all), window| {
        (
            waited + weight_of(window, "off-cpu"),
            all + window.duration_ns,
        )
    });
    assert!(waited * 10 > all * 7, "{waited} of {all}");
}

#[test]
fn a_process_that_ends_ends_the_windows() {
    if !live() {
        return;
    }
    let mut child = Command::new("sleep").arg("1").spawn().expect("sleep");
    let pid = child.id();
    let mut windows = 0;
    let ended = record_windows(
        &options(pid),
        &AtomicBool::new(false),
        std::iter::repeat(Duration::from_millis(300)),
        &mut |_| {
            windows += 1;
            windows < 100
        },
    );
    child.wait().expect("it has ended");
    assert!(
        matches!(ended, Err(Error::NoSuchProcess { pid: of }) if of == pid),
        "{ended:?}"
    );
    assert!((1..100).contains(&windows), "{windows}");
}
