//! Certainty of blocks' cycles, and the reasons why some are unknown.

use super::{Confidence, Frequencies, attribute_samples};
use machine::FlowGraph;

/// Greatest standard deviation of the logarithm of a counted frequency whose cycles are said, with
/// their interval: a fifth more or less at 95 %.
const MOST_DEVIATION: f64 = 0.1;

/// The scale that makes the frequencies of a procedure absolute.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum FrequencyScale {
    /// No scale: frequencies are only relative.
    Absent,
    /// The least cycles of instructions that do not stall, in order.
    Modelled,
    /// Executions of some blocks, counted in bursts.
    Counted,
    /// A measured number: of instructions, or of executions of some source lines.
    Measured,
    /// Every block was counted.
    Exact,
}

/// Reason why the cycles of a block are unknown.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum CycleDoubt {
    /// Nothing sets the scale of its frequency.
    NoScale,
    /// Something sets the scale, but it is not known how this block compares with what was counted.
    NoRatio,
    /// The procedure has jumps that are not understood, so that the graph misses edges.
    UnknownJumps,
    /// The block is not known to have run.
    NotRun,
    /// The block would have taken fewer cycles than the processor needs: its frequency, the clock
    /// or the model is wrong, or it ran while other instructions waited.
    BelowBest,
}

/// The certainty of a block's cycles.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum CycleTrust {
    /// The frequency is exact, or of high confidence.
    Sure,
    /// There is a scale, but the frequency is of low confidence.
    Rough,
    /// Cycles are not known.
    Unknown(CycleDoubt),
}

impl CycleTrust {
    /// Returns whether the cycles are known.
    pub fn is_known(self) -> bool {
        !matches!(self, Self::Unknown(_))
    }
}

/// Judges each block of a procedure by its time samples (of the graph's instructions) and by its
/// cycles at `best`.
///
/// # Panics
/// If the arguments are not of one graph.
pub fn cycle_trust(
    graph: &FlowGraph,
    scale: FrequencyScale,
    best: &[f64],
    samples: &[f64],
    frequencies: &Frequencies,
) -> Vec<CycleTrust> {
    assert_eq!(best.len(), graph.blocks.len());
    let flow = frequencies.edges.iter();
    let taken: Vec<f64> = flow
        .map(|edge| edge.map_or(0.0, |one| one.frequency))
        .collect();
    let moved = attribute_samples(graph, samples, &taken);
    let blocks = graph.blocks.iter().zip(best).zip(&frequencies.blocks);
    let judge = |((block, best), estimate): ((&machine::Block, &f64), &Option<_>)| {
        let Some(estimate) = estimate.filter(|one: &super::Estimate| one.frequency > 0.0) else {
            return CycleTrust::Unknown(CycleDoubt::NotRun);
        };
        let is_exact = scale == FrequencyScale::Exact;
        let is_low = estimate.confidence == Confidence::Low;
        if scale == FrequencyScale::Absent || scale == FrequencyScale::Modelled && is_low {
            return CycleTrust::Unknown(CycleDoubt::NoScale);
        }
        let is_near = (estimate.deviation).is_some_and(|deviation| deviation <= MOST_DEVIATION);
        if scale == FrequencyScale::Counted && !is_near {
            return CycleTrust::Unknown(CycleDoubt::NoRatio);
        }
        if graph.misses_edges() && !is_exact {
            return CycleTrust::Unknown(CycleDoubt::UnknownJumps);
        }
        // In out-of-order execution, samples at the head of a block belong to the block before.
        let range = block.instructions.clone();
        let sum = |all: &[f64]| all[range.clone()].iter().sum::<f64>();
        let least = best * estimate.frequency;
        if sum(samples).max(sum(&moved)) + 2.0 * least.sqrt() < least {
            return CycleTrust::Unknown(CycleDoubt::BelowBest);
        }
        match estimate.confidence {
            Confidence::High if !graph.misses_edges() => CycleTrust::Sure,
            _ => CycleTrust::Rough,
        }
    };
    blocks.map(judge).collect()
}
