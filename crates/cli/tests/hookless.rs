//! `causal run` of programs that nothing can be preloaded into: static ones, musl's and Go's,
//! launched or running. No times are asserted.

mod common;

use common::running::*;
use common::*;
use serde_json::Value;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant};

fn source(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../../tests/programs/causal")
        .join(name)
}

/// Compiles a program in the three kinds that nothing can be preloaded into; musl's if that is
/// installed.
fn programs(lab: &Lab, name: &str) -> Vec<PathBuf> {
    let source = source(name);
    let kinds: [(&str, &str, &[&str]); 3] = [
        ("cc", "static", &["-static"]),
        ("musl-gcc", "static-musl", &["-static"]),
        ("musl-gcc", "musl", &[]),
    ];
    let kinds = kinds
        .into_iter()
        .filter(|(compiler, ..)| is_there(compiler));
    let compiled = kinds.map(|(compiler, name, options)| {
        let program = lab.path(name);
        let status = Command::new(compiler)
            .args(["-O2", "-g", "-pthread", "-o"])
            .arg(&program)
            .arg(&source)
            .args(options)
            .status();
        assert!(status.expect("a C compiler").success(), "{name}");
        program
    });
    compiled.collect()
}

/// Compiles the programs of `tests/programs/causal/go` into one; `None` without Go.
fn go_program(lab: &Lab) -> Option<PathBuf> {
    if !is_there("go") {
        return None;
    }
    let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/programs/causal/go");
    let program = lab.path("go");
    let status = Command::new("go")
        .args(["build", "-o"])
        .arg(&program)
        .args(["knob.go", "programs.go", "held_out.go"])
        .current_dir(directory)
        .env("GOCACHE", lab.path("cache"))
        .status();
    assert!(status.expect("go is started").success());
    Some(program)
}

fn is_there(program: &str) -> bool {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let there = std::env::split_paths(&path).any(|directory| directory.join(program).is_file());
    if !there {
        eprintln!("without {program}");
    }
    there
}

/// Returns the command `vitalfew causal run` into the lab's profile; the target follows.
fn causal(lab: &Lab, options: &[&str]) -> Command {
    let mut command = Command::new(VITALFEW);
    command
        .args(["causal", "run", "--quiet", "--by", "function", "--runtime"])
        .arg(runtime())
        .arg("-o")
        .arg(lab.path("profile"))
        .args(["--experiment", "200ms", "--fixed-speedup", "50"])
        .args(options);
    command
}

fn said(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

/// Returns the last run in the lab's profile.
fn last_run(lab: &Lab) -> Value {
    let text = std::fs::read_to_string(lab.path("profile")).expect("a profile");
    let line = text.lines().last().expect("a run");
    serde_json::from_str::<Value>(line).expect("JSON")["run"].take()
}

/// Asserts that the kernel gave the credits, there were delays, and these functions have their
/// time.
fn assert_measured(run: &Value, slowest: &str, others: &[&str]) {
    assert_eq!(run["settings"]["credits"], "kernel");
    assert_eq!(run["settings"]["by_processor"], true);
    let experiments = run["experiments"].as_array().expect("experiments");
    let delayed =
        |it: &&Value| it["speedup"].as_f64() > Some(0.0) && it["delay_ns"].as_u64() > Some(0);
    assert!(experiments.iter().any(|it| delayed(&it)), "{experiments:?}");
    let fragments = run["fragments"].as_array().expect("fragments");
    let samples = |name: &str| {
        let named = |f: &&Value| f["name"] == name && f["waiting"].is_null();
        let found = fragments.iter().find(named);
        found.map_or(0, |f| f["samples"].as_u64().unwrap_or(0))
    };
    let slow = samples(slowest);
    assert!(slow > 100, "{fragments:?}");
    for other in others {
        // A hardware breakpoint near a loop would make it several times as long.
        assert!(
            (slow / 8..slow).contains(&samples(other)),
            "{other} of {fragments:?}"
        );
    }
}

/// Returns whether a process handles the sampling signal.
fn handles_signal(pid: u32) -> bool {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).expect("a status");
    let caught = status.lines().find_map(|line| line.strip_prefix("SigCgt:"));
    let caught = u64::from_str_radix(caught.expect("signals").trim(), 16).expect("a number");
    caught & 1 << 15 != 0
}

#[test]
fn a_program_that_nothing_can_be_preloaded_into_is_measured_from_its_start() {
    if !live() {
        return;
    }
    let lab = Lab::new();
    for program in programs(&lab, "pipeline.c") {
        let output = run_pipeline(&lab, &program, &[]);
        assert!(output.status.success(), "{}", said(&output));
        assert_measured(&last_run(&lab), "middle", &["last"]);
    }
}

/// Runs `pipeline.c`, whose items are counted when they leave it.
fn run_pipeline(lab: &Lab, program: &Path, options: &[&str]) -> Output {
    let text = std::fs::read_to_string(source("pipeline.c")).expect("a source");
    let line = text
        .lines()
        .position(|line| line.trim().starts_with("VITALFEW_PROGRESS("));
    let point = format!("pipeline.c:{}", line.expect("a progress point") + 1);
    let mut command = causal(lab, options);
    command
        .args(["--runs", "1", "--progress", &point, "--"])
        .arg(program);
    let output = command.args(["none", "0", "4"]).output();
    output.expect("vitalfew runs")
}

#[test]
fn a_process_that_no_library_can_be_loaded_into_is_measured_and_left_as_it_was() {
    if !live() {
        return;
    }
    let lab = Lab::new();
    for program in programs(&lab, "running.c") {
        let child = start(&program, &["20"]);
        let pid = child.id();
        for _ in 0..2 {
            assert!(!handles_signal(pid));
            let pid = pid.to_string();
            let options = ["--progress", "function:serve", "--for", "3s", "-p", &pid];
            let output = causal(&lab, &options).output().expect("vitalfew runs");
            assert!(output.status.success(), "{}", said(&output));
            assert_measured(&last_run(&lab), "slow", &["quick"]);
        }
        assert!(!handles_signal(pid));
        let [rounds, interrupted] = end(child);
        assert!(rounds > 100);
        assert_eq!(interrupted, 0);
    }
}

#[test]
fn a_controller_that_is_killed_leaves_no_delays_and_the_next_one_leaves_all_as_it_was() {
    if !live() {
        return;
    }
    let lab = Lab::new();
    for program in programs(&lab, "running.c") {
        let child = start(&program, &["20"]);
        let pid = child.id();
        let text = pid.to_string();
        let options = ["--progress", "function:serve", "--for", "60s", "-p", &text];
        let mut controller = causal(&lab, &options).spawn().expect("vitalfew runs");
        let begin = Instant::now();
        while !handles_signal(pid) && begin.elapsed() < Duration::from_secs(20) {
            std::thread::sleep(Duration::from_millis(10));
        }
        std::thread::sleep(Duration::from_secs(1));
        let other = causal(&lab, &options).output().expect("vitalfew runs");
        assert_eq!(other.status.code(), Some(125));
        assert!(
            said(&other).contains("is attached to it"),
            "{}",
            said(&other)
        );
        controller.kill().expect("it runs");
        controller.wait().expect("it ended");
        assert!(handles_signal(pid));
        let options = [
            "--progress",
            "function:serve",
            "--for",
            "500ms",
            "-p",
            &text,
        ];
        let output = causal(&lab, &options).output().expect("vitalfew runs");
        assert!(output.status.success(), "{}", said(&output));
        assert!(!handles_signal(pid));
        assert_eq!(end(child)[1], 0);
    }
}

#[test]
fn other_programs_are_measured_without_hooks_if_that_is_asked_for() {
    if !live() {
        return;
    }
    let lab = Lab::new();
    let program = lab.path("dynamic");
    let status = Command::new("cc")
        .args(["-O2", "-g", "-pthread", "-o"])
        .args([&program, &source("pipeline.c")])
        .status();
    assert!(status.expect("a C compiler").success());
    let output = run_pipeline(&lab, &program, &["--no-hooks"]);
    assert!(output.status.success(), "{}", said(&output));
    assert_measured(&last_run(&lab), "middle", &["last"]);
}

/// Any system call in that thread, even the end of a signal's handler, would end the program.
#[test]
fn threads_that_have_restricted_their_system_calls_are_spared() {
    if !live() {
        return;
    }
    let lab = Lab::new();
    let program = lab.path("restricted");
    let status = Command::new("cc")
        .args(["-O2", "-g", "-pthread", "-o"])
        .args([&program, &source("restricted.c")])
        .status();
    assert!(status.expect("a C compiler").success());
    let mut command = causal(&lab, &["--no-hooks", "--runs", "1"]);
    command.args(["--progress", "function:serve", "--"]);
    let output = command.arg(&program).arg("4").output();
    let output = output.expect("vitalfew runs");
    assert!(output.status.success(), "{}", said(&output));
    assert!(String::from_utf8_lossy(&output.stdout).starts_with("rounds "));
    assert_measured(&last_run(&lab), "open_work", &[]);
    let run = last_run(&lab);
    let fragments = run["fragments"].as_array().expect("fragments");
    assert!(
        fragments
            .iter()
            .all(|fragment| fragment["name"] != "restricted")
    );

    // In a running process, a thread would have to be borrowed, which may be that one.
    let child = start(&program, &["6"]);
    for hooks in [&[][..], &["--no-hooks"]] {
        let mut command = causal(&lab, hooks);
        command.args([
            "--progress",
            "function:serve",
            "-p",
            &child.id().to_string(),
        ]);
        let output = command.output().expect("vitalfew runs");
        assert_eq!(output.status.code(), Some(125));
        assert!(said(&output).contains("seccomp"), "{}", said(&output));
    }
    let output = child.wait_with_output().expect("it ends");
    assert!(output.status.success(), "{output:?}");
}

/// The command inherits this process's filter.
#[test]
fn a_command_that_may_not_return_from_signals_is_not_started() {
    if !live() {
        return;
    }
    let lab = Lab::new();
    let program = lab.path("filtered");
    let status = Command::new("cc")
        .args(["-O2", "-o"])
        .args([&program, &source("filtered.c")])
        .status();
    assert!(status.expect("a C compiler").success());
    let trace = lab.path("started");
    for hooks in [&[][..], &["--no-hooks"]] {
        for (call, starts) in [("rt_sigreturn", false), ("-", true)] {
            let inner = causal(&lab, hooks);
            let mut command = Command::new(&program);
            command
                .arg(call)
                .arg(inner.get_program())
                .args(inner.get_args());
            command.args(["--runs", "1", "--", "touch"]).arg(&trace);
            let output = command.output().expect("it runs");
            assert_eq!(trace.exists(), starts, "{}", said(&output));
            let says = said(&output).contains("forbids rt_sigreturn");
            assert_eq!(says, !starts, "{}", said(&output));
            let _ = std::fs::remove_file(&trace);
        }
    }
}

#[test]
fn go_programs_are_measured_from_their_start_and_while_they_run() {
    if !live() {
        return;
    }
    let lab = Lab::new();
    let Some(program) = go_program(&lab) else {
        return;
    };
    let progress = ["--progress", "function:main.progress"];
    for (name, slowest, other, processors) in [
        ("pipeline", "main.stageA", "main.stageB", "2"),
        ("locks", "main.locked", "main.free", "1"),
        ("pool", "main.solve", "main.divide", "2"),
    ] {
        let scoped = causal(&lab, &progress)
            .args(["--scope", "programs.go", "--runs", "1", "--"])
            .arg(&program)
            .args([name, "none", "0", "4"])
            .env("GOMAXPROCS", processors)
            .output()
            .expect("vitalfew runs");
        assert!(scoped.status.success(), "{}", said(&scoped));
        assert_measured(&last_run(&lab), slowest, &[other]);

        let mut child = Command::new(&program)
            .args([name, "none", "0", "5"])
            .env("GOMAXPROCS", processors)
            .stdout(Stdio::piped())
            .spawn()
            .expect("it starts");
        std::thread::sleep(Duration::from_millis(300));
        let attached = causal(&lab, &progress)
            .args([
                "--scope",
                "programs.go",
                "--for",
                "3s",
                "-p",
                &child.id().to_string(),
            ])
            .output()
            .expect("vitalfew runs");
        assert!(attached.status.success(), "{}", said(&attached));
        assert_measured(&last_run(&lab), slowest, &[other]);
        assert!(child.wait().expect("it ends").success());
    }
}

/// Compiles `all_signals.c` with these options.
fn all_signals(lab: &Lab, name: &str, options: &[&str]) -> PathBuf {
    let program = lab.path(name);
    let status = Command::new("cc")
        .args(["-O2", "-g", "-pthread", "-o"])
        .args([&program, &source("all_signals.c")])
        .args(options)
        .status();
    assert!(status.expect("a C compiler").success());
    program
}

/// Asserts that the last run in the lab's profile has samples.
fn assert_sampled(lab: &Lab) {
    let run = last_run(lab);
    let fragments = run["fragments"].as_array().expect("fragments");
    let samples = fragments.iter().filter_map(|it| it["samples"].as_u64());
    assert!(samples.sum::<u64>() > 100, "{run}");
}

#[test]
fn commands_that_wait_for_all_signals_get_none_of_ours_and_are_sampled() {
    let Some(_machine) = alone() else {
        return;
    };
    let lab = Lab::new();
    let dynamic = all_signals(&lab, "dynamic", &[]);
    let fixed = all_signals(&lab, "static", &["-static"]);
    for (program, options) in [
        (&dynamic, &[][..]),
        (&dynamic, &["--no-hooks"]),
        (&fixed, &[]),
    ] {
        for waits in ["wait", "descriptor", "poll"] {
            let mut command = causal(&lab, options);
            command.args(["--runs", "1", "--progress", "function:serve", "--"]);
            let output = command.arg(program).args([waits, "2"]).output();
            let output = output.expect("vitalfew runs");
            assert!(output.status.success(), "{waits}: {}", said(&output));
            assert_eq!(String::from_utf8_lossy(&output.stdout), "fine\n");
            assert_sampled(&lab);
        }
    }
}

/// Returns whether all threads of a process block the sampling signal; true for an ended one.
fn all_block_signals(pid: &str) -> bool {
    const SIGSTKFLT: u32 = 16;
    let threads = std::fs::read_dir(format!("/proc/{pid}/task"));
    threads.into_iter().flatten().flatten().all(|thread| {
        let status = std::fs::read_to_string(thread.path().join("status")).unwrap_or_default();
        let mask = status.lines().find_map(|line| line.strip_prefix("SigBlk:"));
        mask.is_none_or(|mask| {
            let mask = u64::from_str_radix(mask.trim(), 16).expect("a mask");
            // While a thread is in sigwait, the kernel shows the awaited signals as not blocked.
            mask == 0 || mask >> (SIGSTKFLT - 1) & 1 == 1
        })
    })
}

#[test]
fn processes_that_wait_for_all_signals_get_none_of_ours_and_are_sampled() {
    let Some(_machine) = alone() else {
        return;
    };
    let lab = Lab::new();
    let program = all_signals(&lab, "dynamic", &[]);
    for options in [&[][..], &["--no-hooks"]] {
        for waits in ["wait", "descriptor", "poll"] {
            let child = start(&program, &[waits, "6"]);
            let mut command = causal(&lab, options);
            let pid = child.id().to_string();
            command.args(["--progress", "function:serve", "--for", "2s", "-p", &pid]);
            let output = command.output().expect("vitalfew runs");
            assert!(all_block_signals(&pid), "{waits}: {}", said(&output));
            let ended = child.wait_with_output().expect("it ends");
            let (said, printed) = (said(&output), String::from_utf8_lossy(&ended.stdout));
            assert!(ended.status.success(), "{waits}: {printed} {said}");
            // With hooks a thread must wait to load them.
            if output.status.code() != Some(125) {
                assert_sampled(&lab);
            } else {
                assert!(options.is_empty() && said.contains("waits"), "{said}");
            }
        }
    }
}
