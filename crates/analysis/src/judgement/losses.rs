//! Losses of threads to each other, each counted once.
//!
//! Functions call each other, so the loss of one is also a loss of its callers. It also lies in the
//! time of sequences. The rest of a loss is the part that no other finding can have. It excludes
//! the time of listed sequences below the function, and the listed losses of callees as far as
//! their time lies below the function. Working time is a part of all threads' time, so a
//! sequence's part of it is not too small to be subtracted from a loss.

use super::sequences::{LEAST, Sequences};
use profile::{Finding, FindingEvidence, PlaceInCode, plain_name};
use std::ops::Range;

/// A loss without the parts that other findings have.
pub(super) struct LossLeft {
    /// The finding, reduced.
    pub(super) finding: Finding,
    /// The listed sequence that has most of the function's time.
    pub(super) sequence: Option<usize>,
}

impl LossLeft {
    /// Returns whether the rest is large enough to be listed.
    pub(super) fn is_listed(&self) -> bool {
        self.finding.amount.conservative() >= LEAST
    }
}

/// A function in which threads lose time.
struct LosingFunction {
    nodes: Vec<Range<usize>>,
    time: f64,
}

/// Reduces losses to the parts that no other finding has, the innermost functions first. `listed`
/// says for each sequence whether it is a finding.
pub(super) fn count_losses_once(
    sequences: &Sequences<'_>,
    losses: &[&Finding],
    listed: &[bool],
) -> Vec<LossLeft> {
    let function = |loss: &&Finding| LosingFunction::find(sequences, loss);
    let mut functions: Vec<_> = losses.iter().map(|l| (function(l), *l)).collect();
    functions.sort_by(|a, b| a.0.time.total_cmp(&b.0.time));
    let mut left: Vec<(LosingFunction, LossLeft)> = Vec::new();
    for (function, loss) in functions {
        let mut most = (0.0, None);
        let mut in_sequences = 0.0;
        for (owner, time) in sequences.time_by_owner(&function.nodes) {
            if let Some(owner) = owner.filter(|at| listed.get(*at) == Some(&true)) {
                in_sequences += time / sequences.working_ns;
                if time > most.0 {
                    most = (time, Some(owner));
                }
            }
        }
        let inner = left.iter().filter(|(_, inner)| inner.is_listed());
        let in_functions: f64 = inner
            .map(|(inner, loss)| loss.finding.amount.value * function.part_of(inner, sequences))
            .sum();
        let finding = without_part(loss, in_sequences + in_functions);
        let sequence = most.1;
        left.push((function, LossLeft { finding, sequence }));
    }
    left.into_iter().map(|(_, left)| left).collect()
}

impl LosingFunction {
    fn find(sequences: &Sequences<'_>, loss: &Finding) -> Self {
        let nodes = match &loss.place.what {
            PlaceInCode::Procedure { name } => sequences.tree.nodes_below(plain_name(name)),
            _ => Vec::new(),
        };
        let time = nodes.iter().map(|nodes| sequences.time_of(nodes)).sum();
        Self { nodes, time }
    }

    /// Returns the part of `inner`'s time that lies below this function: all of it, if its place is
    /// unknown.
    fn part_of(&self, inner: &Self, sequences: &Sequences<'_>) -> f64 {
        if self.time <= 0.0 || inner.time <= 0.0 {
            return 1.0;
        }
        let mut inside = 0.0;
        for nodes in &inner.nodes {
            for own in &self.nodes {
                let both = nodes.start.max(own.start)..nodes.end.min(own.end);
                if !both.is_empty() {
                    inside += sequences.time_of(&both);
                }
            }
        }
        inside / inner.time
    }
}

/// Subtracts the part that other findings have from a loss.
fn without_part(loss: &Finding, part: f64) -> Finding {
    let mut finding = loss.clone();
    let part = part.min(finding.amount.value).max(0.0);
    finding.amount.value -= part;
    let ends = finding.amount.interval;
    finding.amount.interval = ends.map(|ends| ends.map(|end| (end - part).max(0.0)));
    finding.evidence.extend(counted_elsewhere(part));
    finding
}

/// Returns the evidence that other findings have a part of a place, if that part is not 0.
pub(super) fn counted_elsewhere(part: f64) -> Option<FindingEvidence> {
    (part > 0.0).then_some(FindingEvidence::CountedElsewhere { part })
}
