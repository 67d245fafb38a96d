//! The most probable flow on a simulated processor: it is a flow, it is near the truth, and its
//! confidence is calibrated.

mod pipeline;

use analysis::stall::out_of_order::{
    BlockEvidence, Counted, EdgeEvidence, Evidence, Options, frequencies,
};
use analysis::stall::{Confidence, Ends, Frequencies};
use machine::Equivalence;
use pipeline::{PipelineRun, Program, Random, run};
use proptest::prelude::*;

/// Returns the evidence of a run: the samples, the branch after each, and `walked` branches along
/// stretches.
fn evidence(program: &Program, run: &PipelineRun, random: &mut Random, walked: usize) -> Evidence {
    let blocks: Vec<BlockEvidence> = run
        .issues
        .iter()
        .map(|issues| {
            let samples = issues.iter().map(|issue| issue.samples).sum();
            block(samples, issues.len() as f64)
        })
        .collect();
    let mut edges = vec![EdgeEvidence::default(); program.edges.len()];
    let out = |block: usize| {
        let from = |edge: &usize| program.edges[*edge].0 == Some(block);
        (0..program.edges.len()).filter(from).collect::<Vec<_>>()
    };
    let mut draw = |block: usize, count: usize, random: &mut Random, walking: bool| {
        let out = out(block);
        for _ in 0..count {
            let mut chance = random.unit() * run.blocks[block];
            for edge in &out {
                chance -= run.edges[*edge];
                if chance < 0.0 {
                    let evidence = &mut edges[*edge];
                    *(if walking {
                        &mut evidence.walked
                    } else {
                        &mut evidence.observed
                    }) += 1.0;
                    break;
                }
            }
        }
    };
    let all: f64 = run.blocks.iter().sum();
    for (block, evidence) in blocks.iter().enumerate() {
        draw(block, evidence.samples as usize / 2, random, false);
        let visits = walked as f64 * run.blocks[block] / all;
        draw(block, visits as usize, random, true);
    }
    let instructions = blocks.iter().zip(&run.blocks);
    Evidence {
        edges,
        counted: Vec::new(),
        instructions: Some(instructions.map(|(block, f)| block.instructions * f).sum()),
        complete: true,
        blocks,
    }
}

/// Returns the evidence for a block of `instructions` instructions.
fn block(samples: f64, instructions: f64) -> BlockEvidence {
    BlockEvidence {
        samples,
        instructions,
        cost: instructions,
        at_most: f64::INFINITY,
    }
}

fn flow_error(edges: &[Ends], found: &Frequencies) -> f64 {
    let frequency = |one: &Option<analysis::stall::Estimate>| one.map_or(0.0, |one| one.frequency);
    let mut sides = vec![[0.0; 2]; found.blocks.len()];
    for ((from, to), estimate) in edges.iter().zip(&found.edges) {
        if let Some(from) = from {
            sides[*from][1] += frequency(estimate);
        }
        if let Some(to) = to {
            sides[*to][0] += frequency(estimate);
        }
    }
    let errors = sides.iter().zip(&found.blocks).flat_map(|(sides, block)| {
        let block = frequency(block);
        sides.map(|side| (side - block).abs() / (block + 1e-9))
    });
    errors.fold(0.0, f64::max)
}

#[test]
fn estimates_are_near_and_know_how_near() {
    let mut classes_of = [[0.0; 3]; 3];
    let mut total = 0.0;
    for seed in 0..30 {
        let mut random = Random(seed);
        let program = Program::random(&mut random);
        let run = run(&program, &mut random, 2_000_000, 100);
        let classes = Equivalence::new(program.blocks.len(), &program.edges);
        let evidence = evidence(&program, &run, &mut random, 20_000);
        let found = frequencies(&program.edges, &classes, &evidence, &Options::default());
        let error = flow_error(&program.edges, &found);
        assert!(error < 1e-6, "{error}");
        for ((estimate, truth), block) in found.blocks.iter().zip(&run.blocks).zip(&evidence.blocks)
        {
            let estimate = estimate.expect("there are samples");
            let error = (estimate.frequency / truth - 1.0).abs();
            let class = &mut classes_of[estimate.confidence as usize];
            class[0] += block.samples;
            class[1] += if error <= 0.10 { block.samples } else { 0.0 };
            class[2] += if error <= 0.15 { block.samples } else { 0.0 };
            total += block.samples;
        }
    }
    let high = classes_of[Confidence::High as usize];
    let all: f64 = classes_of.iter().map(|class| class[1]).sum();
    println!("of samples low, medium, high; within 10 and 15 %: {classes_of:.0?} of {total}");
    // Measured: 85 %, 42 % of them high; the estimator allows for a bias that is not simulated
    // here.
    assert!(all >= 0.80 * total);
    assert!(high[0] >= 0.35 * total);
    assert!(high[1] >= 0.80 * high[0] && high[2] >= 0.95 * high[0]);
    // Nothing is called medium: on other programs it was no better than low.
    assert_eq!(classes_of[Confidence::Medium as usize][0], 0.0);
}

#[test]
fn without_a_number_of_instructions_nothing_is_sure() {
    let mut random = Random(3);
    let program = Program::random(&mut random);
    let run = run(&program, &mut random, 500_000, 100);
    let classes = Equivalence::new(program.blocks.len(), &program.edges);
    let mut evidence = evidence(&program, &run, &mut random, 1000);
    evidence.instructions = None;
    let found = frequencies(&program.edges, &classes, &evidence, &Options::default());
    let low = |one: &Option<analysis::stall::Estimate>| {
        one.is_some_and(|one| one.confidence == Confidence::Low)
    };
    assert!(found.blocks.iter().all(low));
}

#[test]
fn nothing_is_known_of_what_was_not_seen() {
    let mut random = Random(3);
    let program = Program::random(&mut random);
    let run = run(&program, &mut random, 500_000, 100);
    let classes = Equivalence::new(program.blocks.len(), &program.edges);
    let mut evidence = evidence(&program, &run, &mut random, 0);
    evidence
        .blocks
        .iter_mut()
        .for_each(|block| block.samples = 0.0);
    evidence.edges.fill(EdgeEvidence::default());
    let found = frequencies(&program.edges, &classes, &evidence, &Options::default());
    assert!(found.blocks.iter().chain(&found.edges).all(Option::is_none));
}

#[test]
fn a_block_runs_no_more_often_than_its_samples_allow() {
    // Two loops, one after the other; how often the second can have run is known.
    let edges = [
        (None, Some(0)),
        (Some(0), Some(0)),
        (Some(0), Some(1)),
        (Some(1), Some(1)),
        (Some(1), None),
    ];
    let classes = Equivalence::new(2, &edges);
    let block = |samples| block(samples, 10.0);
    let mut evidence = Evidence {
        blocks: vec![block(1000.0), block(4000.0)],
        edges: vec![EdgeEvidence::default(); 5],
        counted: Vec::new(),
        instructions: Some(5000.0),
        complete: true,
    };
    let second = |evidence: &Evidence| {
        let found = frequencies(&edges, &classes, evidence, &Options::default());
        found.blocks[1].expect("samples").frequency
    };
    assert!(second(&evidence) > 300.0);
    evidence.blocks[1].at_most = 100.0;
    let bounded = second(&evidence);
    assert!(bounded < 130.0, "{bounded}");
}

#[test]
fn a_corner_that_hardly_runs_is_balanced() {
    // Blocks 2 and 5 go round 36,000 times; by the observations at the branch of block 4, beside
    // them, that block runs more often than the path to it.
    let edges = [
        (None, Some(0)),
        (Some(2), Some(5)),
        (None, Some(3)),
        (Some(2), Some(4)),
        (Some(1), None),
        (Some(3), Some(1)),
        (None, Some(2)),
        (Some(0), Some(1)),
        (Some(4), Some(2)),
        (Some(0), Some(0)),
        (Some(4), None),
        (Some(5), Some(2)),
    ];
    let classes = Equivalence::new(6, &edges);
    let block = |samples| block(samples, 3.0);
    let mut evidence = Evidence {
        blocks: vec![block(0.0); 6],
        edges: vec![EdgeEvidence::default(); edges.len()],
        counted: Vec::new(),
        instructions: None,
        complete: true,
    };
    evidence.edges[10].observed = 33_000.0;
    evidence.blocks[5].samples = 220_000.0;
    for elsewhere in [0.0, 660_000.0] {
        evidence.blocks[3].samples = elsewhere;
        let found = frequencies(&edges, &classes, &evidence, &Options::default());
        let error = flow_error(&edges, &found);
        assert!(error < 1e-6, "{error}");
    }
}

proptest! {
    /// Any graph and evidence give a flow without negative values, and no panic.
    #[test]
    fn any_graph_has_a_flow(
        blocks in 1_usize..12,
        ends in prop::collection::vec((0_usize..13, 0_usize..13), 0..30),
        samples in prop::collection::vec(prop_oneof![Just(0.0), 0.0..1e6_f64], 12),
        seen in prop::collection::vec(prop_oneof![Just(0.0), 0.0..1e5_f64], 31),
        total in prop::option::of(1e-3..1e9_f64),
    ) {
        let end = |at: usize| (at < blocks).then_some(at);
        let mut edges: Vec<Ends> = vec![(None, Some(0))];
        edges.extend(ends.iter().map(|(from, to)| (end(*from), end(*to))));
        edges.retain(|(from, to)| from.is_some() || to.is_some());
        let classes = Equivalence::new(blocks, &edges);
        let evidence = Evidence {
            counted: Vec::new(),
            blocks: samples.iter().take(blocks).map(|samples| block(*samples, 3.0)).collect(),
            edges: seen.iter().take(edges.len()).map(|seen| EdgeEvidence {
                observed: *seen,
                walked: 0.0,
                ..EdgeEvidence::default()
            }).collect(),
            instructions: total,
            complete: true,
        };
        let found = frequencies(&edges, &classes, &evidence, &Options::default());
        for estimate in found.blocks.iter().chain(&found.edges).flatten() {
            prop_assert!(estimate.frequency >= 0.0 && estimate.frequency.is_finite());
        }
        if classes.exits.is_empty() && classes.entries.is_empty() && found.blocks[0].is_some() {
            let error = flow_error(&edges, &found);
            prop_assert!(error < 1e-5, "{error}");
        }
    }
}

#[test]
fn counts_of_some_blocks_settle_the_others_and_wrong_ones_do_no_harm() {
    const PERIOD: f64 = 1000.0;
    let (mut near, mut total, mut high, mut near_high) = (0.0, 0.0, 0.0, 0.0);
    for seed in 0..20 {
        let mut random = Random(seed);
        let program = Program::random(&mut random);
        let run = run(&program, &mut random, 2_000_000, 100);
        let classes = Equivalence::new(program.blocks.len(), &program.edges);
        let mut evidence = evidence(&program, &run, &mut random, 0);
        evidence.instructions = None;
        // Two lines of most blocks; one of nine belongs to other code.
        for (block, frequency) in run.blocks.iter().enumerate() {
            for _ in 0..2 {
                let wrong = if random.below(9) == 0 {
                    8.0 * random.unit()
                } else {
                    1.0
                };
                if random.below(3) > 0 {
                    evidence.counted.push(Counted {
                        block,
                        executions: (frequency * PERIOD * wrong).round(),
                        period: PERIOD,
                        deviation: None,
                    });
                }
            }
        }
        let found = frequencies(&program.edges, &classes, &evidence, &Options::default());
        assert!(flow_error(&program.edges, &found) < 1e-6);
        for ((estimate, truth), block) in found.blocks.iter().zip(&run.blocks).zip(&evidence.blocks)
        {
            let estimate = estimate.expect("there are samples");
            let is_near = (estimate.frequency / truth - 1.0).abs() <= 0.05;
            total += block.samples;
            near += if is_near { block.samples } else { 0.0 };
            if estimate.confidence == Confidence::High {
                high += block.samples;
                near_high += if is_near { block.samples } else { 0.0 };
            }
        }
    }
    println!(
        "within 5 %: {:.3}; high {:.3}, of these {:.3}",
        near / total,
        high / total,
        near_high / high
    );
    assert!(near >= 0.85 * total && high >= 0.7 * total && near_high >= 0.9 * high);
}

#[test]
fn measured_counts_hold_however_far_apart_they_are() {
    // Entry, block 0, a loop, block 2, exit.
    let edges = [
        (None, Some(0)),
        (Some(0), Some(1)),
        (Some(1), Some(1)),
        (Some(1), Some(2)),
        (Some(2), None),
    ];
    let classes = Equivalence::new(3, &edges);
    for rounds in [10.0, 3000.0, 2e5] {
        for walked in [0.0, 4000.0, 1e6] {
            let executed = 7e8;
            let mut edge = vec![EdgeEvidence::default(); edges.len()];
            edge[2].walked = walked;
            edge[3].walked = (walked / rounds).floor();
            let count = |block, executions| Counted {
                block,
                executions,
                period: 2e6,
                deviation: Some(0.012),
            };
            let evidence = Evidence {
                blocks: vec![block(0.0, 4.0), block(3000.0, 6.0), block(0.0, 1.0)],
                edges: edge,
                counted: vec![count(1, executed), count(0, executed / rounds)],
                instructions: None,
                complete: true,
            };
            let found = frequencies(&edges, &classes, &evidence, &Options::default());
            for (block, true_executions) in [(0, executed / rounds), (1, executed)] {
                let found = found.blocks[block].expect("an estimate").frequency;
                let off = (found * 2e6 / true_executions).ln();
                assert!(
                    off.abs() < 0.02,
                    "{rounds} rounds, {walked} walked, block {block}: {off}"
                );
            }
        }
    }
}
