//! `annotate --counts` of gcov, llvm-cov and perf, and of recordings with branch records.

#[path = "../../formats/tests/branch_stacks/mod.rs"]
mod branch_stacks;
mod common;
#[path = "../../sampler/tests/ring/mod.rs"]
mod ring;

use branch_stacks::perf_data;
use common::*;
use serde_json::Value;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

fn source() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/programs/counted.c")
}

fn run(command: &mut Command) -> Vec<u8> {
    let output = command.output().expect("it runs");
    let talk = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{command:?}: {talk}");
    output.stdout
}

fn annotate(file: &Path, more: &[&str]) -> Output {
    let mut command = Command::new(VITALFEW);
    command.args(["annotate", "work"]).arg(file);
    command.args(["--json", "--cpu", "zen3", "--clock", "2.5"]);
    command.args(more).output().expect("vitalfew runs")
}

fn json(output: &Output) -> Value {
    let talk = String::from_utf8_lossy(&output.stderr);
    serde_json::from_slice(&output.stdout).unwrap_or_else(|_| panic!("{talk}"))
}

/// Returns the executions of each block, by its start.
fn executions(procedure: &Value) -> Vec<(u64, f64)> {
    let period = procedure["cycles_per_sample"].as_f64().expect("a clock");
    let blocks = procedure["blocks"].as_array().expect("blocks").iter();
    let of = |block: &Value| {
        let start = block["start"].as_u64().expect("a start");
        (start, block["frequency"].as_f64().unwrap_or(0.0) * period)
    };
    blocks.map(of).collect()
}

/// Returns the file of gcov's counts of the program.
fn gcov(lab: &Lab) -> PathBuf {
    let at = |name: &str| lab.path(name);
    run(Command::new("cc")
        .args(["-O1", "--coverage", "-o"])
        .args([&at("with_gcov"), &source()])
        .current_dir(at("")));
    run(&mut Command::new(at("with_gcov")));
    let files = std::fs::read_dir(at("")).expect("the laboratory");
    let files = files.filter_map(|entry| Some(entry.ok()?.path()));
    let text = run(Command::new("gcov")
        .args(["--json-format", "--stdout"])
        .args(files.filter(|path| path.extension().is_some_and(|end| end == "gcda")))
        .current_dir(at("")));
    std::fs::write(at("gcov.json"), text).expect("written");
    at("gcov.json")
}

#[test]
#[cfg(target_arch = "x86_64")]
fn counts_of_lines_give_the_executions_of_blocks() {
    if !live() {
        return;
    }
    let lab = Lab::new();
    let program = lab.program("counted");
    let name = program.to_str().expect("a name");
    let file = lab.record(["-e", "cpu-clock", "-F1000", "--", name]);
    let at = |name: &str| lab.path(name);

    let gcov = gcov(&lab);
    let lcov = at("lcov");
    run(Command::new("clang")
        .args([
            "-O1",
            "-fprofile-instr-generate",
            "-fcoverage-mapping",
            "-o",
        ])
        .args([&at("with_llvm"), &source()]));
    run(Command::new(at("with_llvm")).env("LLVM_PROFILE_FILE", at("raw")));
    run(Command::new("llvm-profdata")
        .args(["merge", "-o"])
        .args([at("prof"), at("raw")]));
    let mut with = std::ffi::OsString::from("-instr-profile=");
    with.push(at("prof"));
    let text = run(Command::new("llvm-cov")
        .args(["export", "-format=lcov"])
        .arg(with)
        .arg(at("with_llvm")));
    std::fs::write(&lcov, text).expect("written");

    for counts in [&gcov, &lcov] {
        let output = annotate(&file, &["--counts", counts.to_str().expect("a name")]);
        let found = json(&output);
        assert_eq!(found["frequencies"], "counts of lines");
        let blocks = executions(&found);
        for truth in [8e7, 1.2e8, 2e8] {
            let near = |(_, times): &(u64, f64)| (times / truth - 1.0).abs() < 0.02;
            assert!(blocks.iter().any(near), "{truth}: {blocks:?}");
        }
    }

    // Another program has no lines there.
    std::fs::write(&lcov, "SF:/other.c\nDA:1,1\nend_of_record\n").expect("written");
    let output = annotate(&file, &["--counts", lcov.to_str().expect("a name")]);
    let talk = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success());
    assert!(
        talk.contains("no counted line belongs to one place"),
        "{talk}"
    );
    let output = annotate(&file, &["--counts", at("prof").to_str().expect("a name")]);
    let talk = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(1));
    assert!(talk.contains("llvm-cov export -format=lcov"), "{talk}");
}

/// The graph of a procedure, for a random walk.
struct Walk {
    /// Start and last instruction of each block.
    blocks: Vec<(u64, u64)>,
    /// Edges of each block: the target, whether it follows straight on, and the frequency.
    edges: Vec<Vec<(Option<usize>, bool, f64)>>,
}

impl Walk {
    fn of(procedure: &Value) -> Self {
        let blocks = procedure["blocks"].as_array().expect("blocks");
        let address = |value: &Value| value.as_u64().expect("an address");
        let ends = |block: &Value| {
            let last = block["instructions"].as_array().and_then(|all| all.last());
            let last = &last.expect("instructions")["address"];
            (address(&block["start"]), address(last))
        };
        let mut edges = vec![Vec::new(); blocks.len()];
        for edge in procedure["edges"].as_array().expect("edges") {
            if let Some(from) = edge["from"].as_u64() {
                let to = edge["to"].as_u64().map(|to| to as usize);
                let often = edge["frequency"].as_f64().expect("a frequency");
                edges[from as usize].push((to, edge["kind"] == "Fall", often));
            }
        }
        Self {
            blocks: blocks.iter().map(ends).collect(),
            edges,
        }
    }

    /// Walks at random and returns how often each block was passed, and a stack of the last
    /// branches at random times (or taken branches), newest first. An exit leads to the caller and
    /// back to the entry.
    fn stacks(
        &self,
        random: &mut u64,
        length: usize,
        taken_only: bool,
    ) -> (Vec<f64>, Vec<Vec<(u64, u64)>>) {
        let mut next = |end: u64| {
            *random ^= *random << 13;
            *random ^= *random >> 7;
            *random ^= *random << 17;
            // xorshift64*, whose high bits are the random ones.
            let value = random.wrapping_mul(0x2545_f491_4f6c_dd1d);
            ((u128::from(value) * u128::from(end)) >> 64) as u64
        };
        let (mut passed, mut stacks) = (vec![0.0; self.blocks.len()], Vec::new());
        let (mut last, mut at) = (Vec::new(), 0);
        for _ in 0..500_000 {
            passed[at] += 1.0;
            let out = &self.edges[at];
            let mut chance = next(1 << 32) as f64 / (1_u64 << 32) as f64;
            chance *= out.iter().map(|edge| edge.2).sum::<f64>();
            let taken = out.iter().position(|edge| {
                chance -= edge.2;
                chance < 0.0
            });
            let (to, straight, _) = out[taken.unwrap_or(0)];
            const CALLER: u64 = 0x7000_0000_0000;
            let (from, start) = (self.blocks[at].1, self.blocks[to.unwrap_or(0)].0);
            let branches = match to {
                _ if straight => vec![],
                Some(_) => vec![(from, start)],
                None => vec![(from, CALLER), (CALLER + 8, start)],
            };
            for pass in 0..branches.len().max(usize::from(!taken_only)) {
                last.extend(branches.get(pass));
                if next(100) == 0 && last.len() >= length {
                    last.drain(..last.len() - length);
                    let mut stack = last.clone();
                    stack.reverse();
                    stacks.push(stack);
                }
            }
            at = to.unwrap_or(0);
        }
        (passed, stacks)
    }
}

#[test]
#[cfg(target_arch = "x86_64")]
fn branch_stacks_give_how_blocks_compare() {
    if !live() {
        return;
    }
    let lab = Lab::new();
    let program = lab.program("counted");
    let name = program.to_str().expect("a name");
    let file = lab.record(["-e", "cpu-clock", "-F1000", "--", name]);
    let exact = gcov(&lab);
    let exact = ["--counts", exact.to_str().expect("a name")];
    let walk = Walk::of(&json(&annotate(&file, &exact)));
    assert!(
        walk.blocks.len() > 4,
        "a small procedure: {}",
        walk.blocks.len()
    );
    let notes = run(Command::new("readelf").args(["-n", name]));
    let notes = String::from_utf8_lossy(&notes).into_owned();
    let id = notes
        .split("Build ID: ")
        .nth(1)
        .and_then(|rest| rest.split_whitespace().next());
    let id = id.expect("a build-id");
    let byte = |at: usize| u8::from_str_radix(&id[at..at + 2], 16).expect("digits");
    let id: Vec<u8> = (0..id.len()).step_by(2).map(byte).collect();

    let counts = lab.path("perf.data");
    let perf = counts.to_str().expect("a name").to_owned();
    // For a mapped position-independent executable, addresses are offsets here.
    const BIAS: u64 = 0x5555_5555_0000;
    let mut last = Vec::new();
    for (seed, length) in [(1_u64, 32), (2, 16)] {
        let mut random = 88_172_645_463_325_252 ^ seed << 40;
        let (truth, mut stacks) = walk.stacks(&mut random, length, false);
        for (number, stack) in stacks.iter_mut().enumerate() {
            for (from, to) in stack.iter_mut() {
                let moved = |at: u64| if at < 1 << 40 { at + BIAS } else { at };
                (*from, *to) = (moved(*from), moved(*to));
            }
            // Errors of real processors: a stale first entry, a missing one, the kernel.
            match number % 20 {
                0 => stack[0] = (BIAS + 0x10, BIAS + 0x20),
                1 => drop(stack.remove(length / 2)),
                2 => stack.insert(3, (u64::MAX - 99, u64::MAX - 9)),
                _ => {}
            }
        }
        std::fs::write(&counts, perf_data(name, &id, BIAS, &stacks)).expect("written");
        let output = annotate(&file, &["--counts", &perf]);
        let found = executions(&json(&output));
        let shares = |all: Vec<f64>| {
            let sum: f64 = all.iter().sum();
            all.into_iter()
                .map(move |one| one / sum)
                .collect::<Vec<f64>>()
        };
        let found = shares(found.into_iter().map(|(_, times)| times).collect());
        for (found, truth) in found.iter().zip(shares(truth)) {
            println!("{found:.4} {truth:.4}");
            assert!((found / truth - 1.0).abs() < 0.1 || (found - truth).abs() < 0.01);
        }
        last = stacks;
    }

    // Stacks of another build say nothing, and files without stacks are refused.
    std::fs::write(&counts, perf_data(name, &[1; 20], BIAS, &last)).expect("written");
    let talk = annotate(&file, &["--counts", &perf]).stderr;
    let talk = String::from_utf8_lossy(&talk).into_owned();
    assert!(
        talk.contains("no branch record belongs to this procedure"),
        "{talk}"
    );
    std::fs::write(&counts, perf_data(name, &id, BIAS, &[])).expect("written");
    let output = annotate(&file, &["--counts", &perf]);
    let talk = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(1));
    assert!(
        talk.contains("no two branches of a program in the branch stacks of 0 samples"),
        "{talk}"
    );
}

/// A walk through a procedure as the processor would have recorded it: time samples, branch stacks
/// and samples of instructions pass through all stages of a recording after the kernel.
#[test]
#[cfg(target_arch = "x86_64")]
fn recorded_branches_give_executions() {
    if !live() {
        return;
    }
    let lab = Lab::new();
    let program = lab.program("counted");
    let name = program.to_str().expect("a name");
    let plain = lab.record(["-e", "cpu-clock", "-F1000", "--", name]);
    let exact = gcov(&lab);
    let graph = json(&annotate(
        &plain,
        &["--counts", exact.to_str().expect("a name")],
    ));
    let addresses = |block: &Value| -> Vec<u64> {
        let instructions = block["instructions"].as_array().expect("some").iter();
        instructions
            .map(|one| one["address"].as_u64().expect("an address"))
            .collect()
    };
    let blocks = graph["blocks"].as_array().expect("blocks");
    let blocks: Vec<Vec<u64>> = blocks.iter().map(addresses).collect();
    let walk = Walk::of(&graph);
    const BIAS: u64 = 0x5555_5555_0000;
    let moved = |at: u64| if at < 1 << 40 { at + BIAS } else { at };

    let (passed, stacks) = walk.stacks(&mut 88_172_645_463_325_252, 32, true);
    let mut records = vec![ring::mapped(&program, BIAS, 1 << 16)];
    for (number, stack) in stacks.iter().enumerate() {
        let entries: Vec<_> = stack
            .iter()
            .map(|(from, to)| (moved(*from), moved(*to), ring::PREDICTED))
            .collect();
        records.push(ring::stack(number as u64, entries[0].1, &entries));
    }
    // A cycle for each instruction, a sample for each hundred cycles; and a sample for one in a
    // hundred instructions.
    for (block, passed) in blocks.iter().zip(&passed) {
        for each in 0..(passed * block.len() as f64 / 100.0).round() as usize {
            let at = moved(block[each % block.len()]);
            let each = each as u64;
            records.push(ring::sample(ring::TIME, each, at));
            records.push(ring::sample(ring::OTHER, each, at));
        }
    }
    let events = ["cpu-clock:40", "branch-instructions:ub", "instructions:100"];
    let events = events.map(|event| sampler::EventSpec::parse(event).expect("an event"));
    let bytes = records
        .iter()
        .map(|(kind, misc, body)| (*kind, *misc, &body[..]));
    let recording = sampler::replay(&events, bytes).expect("a recording");
    let file = lab.path("replayed.vf");
    store::write_file(&recording, &file).expect("written");

    let output = annotate(&file, &[]);
    let found = json(&output);
    assert_eq!(found["frequencies"], "out-of-order, instructions counted");
    let records = found["branch_records"].as_u64().expect("a number");
    assert!(records > 50_000, "{records}");
    let possible = 31 * stacks.len() as u64;
    assert!(
        possible / 10 * 9 < records && records <= possible,
        "{records} of {possible}"
    );
    assert_eq!(found["cycles_per_sample"], 100.0);
    // The metric of the paper's Figure 8, by instructions; and the share called high.
    let (mut all, mut within, mut high) = (0.0, [0.0; 3], 0.0);
    let estimated = found["blocks"].as_array().expect("blocks").iter();
    let estimated = estimated.zip(executions(&found));
    for ((block, (_, times)), (truth, known)) in estimated.zip(passed.iter().zip(&blocks)) {
        let (error, weight) = ((times / truth - 1.0).abs(), truth * known.len() as f64);
        println!("{times:.0} of {truth}, {} instructions", known.len());
        all += weight;
        for (within, limit) in within.iter_mut().zip([0.05, 0.1, 0.15]) {
            *within += if error < limit { weight } else { 0.0 };
        }
        if block["confidence"] == "high" {
            assert!(error < 0.1, "{times} of {truth} is called high");
            high += weight;
        }
    }
    let within = within.map(|within| 100.0 * within / all);
    println!(
        "within 5, 10, 15 %: {within:.0?}; {:.0} % high",
        100.0 * high / all
    );
    assert!(within[0] > 90.0 && within[1] > 99.0, "{within:?}");
    assert!(high > 0.8 * all, "{high} of {all}");

    let listing = Command::new(VITALFEW)
        .args(["annotate", "work", "--cpu", "zen3", "--clock", "2.5"])
        .arg(&file)
        .output()
        .expect("vitalfew runs");
    let listing = String::from_utf8_lossy(&listing.stdout).into_owned();
    assert!(
        listing
            .contains("stretches between branch records, their scale from samples of instructions"),
        "{listing}"
    );
}

/// Branches are recorded if the processor can; otherwise recording is refused, with the doctor's
/// reason.
#[test]
fn branches_are_recorded_or_refused_with_the_doctors_reason() {
    if !live() {
        return;
    }
    let lab = Lab::new();
    let program = lab.program("counted");
    let name = program.to_str().expect("a name");
    let doctor = run(Command::new(VITALFEW).args(["doctor", "--json"]));
    let doctor: Value = serde_json::from_slice(&doctor).expect("JSON");
    let mut probes = doctor["probes"].as_array().expect("probes").iter();
    let gap = probes.find(|probe| probe["question"] == "branches");
    let gap = &gap.expect("the question")["gap"];
    let (file, output) = lab.try_record(["--branches", "--", name]);
    let talk = String::from_utf8_lossy(&output.stderr).into_owned();
    if gap.is_null() {
        assert!(output.status.success(), "{talk}");
        let found = json(&annotate(&file, &[]));
        assert!(found["branch_records"].as_u64() > Some(1000), "{found}");
    } else {
        assert_eq!(output.status.code(), Some(125), "{talk}");
        let missing = gap["missing"].as_str().expect("a reason");
        let event = sampler::EventSpec::branch_records().name;
        let expected = format!("event '{event}' cannot be recorded: {missing}; ");
        assert!(talk.contains(&expected), "{talk}");
        assert!(output.stdout.is_empty(), "it was started");
    }
}
