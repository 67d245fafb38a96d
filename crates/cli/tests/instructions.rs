//! `annotate` with a sampled counter of instructions beside cycles, which sets the scale. No
//! machine with such counters is needed: a recording is made from random walks through a procedure
//! with known executions and cycles.
#![cfg(target_arch = "x86_64")]

mod common;

use common::made_up::recording;
use common::*;
use profile::{BranchCount, ImageId, ImageOffset, Recording};
use serde_json::Value;
use std::collections::BTreeMap;
use std::process::Command;
use symbols::ImageSymbols;

struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }

    /// Returns a number between 0 and 1.
    fn unit(&mut self) -> f64 {
        (self.next() >> 11) as f64 / (1_u64 << 53) as f64
    }
}

/// The procedure as `annotate` sees it.
struct Graph {
    /// The addresses of each block's instructions.
    blocks: Vec<Vec<u64>>,
    /// Targets of each block's edges.
    edges: Vec<Vec<Option<usize>>>,
}

impl Graph {
    fn of(procedure: &Value) -> Self {
        let address = |one: &Value| one["address"].as_u64().expect("an address");
        let blocks = procedure["blocks"].as_array().expect("blocks").iter();
        let instructions = |block: &Value| {
            let all = block["instructions"].as_array().expect("instructions");
            all.iter().map(address).collect()
        };
        let blocks: Vec<Vec<u64>> = blocks.map(instructions).collect();
        let mut edges = vec![Vec::new(); blocks.len()];
        for edge in procedure["edges"].as_array().expect("edges") {
            if let Some(from) = edge["from"].as_u64() {
                edges[from as usize].push(edge["to"].as_u64().map(|to| to as usize));
            }
        }
        Self { blocks, edges }
    }
}

/// Simulated counter. Its sample is at the address after the one where it reached its period.
struct Counter {
    period: f64,
    left: f64,
    overflowed: bool,
    samples: BTreeMap<u64, u64>,
}

impl Counter {
    fn new(period: f64) -> Self {
        Self {
            period,
            left: period,
            overflowed: false,
            samples: BTreeMap::new(),
        }
    }

    fn count(&mut self, at: u64, by: f64, random: &mut Random) {
        if std::mem::take(&mut self.overflowed) {
            *self.samples.entry(at).or_default() += 1;
        }
        self.left -= by;
        if self.left <= 0.0 {
            // Random periods with the right mean.
            self.left += 2.0 * self.period * random.unit();
            self.overflowed = true;
        }
    }

    fn taken(&self) -> u64 {
        self.samples.values().sum()
    }
}

/// Executions of a simulated run, and its samples.
struct MeasuredRun {
    /// Executions of each block.
    passed: Vec<f64>,
    cycles: Counter,
    instructions: Counter,
    /// Branches along some stretches.
    walked: BTreeMap<(u64, u64), u64>,
}

const CYCLES: f64 = 500.0;
/// Number of executed blocks, and how often branches are followed for a stretch.
const STEPS: usize = 600_000;
const STRETCH: (u64, usize) = (20_000, 50);

/// Walks through the procedure at random: branch probabilities are drawn, and so are the cycles of
/// each instruction, three on average.
fn walk(graph: &Graph, random: &mut Random, period: f64) -> MeasuredRun {
    let chances: Vec<f64> = graph
        .blocks
        .iter()
        .map(|_| 0.1 + 0.8 * random.unit())
        .collect();
    let cost = |random: &mut Random| 0.3 + 5.4 * random.unit() * random.unit() * 2.0;
    let costs: Vec<Vec<f64>> = graph
        .blocks
        .iter()
        .map(|block| block.iter().map(|_| cost(random)).collect())
        .collect();
    let mut run = MeasuredRun {
        passed: vec![0.0; graph.blocks.len()],
        cycles: Counter::new(CYCLES),
        instructions: Counter::new(period),
        walked: BTreeMap::new(),
    };
    let (mut at, mut followed) = (0, 0_usize);
    for _ in 0..STEPS {
        run.passed[at] += 1.0;
        for (address, cost) in graph.blocks[at].iter().zip(&costs[at]) {
            run.cycles.count(*address, *cost, random);
            run.instructions.count(*address, 1.0, random);
        }
        let out = &graph.edges[at];
        let way = usize::from(random.unit() > chances[at]).min(out.len() - 1);
        let next = out[way].unwrap_or(0);
        followed = match random.next() % STRETCH.0 {
            0 => STRETCH.1,
            _ => followed.saturating_sub(1),
        };
        if followed > 0 && out.len() > 1 && out[way].is_some() {
            let branch = graph.blocks[at].last().expect("instructions");
            *run.walked
                .entry((*branch, graph.blocks[next][0]))
                .or_default() += 1;
        }
        at = next;
    }
    run
}

fn annotate(lab: &Lab, recording: &Recording) -> Value {
    let file = lab.path("made-up.vf");
    store::write_file(recording, &file).expect("written");
    let output = Command::new(VITALFEW)
        .args(["annotate", "work", "--json", "--cpu", "zen3"])
        .arg(&file)
        .output()
        .expect("vitalfew runs");
    let talk = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{talk}");
    serde_json::from_slice(&output.stdout).expect("JSON")
}

/// Returns the estimated executions of each block, with their confidence.
fn executions(found: &Value) -> Vec<(f64, String)> {
    let blocks = found["blocks"].as_array().expect("blocks").iter();
    let of = |block: &Value| {
        let confidence = block["confidence"].as_str().unwrap_or("none").to_owned();
        (
            block["frequency"].as_f64().unwrap_or(0.0) * CYCLES,
            confidence,
        )
    };
    blocks.map(of).collect()
}

#[test]
fn samples_of_instructions_set_the_scale() {
    let lab = Lab::new();
    let program = lab.program("counted");
    let image =
        ImageSymbols::open_image(&program, &symbols::SymbolOptions::default()).expect("an image");
    let work = image.all_procedures().find(|one| one.name == b"work");
    let start = work.expect("a procedure").start.0;
    drop(image);
    let one = BTreeMap::from([(start, 1)]);
    let graph = Graph::of(&annotate(
        &lab,
        &recording(&program, &[("cycles", CYCLES, &one)]),
    ));
    assert!(graph.blocks.len() > 4, "{}", graph.blocks.len());

    // Samples by confidence: all, and those within 10 and 15 %.
    let mut classes: BTreeMap<String, [f64; 3]> = BTreeMap::new();
    for seed in 1..=20_u64 {
        let mut random = Random(88_172_645_463_325_252 ^ seed << 40);
        let run = walk(&graph, &mut random, 800.0);
        let (cycles, counted) = (run.cycles.taken(), run.instructions.taken());
        let mut made = recording(
            &program,
            &[
                ("cycles", CYCLES, &run.cycles.samples),
                (
                    "instructions",
                    run.instructions.period,
                    &run.instructions.samples,
                ),
            ],
        );
        for ((branch, target), walked) in &run.walked {
            made.branches.push(BranchCount {
                image: ImageId(0),
                branch: ImageOffset(*branch),
                target: ImageOffset(*target),
                observed: 0,
                walked: *walked,
            });
        }
        let found = annotate(&lab, &made);
        assert_eq!(found["frequencies"], "out-of-order, instructions counted");
        let blocks = executions(&found);
        let sizes = graph.blocks.iter().map(|block| block.len() as f64);
        let sum = |all: &mut dyn Iterator<Item = f64>| {
            all.zip(sizes.clone())
                .map(|(times, size)| times * size)
                .sum::<f64>()
        };
        let truth = sum(&mut run.passed.iter().copied());
        let scale = sum(&mut blocks.iter().map(|one| one.0)) / truth;
        // Four standard deviations of the number of samples; periods are uniform, so somewhat less.
        let most = 4.0 / (counted as f64).sqrt();
        println!("{seed}: {cycles} and {counted} samples, scale {scale:.3}");
        assert!(
            (scale - 1.0).abs() < most,
            "{seed}: {scale} of {counted} samples"
        );
        for (((times, confidence), truth), block) in
            blocks.iter().zip(&run.passed).zip(&graph.blocks)
        {
            let samples = block.iter().filter_map(|at| run.cycles.samples.get(at));
            let samples: u64 = samples.sum();
            let error = (times / truth - 1.0).abs();
            let class = classes.entry(confidence.clone()).or_default();
            class[0] += samples as f64;
            class[1] += if error <= 0.10 { samples as f64 } else { 0.0 };
            class[2] += if error <= 0.15 { samples as f64 } else { 0.0 };
        }
        // Without them, or with few, the scale is a guess: one cycle for each instruction.
        if seed <= 2 {
            let few = BTreeMap::from([(start, 399)]);
            let less = ("instructions", run.instructions.period, &few);
            let mut made = recording(&program, &[("cycles", CYCLES, &run.cycles.samples), less]);
            let with = annotate(&lab, &made);
            assert_eq!(with["frequencies"], "out-of-order, relative");
            made = recording(&program, &[("cycles", CYCLES, &run.cycles.samples)]);
            let blocks = executions(&annotate(&lab, &made));
            let scale = sum(&mut blocks.iter().map(|one| one.0)) / truth;
            assert!(scale > 1.5, "{scale}");
            assert!(blocks.iter().all(|one| one.1 == "low"), "{blocks:?}");
        }
    }
    println!("samples, within 10 and 15 %: {classes:.0?}");
    let of = |name: &str| classes.get(name).copied().unwrap_or_default();
    let [high, in_10, in_15] = of("high");
    let all: f64 = classes.values().map(|class| class[0]).sum();
    assert!(high > 0.3 * all);
    assert!(in_10 >= 0.8 * high && in_15 >= 0.95 * high);
    assert!(
        classes
            .keys()
            .all(|class| class == "high" || class == "low")
    );
}
