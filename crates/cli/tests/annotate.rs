//! `annotate` on programs of known behaviour, and on what it must refuse.

mod common;

use common::*;
use serde_json::Value;
use std::path::Path;
use std::process::{Command, Output};

fn annotate(args: &[&str]) -> Output {
    let output = Command::new(VITALFEW).arg("annotate").args(args).output();
    output.expect("vitalfew runs")
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// The instruction that takes longest of those with many samples, and its block.
fn hottest(procedure: &Value) -> (&Value, &Value) {
    let blocks = procedure["blocks"].as_array().expect("blocks");
    let instructions = blocks.iter().flat_map(|block| {
        let all = block["instructions"].as_array().expect("instructions");
        all.iter().map(move |one| (one, block))
    });
    let samples = |one: &Value| one["samples"].as_f64().expect("samples");
    let all = procedure["samples"].as_f64().expect("samples");
    let times = procedure["blocks"].as_array().map_or(1, Vec::len) as f64;
    let many = instructions.filter(|(one, _)| samples(one) >= (0.1 * all).min(0.5 * all / times));
    let cycles = |one: &Value| one["account"]["cycles"].as_f64().unwrap_or(0.0);
    let most = many.max_by(|a, b| cycles(a.0).total_cmp(&cycles(b.0)));
    most.expect("an instruction")
}

#[test]
#[cfg(target_arch = "x86_64")]
fn the_true_culprit_is_listed_for_the_hottest_stall() {
    if !live() {
        return;
    }
    let lab = Lab::new();
    let program = lab.program("stalls");
    let program = program.to_str().expect("a name");
    for (kernel, truth) in [
        ("chase", "D-cache miss"),
        ("random_loads", "D-cache miss"),
        ("store_burst", "Store buffer"),
        // The units that bound the block are the divider's.
        ("divide", "Ports"),
        ("mispredict", "Branch mispredict"),
        ("ports", "Ports"),
        // A cycle for each instruction, which is what is guessed without counts, is its best case: that
        // it takes more, and misses, only counts would show.
        ("fetch", "Front end"),
        ("pages", "DTLB miss"),
    ] {
        let file = lab.record(["-e", "cpu-clock", "-F1000", "--", program, kernel, "1"]);
        // The machine that tests run on need not be one that there is a model of.
        let output = annotate(&[
            kernel,
            file.to_str().expect("a name"),
            "--json",
            "--cpu",
            "zen3",
        ]);
        assert!(
            output.status.success(),
            "{kernel}: {}",
            text(&output.stderr)
        );
        let found: Value = serde_json::from_slice(&output.stdout).expect("JSON");
        let (instruction, _) = hottest(&found);
        let account = &instruction["account"];
        let culprits = account["culprits"].as_array().expect("culprits").iter();
        let mut causes: Vec<&str> = culprits.filter_map(|one| one["cause"].as_str()).collect();
        causes.extend(account["static_stall"]["reason"].as_str());
        println!("{kernel}: {causes:?}");
        assert!(causes.contains(&truth), "{kernel}: {instruction:#}");
    }
}

#[test]
fn what_cannot_be_said_is_refused_clearly() {
    if !live() {
        return;
    }
    let lab = Lab::new();
    let program = lab.program("hot_line");
    let name = program.to_str().expect("a name").to_owned();
    let file = lab.record(["-e", "cpu-clock", "-F1000", "--", &name]);
    let file = file.to_str().expect("a name");
    let run = |args: &[&str]| {
        let output = annotate(&[&[args[0], file], &args[1..]].concat());
        (
            output.status.code(),
            text(&output.stdout),
            text(&output.stderr),
        )
    };
    let (code, _, talk) = run(&["no_such_procedure", "--cpu", "zen3"]);
    assert_eq!(code, Some(4), "{talk}");
    assert!(talk.contains("no sample is in a procedure 'no_such_procedure'; most are in: "));
    let (code, _, talk) = run(&["main", "--cpu", "pentium"]);
    assert_eq!(code, Some(2));
    assert!(
        talk.contains("there is no model of 'pentium'; there are: skylake"),
        "{talk}"
    );
    let (_, json, talk) = run(&["hot", "--json", "--cpu", "zen3"]);
    let hot: Value = serde_json::from_str(&json).expect(&talk);
    let blocks = hot["blocks"].as_array().expect("blocks");
    let ends = |key: &str| {
        blocks
            .iter()
            .filter_map(|block| block[key].as_u64())
            .collect::<Vec<_>>()
    };
    let (start, end) = (
        ends("start").into_iter().min(),
        ends("end").into_iter().max(),
    );
    let range = format!(
        "{:#x}..{:#x}",
        start.expect("a start"),
        end.expect("an end")
    );
    let (code, _, talk) = run(&[&range, "--image", "hot_line", "--cpu", "neoverse-n1"]);
    assert_eq!(code, Some(2), "{talk}");

    // The whole profile, and the graph.
    let summary = annotate(&["--summary", file, "--cpu", "zen3"]);
    let shown = text(&summary.stdout);
    assert!(
        summary.status.success() && shown.contains("Total tallied"),
        "{shown}"
    );
    let last = shown.lines().last().expect("lines");
    assert!(last.ends_with("100.0%"), "{last}");

    // Stripped: by range only. Where the code is stands in the program headers.
    assert!(
        Command::new("strip")
            .arg(&name)
            .status()
            .expect("strip")
            .success()
    );
    let (code, listing, talk) = run(&[&range, "--image", "hot_line", "--cpu", "zen3"]);
    assert_eq!(code, Some(0), "{talk}");
    assert!(listing.contains("CPI"), "{listing}");

    // Replaced by another build.
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/programs/hot_line.c");
    let again = Command::new("cc")
        .args(["-O1", "-pthread", "-o", &name])
        .arg(source)
        .status();
    assert!(again.expect("a C compiler").success());
    let (code, _, talk) = run(&[&range, "--image", "hot_line", "--cpu", "zen3"]);
    assert_eq!(code, Some(1), "{talk}");
    assert!(
        talk.contains("it was replaced since the recording"),
        "{talk}"
    );
}
