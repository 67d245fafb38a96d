//! Claims that `annotate` must not make: cycles without a scale, wrong exonerations, impossible
//! amounts. The recordings are synthetic, so no processor with counters is needed.
#![cfg(target_arch = "x86_64")]

mod common;

use common::made_up::recording;
use common::*;
use profile::{Recording, TaskTimes};
use serde_json::Value;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;
use symbols::ImageSymbols;

/// Cycles between samples.
const CYCLES: f64 = 1000.0;

struct Doubts {
    lab: Lab,
    program: PathBuf,
}

impl Doubts {
    fn new() -> Self {
        let lab = Lab::new();
        let program = lab.program("doubts");
        Self { lab, program }
    }

    fn run(&self, made: &Recording, procedure: &str, options: &[&str]) -> (String, String) {
        let file = self.lab.path("made-up.vf");
        store::write_file(made, &file).expect("written");
        let output = Command::new(VITALFEW)
            .args(["annotate", procedure, "--cpu", "zen3"])
            .arg(&file)
            .args(options)
            .output()
            .expect("vitalfew runs");
        let talk = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(output.status.success(), "{talk}");
        (String::from_utf8_lossy(&output.stdout).into_owned(), talk)
    }

    fn json(&self, made: &Recording, procedure: &str, options: &[&str]) -> Value {
        let (text, _) = self.run(made, procedure, &[&["--json"], options].concat());
        serde_json::from_str(&text).expect("JSON")
    }

    /// Returns the addresses of a procedure's instructions.
    fn addresses(&self, procedure: &str) -> Vec<u64> {
        let image = ImageSymbols::open_image(&self.program, &symbols::SymbolOptions::default());
        let image = image.expect("an image");
        let mut all = image.all_procedures();
        let found = all.find(|one| one.name == procedure.as_bytes());
        let one = BTreeMap::from([(found.expect("it is there").start.0, 1)]);
        let made = recording(&self.program, &[("cycles", CYCLES, &one)]);
        let listed = self.json(&made, procedure, &[]);
        let address = |one: &Value| one["address"].as_u64().expect("an address");
        instructions(&listed).iter().map(address).collect()
    }

    /// Makes a recording with `samples` of cycles, one number for each instruction of a procedure,
    /// and the number of `executed` instructions, if counted.
    fn recording(&self, procedure: &str, samples: &[u64], executed: Option<u64>) -> Recording {
        let places = self.addresses(procedure);
        assert_eq!(places.len(), samples.len(), "{places:x?}");
        let at = places.iter().copied().zip(samples.iter().copied());
        let cycles: BTreeMap<u64, u64> = at.filter(|(_, count)| *count > 0).collect();
        let counted = executed.map(|executed| BTreeMap::from([(places[0], executed)]));
        let mut events = vec![("cycles", CYCLES, &cycles)];
        events.extend(
            counted
                .iter()
                .map(|counted| ("instructions", CYCLES, counted)),
        );
        recording(&self.program, &events)
    }

    /// Returns exact counts of a procedure's instructions in callgrind's form.
    fn counts(&self, procedure: &str, executed: &[u64]) -> String {
        let mut text = format!(
            "version: 1\npositions: instr line\nevents: Ir\n\nob={}\nfn={procedure}\n",
            self.program.display()
        );
        for (at, times) in self.addresses(procedure).iter().zip(executed) {
            text += &format!("{at:#x} 1 {times}\n");
        }
        let file = self.lab.path("callgrind.out");
        std::fs::write(&file, text).expect("written");
        name_of(&file)
    }
}

fn name_of(path: &Path) -> String {
    path.to_str().expect("a name").to_owned()
}

fn instructions(listed: &Value) -> Vec<Value> {
    let blocks = listed["blocks"].as_array().expect("blocks").iter();
    let all = blocks.flat_map(|block| block["instructions"].as_array().expect("instructions"));
    all.cloned().collect()
}

fn alone(mut made: Recording) -> Recording {
    made.task_times = Some(TaskTimes {
        threads: Some(1),
        ..TaskTimes::default()
    });
    made
}

/// Returns the letters of an instruction's possible causes.
fn letters(instruction: &Value) -> String {
    let known = instruction["account"]["culprits"]
        .as_array()
        .into_iter()
        .flatten();
    let all = known.chain(instruction["suspects"].as_array().expect("suspects"));
    all.map(|one| one["letter"].as_str().expect("a letter"))
        .collect()
}

/// Returns whether a listing contains any number of cycles.
fn has_cycles(listing: &str) -> bool {
    let is_cycles =
        |word: &str| word.ends_with("cy") && word.starts_with(|c: char| c.is_ascii_digit());
    listing.split_whitespace().any(is_cycles)
}

/// A pointer chase has all its samples after the load, whether that takes one cycle or six hundred.
#[test]
fn without_a_scale_no_cycles_are_given_and_nothing_is_ruled_out_by_them() {
    let doubts = Doubts::new();
    let made = alone(doubts.recording("chase", &[0, 9000, 10, 0], None));
    let (listing, _) = doubts.run(&made, "chase", &[]);
    assert!(
        listing.contains("*** Actual    not known: no scale"),
        "{listing}"
    );
    assert!(!has_cycles(&listing), "{listing}");
    assert!(!listing.contains("confidence"), "{listing}");
    let listed = doubts.json(&made, "chase", &[]);
    let stalled = &instructions(&listed)[1];
    assert!(stalled["account"].is_null(), "{stalled}");
    let found = letters(stalled);
    // A load that hits takes four cycles: a chain. Any other load is a miss.
    for cause in ['d', 'D', 'c'] {
        assert!(found.contains(cause), "{cause} is not in {found}");
    }
    let (summary, _) = doubts.run(&made, "chase", &["--summary"]);
    assert!(
        summary.contains("*** Not told apart: D-cache miss, DTLB miss, Dependency chain\n"),
        "{summary}"
    );
    assert!(!summary.contains("CPI"), "{summary}");
    let picture = doubts.lab.path("chase.dot");
    doubts.run(
        &made,
        "chase",
        &["--cfg", picture.to_str().expect("a name")],
    );
    let picture = std::fs::read_to_string(picture).expect("a picture");
    assert!(picture.contains("actual not known CPI"), "{picture}");

    // With a scale they are known: 9,010 samples of 1,000 cycles, in 3,000,000 instructions.
    let made = alone(doubts.recording("chase", &[0, 9000, 10, 0], Some(3000)));
    let (listing, _) = doubts.run(&made, "chase", &[]);
    assert!(listing.contains("9.0/3 = 3.00CPI"), "{listing}");
}

#[test]
fn where_jumps_are_not_understood_there_are_no_cycles_and_nothing_is_certain() {
    let doubts = Doubts::new();
    let samples = [5, 5, 700, 3000, 5, 5, 300, 2000, 5, 5, 200, 3, 0];
    let made = alone(doubts.recording("interpret", &samples, Some(5000)));
    let (listing, talk) = doubts.run(&made, "interpret", &[]);
    assert!(
        talk.contains("jumps of this procedure are not understood"),
        "{talk}"
    );
    assert!(
        listing.contains("*** Actual    not known: jumps that are not understood"),
        "{listing}"
    );
    assert!(!has_cycles(&listing), "{listing}");
    let listed = doubts.json(&made, "interpret", &[]);
    // The jump to a handler loads its address, and may be mispredicted.
    let found = letters(&instructions(&listed)[3]);
    for cause in ['d', 'D', 'p'] {
        assert!(found.contains(cause), "{cause} is not in {found}");
    }
    let dynamic = listed["summary"]["dynamic"].as_object().expect("causes");
    for (cause, range) in dynamic {
        assert_eq!(range["least"], 0.0, "{cause}");
    }

    // Exact counts give cycles, but no lower bounds of shares.
    let executed = [
        10, 10, 10, 3_000_000, 3_000_000, 3_000_000, 3_000_000, 2_000_000, 2_000_000, 2_000_000,
        2_000_000, 10, 10,
    ];
    let counts = doubts.counts("interpret", &executed);
    let listed = doubts.json(&made, "interpret", &["--counts", &counts]);
    let head = &instructions(&listed)[3];
    let cycles = head["account"]["cycles"].as_f64().expect("cycles");
    assert!((cycles - 1.0).abs() < 1e-6, "{head}");
    for (cause, range) in listed["summary"]["dynamic"].as_object().expect("causes") {
        assert_eq!(range["least"], 0.0, "{cause}");
    }
    // A block with unequal executions of its instructions is entered in its middle.
    let mut executed = executed;
    executed[5] = 4_000_000;
    let counts = doubts.counts("interpret", &executed);
    let listed = doubts.json(&made, "interpret", &["--counts", &counts]);
    assert!(instructions(&listed)[3]["account"].is_null());
    assert!(!instructions(&listed)[7]["account"].is_null());
}

#[test]
fn a_line_that_others_may_write_may_be_missed_each_time() {
    let doubts = Doubts::new();
    for (procedure, threads, is_listed) in [
        ("bump", None, true),
        ("bump", Some(2), true),
        ("bump", Some(1), false),
        ("bump_own", Some(2), false),
    ] {
        // 50 cycles each time, a tenth of which is the chain through memory.
        let mut made = doubts.recording(procedure, &[0, 50_000, 10, 0], Some(3000));
        made.task_times = threads.map(|threads| TaskTimes {
            threads: Some(threads),
            ..TaskTimes::default()
        });
        let listed = doubts.json(&made, procedure, &[]);
        let found = letters(&instructions(&listed)[1]);
        assert_eq!(
            found.contains('d'),
            is_listed,
            "{procedure}, {threads:?}: {found}"
        );
    }
}

/// Callgrind counts `rep movsb` once for each byte.
#[test]
fn repeated_instructions_say_nothing_of_how_often_their_block_ran() {
    let doubts = Doubts::new();
    let made = doubts.recording("copy", &[10, 10, 5000, 10, 0], None);
    let counts = doubts.counts("copy", &[100_000, 10_100_000, 100_000, 100_000, 1]);
    let listed = doubts.json(&made, "copy", &["--counts", &counts]);
    let cycles = |index: usize| instructions(&listed)[index]["account"]["cycles"].as_f64();
    // 5,000,000 cycles in 100,000 times.
    assert!(
        (cycles(2).expect("cycles") - 50.0).abs() < 1e-6,
        "{listed:#}"
    );
    let (listing, _) = doubts.run(&made, "copy", &["--counts", &counts]);
    assert!(listing.contains("(confidence exact)"), "{listing}");
}

#[test]
fn less_than_the_best_case_is_no_result() {
    let doubts = Doubts::new();
    let made = doubts.recording("chase", &[0, 900, 10, 0], None);
    // A loop of three instructions takes at least a cycle: these counts are of another run.
    let counts = doubts.counts("chase", &[30_000_000, 30_000_000, 30_000_000, 1]);
    let (listing, _) = doubts.run(&made, "chase", &["--counts", &counts]);
    assert!(
        listing.contains("*** Actual    not known: 0.0 cycles would be below the best case"),
        "{listing}"
    );
    assert!(!has_cycles(&listing), "{listing}");
    let listed = doubts.json(&made, "chase", &["--counts", &counts]);
    assert_eq!(
        listed["blocks"][0]["cycles_not_known"],
        "below the best case"
    );
    let summary = &listed["summary"];
    assert_eq!(summary["cycles_not_known"], summary["samples"]);
}

#[test]
fn few_samples_give_a_range() {
    let doubts = Doubts::new();
    let made = doubts.recording("chase", &[0, 2, 0, 0], None);
    let counts = doubts.counts("chase", &[100, 100, 100, 1]);
    let (listing, _) = doubts.run(&made, "chase", &["--counts", &counts]);
    // For two samples the 95 % interval is 0.24 to 7.22 (Garwood).
    assert!(listing.contains(" 2.4..72.2cy"), "{listing}");
    assert!(
        listing.contains("2.4..72.2/3 = 0.81..24.08CPI"),
        "{listing}"
    );
    assert!(!listing.contains("20.0cy"), "{listing}");
    let many = doubts.recording("chase", &[0, 400, 0, 0], None);
    let (listing, _) = doubts.run(&many, "chase", &["--counts", &counts]);
    assert!(listing.contains(" 4000.0cy"), "{listing}");
}

/// Returns the start address of a procedure of a program.
fn start_of(program: &Path, procedure: &str) -> u64 {
    let image =
        ImageSymbols::open_image(program, &symbols::SymbolOptions::default()).expect("an image");
    let mut all = image.all_procedures();
    let found = all.find(|one| one.name == procedure.as_bytes());
    found.expect("it is there").start.0
}

/// A compiler treats code without a count as never executed: QuickJS, whose interpreter uses a
/// computed goto, was 2.1 times as slow with a profile that had its counts as without.
#[test]
fn a_profile_for_compilers_leaves_out_what_is_not_known_well_enough() {
    let lab = Lab::new();
    let program = lab.program("dispatch");
    let at = |name: &str| start_of(&program, name);
    let samples = BTreeMap::from([(at("interpret"), 500), (at("sum"), 100), (at("seldom"), 3)]);
    let made = recording(&program, &[("cycles", CYCLES, &samples)]);
    let (file, profile) = (lab.path("made-up.vf"), lab.path("app.prof"));
    store::write_file(&made, &file).expect("written");
    let output = Command::new(VITALFEW)
        .args(["annotate", "--cpu", "zen3", "--autofdo"])
        .args([&profile, &file])
        .output()
        .expect("vitalfew runs");
    let talk = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{talk}");
    let text = std::fs::read_to_string(&profile).expect("a profile");
    let functions: Vec<&str> = text.lines().filter(|line| !line.starts_with(' ')).collect();
    assert_eq!(functions.len(), 1, "{text}");
    assert!(functions[0].starts_with("sum:"), "{text}");
    for left_out in [
        "left out, for jumps that are not understood: interpret (82.9 % of the samples)",
        "left out, for too few samples: seldom (0.5 % of the samples)",
    ] {
        assert!(talk.contains(left_out), "{talk}");
    }

    // If nothing is left, the refusal names the omitted procedures.
    let samples = BTreeMap::from([(at("seldom"), 3), (at("interpret"), 500)]);
    let made = recording(&program, &[("cycles", CYCLES, &samples)]);
    store::write_file(&made, &file).expect("written");
    let output = Command::new(VITALFEW)
        .args(["annotate", "--cpu", "zen3", "--autofdo"])
        .args([&lab.path("none.prof"), &file])
        .output()
        .expect("vitalfew runs");
    let talk = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(4), "{talk}");
    let named = "interpret has jumps that are not understood, seldom has too few samples";
    assert!(talk.contains(named), "{talk}");
}

/// Stripping keeps the unwind table, and so the bounds of procedures.
#[test]
fn a_stripped_program_has_procedures_by_its_unwind_table() {
    let lab = Lab::new();
    let program = lab.program("dispatch");
    let start = start_of(&program, "sum");
    let strip = Command::new("strip").arg(&program).status();
    assert!(strip.expect("strip").success());
    let samples = BTreeMap::from([(start, 70), (start + 4, 30)]);
    let made = recording(&program, &[("cycles", CYCLES, &samples)]);
    let file = lab.path("made-up.vf");
    store::write_file(&made, &file).expect("written");
    let run = |args: &[&str]| {
        let output = Command::new(VITALFEW).args(args).arg(&file).output();
        let output = output.expect("vitalfew runs");
        let talk = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(output.status.success(), "{talk}");
        String::from_utf8_lossy(&output.stdout).into_owned()
    };
    let name = format!("[function at {start:#x} ");
    let report = run(&["report"]);
    let row = report.lines().find(|line| line.contains(&name));
    let row = row.unwrap_or_else(|| panic!("no {name} in {report}"));
    assert!(row.contains("100"), "{row}");
    let listing = run(&["annotate", &name, "--cpu", "zen3", "--all"]);
    assert!(listing.contains("100 of 100 samples"), "{listing}");
    // The whole procedure, without the next one.
    assert!(listing.contains("ret"), "{listing}");
}
