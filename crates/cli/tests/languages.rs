//! Stacks of programs in other languages have their functions.

mod common;

use common::*;
use serde_json::Value;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

fn program() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/programs/languages/shares.py")
}

/// Returns the inclusive amount of a function.
fn inclusive(report: &Value, name: &str) -> f64 {
    let named = |row: &&Value| row["name"].as_str().is_some_and(|n| n.starts_with(name));
    let amounts = rows(report).iter().filter(named);
    amounts.filter_map(|row| row["inclusive"].as_f64()).sum()
}

fn record_python(lab: &Lab, seconds: &str, how: &str) -> PathBuf {
    let program = program();
    let program = program.to_str().expect("a path");
    lab.record(["-g", "--", "/usr/bin/python3", program, seconds, how])
}

#[test]
fn functions_of_python_have_the_shares_that_their_threads_measured() {
    if !live() {
        return;
    }
    let lab = Lab::new();
    // The first recording makes the interpreter's unwind table, while its stacks are short.
    record_python(&lab, "1", "plain");
    for how in ["plain", "recursive", "threads", "short"] {
        let found = report(&record_python(&lab, "2", how), &[]);
        let three = inclusive(&found, "shares.three (shares.py:");
        let one = inclusive(&found, "shares.one (shares.py:");
        let (share, n) = (three / (three + one), three + one);
        assert!(n > 200.0, "{how}: {n} samples");
        assert!(
            (share - 0.75).abs() < 0.02 + error(0.75, n),
            "{how}: {share}"
        );
        // The rest is the start and the end of the interpreter.
        let own = inclusive(&found, "shares.rounds (shares.py:") / total(&found);
        assert!(own > 0.9, "{how}: {own} has functions of its own");
    }
}

#[test]
fn a_short_program_has_names_and_lines_and_no_interpreter() {
    if !live() {
        return;
    }
    let lab = Lab::new();
    record_python(&lab, "1", "plain");
    let file = record_python(&lab, "0.3", "plain");
    let output = Command::new(VITALFEW)
        .args(["annotate", "spin"])
        .arg(&file)
        .output();
    let output = output.expect("vitalfew runs");
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{output:?}");
    assert!(said.contains("has no machine code"), "{said}");
    assert!(said.contains("shares.py:13 "), "{said}");
    let interpreter = |found: &Value| inclusive(found, "_PyEval_EvalFrameDefault");
    let found = report(&file, &[]);
    assert!(share(&found, "shares.spin (shares.py:9)") > 0.5, "{found}");
    let folded = interpreter(&found);
    let shown = interpreter(&report(&file, &["--runtime-frames"]));
    assert!(folded < 0.2 * shown, "{folded} of {shown}");
    // The loop of `spin` is in lines 12 to 14.
    let lines = report(&file, &["--by", "line"]);
    let of_loop: f64 = [12, 13, 14]
        .iter()
        .map(|line| share(&lines, &format!("shares.py:{line}")))
        .sum();
    assert!(of_loop > 0.5, "{of_loop}");
}

#[test]
fn waits_for_the_lock_of_python_are_said() {
    if !live() {
        return;
    }
    let lab = Lab::new();
    record_python(&lab, "1", "plain");
    let program = program();
    let program = program.to_str().expect("a path");
    let file = lab.record([
        "--off-cpu",
        "--",
        "/usr/bin/python3",
        program,
        "2",
        "threads",
    ]);
    let of_waits = ["--event", "off-cpu"];
    let found = report(&file, &of_waits);
    // Each of four threads waits while another one has the lock; the main thread waits for their
    // ends.
    let waits = share(&found, "[waits for the GIL]");
    assert!(waits > 0.3, "{waits} in {found}");
    let below = inclusive(&found, "shares.spin (shares.py:") / total(&found);
    assert!(below > 0.9 * waits, "{below} of {waits} below its function");
    let native = report(&file, &[&of_waits[..], &["--runtime-frames"]].concat());
    assert_eq!(amount(&native, "[waits for the GIL]"), 0.0);
    // The program does not name its threads: these are their default names.
    let threads = report(&file, &["--by", "thread", "--event", "cpu-clock"]);
    let named = share(&threads, "\u{203a} Thread-");
    assert!(named > 0.8, "{named} in named threads: {threads}");
    let processes = report(&file, &["--by", "process"]);
    assert_eq!(amount(&processes, "\u{203a}"), 0.0, "{processes}");
}

#[test]
fn threads_of_python_have_names_in_other_namespaces() {
    if !live() {
        return;
    }
    let lab = Lab::new();
    record_python(&lab, "1", "plain");
    let script = format!(
        "/usr/bin/python3 {} 2 threads; true",
        program().to_str().expect("a path")
    );
    let file = lab.record([
        "--",
        "unshare",
        "-p",
        "-f",
        "-m",
        "--mount-proc",
        "sh",
        "-c",
        &script,
    ]);
    let found = report(&file, &[]);
    // With the clock that it reads, and its waits for the interpreter's lock.
    let own = inclusive(&found, "shares.spin (shares.py:") / total(&found);
    assert!(own > 0.7, "{own} in {found}");
    let threads = report(&file, &["--by", "thread"]);
    let named = share(&threads, "\u{203a} Thread-");
    assert!(named > 0.7, "{named} in named threads: {threads}");
}

#[test]
fn coroutines_have_the_shares_of_their_tasks() {
    if !live() {
        return;
    }
    let lab = Lab::new();
    record_python(&lab, "1", "plain");
    let program = program().with_file_name("coroutines.py");
    let program = program.to_str().expect("a path");
    let file = lab.record(["--", "/usr/bin/python3", program, "2"]);
    let found = report(&file, &["--by", "coroutine"]);
    let three = amount(&found, "coroutines.three (");
    let one = amount(&found, "coroutines.one (");
    let (share, n) = (three / (three + one), three + one);
    assert!(n > 200.0, "{n} samples in {found}");
    assert!((share - 0.75).abs() < 0.03 + error(0.75, n), "{share}");
}

/// Returns whether a program that a test needs can be started. With REQUIRE_LIVE=1 it must, except
/// for Go: Debian's is too old for some of the tests, so it is not installed.
fn is_installed(program: &str) -> bool {
    let started = Command::new(program).arg("--help").output();
    let is_required = program != "go" && std::env::var_os("REQUIRE_LIVE").is_some();
    assert!(
        started.is_ok() || !is_required,
        "REQUIRE_LIVE is set and there is no {program}: packaging/setup.sh test installs it"
    );
    if started.is_err() {
        eprintln!("skipped: there is no {program}");
    }
    started.is_ok()
}

#[test]
fn methods_of_ruby_have_names_and_lines() {
    if !live() || !is_installed("ruby") {
        return;
    }
    let lab = Lab::new();
    let script = program().with_file_name("shares.rb");
    let script = script.to_str().expect("a path");
    let run = |seconds: &str, how: &str| lab.try_record(["-g", "--", "ruby", script, seconds, how]);
    // The first recording makes the interpreter's unwind table, while its stacks are short.
    let (_, output) = run("1", "plain");
    let said = String::from_utf8_lossy(&output.stderr);
    if said.contains("which was never tried") || said.contains("is a stripped Ruby") {
        eprintln!("skipped: {said}");
        return;
    }
    for how in ["recursive", "threads"] {
        let (file, _) = run("2", how);
        let found = report(&file, &[]);
        let (three, one) = (
            inclusive(&found, "three (shares.rb:18)"),
            inclusive(&found, "one (shares.rb:22)"),
        );
        let (share, n) = (three / (three + one), three + one);
        assert!(n > 200.0, "{how}: {n} samples in {found}");
        assert!(
            (share - 0.75).abs() < 0.02 + error(0.75, n),
            "{how}: {share}"
        );
        let own = inclusive(&found, "rounds (shares.rb:31)") / total(&found);
        assert!(own > 0.9, "{how}: {own} has methods of its own");
        // The loop of `spin` is in lines 10 to 13.
        let lines = report(&file, &["--by", "line"]);
        let line = |number| share_of_line(&lines, &format!("shares.rb:{number}"));
        let of_loop: f64 = (10..=13).map(line).sum();
        assert!(of_loop > 0.4, "{how}: {of_loop} in {lines}");
    }
}

/// Returns the share of the rows whose line ends like this.
fn share_of_line(lines: &Value, end: &str) -> f64 {
    let is_line = |row: &&Value| row["name"].as_str().is_some_and(|name| name.ends_with(end));
    let amounts = rows(lines).iter().filter(is_line);
    amounts
        .filter_map(|row| row["amounts"][0].as_f64())
        .sum::<f64>()
        / total(lines)
}

/// Compiles `Shares.java`; `None` without a compiler.
fn java_classes(lab: &Lab) -> Option<PathBuf> {
    compile_java(lab, &program().with_file_name("Shares.java"))
}

fn compile_java(lab: &Lab, source: &Path) -> Option<PathBuf> {
    if !is_installed("javac") {
        return None;
    }
    let classes = lab.path("classes");
    let compiler = Command::new("javac")
        .arg("-d")
        .args([&classes, source])
        .status();
    let compiled = compiler.is_ok_and(|status| status.success());
    assert!(compiled, "{} does not compile", source.display());
    Some(classes)
}

/// Returns the command that runs it, with these options of the JVM.
fn java(classes: &Path, options: &[&str], seconds: &str, how: &str) -> Vec<String> {
    let mut command = vec!["java".to_owned()];
    command.extend(options.iter().map(|word| (*word).to_owned()));
    command.extend(
        [
            "-cp",
            classes.to_str().expect("a path"),
            "Shares",
            seconds,
            how,
        ]
        .map(str::to_owned),
    );
    command
}

/// Asserts that the shares of a report are those of the iterations.
fn assert_java_shares(found: &Value, context: &str) {
    let (three, one) = (amount(found, "Shares.three"), amount(found, "Shares.one"));
    let (share, n) = (three / (three + one), three + one);
    assert!(n > 100.0, "{context}: {n} samples in {found}");
    let off = (share - 0.75).abs();
    assert!(off < 0.02 + error(0.75, n), "{context}: {share}");
    let named = n / total(found);
    assert!(named > 0.8, "{context}: {named} has names");
}

#[test]
fn functions_of_java_have_names_without_a_flag() {
    if !live() {
        return;
    }
    let lab = Lab::new();
    let Some(classes) = java_classes(&lab) else {
        return;
    };
    for how in ["recursive", "threads"] {
        let mut words = vec!["-F1000".to_owned(), "--".to_owned()];
        words.extend(java(&classes, &[], "6", how));
        let found = report(&lab.record(&words), &[]);
        assert_java_shares(&found, how);
        // Compiled code keeps no frame pointers: its callers are found by frame sizes. Its callees
        // are inlined.
        let own = inclusive(&found, "Shares.rounds (") / total(&found);
        assert!(own > 0.85, "{how}: {own} are below Shares.rounds");
    }
}

/// Compiled code that compares strings pushes words below its frame.
#[test]
fn callers_of_java_that_compares_strings_are_known() {
    if !live() {
        return;
    }
    let lab = Lab::new();
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../benches/java/Strings.java");
    let Some(classes) = compile_java(&lab, &source) else {
        return;
    };
    let classes = classes.to_str().expect("a path");
    let found = report(
        &lab.record(["-F1000", "--", "java", "-cp", classes, "Strings"]),
        &[],
    );
    let of_sort = rows(&found).iter().filter(|row| {
        let name = row["name"].as_str().unwrap_or_default();
        name.starts_with("java.util.ComparableTimSort.")
    });
    let own: f64 = of_sort.filter_map(|row| row["amounts"][0].as_f64()).sum();
    let below_sort = inclusive(&found, "java.util.ComparableTimSort.sort (");
    assert!(own > 300.0, "{own} samples in {found}");
    assert!(
        below_sort > 0.97 * own,
        "{below_sort} of {own} are below the method that sorts"
    );
}

/// Stubs have frames of unknown size, with words of calls that have ended.
#[test]
fn callers_of_stubs_of_java_have_the_shares_of_their_own_clock() {
    if !live() {
        return;
    }
    let lab = Lab::new();
    let Some(classes) = compile_java(&lab, &program().with_file_name("Stubs.java")) else {
        return;
    };
    let classes = classes.to_str().expect("a path");
    for compilers in ["-XX:+TieredCompilation", "-XX:TieredStopAtLevel=1"] {
        let words = ["-g", "-F1000", "--", "java", compilers, "-cp", classes];
        let (file, output) = lab.try_record(words.into_iter().chain(["Stubs", "4"]));
        let found = report(&file, &[]);
        let clocks = String::from_utf8_lossy(&output.stdout);
        let clocks: Vec<(String, f64)> = clocks
            .lines()
            .filter_map(|line| {
                let (method, share) = line.split_once(' ')?;
                let method = format!("Stubs.{method} (");
                Some((method, share.parse().ok()?))
            })
            .collect();
        assert_eq!(clocks.len(), 5, "{output:?}");
        let n: f64 = clocks
            .iter()
            .map(|(method, _)| inclusive(&found, method))
            .sum();
        assert!(n > 1000.0, "{compilers}: {n} samples");
        for (method, clock) in &clocks {
            let share = inclusive(&found, method) / n;
            assert!(
                (share - clock).abs() < 0.015 + error(*clock, n),
                "{compilers}: {method} has {share}, by its clock {clock}"
            );
        }
    }
}

#[test]
fn a_running_jvm_says_the_names_of_its_functions() {
    if !live() {
        return;
    }
    let lab = Lab::new();
    let Some(classes) = java_classes(&lab) else {
        return;
    };
    let command = java(&classes, &[], "30", "plain");
    let child = Command::new(&command[0])
        .args(&command[1..])
        .spawn()
        .expect("it runs");
    let mut child = Ended(child);
    std::thread::sleep(Duration::from_secs(2));
    let pid = child.0.id().to_string();
    let map = format!("/tmp/perf-{pid}.map");
    // Its memory has them, or it writes them when asked.
    for flag in ["-g", "--no-stacks"] {
        let file = lab.record([flag, "-F1000", "--for", "3s", "-p", &pid]);
        assert_java_shares(&report(&file, &[]), flag);
        assert_eq!(Path::new(&map).exists(), flag == "--no-stacks", "{flag}");
    }
    assert!(child.0.try_wait().expect("a child").is_none(), "it runs on");
}

#[test]
fn a_jvm_that_is_not_to_be_asked_goes_on() {
    if !live() {
        return;
    }
    let lab = Lab::new();
    let Some(classes) = java_classes(&lab) else {
        return;
    };
    let refusing: &[&str] = &["-XX:+DisableAttachMechanism"];
    for (own, options, said) in [(None, refusing, true), (Some("--no-attach"), &[], false)] {
        let command = java(&classes, options, "20", "plain");
        let mut silent = Command::new(&command[0]);
        silent
            .args(&command[1..])
            .stdout(std::process::Stdio::piped());
        let mut child = Ended(silent.spawn().expect("it runs"));
        std::thread::sleep(Duration::from_secs(1));
        let pid = child.0.id().to_string();
        let words = ["--no-stacks", "-F1000", "--for", "1s", "-p", &pid];
        let (_, output) = lab.try_record(words.into_iter().chain(own));
        let text = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(output.status.success(), "{text}");
        assert_eq!(text.contains("DisableAttachMechanism"), said, "{text}");
        assert!(!Path::new(&format!("/tmp/perf-{pid}.map")).exists());
        assert!(child.0.try_wait().expect("a child").is_none(), "it runs on");
    }
}

/// Compiles `shares.go` with these options of the linker; `None` without Go.
fn go_program(lab: &Lab, name: &str, linker: &str) -> Option<PathBuf> {
    if !is_installed("go") {
        return None;
    }
    let (source, built) = (program().with_file_name("shares.go"), lab.path(name));
    let flags = format!("-ldflags={linker}");
    let mut build = Command::new("go");
    build.args(["build", &flags, "-o"]).arg(&built).arg(&source);
    let output = build.env("GOFLAGS", "-buildvcs=false").output();
    let output = output.expect("go is started");
    let text = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "shares.go is not built: {text}");
    Some(built)
}

#[test]
fn a_stripped_go_program_has_names_and_lines() {
    if !live() {
        return;
    }
    let lab = Lab::new();
    let Some(built) = go_program(&lab, "shares", "-s -w") else {
        return;
    };
    let file = lab.record([built.to_str().expect("a path"), "1", "recursive"]);
    let found = report(&file, &[]);
    let (three, one) = (amount(&found, "main.three"), amount(&found, "main.one"));
    let (share, n) = (three / (three + one), three + one);
    assert!(n > 200.0, "{n} samples in {found}");
    assert!((share - 0.75).abs() < 0.02 + error(0.75, n), "{share}");
    // `one` has no frame of its own, so its frame pointer is that of `rounds`.
    let own = inclusive(&found, "main.rounds") / total(&found);
    assert!(own > 0.9, "{own} is below main.rounds");
    // Inlined: `spin` is in lines 20 and 21 of both.
    let lines = report(&file, &["--by", "line"]);
    let of_loop: f64 = rows(&lines)
        .iter()
        .filter(|row| row["detail"] == "main.spin")
        .filter_map(|row| row["amounts"][0].as_f64())
        .sum();
    assert!(of_loop > 0.9 * n, "{of_loop} of {n}: {lines}");
}

#[test]
fn labels_of_goroutines_have_the_shares_that_the_program_gave_them() {
    if !live() {
        return;
    }
    let lab = Lab::new();
    let Some(built) = go_program(&lab, "labelled", "-s -w") else {
        return;
    };
    let file = lab.record([built.to_str().expect("a path"), "2", "labels"]);
    let labels = report(&file, &["--by", "labels"]);
    let (three, one) = (
        amount(&labels, "route=/three"),
        amount(&labels, "route=/one"),
    );
    let (of_three, n) = (three / (three + one), three + one);
    assert!(n > 200.0, "{n} samples in {labels}");
    assert!(
        (of_three - 0.75).abs() < 0.02 + error(0.75, n),
        "{of_three}"
    );
    let labelled = n / total(&labels);
    assert!(labelled > 0.8, "{labelled}: {labels}");
    let began = report(&file, &["--by", "goroutine"]);
    assert!(share(&began, "runtime.main") > 0.8, "{began}");
}

/// Returns the command of Node.js without inlining, because functions that V8 inlines have no name
/// of their own. Its second compiler came with version 22. With the script, its `seconds`, and how
/// it spends them.
fn node(seconds: &str) -> Vec<String> {
    let version = Command::new("node").arg("--version").output();
    let version = version.expect("node is started");
    let version = String::from_utf8_lossy(&version.stdout).into_owned();
    let major = version.trim_start_matches('v').split('.').next();
    let major: u32 = major.and_then(|n| n.parse().ok()).expect("a version");
    let mut words = vec!["node".to_owned(), "--no-turbo-inlining".to_owned()];
    if major >= 22 {
        words.push("--no-maglev-inlining".to_owned());
    }
    let script = program().with_file_name("shares.js");
    words.push(script.to_str().expect("a path").to_owned());
    words.extend([seconds.to_owned(), "recursive".to_owned()]);
    words
}

fn assert_node_shares(found: &Value, [three, one]: [&str; 2]) {
    let (three, one) = (amount(found, three), amount(found, one));
    let (of_three, n) = (three / (three + one), three + one);
    assert!(n > 200.0, "{n} samples in {found}");
    assert!(
        (of_three - 0.75).abs() < 0.02 + error(0.75, n),
        "{of_three}"
    );
}

#[test]
fn functions_of_node_have_names_whether_it_runs_already_or_not() {
    if !live() || !is_installed("node") {
        return;
    }
    let lab = Lab::new();
    let words = node("2");
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    let run = |first: &[&str]| lab.record(first.iter().chain(&words).copied());
    // The first recording makes node's unwind table, without which its interpreter's frames are
    // unknown.
    run(&["--"]);
    for options in [&["--"][..], &["--no-attach", "--"]] {
        let found = report(&run(options), &[]);
        assert_node_shares(&found, ["three (shares.js:5)", "one (shares.js:11)"]);
        let own = inclusive(&found, "rounds (shares.js:21)") / total(&found);
        assert!(own > 0.8, "{own} of {found}");
        // The interpreter's own code belongs to the functions.
        let pieces = rows(&found).iter().filter(|row| {
            let name = row["name"].as_str().unwrap_or_default();
            name.starts_with("Builtins_Interpreter")
        });
        let pieces: f64 = pieces.filter_map(|row| row["inclusive"].as_f64()).sum();
        assert!(pieces < 0.2 * total(&found), "{found}");
    }
    let [program, options @ ..] = &node("60")[..] else {
        unreachable!("a command has words");
    };
    let running = Command::new(program).args(options).spawn();
    let running = Ended(running.expect("node is started"));
    // It begins with its own script.
    std::thread::sleep(Duration::from_secs(1));
    let pid = running.0.id().to_string();
    let file = lab.record(["-F", "1000", "-p", &pid, "--for", "3s"]);
    let found = report(&file, &[]);
    assert_node_shares(&found, ["three (shares.js:5)", "one (shares.js:11)"]);
    let own = inclusive(&found, "rounds (shares.js:21)") / total(&found);
    assert!(own > 0.9, "{own} of {found}");
}

#[test]
fn node_is_asked_for_names_where_stacks_are_not_read() {
    if !live() || !is_installed("node") {
        return;
    }
    let lab = Lab::new();
    let words = node("2");
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    let run = |first: &[&str]| {
        let words = first.iter().chain(&words).copied();
        report(&lab.record(words), &[])
    };
    assert_node_shares(&run(&["--no-stacks", "--"]), ["three /", "one /"]);
    let found = run(&["--no-stacks", "--no-attach", "--"]);
    assert!(share(&found, "three /") < 0.1, "{found}");
    // V8 opens a log in the command's directory.
    let logs = std::fs::read_dir(".").expect("a directory").flatten();
    let logs: Vec<_> = logs.map(|entry| entry.file_name()).collect();
    let is_log = |name: &std::ffi::OsString| name.to_string_lossy().starts_with("isolate-");
    assert!(!logs.iter().any(is_log), "{logs:?}");
}

/// A process that ends with the test.
struct Ended(std::process::Child);

impl Drop for Ended {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[test]
fn a_runtime_that_did_not_run_is_not_warned_of() {
    if !live() {
        return;
    }
    let lab = Lab::new();
    let source = program().with_file_name("unknown_engine.c");
    let path = |name: &str| lab.path(name).display().to_string();
    let (ran, idle) = (path("ran"), path("idle"));
    let mut compiler = Command::new("cc");
    compiler.args(["-O1", "-rdynamic", "-o", &ran]).arg(source);
    assert!(compiler.status().expect("a compiler").success());
    std::fs::copy(&ran, &idle).expect("copied");
    // Tables are made of all words of a command that are programs.
    let (_, output) = lab.try_record(["-g", "--", &ran, &idle]);
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(said.contains(&format!("{ran} is V8 99.1")), "{said}");
    assert!(!said.contains(&format!("{idle} is")), "{said}");
}
