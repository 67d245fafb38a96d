//! Claims of an automatic search, in the form that all methods share.

use super::auto::{Bottleneck, FoundSequences};
use super::forest::{Forest, Whole};
use super::interface::Profile;
use profile::{
    AmountBase, AmountUnit, Certainty, Claim, Finding, FindingAmount, FindingDoubt,
    FindingEvidence, FindingPlace, PlaceInCode,
};

impl FoundSequences {
    /// Returns one finding for each sequence, in the order of the cost that each adds. `next` is
    /// the command that shows more.
    pub fn as_findings(&self, forest: &Forest, next: &[String]) -> Vec<Finding> {
        let finding = |bottleneck: &Bottleneck| finding_of(self, forest, bottleneck, next);
        self.bottlenecks.iter().map(finding).collect()
    }
}

fn finding_of(
    found: &FoundSequences,
    forest: &Forest,
    bottleneck: &Bottleneck,
    next: &[String],
) -> Finding {
    let path = forest.path_of(&bottleneck.sequence);
    let methods = path.iter().map(|step| forest.method(*step));
    let last = path.last().map(|step| forest.method(*step));
    let image = last.map(|method| method.module.clone());
    let (relative_to, certainty) = match forest.whole_kind() {
        Whole::Total => (AmountBase::ProfileTotal, Certainty::UpperBound),
        Whole::Difference | Whole::FirstTotal => {
            (AmountBase::ProfileDifference, Certainty::Measured)
        }
    };
    let part = |cost: f64| cost / found.whole;
    let reaches_over_zero = bottleneck.interval.is_some_and(|i| i.conservative() == 0.0);
    Finding {
        claim: Claim::HoldsCost,
        place: FindingPlace {
            image: image.filter(|image| !image.is_empty()),
            what: PlaceInCode::CallPath {
                path: methods.map(|method| method.name.clone()).collect(),
            },
        },
        amount: FindingAmount {
            value: part(bottleneck.new),
            interval: bottleneck.interval.map(|i| [part(i.low), part(i.high)]),
            unit: AmountUnit::Fraction,
            relative_to,
            certainty,
        },
        evidence: vec![FindingEvidence::CallCost {
            cost: bottleneck.cost,
            new: bottleneck.new,
            contexts: forest.context_count(&bottleneck.sequence),
        }],
        doubts: reaches_over_zero
            .then_some(FindingDoubt::IntervalHoldsZero)
            .into_iter()
            .collect(),
        next: next.to_vec(),
    }
}
