//! Path bursts must not harm the command, whatever happens to its recorder.
#![cfg(target_arch = "x86_64")]

mod common;

use common::*;
use rustix::io::Errno;
use rustix::process::{self, Pid, WaitOptions};
use std::io::{BufRead, BufReader, Read};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Instant;

/// Number of recorders that are killed.
const KILLS: u64 = 60;

/// Commands continue when a recorder is killed at a random moment, mostly while it follows them,
/// and end as they would have.
#[test]
fn a_command_outlives_its_recorder() {
    if !live() {
        return;
    }
    let lab = Lab::new();
    let program = lab.program("calls");
    // The least of several: other processes beside one of them must not make it seem long.
    let runs = (0..5).map(|_| {
        let started = Instant::now();
        let plain = Command::new(&program).output().expect("it runs");
        (started.elapsed(), plain.stdout)
    });
    let (takes, plain) = runs.min().expect("five runs");
    let plain = String::from_utf8_lossy(&plain).into_owned();
    let (_, truth) = plain.split_once('\n').expect("two lines");
    // Commands whose parent is killed become children of this process, which then sees their ends.
    process::set_child_subreaper(Some(process::getpid())).expect("allowed");
    let (mut bursts, mut late) = (0, 0);
    for kill in 0..KILLS {
        let mut recorder = record(&lab, &program);
        let mut said = BufReader::new(recorder.stdout.take().expect("a pipe"));
        let mut line = String::new();
        said.read_line(&mut line).expect("a line");
        let command = line.trim().parse().ok().and_then(Pid::from_raw);
        let command = command.unwrap_or_else(|| panic!("no command, but {line:?}"));
        // Anywhere within the time that the command takes.
        std::thread::sleep(takes.mul_f64(kill as f64 * 0.618_034 % 1.0 * 0.8));
        bursts += u64::from(is_traced(command));
        recorder.kill().expect("killed");
        recorder.wait().expect("waited");
        let mut rest = String::new();
        said.read_to_string(&mut rest).expect("text");
        assert_eq!(rest, truth, "kill {kill}");
        let status = process::waitpid(Some(command), WaitOptions::empty());
        if status.as_ref().is_err_and(|error| *error == Errno::CHILD) {
            // It ended before its recorder was killed, which reaped it.
            late += 1;
            continue;
        }
        let (_, status) = status.expect("waited").expect("ended");
        assert_eq!(status.exit_status(), Some(7), "kill {kill}: {status:?}");
    }
    println!("{bursts} of {KILLS} recorders were killed in a burst, {late} too late");
    assert!(late < KILLS / 10, "{late} of {KILLS} were killed too late");
    assert!(bursts > KILLS / 10, "{bursts} of {KILLS}");
}

/// Starts a recorder that follows the program as much as possible.
fn record(lab: &Lab, program: &Path) -> Child {
    let mut command = Command::new(VITALFEW);
    command
        .args(["record", "-q", "--path-bursts=100", "-F", "100", "-o"])
        .arg(lab.path("never.vf"))
        .arg("--")
        .arg(program)
        .stdin(Stdio::null())
        .stdout(Stdio::piped());
    command.spawn().expect("vitalfew runs")
}

fn is_traced(pid: Pid) -> bool {
    let status = std::fs::read_to_string(format!("/proc/{}/status", pid.as_raw_nonzero()));
    let status = status.unwrap_or_default();
    let tracer = status
        .lines()
        .find_map(|line| line.strip_prefix("TracerPid:"));
    tracer.is_some_and(|tracer| tracer.trim() != "0")
}
