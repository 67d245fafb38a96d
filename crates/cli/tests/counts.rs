//! `annotate --counts` of gcov, llvm-cov and perf.

#[path = "../../formats/tests/branch_stacks/mod.rs"]
mod branch_stacks;
mod common;

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

/// Executions of each block, by where it starts.
fn executions(procedure: &Value) -> Vec<(u64, f64)> {
    let period = procedure["cycles_per_sample"].as_f64().expect("a clock");
    let blocks = procedure["blocks"].as_array().expect("blocks").iter();
    let of = |block: &Value| {
        let start = block["start"].as_u64().expect("a start");
        (start, block["frequency"].as_f64().unwrap_or(0.0) * period)
    };
    blocks.map(of).collect()
}

/// What gcov counts of the program.
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

    // Of another program no line is there.
    std::fs::write(&lcov, "SF:/other.c\nDA:1,1\nend_of_record\n").expect("written");
    let output = annotate(&file, &["--counts", lcov.to_str().expect("a name")]);
    let talk = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success());
    assert!(
        talk.contains("the counts have no line that is in one place"),
        "{talk}"
    );
    let output = annotate(&file, &["--counts", at("prof").to_str().expect("a name")]);
    let talk = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(1));
    assert!(talk.contains("llvm-cov export -format=lcov"), "{talk}");
}

/// The graph of a procedure as a walker needs it.
struct Walk {
    /// Where each block starts, and its last instruction.
    blocks: Vec<(u64, u64)>,
    /// For each block its edges: where it leads, whether straight on, and how often.
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

    /// Walks at random and gives how often each block was passed, and a stack of the last branches
    /// at random times, the newest first. A way out leads to the caller, and back in.
    fn stacks(&self, random: &mut u64, length: usize) -> (Vec<f64>, Vec<Vec<(u64, u64)>>) {
        let mut next = |end: u64| {
            *random ^= *random << 13;
            *random ^= *random >> 7;
            *random ^= *random << 17;
            *random % end
        };
        let (mut passed, mut stacks) = (vec![0.0; self.blocks.len()], Vec::new());
        let (mut last, mut at) = (Vec::new(), 0);
        for _ in 0..400_000 {
            passed[at] += 1.0;
            let out = &self.edges[at];
            let mut chance = next(1 << 32) as f64 / (1_u64 << 32) as f64;
            chance *= out.iter().map(|edge| edge.2).sum::<f64>();
            let taken = out.iter().position(|edge| {
                chance -= edge.2;
                chance < 0.0
            });
            let (to, straight, _) = out[taken.unwrap_or(0)];
            if !straight {
                const CALLER: u64 = 0x7000_0000_0000;
                let (from, start) = (self.blocks[at].1, self.blocks[to.unwrap_or(0)].0);
                match to {
                    Some(_) => last.push((from, start)),
                    None => last.extend([(from, CALLER), (CALLER + 8, start)]),
                }
            }
            at = to.unwrap_or(0);
            if next(100) == 0 && last.len() >= length {
                last.drain(..last.len() - length);
                let mut stack = last.clone();
                stack.reverse();
                stacks.push(stack);
            }
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
    // Of a position-independent executable, mapped somewhere, addresses are offsets here.
    const BIAS: u64 = 0x5555_5555_0000;
    let mut last = Vec::new();
    for (seed, length) in [(1_u64, 32), (2, 16)] {
        let mut random = 88_172_645_463_325_252 ^ seed << 40;
        let (truth, mut stacks) = walk.stacks(&mut random, length);
        for (number, stack) in stacks.iter_mut().enumerate() {
            for (from, to) in stack.iter_mut() {
                let moved = |at: u64| if at < 1 << 40 { at + BIAS } else { at };
                (*from, *to) = (moved(*from), moved(*to));
            }
            // What processors get wrong: a first entry that stays, a missing one, the kernel.
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

    // Another build's say nothing, and files without stacks are refused.
    std::fs::write(&counts, perf_data(name, &[1; 20], BIAS, &last)).expect("written");
    let talk = annotate(&file, &["--counts", &perf]).stderr;
    let talk = String::from_utf8_lossy(&talk).into_owned();
    assert!(
        talk.contains("no branch record is of this procedure"),
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
