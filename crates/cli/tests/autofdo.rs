//! Profiles for compilers: `annotate --autofdo`.
#![cfg(target_arch = "x86_64")]

mod common;

use common::*;
use std::path::Path;
use std::process::Command;

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// Compiles a program of tests/programs/ with the usual options for profiles.
fn clang(program: &str, more: &[&str], to: &Path) {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/programs");
    let output = Command::new("clang")
        .args(["-O2", "-g1", "-fdebug-info-for-profiling", "-Werror"])
        .args(more)
        .arg("-o")
        .args([to, &source.join(program).with_extension("c")])
        .output()
        .expect("clang, which building needs");
    assert!(output.status.success(), "{}", text(&output.stderr));
}

fn write_profile(recording: &Path, to: &str) {
    let output = Command::new(VITALFEW)
        .arg("annotate")
        .arg(recording)
        .args(["--autofdo", to, "--cpu", "zen3"])
        .output()
        .expect("vitalfew runs");
    assert!(output.status.success(), "{}", text(&output.stderr));
}

#[test]
fn a_compiler_takes_the_profile_and_knows_the_usual_way() {
    if !live() {
        return;
    }
    let lab = Lab::new();
    let program = lab.path("biased");
    clang("biased", &[], &program);
    let run = program.to_str().expect("a name");
    let file = lab.record(["-e", "cpu-clock", "-F1000", "--registers", "--", run, "1"]);
    let profile = lab.path("biased.prof");
    let name = profile.to_str().expect("a name");
    write_profile(&file, name);

    let found = std::fs::read_to_string(&profile).expect("a profile");
    let count = |place: &str| -> f64 {
        let line = found.lines().find_map(|line| line.strip_prefix(place));
        let line = line.unwrap_or_else(|| panic!("no {place:?} in {found}"));
        line.parse().expect("a count")
    };
    // One in 16 times it goes the other way; misprediction inflates that.
    let (rare, usual) = (count(" 5: "), count("  2: "));
    assert!(found.contains(" 7: usual:"), "{found}");
    assert!(rare > 0.0 && 2.0 * rare < usual, "{found}");

    // Without a profile, the compiler takes both ways for equally likely.
    let code = lab.path("biased.ll");
    let with = format!("-fprofile-sample-use={name}");
    clang("biased", &[&with, "-S", "-emit-llvm"], &code);
    let code = std::fs::read_to_string(&code).expect("code");
    let weights = format!("i32 {}, i32 {}", rare + 1.0, usual + 1.0);
    assert!(code.contains(&weights), "{weights} in {code}");
}

/// Returns the callees in a line of a profile, with their counts.
fn called(profile: &Path, line: &str) -> Vec<(String, f64)> {
    let found = std::fs::read_to_string(profile).expect("a profile");
    let line = found.lines().find_map(|text| text.strip_prefix(line));
    let line = line.unwrap_or_else(|| panic!("no such line in {found}"));
    let callees = line.split(' ').filter_map(|word| word.split_once(':'));
    let number = |(name, times): (&str, &str)| (name.to_owned(), times.parse().expect("a number"));
    callees.map(number).collect()
}

#[test]
fn targets_of_indirect_calls_are_told_to_the_compiler() {
    if !live() {
        return;
    }
    let lab = Lab::new();
    let program = lab.path("indirect");
    clang("indirect", &[], &program);
    let run = program.to_str().expect("a name");
    let bursts = [
        "-F1000",
        "--registers",
        "--path-bursts=20",
        "--",
        run,
        "400",
    ];
    let file = lab.record(["-e", "cpu-clock"].iter().chain(&bursts));
    let profile = lab.path("indirect.prof");
    let name = profile.to_str().expect("a name");
    // Three times in four it is often(): by path bursts, then by branch records.
    let is_known = |bound: f64| {
        let found = called(&profile, " 3: ");
        let [(often, most), (rarely, least)] = &found[..] else {
            panic!("{found:?}");
        };
        assert_eq!((often.as_str(), rarely.as_str()), ("often", "rarely"));
        let share = most / (most + least);
        assert!((share - 0.75).abs() < bound, "{found:?}");
    };
    write_profile(&file, name);
    is_known(0.03);
    let code = lab.path("indirect.ll");
    let with = format!("-fprofile-sample-use={name}");
    clang("indirect", &[&with, "-S", "-emit-llvm"], &code);
    let code = std::fs::read_to_string(&code).expect("code");
    let compares = |line: &&str| line.contains("icmp eq") && line.contains("@often");
    assert!(code.lines().any(|line| compares(&line)), "{code}");

    let mut recording = store::read_file(&file).expect("a recording");
    let symbols = run_tool("nm", run);
    let start = |name: &str| {
        let line = symbols.lines().find(|line| line.ends_with(name));
        let digits = line.and_then(|line| line.split(' ').next()).expect(name);
        profile::ImageOffset(u64::from_str_radix(digits, 16).expect("an address"))
    };
    let (often, rarely) = (start(" often"), start(" rarely"));
    let branches = recording.branches.iter();
    let call = branches.clone().find(|one| one.target == rarely);
    let call = *call.expect("it was seen");
    recording.branches.clear();
    for (target, times) in [(often, 75), (rarely, 25)] {
        let stretch = profile::Stretch {
            start: call.branch,
            branch: call.branch,
            target: Some(target),
        };
        let seen = profile::StretchSightings {
            times,
            ..profile::StretchSightings::default()
        };
        recording.stretches.push(profile::StretchCount {
            image: call.image,
            stretch,
            seen,
        });
    }
    let with_records = lab.path("records.vf");
    store::write_file(&recording, &with_records).expect("written");
    write_profile(&with_records, name);
    is_known(0.001);
}

fn run_tool(tool: &str, argument: &str) -> String {
    let output = Command::new(tool).arg(argument).output();
    text(&output.expect("the tool, which building needs").stdout)
}
