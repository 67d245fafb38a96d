//! Section 6.2 on a simulated processor: how well estimated frequencies match the true ones.

mod pipeline;

use analysis::stall::{Confidence, Estimate, in_order};
use machine::Equivalence;
use pipeline::{Program, Random, run};

/// Weight of the estimates within each distance of the truth (Figures 8 and 9).
#[derive(Default)]
struct Shares {
    total: f64,
    within: [f64; 3],
}

impl Shares {
    fn add(&mut self, weight: f64, truth: f64, estimate: Option<Estimate>) {
        self.total += weight;
        let error = estimate.map_or(f64::INFINITY, |one| (one.frequency / truth - 1.0).abs());
        for (within, limit) in self.within.iter_mut().zip([0.05, 0.10, 0.15]) {
            *within += if error <= limit { weight } else { 0.0 };
        }
    }

    fn percent(&self) -> [f64; 3] {
        self.within.map(|within| 100.0 * within / self.total)
    }
}

#[test]
fn frequencies_are_about_as_near_as_the_papers() {
    let (mut samples, mut edges, mut high) =
        (Shares::default(), Shares::default(), Shares::default());
    let mut medium = Shares::default();
    let mut instructions = 0.0;
    for seed in 0..30 {
        let mut random = Random(seed);
        let program = Program::random(&mut random);
        let run = run(&program, &mut random, 4_000_000, 50);
        let classes = Equivalence::new(program.blocks.len(), &program.edges);
        let found = in_order::frequencies(&run.issues, &program.edges, &classes);
        for (block, estimate) in found.blocks.iter().enumerate() {
            let weight: f64 = run.issues[block].iter().map(|issue| issue.samples).sum();
            samples.add(weight, run.blocks[block], *estimate);
            match estimate.map(|one| one.confidence) {
                Some(Confidence::High) => high.add(weight, run.blocks[block], *estimate),
                Some(Confidence::Medium) => medium.add(weight, run.blocks[block], *estimate),
                _ => {}
            }
        }
        instructions += run
            .blocks
            .iter()
            .zip(&run.issues)
            .map(|(count, block)| count * block.len() as f64)
            .sum::<f64>();
        for (edge, estimate) in found.edges.iter().enumerate() {
            edges.add(run.edges[edge], run.edges[edge].max(1e-9), *estimate);
        }
    }
    println!("cycles an instruction: {:.2}", samples.total / instructions);
    println!("samples within 5, 10, 15 %: {:.1?}", samples.percent());
    println!("edge executions: {:.1?}", edges.percent());
    println!(
        "high ({:.0} % of samples): {:.1?}",
        100.0 * high.total / samples.total,
        high.percent()
    );
    println!(
        "medium ({:.0} %): {:.1?}",
        100.0 * medium.total / samples.total,
        medium.percent()
    );
    // The paper's shares are 73, 87 and 92, for real programs; these limits are a little below our
    // measured 79.8, 88.1 and 91.6.
    let [five, ten, fifteen] = samples.percent();
    assert!(five >= 76.0 && ten >= 86.0 && fifteen >= 90.0);
    assert!(edges.percent()[1] >= 58.0);
    assert!(high.percent()[1] >= 80.0 && high.percent()[2] >= 95.0);
    assert!(high.total >= 0.3 * samples.total);
}
