//! Frequencies on processors that issue out of order: the most probable flow through the graph,
//! given the observations.
//!
//! Time alone says little here: no instruction is known not to stall. Observed branches say more:
//! at a sample (the paper's section 7, *interpretation*) or along a stretch of execution (*double
//! sampling*). The estimator combines all of these. Its unknowns are the frequencies `f` of the
//! equivalence classes. The flow into a block equals the flow out of it, exactly, and none is
//! negative. Under these constraints, it minimises the sum of
//!
//! * for each block with several edges out, with `n_e` observations of edge `e`:
//!   `-Σ n_e ln(f_e / F)`, the multinomial likelihood of a branch;
//! * for each class with `S` samples and `C` expected cycles: a robust square of `ln S - ln(f C
//!   τ)`, in units of its error, which is mostly the variation of instructions' cycles (`σ` = 1: a
//!   factor of 2.7); the same for visits along stretches (`σ` = 0.3);
//! * likewise for executions of source lines, counted by another tool (`σ` = 0.02);
//! * a penalty where `f` exceeds the frequency that the samples allow without any stall.
//!
//! `τ`, the mean stall, is estimated as well. The samples do not determine the scale of `f`. It
//! comes from the number of instructions that the procedure executed, or from counts; otherwise it
//! is guessed, and then every estimate has low confidence.
//!
//! Each step of Newton's method (with Fisher's information in place of the second derivatives)
//! solves a sparse quasi-definite system; the inverse of the last system gives the variance of each
//! estimate, and so its confidence.
//!
//! Observations are biased: those at samples see slow executions more often than fast ones. So no
//! number of them makes a branch surer than [`Options::most_observations`]. The bias comes from the
//! time just before a branch. Paths after samples that pass many branches cover a longer time,
//! which varies less. So the limit for observations at samples grows with their number per sample.

pub use super::block_evidence::{BlockEvidence, Counted, EdgeEvidence, Evidence, Options};

use super::model::Model;
use super::{Confidence, Ends, Estimate, Frequencies, attribute_samples};
use machine::{Equivalence, FlowGraph};

/// Standard deviation of the logarithm of the guessed cycles of an instruction.
const GUESS: f64 = 0.7;

/// Estimates frequencies; `edges` and `classes` are those of the procedure's graph. All are `None`
/// without observations.
///
/// # Panics
/// If `evidence`, `edges` and `classes` are not of one graph.
pub fn frequencies(
    edges: &[Ends],
    classes: &Equivalence,
    evidence: &Evidence,
    options: &Options,
) -> Frequencies {
    let none = || Frequencies {
        blocks: vec![None; classes.blocks.len()],
        edges: vec![None; edges.len()],
    };
    let Some((flow, variance)) = fit_classes(edges, classes, evidence, options) else {
        return none();
    };
    let free = evidence.instructions.is_none() && !evidence.counted.is_empty();
    let is_known = evidence.instructions.is_some() || free;
    let scale = if is_known { 0.0 } else { GUESS * GUESS };
    let known = is_known && evidence.complete;
    let estimates = flow.iter().zip(variance);
    let of: Vec<Option<Estimate>> = estimates
        .map(|(frequency, variance)| {
            Some(Estimate {
                frequency: *frequency,
                confidence: confidence_of(variance + scale, known),
                deviation: is_known.then(|| (variance + scale).max(0.0).sqrt()),
            })
        })
        .collect();
    let class = |class: &usize| of.get(*class).copied().flatten();
    Frequencies {
        blocks: classes.blocks.iter().map(class).collect(),
        edges: classes.edges.iter().map(class).collect(),
    }
}

/// Fits the flow; returns the frequency of each class, and the variance of its logarithm.
fn fit_classes(
    edges: &[Ends],
    classes: &Equivalence,
    evidence: &Evidence,
    options: &Options,
) -> Option<(Vec<f64>, Vec<f64>)> {
    assert_eq!(evidence.blocks.len(), classes.blocks.len());
    assert_eq!(evidence.edges.len(), edges.len());
    assert_eq!(edges.len(), classes.edges.len());
    let samples: f64 = evidence.blocks.iter().map(|block| block.samples).sum();
    let seen: f64 = evidence.edges.iter().map(|e| e.observed + e.walked).sum();
    let counted = |one: &Counted| {
        let instructions = evidence
            .blocks
            .get(one.block)
            .map_or(0.0, |block| block.instructions);
        instructions * one.executions / one.period
    };
    let total = match evidence.instructions {
        Some(instructions) => instructions,
        None if evidence.has_counted_lines() => {
            let all = evidence.counted.iter().map(counted);
            all.sum::<f64>().max(f64::MIN_POSITIVE)
        }
        None => samples / options.cycles_per_instruction,
    };
    if samples + seen <= 0.0 || total <= 0.0 || !total.is_finite() {
        return None;
    }
    // Counts determine the scale.
    let free = evidence.instructions.is_none() && !evidence.counted.is_empty();
    let mut model = Model::new(edges, classes, evidence, options, total, free)?;
    let variance = model.fit_flow()?;
    Some((model.flow, variance))
}

/// Returns the frequency of each block, and the variance of its logarithm. `None` without
/// observations.
pub(super) fn log_variances(
    edges: &[Ends],
    classes: &Equivalence,
    evidence: &Evidence,
    options: &Options,
) -> Option<(Vec<f64>, Vec<f64>)> {
    let (flow, variance) = fit_classes(edges, classes, evidence, options)?;
    let of_blocks = |all: &[f64]| classes.blocks.iter().map(|class| all[*class]).collect();
    Some((of_blocks(&flow), of_blocks(&variance)))
}

/// Measurements of a procedure, by the instructions of its graph.
#[derive(Clone, Copy, Debug)]
pub struct Observed<'a> {
    /// The samples of each instruction, at the program counters where they were taken.
    pub samples: &'a [f64],
    /// For each block, its least cycles by a model of the processor, in the unit of the sampling
    /// period.
    pub costs: Option<&'a [f64]>,
    /// For each edge, how often it was seen to be taken.
    pub edges: &'a [EdgeEvidence],
    /// Counts from another tool.
    pub counted: &'a [Counted],
    /// The instructions that the procedure executed, divided by the cycles between samples.
    pub instructions: Option<f64>,
}

/// The estimates.
#[derive(Clone, Debug, PartialEq)]
pub struct Estimates {
    /// Frequencies of the blocks and edges.
    pub frequencies: Frequencies,
    /// The samples of each instruction of the graph, moved to the one that held up retirement:
    /// [`attribute_samples`](super::attribute_samples).
    pub samples: Vec<f64>,
}

/// Estimates the frequencies of a procedure and attributes its samples to instructions. Each
/// depends on the other, so that both are done twice.
///
/// # Panics
/// If the observations are not of this graph.
pub fn estimate_procedure(
    graph: &FlowGraph,
    classes: &Equivalence,
    observed: &Observed<'_>,
    options: &Options,
) -> Estimates {
    let edges: Vec<Ends> = graph
        .edges
        .iter()
        .map(|edge| (edge.from, edge.to))
        .collect();
    let seen = |edge: &EdgeEvidence| edge.observed + edge.walked;
    let mut taken: Vec<f64> = observed.edges.iter().map(seen).collect();
    let mut samples = attribute_samples(graph, observed.samples, &taken);
    let mut found = None;
    for _ in 0..2 {
        let evidence = evidence_of(graph, &samples, observed);
        let frequencies = frequencies(&edges, classes, &evidence, options);
        let flow = |estimate: &Option<Estimate>| estimate.map_or(0.0, |one| one.frequency);
        taken = frequencies.edges.iter().map(flow).collect();
        samples = attribute_samples(graph, observed.samples, &taken);
        found = Some(frequencies);
    }
    Estimates {
        frequencies: found.unwrap_or_else(|| Frequencies {
            blocks: vec![None; graph.blocks.len()],
            edges: vec![None; graph.edges.len()],
        }),
        samples,
    }
}

/// Returns the evidence of a procedure, with its samples attributed to instructions as the estimate
/// has it.
///
/// # Panics
/// If the observations are not of this graph.
pub fn gather_evidence(
    graph: &FlowGraph,
    classes: &Equivalence,
    observed: &Observed<'_>,
    options: &Options,
) -> Evidence {
    let estimates = estimate_procedure(graph, classes, observed, options);
    evidence_of(graph, &estimates.samples, observed)
}

fn evidence_of(graph: &FlowGraph, samples: &[f64], observed: &Observed<'_>) -> Evidence {
    let blocks = graph.blocks.iter().enumerate().map(|(index, block)| {
        let range = block.instructions.clone();
        let samples = samples.get(range.clone()).unwrap_or_default().iter().sum();
        let cost = observed.costs.and_then(|costs| costs.get(index)).copied();
        let least = cost.filter(|cost| *cost > 0.0);
        BlockEvidence {
            samples,
            instructions: range.len() as f64,
            cost: least.unwrap_or(range.len() as f64),
            at_most: least.map_or(f64::INFINITY, |least| sample_ceiling(samples) / least),
        }
    });
    Evidence {
        blocks: blocks.collect(),
        edges: observed.edges.to_vec(),
        counted: observed.counted.to_vec(),
        instructions: observed.instructions,
        complete: !graph.misses_edges(),
    }
}

/// Returns the most samples that were expected without chance (three standard deviations).
fn sample_ceiling(samples: f64) -> f64 {
    samples + 3.0 * samples.sqrt() + 3.0
}

/// Returns the confidence for a variance of the logarithm.
fn confidence_of(variance: f64, known: bool) -> Confidence {
    let deviation = variance.max(0.0).sqrt();
    match deviation {
        _ if !known => Confidence::Low,
        ..HIGH => Confidence::High,
        _ => Confidence::Low,
    }
}

/// Standard deviation of estimates of high confidence; the docs give their accuracy. There is no
/// class between high and low: on programs outside of the tuning set, estimates with up to twice
/// this deviation were no nearer than the rest.
const HIGH: f64 = 0.055;
