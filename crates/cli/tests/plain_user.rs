//! Commands without any rights: those that work, and the words of the rest.

mod common;

use common::*;
use std::process::{Command, Output};

/// Returns a command of a user without rights.
fn plain(words: &[&str]) -> Command {
    let mut command = Command::new("setpriv");
    command
        .args(["--inh-caps=-all", "--bounding-set=-all"])
        .args(words);
    command
}

fn said(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned() + &String::from_utf8_lossy(&output.stdout)
}

/// Returns whether such a user may sample own programs; not with the paranoia of Debian.
fn may_sample() -> bool {
    let doctor = plain(&[VITALFEW, "doctor", "--json"])
        .output()
        .expect("setpriv runs");
    let report: serde_json::Value = serde_json::from_slice(&doctor.stdout).expect("JSON");
    let probes = report["probes"].as_array().expect("probes").iter();
    let mut own = probes.filter(|probe| probe["question"] == "own_programs");
    let gap = &own.next().expect("the question")["gap"];
    if !gap.is_null() {
        eprintln!("skipped: {gap}");
    }
    gap.is_null()
}

#[test]
fn own_programs_are_sampled_and_one_line_says_what_is_missing() {
    if !may_sample() {
        return;
    }
    let lab = Lab::new();
    let busy = "i=0; while [ $i -lt 300000 ]; do i=$((i+1)); done";
    let output = plain(&[VITALFEW, "run", "--once", "--", "sh", "-c", busy])
        .env("VITALFEW_DB", lab.path("db"))
        .output()
        .expect("setpriv runs");
    let text = said(&output);
    assert!(output.status.success(), "{text}");
    assert!(text.contains("waits not measured"), "{text}");
    assert_eq!(text.matches("limited rights:").count(), 1, "{text}");
    let script = format!(
        "while :; do :; done & {VITALFEW} top --once --every 1s --by processes --limit 99; kill $!"
    );
    let output = plain(&["sh", "-c", &script])
        .output()
        .expect("setpriv runs");
    let text = said(&output);
    assert!(output.status.success(), "{text}");
    assert!(
        text.contains("only your own processes are sampled"),
        "{text}"
    );
    assert!(text.lines().any(|line| line.contains(" sh ")), "{text}");
}

#[test]
fn refusals_name_the_measurement_and_what_it_needs() {
    let lab = Lab::new();
    for (words, code, what) in [
        (&["daemon", "run"][..], 3, "sampling the whole machine"),
        (
            &["record", "--off-cpu", "--", "true"],
            125,
            "waits (--off-cpu)",
        ),
    ] {
        let output = plain(&[&[VITALFEW], words].concat())
            .env("VITALFEW_DB", lab.path("db"))
            .output()
            .expect("setpriv runs");
        let text = said(&output);
        assert_eq!(output.status.code(), Some(code), "{text}");
        let refusal = format!("error: {what}: not permitted, it needs ");
        assert!(text.contains(&refusal), "{text}");
    }
}

#[test]
fn a_home_that_cannot_be_written_is_said_before_anything_runs() {
    let lab = Lab::new();
    let ran = lab.path("ran");
    let touch = ["--", "touch", ran.to_str().expect("text")];
    for words in [
        &["record"][..],
        &["run"],
        &["causal", "run"],
        &["interference", "run"],
    ] {
        let output = Command::new(VITALFEW)
            .args(words)
            .args(touch)
            .env("HOME", "/proc/nothing")
            .env_remove("VITALFEW_DB")
            .env_remove("XDG_DATA_HOME")
            .output()
            .expect("vitalfew runs");
        let text = said(&output);
        assert_eq!(output.status.code(), Some(125), "{text}");
        assert!(
            text.contains("--db DIR or $VITALFEW_DB names another"),
            "{text}"
        );
        assert!(!ran.exists(), "{text}");
    }
}
