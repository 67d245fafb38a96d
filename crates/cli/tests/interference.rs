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

fn finding<'a>(report: &'a Value, name: &str) -> &'a Value {
    let findings = report["findings"].as_array().expect("findings");
    let named = findings.iter().find(|finding| finding["name"] == name);
    named.unwrap_or_else(|| panic!("nothing on {name} in {report}"))
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
    let catches = finding(&report, "(anonymous namespace)::catches(int, int*)");
    let calls = |finding: &Value| {
        let count = |key: &str| finding[key].as_u64().expect("a count");
        count("calls") + count("warm_up")
    };
    assert_eq!(calls(catches), 3000 + 20, "{catches}");
    let throws = finding(&report, "(anonymous namespace)::throws(int)");
    // The first execution, which may be left out as a warm-up, is one of them.
    let unwound = throws["unwound"].as_u64().expect("a count");
    assert!((2019..=2020).contains(&unwound), "{throws}");
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
    let findings = found["findings"].as_array().expect("findings");
    let locks = findings.iter().any(|f| f["name"] == "pthread_mutex_lock");
    assert!(locks, "{found}");
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
            let count = |key: &str| finding(&found, name)[key].as_u64().expect("a count");
            assert_eq!(
                count("calls") + count("warm_up"),
                executions,
                "{compiler} {options}"
            );
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
    let all = ["-f", "in_*", "-f", "page_*", "--no-events"];
    is_as_alone(&lab, &program, &all);
    let names = [
        "in_first",
        "in_second",
        "page_one",
        "page_two",
        "page_three",
    ];
    let calls = |found: &Value, name: &str| {
        let count = |key: &str| finding(found, name)[key].as_u64().expect("a count");
        count("calls") + count("warm_up")
    };
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
    let calls = |name: &str| finding(&found, name)["calls"].as_u64().expect("a count");
    assert!(
        calls("work") > 100_000 && calls("late") >= 99_999,
        "{found}"
    );
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

/// A run of causes.c: the report, and the duration of a `bump` by the program's own clock (for
/// sharing; in ns).
struct CauseRun {
    report: Value,
    bump_ns: Option<f64>,
}

/// Runs causes.c, with the threads of lock and sharing on a CPU each if that is allowed.
fn cause_run(lab: &Lab, program: &Path, kind: &str, repaired: bool) -> CauseRun {
    let mut options = vec!["--overhead", "100"];
    for function in [
        "count",
        "meet",
        "bump",
        "keep",
        "take",
        "fdatasync",
        "read",
        "pthread_mutex_*lock",
        "pthread_barrier_wait",
    ] {
        options.extend(["-f", function]);
    }
    let args: &[&str] = if repaired {
        &[kind, "repaired"]
    } else {
        &[kind]
    };
    // Otherwise the trace's reader takes a CPU from them, and they seldom meet.
    let alone_on_cpus = ["lock", "sharing"].contains(&kind);
    let mut output = run_with(lab, &options, program, args, alone_on_cpus);
    if alone_on_cpus && !output.status.success() {
        output = run_with(lab, &options, program, args, false);
    }
    assert!(
        output.status.success(),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
    CauseRun {
        report: report(lab, &[]),
        bump_ns: String::from_utf8_lossy(&output.stdout).trim().parse().ok(),
    }
}

/// Returns what is wrong with the findings for a cause; `None` if they are right.
fn wrong(
    contended: &CauseRun,
    repaired: &CauseRun,
    names: [&str; 2],
    cause: &str,
) -> Option<String> {
    // Strong effects of other processes are listed, too.
    let mut listed = contended.report["findings"]
        .as_array()
        .expect("findings")
        .iter();
    let Some(first) = listed.find(|finding| finding["standing"] != "machine") else {
        return Some(format!("nothing but the machine: {}", contended.report));
    };
    if !names.iter().any(|name| first["name"] == *name) {
        return Some(format!("first is {first}"));
    }
    let number = |run: &CauseRun, key: &str| {
        let findings = run.report["findings"].as_array().expect("findings");
        let found = findings
            .iter()
            .find(|finding| finding["name"] == names[0])?;
        found[key].as_f64()
    };
    if cause == "memory" {
        // The cost of a shared line depends on the host: two processors of one core share their
        // cache. The program's own clock measures it, including the tracing of each call.
        for run in [contended, repaired] {
            let found = number(run, "mean_ns").unwrap_or(0.0);
            let own = run.bump_ns.expect("the program prints it");
            if !(0.7..1.02).contains(&(found / own)) {
                return Some(format!("a bump took {found} ns, by its own clock {own} ns"));
            }
        }
    } else {
        let (bad, good) = (
            number(contended, "blocked").unwrap_or(0.0),
            number(repaired, "blocked").unwrap_or(0.0),
        );
        // The rest of a repaired block's score is not waiting: two processors of one core slow each
        // other down.
        if bad < 0.05 || good > (bad / 2.0).min(0.1) {
            return Some(format!("{bad}, repaired {good}: {first}"));
        }
    }
    let elsewhere: &[&str] = if cause == "memory" {
        &["scheduler", "other_processes"]
    } else {
        &[
            "scheduler",
            "other_processes",
            "work",
            "memory",
            "page_fault",
        ]
    };
    let causes = first["causes"].as_array().cloned().unwrap_or_default();
    let mut kinds = causes.iter().filter_map(|cause| cause["kind"].as_str());
    let named = kinds.find(|kind| !elsewhere.contains(kind));
    // If other programs interrupt the threads, a shared line may look like work.
    let right = named == Some(cause) || cause == "memory" && named == Some("work");
    (!right).then(|| format!("{causes:?}"))
}

/// The right function is first, with the right cause, and waits for under a tenth when it is
/// repaired; for a shared line its durations match the program's own measurement. Other users of
/// the machine may spoil a run.
#[test]
fn known_causes_are_found_and_their_repair_is_seen() {
    if !live() {
        return;
    }
    let _turn = TURN.write().unwrap_or_else(PoisonError::into_inner);
    let lab = Lab::new();
    let program = compile(&lab, "cc", "causes.c", C);
    for (kind, names, cause) in [
        ("lock", ["count", "pthread_mutex_lock"], "lock"),
        ("barrier", ["meet", "pthread_barrier_wait"], "barrier"),
        ("sharing", ["bump", "bump"], "memory"),
        ("disk", ["keep", "fdatasync"], "disk"),
        ("pool", ["take", "read"], "pool"),
    ] {
        let mut said = Vec::new();
        let found = (0..4).any(|_| {
            let contended = cause_run(&lab, &program, kind, false);
            let repaired = cause_run(&lab, &program, kind, true);
            let wrong = wrong(&contended, &repaired, names, cause);
            said.extend(wrong.clone());
            wrong.is_none()
        });
        assert!(found, "{kind}: {said:#?}");
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
    for (name, executions) in [("early", 900), ("outer", 1000)] {
        let finding = finding(&found, name);
        let count = |key: &str| finding[key].as_u64().expect("a count");
        assert_eq!(count("calls") + count("warm_up"), executions, "{finding}");
    }
    let warnings = found["warnings"].to_string();
    assert!(!warnings.contains("contradict the clock"), "{warnings}");
}

/// Each sample of an event, and its evidence for the cause. Page faults stand in for the
/// processor's events, which are handled in the same way.
#[test]
fn events_are_counted_where_they_happen() {
    if !live() {
        return;
    }
    // Alone: if other tests use the CPUs, waiting for them is the larger cause, and true.
    let _turn = TURN.write().unwrap_or_else(PoisonError::into_inner);
    let lab = Lab::new();
    let program = compile(&lab, "cc", "faults.c", C);
    is_as_alone(
        &lab,
        &program,
        &[
            "-f",
            "touch",
            "--overhead",
            "100",
            "-e",
            "page-faults:1",
            "-e",
            "cpu-clock:1000000",
        ],
    );
    let found = report(&lab, &[]);
    let touch = finding(&found, "touch");
    let event = |number: usize| &touch["events"][number];
    let count = |of: &Value, key: &str| of[key].as_u64().expect("a count");
    // 2 threads, 5 of 10 phases of 200 calls each, 8 pages; none before the warm-up's end.
    assert_eq!(count(event(0), "samples"), 16_000, "{touch}");
    let each = event(0)["per_execution"].as_f64().expect("a number");
    assert_eq!(each, 16_000.0 / count(touch, "calls") as f64);
    let slow = &event(0)["slow"];
    assert!(slow["at_least"].as_f64() > Some(2.0), "{touch}");
    assert!(count(event(1), "samples") > 0, "{touch}");
    assert_eq!(found["events"][0]["lost"], 0);
    assert_eq!(found["events"][0]["scale"], 1.0);
    let causes = touch["causes"].as_array().expect("causes");
    let named = causes.iter().find(|cause| cause["kind"] != "scheduler");
    let named = named.expect("a cause");
    assert!(
        named["kind"] == "page_fault" && named["measured"] == true,
        "{causes:?}"
    );
    // An event that the machine lacks is refused before the program runs; otherwise it counts.
    let output = run(&lab, &["-f", "touch", "-e", "cache-misses"], &program, &[]);
    let said = String::from_utf8_lossy(&output.stderr);
    let refused = output.status.code() == Some(125) && said.contains("performance-monitoring unit");
    assert!(refused || output.status.success(), "{said}");
    for (event, expected) in [
        ("cache-mises", "did you mean"),
        ("page-faults:0", "at least 1"),
    ] {
        let output = run(&lab, &["-f", "touch", "-e", event], &program, &[]);
        let said = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(125), "{said}");
        assert!(said.contains(expected), "{said}");
    }
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
        said.contains("executions of 1 function by") && said.contains("next: "),
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
    let bump = finding(&found, "bump");
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
        let bump = finding(&found, "bump");
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
    let recorded = finding(&found, "bump")["recorded"]
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
    let lock = finding(&found, "pthread_mutex_lock");
    let first = &lock["causes"][0];
    assert_eq!(first["kind"], "lock", "{found}");
    let said = first["evidence"].to_string();
    assert!(said.contains("lost their CPU to the thread"), "{said}");
    // In each turn of some 2.7 ms the ordinary thread is in unlock for 1.0, and the urgent one
    // waits for up to 1.5.
    let unlock = finding(&found, "pthread_mutex_unlock");
    assert!(
        unlock["sci"]["estimate"].as_f64() < Some(0.1),
        "unlock has it: {unlock}"
    );
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
    let wait = finding(&found, "sem_wait");
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
    let step = finding(&found, "step");
    assert_eq!(step["standing"], "machine", "{step}");
    assert_eq!(step["causes"][0]["kind"], "other_processes", "{step}");
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
    for more in [None, Some("--no-arguments")] {
        let mut options = vec!["-f", "leaf", "--overhead", "100", "--buffer", "1"];
        options.extend(more);
        let traced = run(&lab, &options, &program, &["hold"]);
        let said = String::from_utf8_lossy(&traced.stderr);
        assert_eq!(traced.stdout, alone.stdout, "{said}");
        assert_eq!(traced.status.code(), Some(7), "{said}");
        let found = report(&lab, &[]);
        let count = |of: &Value, key: &str| of[key].as_u64().expect("a count");
        let (leaf, lost) = (finding(&found, "leaf"), count(&found, "lost"));
        // Two threads and a buffer of 65,536 records; executions after the stop found room again.
        assert!(lost > CALLS / 2 && lost < CALLS - 20_000, "{lost}");
        let seen = count(leaf, "recorded") + count(leaf, "warm_up");
        assert_eq!(seen + lost, CALLS, "{found}");
        assert!(count(leaf, "calls").abs_diff(CALLS) < 100, "{leaf}");
        let warnings = found["warnings"].to_string();
        assert!(
            warnings.contains(&lost.to_string()) && warnings.contains("scaled up"),
            "{warnings}"
        );
    }
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
