//! `vitalfew causal run -p PID` and `interference run -p PID`: running processes are measured and
//! left unchanged. No times are asserted.

mod common;

use common::running::*;
use common::*;
use serde_json::Value;
use std::collections::BTreeMap;
use std::fs::File;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::Duration;

/// Compiles a program of tests/programs/causal with its table of addresses write-protected.
fn compile(lab: &Lab, name: &str, more: &[&str]) -> PathBuf {
    compile_source(lab, "causal", name, more)
}

fn compile_source(lab: &Lab, directory: &str, name: &str, more: &[&str]) -> PathBuf {
    let source = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../../tests/programs")
        .join(directory)
        .join(format!("{name}.c"));
    let program = lab.path(name);
    let status = Command::new("cc")
        .args(["-O2", "-g", "-pthread", "-Wl,-z,relro,-z,now", "-o"])
        .arg(&program)
        .arg(&source)
        .args(more)
        .status()
        .expect("a C compiler");
    assert!(status.success());
    program
}

fn attach(lab: &Lab, pid: u32, options: &[&str]) -> Command {
    let mut command = Command::new(VITALFEW);
    command
        .args(["causal", "run", "--quiet", "--by", "function", "--runtime"])
        .arg(runtime())
        .arg("-o")
        .arg(lab.path("profile"))
        .args(["--progress", "function:serve", "-p", &pid.to_string()])
        .args(options);
    command
}

/// Returns hashes of all code, and of the program's own protected words for calls.
fn protected(pid: u32) -> BTreeMap<String, u64> {
    let maps = std::fs::read_to_string(format!("/proc/{pid}/maps")).expect("maps");
    let memory = File::open(format!("/proc/{pid}/mem")).expect("memory");
    let mut all = BTreeMap::new();
    for line in maps.lines().filter(|line| line.contains(" /")) {
        let (range, rest) = line.split_once(' ').expect("a range");
        let own = rest.starts_with("r--") && rest.ends_with("/running");
        if !(own || rest.starts_with("r-x")) || rest.contains("vitalfew") {
            continue;
        }
        let (first, last) = range.split_once('-').expect("two ends");
        let number = |text| u64::from_str_radix(text, 16).expect("a number");
        let mut bytes = vec![0; (number(last) - number(first)) as usize];
        memory
            .read_exact_at(&mut bytes, number(first))
            .expect("it is mapped");
        let mut hasher = DefaultHasher::new();
        bytes.hash(&mut hasher);
        all.insert(format!("{range} {rest}"), hasher.finish());
    }
    all
}

/// Asserts that each earlier mapping is unchanged. The runtime and its libraries may have been
/// added.
fn assert_unchanged(before: &BTreeMap<String, u64>, after: &BTreeMap<String, u64>) {
    assert!(before.len() > 4, "{before:?}");
    for (mapping, hash) in before {
        assert_eq!(after.get(mapping), Some(hash), "{mapping}");
    }
}

fn threads(pid: u32) -> usize {
    std::fs::read_dir(format!("/proc/{pid}/task"))
        .expect("threads")
        .count()
}

/// Starts measuring a program of three threads; returns when the runtime's own thread runs.
fn start_attached(lab: &Lab, pid: u32) -> Child {
    let mut controller = attach(lab, pid, &["--for", "60s"])
        .spawn()
        .expect("vitalfew runs");
    while threads(pid) == 3 && controller.try_wait().expect("asked").is_none() {
        std::thread::sleep(Duration::from_millis(10));
    }
    controller
}

/// Kills the controller; returns when the runtime's thread has gone.
fn kill_attached(mut controller: Child, pid: u32) {
    controller.kill().expect("it runs");
    controller.wait().expect("it ended");
    while threads(pid) != 3 {
        std::thread::sleep(Duration::from_millis(10));
    }
}

fn said(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

#[test]
fn a_process_that_runs_is_measured_and_left_as_it_was() {
    if !live() {
        return;
    }
    let lab = Lab::new();
    let program = compile(&lab, "running", &[]);
    let child = start(&program, &["-1"]);
    let pid = child.id();
    let before = protected(pid);
    for _ in 0..3 {
        let options = [
            "--for",
            "4s",
            "--experiment",
            "200ms",
            "--fixed-speedup",
            "50",
            // The main thread makes none.
            "--progress",
            "syscall:futex",
        ];
        let output = attach(&lab, pid, &options).output().expect("vitalfew runs");
        assert!(output.status.success(), "{}", said(&output));
        assert_unchanged(&before, &protected(pid));
        assert_eq!(threads(pid), 3);
    }
    let text = std::fs::read_to_string(lab.path("profile")).expect("a profile");
    for line in text.lines().skip(1) {
        let run = serde_json::from_str::<Value>(line).expect("JSON")["run"].take();
        let visits = |point: usize| run["points"][point]["visits"].as_u64();
        assert!(visits(0) > Some(20) && visits(1) > Some(20), "{run}");
        assert!(
            run["experiments"]
                .as_array()
                .is_some_and(|all| !all.is_empty())
        );
        let fragments = run["fragments"].as_array().expect("fragments");
        let samples = |f: &Value| f["samples"].as_u64().unwrap_or(0);
        let slow = fragments
            .iter()
            .find(|f| f["name"] == "slow")
            .map_or(0, samples);
        let all: u64 = fragments.iter().map(samples).sum();
        // Two thirds of both threads' work; the delays of one are not samples of it.
        assert!(slow * 2 > all && slow < all, "{slow} of {all}");
    }
    let [rounds, interrupted] = end(child);
    assert!(rounds > 100);
    assert_eq!(interrupted, 0);
}

#[test]
fn a_controller_that_is_killed_leaves_the_process_as_it_was() {
    if !live() {
        return;
    }
    let lab = Lab::new();
    let program = compile(&lab, "running", &[]);
    let child = start(&program, &["20"]);
    let pid = child.id();
    let before = protected(pid);
    let controller = start_attached(&lab, pid);
    std::thread::sleep(Duration::from_secs(1));
    kill_attached(controller, pid);
    assert_unchanged(&before, &protected(pid));
    let output = attach(&lab, pid, &["--for", "500ms"])
        .output()
        .expect("vitalfew runs");
    assert!(output.status.success(), "{}", said(&output));
    assert_eq!(end(child)[1], 0);
}

/// The process calls none of its functions except `main`.
#[test]
fn a_process_without_steady_functions_is_measured_by_its_system_calls() {
    if !live() {
        return;
    }
    let lab = Lab::new();
    let program = compile(&lab, "answers", &[]);
    let mut child = Command::new(program)
        .stdout(Stdio::null())
        .spawn()
        .expect("it starts");
    let output = Command::new(VITALFEW)
        .args(["causal", "run", "--runtime"])
        .arg(runtime())
        .arg("-o")
        .arg(lab.path("profile"))
        .args(["--for", "6s", "-p", &child.id().to_string()])
        .output()
        .expect("vitalfew runs");
    let said = said(&output);
    assert!(output.status.success(), "{said}");
    assert!(said.contains("syscall:write ("), "{said}");
    let text = std::fs::read_to_string(lab.path("profile")).expect("a profile");
    let last = text.lines().last().expect("a run");
    let run = serde_json::from_str::<Value>(last).expect("JSON")["run"].take();
    assert_eq!(run["points"][0]["name"], "syscall:write", "{run}");
    assert!(run["points"][0]["visits"].as_u64() > Some(20), "{run}");
    // The suggested next command does not start it again.
    let shown = String::from_utf8_lossy(&output.stdout);
    assert!(
        shown.contains("next: ") && !shown.contains(" -- "),
        "{shown}"
    );
    child.kill().expect("it runs");
    child.wait().expect("it ended");
}

/// Traces the functions of a process.
fn trace(lab: &Lab, pid: u32, options: &[&str]) -> Command {
    let mut command = Command::new(VITALFEW);
    command
        .args(["interference", "run", "--quiet", "--runtime"])
        .arg(runtime())
        .arg("-o")
        .arg(lab.path("trace"))
        .args(["-f", "slow", "-f", "quick", "-p", &pid.to_string()])
        .args(options);
    command
}

/// Returns the number of calls of each function, from the report of the trace.
fn calls(lab: &Lab, names: [&str; 2]) -> [u64; 2] {
    let output = Command::new(VITALFEW)
        .args(["interference", "report", "--json", "--all"])
        .arg(lab.path("trace"))
        .output()
        .expect("vitalfew runs");
    assert!(output.status.success(), "{}", said(&output));
    let report: Value = serde_json::from_slice(&output.stdout).expect("JSON");
    let functions = report["functions"].as_array().expect("functions");
    names.map(|name| {
        let function = functions.iter().find(|function| function["name"] == name);
        let function = function.unwrap_or_else(|| panic!("nothing on {name} in {report}"));
        function["calls"].as_u64().expect("a count")
    })
}

/// The threads synchronise twice a round, so both functions are called once a round, except at the
/// two ends.
#[test]
fn a_process_that_runs_is_traced_and_left_as_it_was() {
    if !live() {
        return;
    }
    let lab = Lab::new();
    let program = compile(&lab, "running", &[]);
    let child = start(&program, &["20"]);
    let pid = child.id();
    let before = protected(pid);
    let mut seen = 0;
    for _ in 0..3 {
        let output = trace(&lab, pid, &["--for", "2s"]).output();
        let output = output.expect("vitalfew runs");
        assert!(output.status.success(), "{}", said(&output));
        assert_unchanged(&before, &protected(pid));
        assert_eq!(threads(pid), 3);
        let [slow, quick] = calls(&lab, ["slow", "quick"]);
        assert!(slow > 20 && slow.abs_diff(quick) <= 2, "{slow} {quick}");
        seen += slow;
    }
    let [rounds, interrupted] = end(child);
    assert!(seen < rounds);
    assert_eq!(interrupted, 0);
}

#[test]
fn a_tracer_that_is_killed_leaves_the_process_running() {
    if !live() {
        return;
    }
    let lab = Lab::new();
    let program = compile(&lab, "running", &[]);
    let child = start(&program, &["20"]);
    let pid = child.id();
    let mut tracer = trace(&lab, pid, &["--for", "60s"])
        .spawn()
        .expect("vitalfew runs");
    while threads(pid) == 3 && tracer.try_wait().expect("asked").is_none() {
        std::thread::sleep(Duration::from_millis(10));
    }
    std::thread::sleep(Duration::from_secs(1));
    kill_attached(tracer, pid);
    let output = trace(&lab, pid, &["--for", "1s"])
        .output()
        .expect("vitalfew runs");
    assert_eq!(output.status.code(), Some(125));
    assert!(said(&output).contains("killed"), "{}", said(&output));
    let [rounds, interrupted] = end(child);
    assert!(rounds > 20);
    assert_eq!(interrupted, 0);
}

#[test]
fn another_build_of_the_runtime_finds_its_place_beside_the_one_before() {
    if !live() {
        return;
    }
    let lab = Lab::new();
    let program = compile(&lab, "running", &[]);
    let child = start(&program, &["-1"]);
    let pid = child.id();
    let mut bytes = std::fs::read(runtime()).expect("the runtime");
    for build in ["first", "second", "third"] {
        // Bytes after its end are not loaded.
        bytes.extend(build.as_bytes());
        let other = lab.path(build);
        std::fs::write(&other, &bytes).expect("written");
        let mut command = Command::new(VITALFEW);
        command
            .args([
                "causal",
                "run",
                "--quiet",
                "--for",
                "2s",
                "--progress",
                "function:serve",
                "--runtime",
            ])
            .arg(&other)
            .arg("-o")
            .arg(lab.path("profile"))
            .args(["-p", &pid.to_string()]);
        let output = command.output().expect("vitalfew runs");
        assert!(output.status.success(), "{build}: {}", said(&output));
        assert_eq!(threads(pid), 3);
    }
    let maps = std::fs::read_to_string(format!("/proc/{pid}/maps")).expect("maps");
    let mapped = maps
        .lines()
        .filter(|line| line.contains("/memfd:vitalfew-"));
    let builds: std::collections::BTreeSet<_> =
        mapped.map(|line| line.split_whitespace().nth(5)).collect();
    assert_eq!(builds.len(), 3, "{maps}");
    let [rounds, interrupted] = end(child);
    assert!(rounds > 0);
    assert_eq!(interrupted, 0);
}

/// Children forked during the trace call the functions long after the tracer has left.
#[test]
fn children_forked_meanwhile_outlive_the_trace() {
    if !live() {
        return;
    }
    let lab = Lab::new();
    let child = start(&compile_source(&lab, "interference", "forking", &[]), &[""]);
    let pid = child.id();
    for _ in 0..2 {
        let output = trace(&lab, pid, &["--for", "1s"]).output();
        let output = output.expect("vitalfew runs");
        assert!(output.status.success(), "{}", said(&output));
    }
    let [children, crashed] = end(child);
    assert!(children > 10, "{children}");
    assert_eq!(crashed, 0, "of {children}");
}

#[test]
fn what_cannot_be_attached_to_is_refused_with_the_reason() {
    if !live() {
        return;
    }
    let lab = Lab::new();
    let program = compile(&lab, "running", &[]);
    let child = start(&program, &["20"]);
    let pid = child.id();
    let other = start_attached(&lab, pid);
    let output = attach(&lab, pid, &["--for", "1s"])
        .output()
        .expect("vitalfew runs");
    assert_eq!(output.status.code(), Some(125));
    assert!(
        said(&output).contains("another vitalfew"),
        "{}",
        said(&output)
    );
    kill_attached(other, pid);
    assert_eq!(end(child)[1], 0);

    let mut child = start(&compile(&lab, "running", &["-static"]), &["20"]);
    let output = trace(&lab, child.id(), &["--for", "1s"])
        .output()
        .expect("vitalfew runs");
    assert_eq!(output.status.code(), Some(125));
    assert!(
        said(&output).contains("statically linked"),
        "{}",
        said(&output)
    );
    child.kill().expect("it runs");
    child.wait().expect("it ended");
}
