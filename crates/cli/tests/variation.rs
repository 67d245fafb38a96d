//! `stats` and `diff` on runs of a program of which some were disturbed on purpose.

mod common;

use common::*;
use serde_json::Value;
use std::path::PathBuf;
use std::process::Command;

fn json(args: &[&str], files: &[PathBuf]) -> Value {
    let output = Command::new(VITALFEW).args(args).args(files).output();
    let output = output.expect("vitalfew runs");
    let complaint = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{complaint}");
    serde_json::from_slice(&output.stdout).expect("JSON")
}

/// Runs of `steps`, in each of which `step5` does so many percent more.
fn runs(lab: &Lab, extra: &[u32]) -> Vec<PathBuf> {
    let program = lab.program("steps").display().to_string();
    let run = |(number, extra): (usize, &u32)| {
        let extra = extra.to_string();
        let file = lab.record(["-F", "4000", "--", &program, "40000", &extra]);
        let kept = lab.path(&format!("run{number}.vf"));
        std::fs::rename(file, &kept).expect("renamed");
        kept
    };
    extra.iter().enumerate().map(run).collect()
}

#[test]
fn the_disturbed_procedure_of_eight_runs_comes_first() {
    if !live() {
        return;
    }
    let lab = Lab::new();
    let runs = runs(&lab, &[0, 0, 100, 0, 0, 100, 0, 0]);
    // By shares: the machine may be slower in one run, for all procedures alike.
    let report = json(&["stats", "--per", "samples", "--json"], &runs);
    let first = &report["rows"][0];
    assert_eq!(first["name"], "step5", "{report:#}");
    assert_eq!(first["differs"], true, "{report:#}");
    assert_eq!(first["sets"], 8);
}

#[test]
fn a_change_has_its_sign_and_lies_in_its_interval() {
    if !live() {
        return;
    }
    let lab = Lab::new();
    // Whether two runs differ by more than chance depends on how noisy the machine is, and is tested
    // on made-up counts; that the change is there does not.
    let runs = runs(&lab, &[0, 300]);
    let report = json(&["diff", "--json"], &runs);
    let first = &report["rows"][0];
    assert_eq!(first["name"], "step5", "{report:#}");
    let value = |key: &str| first[key].as_f64().expect("a number");
    assert!(value("low") > 0.0 && value("low") <= value("change"));
    assert!(value("change") <= value("high"));
    assert!((value("b") - value("a") - value("change")).abs() < 1e-9);
    let back = json(&["diff", "--json"], &[runs[1].clone(), runs[0].clone()]);
    assert!(back["rows"][0]["high"].as_f64().expect("a number") < 0.0);
}
