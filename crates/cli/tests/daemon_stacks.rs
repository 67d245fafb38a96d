//! The daemon with call stacks: callers of functions, also after a daemon was killed, and beside
//! parts without stacks.

mod common;

use common::daemon::*;
use common::*;
use serde_json::Value;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// A program that runs until the test ends.
struct Program(Child);

impl Drop for Program {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Starts a program in which `main` calls `six`, `three` and `one`, with 60, 30 and 10 % of the
/// time. Its name distinguishes it from other tests' programs, which the daemon samples, too.
fn start_program(lab: &Lab, name: &str) -> Program {
    std::fs::rename(lab.program("three_to_one"), lab.path(name)).expect("renamed");
    let child = Command::new(lab.path(name))
        .arg("100000000")
        .stdout(Stdio::null())
        .spawn();
    Program(child.expect("it runs"))
}

fn report_of(db: &Path, process: &str) -> Value {
    report(db, &["--process", process, "--epoch", ".."])
}

/// Returns the program's samples below `main`, and all of them.
fn called_by_main(db: &Path, process: &str) -> (f64, f64) {
    let report = report_of(db, process);
    let main = rows(&report).iter().filter(|row| row["name"] == "main");
    let called = main.filter_map(|row| row["inclusive"].as_f64()).sum();
    (called, total(&report))
}

/// Waits until most samples of the program have their callers: before the unwind tables are made,
/// stacks end early.
fn wait_for_callers(daemon: &Daemon, db: &Path, process: &str) {
    daemon.wait_for("collecting", |status| status["parts"].as_u64() > Some(2));
    let end = Instant::now() + Duration::from_secs(180);
    loop {
        let (called, all) = called_by_main(db, process);
        if all > 2000.0 && called > 0.9 * all {
            return;
        }
        assert!(Instant::now() < end, "{called} of {all}: {}", daemon.said());
        std::thread::sleep(Duration::from_millis(500));
    }
}

#[test]
fn an_epoch_has_who_called_what() {
    let Some(_alone) = alone() else { return };
    let lab = Lab::new();
    let db = lab.path("db");
    let _program = start_program(&lab, "epoch");
    // Stacks are the default.
    let daemon = Daemon::start(&db, &["--unwind-memory", "128", "--merge", "5s"]);
    wait_for_callers(&daemon, &db, "epoch");
    let status = daemon.ask("status");
    assert!(status["sample_cost_ns"].as_u64() > Some(0), "{status:#}");
    assert!(
        status["stacks"]["complete"].as_u64() > Some(0),
        "{status:#}"
    );
    assert_eq!(daemon.end("TERM"), Some(0));
    assert_accounted(&db);
    let report = report_of(&db, "epoch");
    for (function, truth) in [("six", 0.6), ("three", 0.3), ("one", 0.1)] {
        let (found, all) = (share(&report, function), total(&report));
        assert!(
            (found - truth).abs() < 0.02 + error(truth, all),
            "{function}: {found} of {all}: {:?}",
            rows(&report)
        );
    }
    let warned = warnings(&db);
    let summaries = warned.iter().filter(|w| w.starts_with("user frames: "));
    assert_eq!(summaries.count(), 1, "{warned:?}");
}

fn warnings(db: &Path) -> Vec<String> {
    let report = report(db, &["--epoch", ".."]);
    let warnings = report["warnings"].as_array().expect("warnings").iter();
    let texts = warnings.map(|warning| warning.as_str().expect("text").to_owned());
    texts.collect()
}

#[test]
fn stacks_that_a_killed_daemon_left_are_read_by_the_next() {
    let Some(_alone) = alone() else { return };
    let lab = Lab::new();
    let db = lab.path("db");
    let _program = start_program(&lab, "killed");
    let daemon = Daemon::start(&db, &["--stacks", "--merge", "1h"]);
    wait_for_callers(&daemon, &db, "killed");
    // The daemon stops draining, while its collector samples on.
    daemon.signal("STOP");
    let (before, _) = called_by_main(&db, "killed");
    std::thread::sleep(Duration::from_secs(2));
    daemon.kill();
    assert_eq!(abandoned(&db).len(), 1);
    // A daemon without stacks takes them over, too, and adds none.
    let next = Daemon::start(&db, &["--no-stacks", "--merge", "1h"]);
    let status = next.ask("status");
    assert!(status["taken_over"].as_u64() > Some(300), "{status:#}");
    assert_eq!(status["stacks"], Value::Null);
    assert_eq!(next.end("TERM"), Some(0));
    assert_accounted(&db);
    let (after, _) = called_by_main(&db, "killed");
    assert!(after > before + 100.0, "{before}, then {after}");
}

#[test]
fn functions_of_python_have_their_names_after_a_takeover() {
    let Some(_alone) = alone().filter(|_| Path::new("/usr/bin/python3").exists()) else {
        return;
    };
    let lab = Lab::new();
    let db = lab.path("db");
    let script =
        Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/programs/languages/shares.py");
    let child = Command::new("/usr/bin/python3")
        .args([script.as_os_str(), "1000".as_ref(), "plain".as_ref()])
        .stdout(Stdio::null())
        .spawn();
    let _program = Program(child.expect("it runs"));
    let python = |name: &str| {
        let report = report_of(&db, "python3");
        let named = rows(&report).iter().filter(|row| {
            let found = row["name"].as_str();
            found.is_some_and(|found| found.starts_with(name))
        });
        named
            .filter_map(|row| row["inclusive"].as_f64())
            .sum::<f64>()
    };
    let daemon = Daemon::start(&db, &["--stacks", "--merge", "1h"]);
    daemon.wait_for("collecting", |status| status["parts"].as_u64() > Some(2));
    let end = Instant::now() + Duration::from_secs(180);
    while python("shares.three ") < 300.0 {
        assert!(Instant::now() < end, "{}", daemon.said());
        std::thread::sleep(Duration::from_millis(500));
    }
    // The daemon stops draining, while its collector samples on: only this daemon knew the
    // functions' names.
    daemon.signal("STOP");
    std::thread::sleep(Duration::from_secs(3));
    daemon.kill();
    let (three, nameless) = (python("shares.three "), python("[function without a name]"));
    let next = Daemon::start(&db, &["--stacks", "--merge", "1h"]);
    let taken_over = next.ask("status")["taken_over"].as_f64().expect("a number");
    assert!(taken_over > 300.0, "{taken_over}");
    assert_eq!(next.end("TERM"), Some(0));
    let nameless = python("[function without a name]") - nameless;
    assert!(python("shares.three ") > three + 100.0);
    assert!(
        nameless < 0.05 * taken_over,
        "{nameless} of {taken_over} have no name"
    );
}

#[test]
fn parts_with_stacks_stand_beside_those_without() {
    let Some(_alone) = alone() else { return };
    let lab = Lab::new();
    let db = lab.path("db");
    let _program = start_program(&lab, "beside");
    for stacks in ["--no-stacks", "--stacks", "--no-stacks"] {
        let daemon = Daemon::start(&db, &[stacks, "--merge", "1h"]);
        daemon.wait_for("collecting", |status| taken(status) > 600);
        assert_eq!(daemon.end("TERM"), Some(0));
    }
    assert!(assert_accounted(&db) > 1800);
    let report = report_of(&db, "beside");
    let six = share(&report, "six");
    assert!(
        (six - 0.6).abs() < 0.02 + error(0.6, total(&report)),
        "{six}"
    );
}
