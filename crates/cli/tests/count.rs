//! `annotate --count`: absolute cycles, by executions counted in bursts.
#![cfg(target_arch = "x86_64")]

mod common;

use common::*;
use serde_json::Value;
use std::path::Path;
use std::process::{Command, Output};

/// Rounds of the loop of tests/programs/rounds.c, in all calls.
const ROUNDS: f64 = 1.2e9;

fn count(words: &[&str]) -> Output {
    let mut command = Command::new(VITALFEW);
    command.args(["annotate", "--count"]).args(words);
    command.output().expect("vitalfew")
}

#[test]
fn a_loop_of_known_rounds_is_inside_of_its_interval() {
    let Some(_alone) = alone() else {
        return;
    };
    let lab = Lab::new();
    let program = lab.program("rounds");
    let (block, period) = hottest_block(&program);
    assert_eq!(block["cycles_not_known"], Value::Null);
    let number = |name: &str| block[name].as_f64().expect(name);
    let executed = number("frequency") * period;
    let deviation = number("frequency_deviation");
    let off = (executed / ROUNDS).ln().abs();
    assert!(
        off < 0.14 && off < 4.0 * deviation,
        "{executed} rounds, deviation {deviation}"
    );
}

/// Counts, and returns the hottest block and the cycles between samples.
fn hottest_block(program: &Path) -> (Value, f64) {
    let output = count(&["rounds", "--json", "--", program.to_str().expect("a name")]);
    let error = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{error}");
    let found: Value = serde_json::from_slice(&output.stdout).expect("JSON");
    assert_eq!(found["frequencies"], "out-of-order, executions counted");
    let blocks = found["blocks"].as_array().expect("blocks");
    let samples = |block: &&Value| block["samples"].as_f64().map(|all| all as u64);
    let hottest = blocks.iter().max_by_key(samples).expect("a block");
    let period = found["cycles_per_sample"].as_f64().expect("a clock");
    (hottest.clone(), period)
}

#[test]
fn what_cannot_be_counted_is_refused_with_a_reason() {
    if !live() {
        return;
    }
    let lab = Lab::new();
    let program = lab.program("rounds");
    let program = program.to_str().expect("a name");
    for (words, reason) in [
        (
            &["main_loop", "--", program][..],
            "no sample is in a procedure 'main_loop'",
        ),
        (&["rounds", "--", "/nowhere/rounds"], "no such program"),
        (&["rounds", "-p", "4194303"], "there is no process 4194303"),
        (&["rounds"], "required"),
    ] {
        let output = count(words);
        let error = String::from_utf8_lossy(&output.stderr);
        assert!(!output.status.success(), "{words:?}");
        assert!(error.contains(reason), "{words:?}: {error}");
        assert!(!error.contains("panicked"), "{error}");
    }
}
