//! Programs launched by vitalfew behave as they do alone, or are refused.

mod common;

use common::*;
use std::path::Path;
use std::process::Command;

/// The short selection of benches/targets.py: allocators, coroutines, collectors, unwinders, long
/// jumps, static programs, each under `causal run` and `interference run` with everything traced.
#[test]
fn programs_print_and_return_what_they_do_alone_or_are_refused() {
    if !live() {
        return;
    }
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../benches/targets.py");
    let output = Command::new("python3")
        .arg("-B")
        .arg(script)
        .args([VITALFEW, "--short", "--runtime"])
        .arg(runtime())
        .output()
        .expect("Python runs");
    let table = String::from_utf8_lossy(&output.stdout);
    let wrong = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{table}\n{wrong}");
}

/// Runs vitalfew inside of namespaces, and returns its output.
fn run_inside(lab: &Lab, namespaces: &[&str], words: &[&str]) -> (bool, String) {
    let output = Command::new("unshare")
        .args(namespaces)
        .arg(VITALFEW)
        .args(words)
        .current_dir(lab.path(""))
        .env("VITALFEW_DB", lab.path("db"))
        .output()
        .expect("unshare runs");
    let said = String::from_utf8_lossy(&output.stderr) + String::from_utf8_lossy(&output.stdout);
    (output.status.success(), said.into_owned())
}

/// In a PID namespace, as in a container, process ids differ from the kernel's.
#[test]
fn programs_are_measured_in_a_pid_namespace() {
    if !live() {
        return;
    }
    let lab = Lab::new();
    lab.program("hot_line");
    for way in [
        &["--collector", "bpf"][..],
        &["--collector", "bpf", "-g"],
        &["--off-cpu"],
        &["--collector", "ring"],
        &["--call-graph", "dwarf"],
    ] {
        let words = [&["record", "-o", "r.vf"], way, &["--", "./hot_line"]].concat();
        let (_, said) = run_inside(&lab, &["-pf", "--mount-proc"], &words);
        assert!(lab.path("r.vf").exists(), "{way:?}: {said}");
        let report = report(&lab.path("r.vf"), &["--event", "cpu-clock"]);
        assert!(total(&report) > 50.0, "{way:?}: {said}");
        assert!(share(&report, "hot") > 0.5, "{way:?}: {report}");
        std::fs::remove_file(lab.path("r.vf")).expect("written");
    }
}

/// There vitalfew would mistake other processes for its own.
#[test]
fn proc_of_another_pid_namespace_is_refused() {
    if !live() {
        return;
    }
    let lab = Lab::new();
    for words in [
        &["record", "-o", "r.vf", "--", "true"][..],
        &["run", "--once", "--", "true"],
        &["check", "--runs", "2", "-o", "b.json", "--", "true"],
        &["daemon", "run"],
    ] {
        let (ok, said) = run_inside(&lab, &["-pf"], words);
        assert!(!ok && said.contains("PID namespace"), "{words:?}: {said}");
    }
    let (ok, said) = run_inside(&lab, &["-pf", "--mount-proc"], &["daemon", "run"]);
    assert!(!ok && said.contains("--pid=host"), "{said}");
}

/// In a time namespace, programs read another clock than that of the kernel's events.
#[test]
fn time_in_a_time_namespace_is_the_kernels() {
    if !live() {
        return;
    }
    let lab = Lab::new();
    lab.program("hot_line");
    let words = ["record", "-o", "r.vf", "--", "./hot_line"];
    let (_, said) = run_inside(&lab, &["-T", "--monotonic", "1000"], &words);
    let recorded = report(&lab.path("r.vf"), &[]);
    let blocked = recorded["task_times"]["blocked_ns"].as_f64();
    assert!(blocked.is_some_and(|ns| ns < 100e9), "{said}: {recorded}");

    let words = ["interference", "run", "-f", "hot", "--json"];
    let words = [&words[..], &["-o", "i.trace", "--", "./hot_line"]].concat();
    let (_, said) = run_inside(&lab, &["-T", "--monotonic", "1000"], &words);
    let output = Command::new(VITALFEW)
        .args(["interference", "report", "--json"])
        .arg(lab.path("i.trace"))
        .output()
        .expect("vitalfew runs");
    let traced: serde_json::Value = serde_json::from_slice(&output.stdout).expect("JSON");
    let duration = traced["duration_ns"].as_f64();
    let is_sane = duration.is_some_and(|ns| ns > 50e6 && ns < 100e9);
    assert!(is_sane, "{said}: {traced}");
}

/// A shell that ends successfully when its child tells it to, and records its start.
const TOLD: &str =
    "echo >>starts; trap 'exit 0' TERM; (sleep 1; kill -TERM $$) & while :; do :; done";

/// A user who told a program to end would wait forever for the end of another run.
#[test]
fn programs_that_are_told_to_end_are_not_started_again() {
    if !live() {
        return;
    }
    runtime();
    for words in [
        "interference run -q",
        "check -q --runs 3 -o check.json",
        "causal run -q --for 30s --by function -o causal.json",
        "run -q --for 30s -o run.json",
    ] {
        let lab = Lab::new();
        let output = Command::new(VITALFEW)
            .args(words.split(' '))
            .args(["--", "dash", "-c", TOLD])
            .current_dir(lab.path(""))
            .env("VITALFEW_DB", lab.path("db"))
            .output()
            .expect("vitalfew runs");
        let starts = std::fs::read_to_string(lab.path("starts")).expect("written");
        let said = String::from_utf8_lossy(&output.stderr);
        assert_eq!(starts.lines().count(), 1, "{words}: {said}");
    }
}
