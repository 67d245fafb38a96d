//! Frequencies on processors that issue in order (sections 6.1.3 to 6.1.5).
//!
//! All instructions of an equivalence class run `F` times per sample. An instruction that waits at
//! least `M_i` cycles at the head of the issue queue has `S_i >= F M_i` samples, up to sampling
//! error, and `F M_i` if it never stalls dynamically. So `F` is the mean of some of the smaller
//! ratios `S_i / M_i` of the class, which the `cluster` module selects. Classes without such ratios
//! get their frequency from the flow in and out.
//!
//! The method fails undetected if every issue point of a class stalls each time: then `F` is
//! overestimated. For that reason, classes with few issue points have low confidence.

use super::cluster::{Ratio, estimate_class};
use super::propagate::{class_ceilings, propagate_known};
use super::{Confidence, Ends, Estimate, Frequencies};
use machine::Equivalence;

/// Observed and expected cycles of an instruction.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Issue {
    /// Its samples: `S_i`.
    pub samples: f64,
    /// The cycles that it spends at the head of the issue queue without dynamic stalls: `M_i`. 0
    /// for all but the first of instructions that are issued together.
    pub minimum: f64,
    /// The earlier instruction whose latency determines `minimum`, by its position in the block.
    pub waits_for: Option<usize>,
}

/// Estimates frequencies. `blocks` has the instructions of each block; `edges` and `classes` are
/// those of the procedure's graph.
///
/// # Panics
/// If `blocks` and `edges` are not of the graph of `classes`.
pub fn frequencies(blocks: &[Vec<Issue>], edges: &[Ends], classes: &Equivalence) -> Frequencies {
    assert_eq!(blocks.len(), classes.blocks.len());
    assert_eq!(edges.len(), classes.edges.len());
    let mut members: Vec<Vec<Ratio>> = vec![Vec::new(); classes.classes];
    for (block, class) in blocks.iter().zip(&classes.blocks) {
        members[*class].extend(issue_ratios(block));
    }
    let own: Vec<Option<Estimate>> = members
        .iter()
        .map(|ratios| estimate_class(ratios))
        .collect();
    // A value derived from good estimates is better than a bad estimate.
    let is_good = |one: &Estimate| one.confidence > Confidence::Low;
    let mut known: Vec<Option<Estimate>> = own.iter().map(|one| one.filter(is_good)).collect();
    propagate_known(edges, classes, &mut known);
    let ceilings = class_ceilings(edges, classes, &known);
    for ((known, own), ceiling) in known.iter_mut().zip(&own).zip(ceilings) {
        let own = own.map(|own| Estimate {
            frequency: own.frequency.min(ceiling),
            ..own
        });
        *known = known.filter(is_good).or(own).or(*known);
    }
    propagate_known(edges, classes, &mut known);
    Frequencies {
        blocks: classes.blocks.iter().map(|class| known[*class]).collect(),
        edges: classes.edges.iter().map(|class| known[*class]).collect(),
    }
}

/// Returns the ratios of the block's issue points. If one waits for the result of an earlier
/// instruction, a stall in between hides a part of that wait; then all from there on are combined.
fn issue_ratios(block: &[Issue]) -> impl Iterator<Item = Ratio> + '_ {
    block.iter().enumerate().map(|(place, issue)| {
        let from = match issue.waits_for {
            Some(earlier) if earlier < place && issue.minimum > 0.0 => earlier + 1,
            _ => place,
        };
        let waited = block.get(from..=place).unwrap_or_default();
        Ratio {
            samples: waited.iter().map(|one| one.samples).sum(),
            minimum: waited.iter().map(|one| one.minimum).sum(),
            own_samples: issue.samples,
            own_minimum: issue.minimum,
        }
    })
}

/// Returns the cycles per instruction (section 6.1): the time that an instruction with these
/// samples spends at the head of the issue queue each time. `None` if it is not known to have run.
pub fn cycles_per_instruction(samples: f64, frequency: Option<Estimate>) -> Option<f64> {
    let frequency = frequency?.frequency;
    (frequency > 0.0).then(|| samples / frequency)
}
