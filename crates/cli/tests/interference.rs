//! `vitalfew interference run` on programs with a known truth, on the test machine. The tests
//! assert outputs, counts and orders; never times.

mod common;

use common::*;
use serde_json::Value;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::sync::{PoisonError, RwLock};
use std::time::Duration;

/// Turn of a test: tests of the cost between threads run alone, the others side by side.
static TURN: RwLock<()> = RwLock::new(());

/// Compiles a program of tests/programs/interference/.
fn compile(lab: &Lab, compiler: &str, source: &str, options: &[&str]) -> PathBuf {
    let source = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../../tests/programs/interference")
        .join(source);
    let program = lab.path(source.file_stem().expect("a name").to_str().expect("text"));
    let status = Command::new(compiler)
        .args(options)
        .arg("-o")
        .args([&program, &source])
        .status()
        .expect("a compiler");
    assert!(status.success(), "{} does not compile", source.display());
    program
}

const C: &[&str] = &["-O2", "-g", "-pthread", "-fomit-frame-pointer"];

fn run(lab: &Lab, options: &[&str], program: &Path, args: &[&str]) -> Output {
    run_with(lab, options, program, args, false)
}

fn run_with(lab: &Lab, options: &[&str], program: &Path, args: &[&str], real_time: bool) -> Output {
    let mut command = Command::new(VITALFEW);
    if real_time {
        command.env("REAL_TIME", "1");
    }
    command
        .args(["interference", "run", "--quiet", "--runtime"])
        .arg(runtime())
        .arg("-o")
        .arg(lab.path("trace"))
        .args(options)
        .arg("--")
        .arg(program)
        .args(args)
        .current_dir(lab.path(""))
        .stdin(Stdio::null())
        .output()
        .expect("vitalfew runs")
}

fn report(lab: &Lab, options: &[&str]) -> Value {
    let output = Command::new(VITALFEW)
        .args(["interference", "report", "--json", "--all"])
        .arg(lab.path("trace"))
        .args(options)
        .output()
        .expect("vitalfew runs");
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{said}");
    serde_json::from_slice(&output.stdout).expect("JSON")
}

fn function<'a>(report: &'a Value, name: &str) -> &'a Value {
    let functions = report["functions"].as_array().expect("functions");
    let named = functions.iter().find(|function| function["name"] == name);
    named.unwrap_or_else(|| panic!("nothing on {name} in {report}"))
}

fn count(of: &Value, key: &str) -> u64 {
    of[key]
        .as_u64()
        .unwrap_or_else(|| panic!("no {key} in {of}"))
}

fn calls(report: &Value, name: &str) -> u64 {
    count(function(report, name), "calls")
}

/// Asserts that a traced program prints and returns the same as without tracing.
fn is_as_alone(lab: &Lab, program: &Path, options: &[&str]) {
    let alone = Command::new(program)
        .current_dir(lab.path(""))
        .output()
        .expect("the program runs");
    let traced = run(lab, options, program, &[]);
    let said = String::from_utf8_lossy(&traced.stderr);
    assert_eq!(
        String::from_utf8_lossy(&traced.stdout),
        String::from_utf8_lossy(&alone.stdout),
        "{options:?}: {said}"
    );
    assert_eq!(
        traced.status.code(),
        alone.status.code(),
        "{options:?}: {said}"
    );
}

#[test]
fn a_program_with_everything_traced_does_what_it_does_alone() {
    if !live() {
        return;
    }
    let _turn = TURN.read().unwrap_or_else(PoisonError::into_inner);
    let lab = Lab::new();
    let program = compile(
        &lab,
        "c++",
        "matrix.cc",
        &["-O2", "-g", "-pthread", "-Wno-psabi"],
    );
    let all = ["-f", "*", "--every", "1", "--overhead", "100"];
    is_as_alone(&lab, &program, &all);
    let report = report(&lab, &[]);
    let catches = function(&report, "(anonymous namespace)::catches(int, int*)");
    assert_eq!(count(catches, "calls"), 3000 + 20, "{catches}");
    let throws = function(&report, "(anonymous namespace)::throws(int)");
    assert_eq!(count(throws, "unwound"), 2020, "{throws}");
    // The C library, the unwinder and the C++ library as well.
    let libraries = [
        "-f",
        "*",
        "-f",
        "libc!*",
        "-f",
        "libgcc_s!*",
        "-f",
        "libstdc++!*",
    ];
    is_as_alone(&lab, &program, &libraries);
    is_as_alone(&lab, &program, &["-f", "*", "--every", "50"]);
    let often = ["-f", "*", "-f", "libc!*", "--every", "2"];
    is_as_alone(&lab, &program, &often);
}

/// vitalfew's own calls before the program begins are not the program's: its only thread once
/// counted as two, with half of the loss.
#[test]
fn a_program_of_one_thread_has_one() {
    if !live() {
        return;
    }
    let _turn = TURN.read().unwrap_or_else(PoisonError::into_inner);
    let lab = Lab::new();
    let program = compile(&lab, "cc", "twice.c", C);
    let functions = [
        "-f",
        "malloc",
        "-f",
        "pthread_mutex_lock",
        "-f",
        "pthread_mutex_unlock",
    ];
    let traced = run(&lab, &functions, &program, &["0", "side"]);
    let said = String::from_utf8_lossy(&traced.stderr);
    assert!(traced.status.success(), "{said}");
    let found = report(&lab, &[]);
    assert_eq!(found["threads"], 1, "{found}");
}

/// Functions of a stripped program have places instead of names, which a user cannot request.
#[test]
fn a_stripped_program_is_traced_by_default() {
    if !live() {
        return;
    }
    let _turn = TURN.read().unwrap_or_else(PoisonError::into_inner);
    let lab = Lab::new();
    let program = compile(&lab, "cc", "contention.c", &["-O2", "-s", "-pthread"]);
    let traced = run(&lab, &[], &program, &["lock", "1000", "2", "20000"]);
    let said = String::from_utf8_lossy(&traced.stderr);
    assert!(traced.status.success(), "{said}");
    let found = report(&lab, &[]);
    assert!(calls(&found, "pthread_mutex_lock") > 0, "{found}");
}

/// Entry code of functions that compilers add for profilers and tracers.
#[test]
fn entries_that_were_made_for_profilers_are_traced() {
    if !live() {
        return;
    }
    let _turn = TURN.read().unwrap_or_else(PoisonError::into_inner);
    let lab = Lab::new();
    let gcc = [
        "",
        "-pg",
        "-pg -mfentry",
        "-fpatchable-function-entry=5",
        "-fpatchable-function-entry=16,8",
    ];
    let xray = "-fxray-instrument -fxray-instruction-threshold=1";
    let options = gcc
        .map(|options| ("gcc", options))
        .into_iter()
        .chain([("clang", xray)]);
    for (compiler, options) in options {
        if Command::new(compiler)
            .arg("--version")
            .stdout(Stdio::null())
            .status()
            .is_err()
        {
            continue;
        }
        let mut all = C.to_vec();
        all.retain(|option| *option != "-fomit-frame-pointer");
        all.extend(options.split_whitespace());
        let program = compile(&lab, compiler, "sleds.c", &all);
        is_as_alone(
            &lab,
            &program,
            &["-f", "leaf", "-f", "outer", "--overhead", "100"],
        );
        let found = report(&lab, &[]);
        for (name, executions) in [("leaf", 20_000), ("outer", 200)] {
            assert_eq!(calls(&found, name), executions, "{compiler} {options}");
        }
    }
}

/// Two segments, one of them writable, and text with one writable page; launched and running.
#[test]
fn functions_of_all_executable_mappings_are_traced() {
    if !live() {
        return;
    }
    let _turn = TURN.read().unwrap_or_else(PoisonError::into_inner);
    let lab = Lab::new();
    let program = compile(&lab, "cc", "segments.c", C);
    let all = ["-f", "in_*", "-f", "page_*"];
    is_as_alone(&lab, &program, &all);
    let names = [
        "in_first",
        "in_second",
        "page_one",
        "page_two",
        "page_three",
    ];
    let found = report(&lab, &[]);
    assert_eq!(names.map(|name| calls(&found, name)), [200; 5]);

    let mut child = common::running::start(&program, &["on"]);
    let output = Command::new(VITALFEW)
        .args(["interference", "run", "--quiet", "--runtime"])
        .arg(runtime())
        .arg("-o")
        .arg(lab.path("trace"))
        .args(all)
        .args(["--for", "1s", "-p", &child.id().to_string()])
        .output()
        .expect("vitalfew runs");
    let ended = child.try_wait().expect("asked");
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success() && ended.is_none(), "{said}");
    child.kill().expect("it runs");
    child.wait().expect("it ended");
    let found = report(&lab, &[]);
    assert!(names.iter().all(|name| calls(&found, name) > 10), "{found}");
}

/// A system call that the program does not allow would end it.
#[test]
fn a_program_that_restricts_its_system_calls_goes_on() {
    if !live() {
        return;
    }
    let _turn = TURN.read().unwrap_or_else(PoisonError::into_inner);
    let lab = Lab::new();
    let program = compile(&lab, "cc", "filtered.c", C);
    is_as_alone(
        &lab,
        &program,
        &["-f", "work", "-f", "late", "--overhead", "100"],
    );
    let found = report(&lab, &[]);
    assert!(calls(&found, "work") > 100_000, "{found}");
    assert!(calls(&found, "late") >= 99_999, "{found}");
    let warnings = found["warnings"].to_string();
    assert!(warnings.contains("seccomp"), "{warnings}");
}

#[test]
fn panics_pass_through_traced_functions() {
    if !live() {
        return;
    }
    let _turn = TURN.read().unwrap_or_else(PoisonError::into_inner);
    let lab = Lab::new();
    let rustc = std::env::var("RUSTC").unwrap_or_else(|_| "rustc".into());
    let program = compile(
        &lab,
        &rustc,
        "panics.rs",
        &["--edition", "2024", "-O", "-g"],
    );
    is_as_alone(&lab, &program, &["-f", "*", "-f", "libgcc_s!*"]);
}

#[test]
fn threads_are_cancelled_at_any_instruction_of_traced_functions() {
    if !live() {
        return;
    }
    let _turn = TURN.read().unwrap_or_else(PoisonError::into_inner);
    let lab = Lab::new();
    let program = compile(&lab, "cc", "cancelled.c", C);
    is_as_alone(&lab, &program, &["-f", "*", "--every", "1"]);
    is_as_alone(&lab, &program, &["-f", "*", "--every", "50"]);
}

/// Runs causes.c, with the threads on a CPU each if that is allowed: otherwise the trace's reader
/// takes a CPU from them, and they seldom meet.
fn cause_run(lab: &Lab, program: &Path, args: &[&str]) -> Value {
    let mut options = vec!["--overhead", "100"];
    for function in [
        "fdatasync",
        "read",
        "pthread_mutex_*lock",
        "pthread_barrier_wait",
    ] {
        options.extend(["-f", function]);
    }
    let mut output = run_with(lab, &options, program, args, true);
    if !output.status.success() {
        output = run_with(lab, &options, program, args, false);
    }
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{said}");
    report(lab, &[])
}

/// Returns the part of the threads' time in which they wait in a function for something.
fn waiting(report: &Value, name: &str, kind: &str) -> f64 {
    let functions = report["functions"].as_array().expect("functions");
    let own = functions.iter().filter(|function| function["name"] == name);
    let waits = own.flat_map(|function| function["waits"].as_array().expect("waits"));
    let of_kind = waits.filter(|waits| waits["kind"] == kind);
    let ns: f64 = of_kind.filter_map(|waits| waits["ns"].as_f64()).sum();
    ns / report["thread_time_ns"].as_f64().expect("a number")
}

/// Waits have their kind and their function, and are gone when the program is repaired.
#[test]
fn known_waits_are_found_and_their_repair_is_seen() {
    if !live() {
        return;
    }
    let _turn = TURN.write().unwrap_or_else(PoisonError::into_inner);
    let lab = Lab::new();
    let program = compile(&lab, "cc", "causes.c", C);
    for (what, name, kind) in [
        ("lock", "pthread_mutex_lock", "lock"),
        ("barrier", "pthread_barrier_wait", "barrier"),
        ("disk", "fdatasync", "disk"),
        ("pool", "read", "pool"),
    ] {
        let contended = cause_run(&lab, &program, &[what]);
        if contended["waits"] == false {
            return; // no right to watch the scheduler
        }
        let repaired = cause_run(&lab, &program, &[what, "repaired"]);
        let (bad, good) = (
            waiting(&contended, name, kind),
            waiting(&repaired, name, kind),
        );
        assert!(bad > 0.05, "{what}: {bad} {contended}");
        assert!(
            good < (bad / 2.0).min(0.1),
            "{what}: {bad}, repaired {good}: {repaired}"
        );
    }
}

/// Samples show which data functions share, and whether they mean to.
#[test]
fn functions_are_told_which_cache_lines_they_share() {
    if cfg!(not(target_arch = "x86_64")) || !live() {
        return;
    }
    let _turn = TURN.write().unwrap_or_else(PoisonError::into_inner);
    let lab = Lab::new();
    let program = compile(&lab, "cc", "lines.c", C);
    let functions = ["count_beside", "count_all", "count_apart", "read_settings"];
    let options = functions.map(|name| ["-f", name]).concat();
    let output = run(&lab, &options, &program, &["1"]);
    assert!(output.status.success(), "{output:?}");
    let report = report(&lab, &[]);
    let shared = |name: &str| &function(&report, name)["shared_line"];
    let beside = shared("count_beside");
    assert_eq!(beside["variable"], "counts", "{report}");
    assert_eq!(
        (&beside["threads"], &beside["is_false"]),
        (&2.into(), &true.into())
    );
    let all = shared("count_all");
    assert_eq!(
        (&all["variable"], &all["is_false"]),
        (&Value::Null, &false.into())
    );
    assert!(count(all, "threads") == 2, "{report}");
    for name in &functions[2..] {
        assert_eq!(shared(name), &Value::Null, "{name} in {report}");
    }
}

/// Functions that cannot be patched with a jump are named with the reason.
#[test]
fn functions_that_cannot_be_patched_are_named_with_the_reason() {
    if !live() {
        return;
    }
    let _turn = TURN.read().unwrap_or_else(PoisonError::into_inner);
    let lab = Lab::new();
    let program = compile(&lab, "cc", "refused.c", C);
    let names = ["tiny", "turns", "early", "outer"];
    let mut options: Vec<&str> = names.iter().flat_map(|name| ["-f", *name]).collect();
    options.extend(["--overhead", "100"]);
    is_as_alone(&lab, &program, &options);
    let found = report(&lab, &[]);
    let left_out = found["left_out"].to_string();
    for reason in ["shorter than the jump", "jumps back"] {
        assert!(left_out.contains(reason), "{left_out}");
    }
    for (name, ended) in [("early", 900), ("outer", 1000)] {
        assert_eq!(calls(&found, name), 1000, "{found}");
        assert_eq!(count(function(&found, name), "recorded"), ended, "{found}");
    }
    let warnings = found["warnings"].to_string();
    assert!(!warnings.contains("contradict the clock"), "{warnings}");
}

/// Output that a program writes into a file or a pipe contains only the program's.
#[test]
fn the_result_stays_out_of_the_programs_output() {
    if !live() {
        return;
    }
    let _turn = TURN.read().unwrap_or_else(PoisonError::into_inner);
    let lab = Lab::new();
    let program = compile(&lab, "cc", "flood.c", C);
    let alone = Command::new(&program).output().expect("the program runs");
    let traced = Command::new(VITALFEW)
        .args(["interference", "run", "--runtime"])
        .arg(runtime())
        .args(["-f", "leaf", "--every", "1000", "-o"])
        .arg(lab.path("trace"))
        .arg("--")
        .arg(&program)
        .output()
        .expect("vitalfew runs");
    let said = String::from_utf8_lossy(&traced.stderr);
    assert_eq!(traced.stdout, alone.stdout, "{said}");
    assert!(
        said.contains("3 threads, ") && said.contains("next: "),
        "{said}"
    );
}

/// Returns calls and duration by the program and by the report, and the report. The reader of the
/// records is stopped for two seconds.
fn lags(kind: &str, options: &[&str]) -> ([f64; 2], [f64; 2], Value) {
    let lab = Lab::new();
    let program = compile(&lab, "cc", "lag.c", C);
    let traced = run(
        &lab,
        &[&["-f", "bump"], options].concat(),
        &program,
        &[kind],
    );
    let said = String::from_utf8_lossy(&traced.stderr);
    assert!(traced.status.success(), "{said}");
    let printed = String::from_utf8_lossy(&traced.stdout);
    let mut numbers = printed
        .split_whitespace()
        .map(|n| n.parse().expect("a number"));
    let own = [(); 2].map(|()| numbers.next().expect("two numbers"));
    let found = report(&lab, &[]);
    let bump = function(&found, "bump");
    let number = |of: &Value, key: &str| of[key].as_f64().expect("a number");
    let ours = [number(bump, "calls"), number(&found, "duration_ns")];
    (own, ours, found)
}

/// Calls and the run's duration are the program's own, however late its records are read.
#[test]
fn calls_and_durations_are_right_when_the_records_are_read_late() {
    if !live() {
        return;
    }
    let _turn = TURN.write().unwrap_or_else(PoisonError::into_inner);
    let close = |a: f64, b: f64| (a / b - 1.0).abs() < 0.01;
    // Periods that are set late; from the start; none, and buffers that fill before reading
    // continues.
    let all: [&[&str]; 3] = [
        &["--overhead", "0.2"],
        &["--every", "64"],
        &["--overhead", "100", "--buffer", "16"],
    ];
    for (kind, options) in all
        .map(|options| ("stop", options))
        .into_iter()
        .chain([("end", all[0])])
    {
        let (own, ours, found) = lags(kind, options);
        assert!(
            close(ours[0], own[0]),
            "{kind} {options:?}: calls {own:?} {ours:?} {found}"
        );
        assert!(
            close(ours[1], own[1]),
            "{kind} {options:?}: duration {own:?} {ours:?} {found}"
        );
        let bump = function(&found, "bump");
        let recorded = bump["recorded"].as_f64().expect("a count");
        assert!(
            recorded < 0.9 * own[0],
            "{kind} {options:?}: not all were to be recorded: {bump}"
        );
    }
}

/// A thread with fewer calls of a function than a period counts with its actual calls.
#[test]
fn short_threads_do_not_count_for_whole_periods() {
    if !live() {
        return;
    }
    let _turn = TURN.read().unwrap_or_else(PoisonError::into_inner);
    let (own, ours, found) = lags("short", &["--every", "64"]);
    assert_eq!(own[0], 10_000.0);
    assert!((ours[0] - own[0]).abs() <= 100.0, "{found}");
    // Each call has the same probability to be recorded: 156 of them, plus or minus five standard
    // deviations.
    let recorded = function(&found, "bump")["recorded"]
        .as_f64()
        .expect("a count");
    assert!((95.0..=220.0).contains(&recorded), "{recorded}");
}

/// Time that a thread lacks a CPU because the thread that it gave a lock to took it is listed with
/// the waiters of the lock.
#[test]
fn a_cpu_that_is_lost_to_a_woken_thread_is_the_locks() {
    if !live() {
        return;
    }
    let _turn = TURN.write().unwrap_or_else(PoisonError::into_inner);
    let lab = Lab::new();
    let program = compile(&lab, "cc", "handed.c", C);
    let options = ["--overhead", "100", "-f", "pthread_mutex_*lock"];
    let traced = run(&lab, &options, &program, &[]);
    if traced.status.code() == Some(77) {
        return; // no real-time priorities here
    }
    let found = report(&lab, &[]);
    // In each turn of some 2.7 ms the ordinary thread is in unlock for 1.0 without a CPU, and the
    // urgent one waits for up to 1.5.
    for name in ["pthread_mutex_lock", "pthread_mutex_unlock"] {
        assert!(waiting(&found, name, "lock") > 0.1, "{name}: {found}");
    }
}

/// A woken thread that waits until its waker sleeps does not lack a CPU.
#[test]
fn a_woken_thread_waits_for_its_waker() {
    if !live() {
        return;
    }
    let _turn = TURN.write().unwrap_or_else(PoisonError::into_inner);
    let lab = Lab::new();
    let program = compile(&lab, "cc", "woken.c", C);
    let traced = run(
        &lab,
        &["--overhead", "100", "-f", "sem_wait"],
        &program,
        &[],
    );
    if traced.status.code() == Some(77) {
        return; // no real-time priorities here
    }
    let found = report(&lab, &[]);
    if found["waits"] == false {
        return; // no right to watch the scheduler
    }
    let wait = function(&found, "sem_wait");
    let times = wait["calls"].as_f64().expect("a number");
    assert!(times > 300.0, "{found}");
    // 150 µs each time, all of which sem_wait was ready.
    let ready = found["machine"]["ready_ns"].as_f64().expect("a number");
    assert!(ready < times * 50_000.0, "{ready}: {wait}");
}

/// A process on the same CPU, which ends with the test.
struct Beside(std::process::Child);

impl Beside {
    fn start(program: &Path, kind: &str) -> Self {
        let child = Command::new(program).arg(kind).spawn();
        Self(child.expect("it runs"))
    }
}

impl Drop for Beside {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Only other processes can make a single thread wait for a CPU; the one named is the one that ran
/// longest, not last.
#[test]
fn other_processes_that_had_the_cpu_are_named_by_how_long_they_ran() {
    if !live() {
        return;
    }
    let _turn = TURN.write().unwrap_or_else(PoisonError::into_inner);
    let lab = Lab::new();
    let program = compile(&lab, "cc", "slices.c", C);
    let mut beside = ["long", "brief"].map(|kind| Beside::start(&program, kind));
    let traced = run(&lab, &["--overhead", "100", "-f", "step"], &program, &[]);
    let ended = beside
        .iter_mut()
        .any(|other| other.0.try_wait().expect("a child").is_some());
    if ended || traced.status.code() == Some(77) {
        return; // no real-time priorities here
    }
    let found = report(&lab, &[]);
    if found["waits"] == false {
        return; // no right to watch the scheduler
    }
    let had = |other: &Beside| {
        let users = found["machine"]["others"].as_array().cloned();
        let users = users.unwrap_or_default();
        let mut user = users.iter().filter(|user| user["pid"] == other.0.id());
        user.next()
            .map_or(0.0, |user| user["ns"].as_f64().expect("a number"))
    };
    // 3,000 µs of 5,000 against 30 of 530.
    let (long, brief) = (had(&beside[0]), had(&beside[1]));
    assert!(long > 3.0 * brief && brief > 0.0, "{found}");
}

/// A program with no more threads than CPUs never lacks one because of its own threads, whatever
/// else runs and however often CPUs change hands.
#[test]
fn a_program_of_two_threads_does_not_take_cpus_from_itself() {
    if !live() {
        return;
    }
    let _turn = TURN.write().unwrap_or_else(PoisonError::into_inner);
    let cpus = std::thread::available_parallelism().map_or(1, usize::from);
    if cpus < 2 {
        return;
    }
    let lab = Lab::new();
    let program = compile(&lab, "cc", "pair.c", C);
    let hogs = (0..=cpus).map(|_| Beside::start(&program, "hog"));
    let _beside: Vec<Beside> = hogs.collect();
    run(&lab, &["--overhead", "100", "-f", "step"], &program, &[]);
    let found = report(&lab, &[]);
    if found["waits"] == false {
        return; // no right to watch the scheduler
    }
    let ready = found["machine"]["ready_ns"].as_f64().expect("a number");
    let taken = found["machine"]["taken_ns"].as_f64().expect("a number");
    assert!(ready > 0.0, "{}", found["machine"]);
    assert!(taken > 0.9 * ready, "{}", found["machine"]);
}

/// The call that selects the next recorded call is not itself recorded: its time is in no lock's.
#[test]
fn recorded_calls_are_entered_as_fast_as_others() {
    if !live() {
        return;
    }
    let _turn = TURN.read().unwrap_or_else(PoisonError::into_inner);
    let lab = Lab::new();
    let program = compile(&lab, "cc", "entries.c", C);
    let traced = run(&lab, &["-f", "work", "--every", "64"], &program, &[]);
    let said = String::from_utf8_lossy(&traced.stderr);
    assert!(traced.status.success(), "{said}");
    let printed = String::from_utf8_lossy(&traced.stdout);
    let numbers = printed.split_whitespace();
    let numbers: Vec<f64> = numbers.map(|n| n.parse().expect("a number")).collect();
    let [recorded, faster] = numbers[..] else {
        panic!("{printed}")
    };
    assert!((14_000.0..17_500.0).contains(&recorded), "{printed}");
    assert!(faster > 0.9 * recorded, "{printed}");
}

/// Runs the default command, which runs the program twice, in a shell.
fn in_shell(lab: &Lab, program: &Path, script: &str) -> String {
    let output = Command::new("sh")
        .args(["-c", script])
        .env(
            "RUN",
            format!(
                "{VITALFEW} interference run --runtime {} -o {} -- {}",
                runtime().display(),
                lab.path("trace").display(),
                program.display()
            ),
        )
        .env("PROGRAM", program)
        // A pager would wait for a user.
        .env("VITALFEW_PAGER", "cat")
        .current_dir(lab.path(""))
        .output()
        .expect("a shell");
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success(), "{script}: {said}");
    String::from_utf8_lossy(&output.stdout).into_owned()
}

/// A command that is run twice reads its whole input both times, and writes its output once unless
/// that is a terminal.
#[test]
fn input_and_output_are_as_of_one_run() {
    if !live() {
        return;
    }
    let _turn = TURN.read().unwrap_or_else(PoisonError::into_inner);
    let lab = Lab::new();
    let program = compile(&lab, "cc", "twice.c", C);
    let lines = "i=0; while [ $i -lt 300 ]; do echo line $i; i=$((i+1)); done > few; for n in $(seq 1000); do cat few; done > lines";
    in_shell(&lab, &program, lines);
    let alone = in_shell(&lab, &program, "$PROGRAM < lines");
    assert!(alone.starts_with("300000 lines"), "{alone}");
    for script in [
        "$RUN < lines 2> said",
        "cat lines | $RUN 2> said",
        "cat lines | $RUN 2> said | cat",
        "$RUN < lines > out 2> said; cat out",
        "(head -n 0; $RUN 2> said) < lines",
    ] {
        assert_eq!(in_shell(&lab, &program, script), alone, "{script}");
        // A note precedes the program's own message, which appears once.
        let said = in_shell(&lab, &program, "cat said");
        let (twice, own) = (said.find("is run twice"), said.find("error output"));
        assert!(twice.is_some() && twice < own, "{script}: {said}");
        assert_eq!(said.matches("error output").count(), 1, "{script}: {said}");
    }
    // The unread rest of the input may be endless.
    let endless = in_shell(&lab, &program, "yes | $RUN 1000 2> said");
    assert!(endless.starts_with("1000 lines"), "{endless}");
    // It changes files twice.
    let files = "rm -f side; $RUN 1 side < lines > out 2> said; cat side";
    assert_eq!(in_shell(&lab, &program, files), "once\nonce\n");
    // A terminal is the program's both times.
    let terminal = in_shell(&lab, &program, "script -qec \"$RUN\" /dev/null < /dev/null");
    assert_eq!(
        terminal.matches("0 lines, terminal").count(),
        2,
        "{terminal}"
    );
}

/// While nothing reads, records without room are lost: the program does not notice, each execution
/// is counted, and the report explains the effect.
#[test]
fn buffers_that_overflow_are_counted() {
    const CALLS: u64 = 2_000_000;
    if !live() {
        return;
    }
    let _turn = TURN.read().unwrap_or_else(PoisonError::into_inner);
    let lab = Lab::new();
    let program = compile(&lab, "cc", "flood.c", C);
    let alone = Command::new(&program).output().expect("the program runs");
    // With the arguments of each call, and without: then a record is an execution.
    let options = ["-f", "leaf", "--overhead", "100", "--buffer", "1"];
    let traced = run(&lab, &options, &program, &["hold"]);
    let said = String::from_utf8_lossy(&traced.stderr);
    assert_eq!(traced.stdout, alone.stdout, "{said}");
    assert_eq!(traced.status.code(), Some(7), "{said}");
    let found = report(&lab, &[]);
    let (leaf, lost) = (function(&found, "leaf"), count(&found, "lost"));
    // Two threads and a buffer of 65,536 records; executions after the stop found room again.
    assert!(lost > CALLS / 2 && lost < CALLS - 20_000, "{lost}");
    assert_eq!(count(leaf, "recorded") + lost, CALLS, "{found}");
    assert!(count(leaf, "calls").abs_diff(CALLS) < 100, "{leaf}");
    let warnings = found["warnings"].to_string();
    assert!(warnings.contains(&lost.to_string()), "{warnings}");
}

/// A program that writes records faster than they are read is not followed to its end. The time
/// limit includes reading the rest.
#[test]
fn time_limits_hold_where_records_are_read_too_slowly() {
    const SECONDS: &str = "6";
    if !live() {
        return;
    }
    let _turn = TURN.read().unwrap_or_else(PoisonError::into_inner);
    let lab = Lab::new();
    let program = compile(&lab, "cc", "untiring.c", C);
    let options = ["-f", "leaf", "--overhead", "100", "--for", "1s"];
    let traced = run(&lab, &options, &program, &[SECONDS]);
    let said = String::from_utf8_lossy(&traced.stderr);
    assert_eq!(traced.stdout, b"done\n", "{said}");
    let found = report(&lab, &[]);
    let count = |key: &str| found[key].as_f64().expect("a count");
    // Half of the program's own time: a machine may be busy.
    assert!(count("duration_ns") < 3e9, "{found}");
    // The rest was counted and not read. Records of all calls cannot be read as fast as they are
    // written.
    assert!(count("lost") > count("executions"), "{found}");
    assert!(
        found["warnings"].to_string().contains("no time to read"),
        "{found}"
    );
}

/// The program that a shell executes in its process is traced, and not those that the shell runs on
/// the way.
#[test]
fn a_program_that_a_shell_executes_is_traced() {
    if !live() {
        return;
    }
    let _turn = TURN.read().unwrap_or_else(PoisonError::into_inner);
    let lab = Lab::new();
    let program = compile(&lab, "cc", "causes.c", C);
    let program = program.to_str().expect("text");
    let script = "readlink / > /dev/null; exec env -u HOME nice \"$0\" \"$@\"";
    for options in [&[] as &[&str], &["-f", "compute"]] {
        let args = ["-c", script, program, "lock"];
        let output = run(&lab, options, Path::new("sh"), &args);
        assert_eq!(output.status.code(), Some(0), "{output:?}");
        let found = report(&lab, &[]);
        assert!(calls(&found, "compute") > 100, "{found}");
    }
    let output = run(
        &lab,
        &["-f", "compute"],
        Path::new("sh"),
        &["-c", "true; :"],
    );
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(
        said.contains("name the program that the shell starts"),
        "{said}"
    );
}

/// A program that executes another one is not followed, and a message says so.
#[test]
fn programs_that_are_executed_are_named() {
    if !live() {
        return;
    }
    let _turn = TURN.read().unwrap_or_else(PoisonError::into_inner);
    let lab = Lab::new();
    let program = compile(&lab, "cc", "refused.c", C);
    let output = run(&lab, &["-f", "main"], &program, &["/bin/true"]);
    assert_eq!(output.status.code(), Some(0));
    let output = Command::new(VITALFEW)
        .args(["interference", "report", "--json"])
        .arg(lab.path("trace"))
        .output()
        .expect("vitalfew runs");
    let found: Value = serde_json::from_slice(&output.stdout).expect("JSON");
    let warnings = found["warnings"].to_string();
    assert!(
        warnings.contains("/bin/true") || found["waits"] == false,
        "{warnings}"
    );
}

#[test]
fn what_cannot_be_traced_is_refused_with_the_reason() {
    if !live() {
        return;
    }
    let _turn = TURN.read().unwrap_or_else(PoisonError::into_inner);
    let lab = Lab::new();
    let program = compile(&lab, "cc", "causes.c", C);
    let says = |options: &[&str], program: &Path, expected: &str| {
        let output = run(&lab, options, program, &["lock"]);
        let said = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(125), "{said}");
        assert!(said.contains(expected), "{said}");
    };
    says(&["-f", "counts"], &program, "did you mean count");
    says(
        &["-f", "_start"],
        &program,
        "none of the functions can be traced",
    );
    let still = compile(&lab, "cc", "contention.c", &["-O2", "-static", "-pthread"]);
    says(&["-f", "main"], &still, "statically linked");
    says(&["-f", "main"], Path::new("/etc/hostname"), "");
    // Without functions it would run twice: it has not run at all, though the reason is in a
    // library.
    let source = lab.path("collector.c");
    let code = "#include <stdio.h>\nvoid GC_gcollect(void);\n\
                #ifdef LIBRARY\nvoid GC_gcollect(void) { }\n\
                #else\nint main(int count, char **words) { GC_gcollect(); fclose(fopen(\"ran\", \"w\")); return 0; }\n#endif\n";
    std::fs::write(&source, code).expect("written");
    let library = lab.path("libcollector.so");
    let collected = lab.path("collected");
    let here = format!("-Wl,-rpath,{}", lab.path("").display());
    for (output, more) in [
        (&library, vec!["-shared", "-fPIC", "-DLIBRARY"]),
        (&collected, vec![library.to_str().expect("text"), &here]),
    ] {
        let mut compiler = Command::new("cc");
        compiler.arg("-o").args([output, &source]).args(more);
        assert!(compiler.status().expect("a compiler").success());
    }
    says(&[], &collected, "garbage collector");
    assert!(!lab.path("ran").exists());
}

/// Traces alone.c and returns what its threads are alone; `None`: here no thread can be held.
fn alone_and_together(lab: &Lab, words: &[&str]) -> Option<Value> {
    let _turn = TURN.write().unwrap_or_else(PoisonError::into_inner);
    let program = compile(lab, "cc", "alone.c", C);
    let functions = [
        "work",
        "locked",
        "taken_in_turns",
        "spin_locked",
        "count_up",
    ];
    let options: Vec<&str> = functions.iter().flat_map(|name| ["-f", *name]).collect();
    let output = run(lab, &options, &program, words);
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(7), "{said}");
    assert_eq!(output.stdout, b"done\n", "{said}");
    if !live() {
        return None;
    }
    Some(report(lab, &[])["solo"].clone())
}

/// The ends of the program's loss.
fn ends(solo: &Value) -> (f64, f64) {
    let loss = &solo["program"]["loss"];
    let end = |name: &str| loss[name].as_f64().unwrap_or_else(|| panic!("{solo}"));
    (end("low"), end("high"))
}

#[test]
fn threads_of_a_lock_are_faster_alone_and_others_are_not() {
    let lab = Lab::new();
    let Some(free) = alone_and_together(&lab, &["free", "4"]) else {
        return;
    };
    assert_ne!(free["verdict"], "interference", "{free}");
    for slow in ["slept", "masked"] {
        let mutex = alone_and_together(&lab, &[slow, "4"]).expect("live");
        assert!(ends(&mutex).0 > ends(&free).1, "{mutex} {free}");
    }
}

#[test]
fn turns_are_dependence_and_one_thread_is_said_to_be_one() {
    let lab = Lab::new();
    let Some(turns) = alone_and_together(&lab, &["handover", "4"]) else {
        return;
    };
    assert_eq!(turns["verdict"], "dependence", "{turns}");
    let one = alone_and_together(&lab, &["free", "2", "1"]).expect("live");
    assert_eq!(one["verdict"], "one_thread", "{one}");
    assert_eq!(one["intervals"], 0, "{one}");
}

#[test]
fn system_calls_do_not_end_early_when_threads_are_held() {
    let lab = Lab::new();
    if let Some(solo) = alone_and_together(&lab, &["calls", "3"]) {
        assert!(solo["intervals"].as_u64() > Some(0), "{solo}");
    }
}

#[test]
fn nobody_is_held_for_long_when_vitalfew_is_killed() {
    if !live() {
        return;
    }
    let _turn = TURN.write().unwrap_or_else(PoisonError::into_inner);
    let lab = Lab::new();
    let program = compile(&lab, "cc", "alone.c", C);
    for (number, threads) in ["2", "2", "2", "5"].iter().enumerate() {
        let mut child = Command::new(VITALFEW)
            .args(["interference", "run", "--quiet", "-f", "work", "--runtime"])
            .arg(runtime())
            .arg("-o")
            .arg(lab.path("trace"))
            .arg("--")
            .arg(&program)
            .args(["watch", "2", threads])
            .stdout(Stdio::piped())
            .spawn()
            .expect("vitalfew runs");
        // At another moment of an interval each time.
        std::thread::sleep(Duration::from_micros(900_000 + 1_300 * number as u64));
        child.kill().expect("it runs");
        // The program has the other end, and ends by itself.
        let output = child.wait_with_output().expect("an output");
        let text = String::from_utf8_lossy(&output.stdout);
        let stood: u64 = text
            .lines()
            .next()
            .and_then(|us| us.parse().ok())
            .expect("a time");
        assert!(text.ends_with("done\n"), "{text}");
        assert!(stood < 100_000, "{stood} us");
    }
}
