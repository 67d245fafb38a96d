//! `stats` and `diff` on runs of a program, some of them disturbed on purpose.

mod common;

use common::*;
use serde_json::Value;
use std::path::{Path, PathBuf};
use std::process::Command;

fn json(args: &[&str], files: &[PathBuf]) -> Value {
    let output = Command::new(VITALFEW).args(args).args(files).output();
    let output = output.expect("vitalfew runs");
    let complaint = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{complaint}");
    serde_json::from_slice(&output.stdout).expect("JSON")
}

/// Records runs of `steps`, one for each of `extra`: `step5` does that percentage more in it.
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
    // Whether two runs differ by more than chance depends on the machine's noise, and is tested on
    // synthetic counts; the presence of the change does not.
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

/// Builds `steps` at a path, with flags that move its code.
fn build(program: &Path, flags: &[&str]) {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/programs/steps.c");
    std::fs::create_dir_all(program.parent().expect("a directory")).expect("made");
    let status = Command::new("cc")
        .args(["-O2", "-g"])
        .args(flags)
        .arg("-o")
        .args([program, &source])
        .status();
    assert!(status.expect("a C compiler").success());
}

/// Records a build of `steps`, whose `step5` does `extra` percent more.
fn record_build(lab: &Lab, program: &Path, extra: &str, name: &str, more: &[&str]) -> PathBuf {
    let file = lab.path(name);
    let status = Command::new(VITALFEW)
        .args(["record", "-q", "-F", "4000"])
        .args(more)
        .arg("-o")
        .arg(&file)
        .arg("--")
        .arg(program)
        .args(["30000", extra])
        .status();
    assert!(status.expect("vitalfew runs").success());
    file
}

/// Asserts that the change of `step5` is first, and every row of the program has a name in both
/// sets.
fn assert_step5_grew(files: &[PathBuf], args: &[&str]) {
    let report = json(&[&["diff", "--json", "--all"], args].concat(), files);
    let first = &report["rows"][0];
    assert_eq!(first["name"], "step5", "{report:#}");
    assert!(first["change"].as_f64() > Some(0.0), "{report:#}");
    for row in report["rows"].as_array().expect("rows") {
        let named = row["name"]
            .as_str()
            .is_some_and(|name| !name.starts_with('['));
        let own = row["image"]
            .as_str()
            .is_some_and(|image| image.ends_with("/app"));
        assert!(named || !own, "{row:#}");
        let amounts = [&row["a"], &row["b"]].map(|amount| amount.as_f64().expect("a number"));
        let heavy = amounts.iter().sum::<f64>() > 1e8;
        assert!(
            !(own && heavy) || amounts.iter().all(|amount| *amount > 0.0),
            "{row:#}"
        );
    }
}

#[test]
fn a_program_that_was_rebuilt_in_place_is_compared_by_name() {
    if !live() {
        return;
    }
    let lab = Lab::new();
    // Without a build-id only its age identifies the later build.
    for flags in [&[][..], &["-Wl,--build-id=none"]] {
        let app = lab.path("app");
        build(&app, flags);
        let before = record_build(&lab, &app, "0", "before.vf", &["--keep-images"]);
        build(
            &app,
            &[flags, &["-falign-functions=256", "-fno-inline"]].concat(),
        );
        let after = record_build(&lab, &app, "300", "after.vf", &[]);
        assert_step5_grew(&[before.clone(), after], &[]);
        if flags.is_empty() {
            // The code of the first build was kept.
            let output = Command::new(VITALFEW)
                .args(["annotate", "step4"])
                .arg(&before)
                .output()
                .expect("vitalfew runs");
            let complaint = String::from_utf8_lossy(&output.stderr);
            assert!(!complaint.contains("replaced"), "{complaint}");
            let kept = lab.path("before.vf.images");
            std::fs::rename(&kept, lab.path("elsewhere")).expect("renamed");
            let output = Command::new(VITALFEW)
                .args(["annotate", "step4"])
                .arg(&before)
                .output()
                .expect("vitalfew runs");
            let complaint = String::from_utf8_lossy(&output.stderr);
            assert!(complaint.contains("--keep-images"), "{complaint}");
        }
    }
}

#[test]
fn builds_in_two_directories_are_compared_by_name() {
    if !live() {
        return;
    }
    let lab = Lab::new();
    let [old, new] = ["v1/app", "v2/app"].map(|path| lab.path(path));
    build(&old, &[]);
    build(&new, &["-fno-ipa-cp"]);
    let before = record_build(&lab, &old, "0", "before.vf", &[]);
    let after = record_build(&lab, &new, "300", "after.vf", &[]);
    assert_step5_grew(&[before, after], &["--per", "samples"]);
}
