//! Branch targets, from the registers at samples and the memory that the code after them reads.
#![cfg(target_arch = "x86_64")]

mod common;

use common::*;
use std::collections::BTreeMap;
use std::path::Path;
use std::process::Command;

/// Observations of a program: samples, branches for each, and the rarer way's share of the branch
/// that goes both ways.
struct Seen {
    samples: u64,
    branches: f64,
    rarer: f64,
}

fn seen(recording: &Path, program: &Path) -> Seen {
    let recording = store::read_file(recording).expect("a recording");
    let is_own = |image| Path::new(&*recording.image(image).path) == program;
    let mut ways: BTreeMap<u64, Vec<u64>> = BTreeMap::new();
    for one in recording.branches.iter().filter(|one| is_own(one.image)) {
        ways.entry(one.branch.0).or_default().push(one.observed);
    }
    let samples = recording.samples.iter().filter(|one| {
        let location = recording.stacks.frame(one.stack).location;
        is_own(location.image)
    });
    let samples = samples.map(|one| one.count).sum();
    let all: u64 = ways.values().flatten().sum();
    let rarer = ways.values().filter(|ways| ways.len() == 2).map(|ways| {
        let least = ways.iter().min().copied().unwrap_or(0);
        least as f64 / ways.iter().sum::<u64>() as f64
    });
    Seen {
        samples,
        branches: all as f64 / samples as f64,
        rarer: rarer.fold(0.0, f64::max),
    }
}

#[test]
fn ways_lead_through_memory_where_bpf_may_be_loaded() {
    if !live() {
        return;
    }
    let lab = Lab::new();
    let program = lab.program("list");
    let name = program.to_str().expect("a name");
    let options = [
        "-e",
        "cpu-clock:u",
        "-F2000",
        "--registers",
        "--",
        name,
        "1",
    ];
    let (file, output) = lab.try_record(options);
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(!said.contains("of memory nothing is known"), "{said}");
    let with = seen(&file, &program);

    // Without rights: registers alone.
    let alone = lab.path("alone.vf");
    let output = Command::new("setpriv")
        .args(["--inh-caps=-all", "--bounding-set=-all", VITALFEW])
        .args(["record", "-o"])
        .arg(&alone)
        .args(options)
        .output()
        .expect("util-linux is everywhere");
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(said.contains("of memory nothing is known"), "{said}");
    let without = seen(&alone, &program);

    let (far, near) = (with.branches, without.branches);
    println!(
        "branches a sample: {far:.2}, without memory {near:.2}; rarer way {:.3}",
        with.rarer
    );
    assert!(with.samples > 500 && without.samples > 500);
    // At most eight; without memory, no branch on a value that was just loaded.
    assert!(far > 5.0 && near < 2.5, "{far} {near}");
    assert!((0.15..0.35).contains(&with.rarer), "{}", with.rarer);
}
