//! Claims of a run, in the form that all methods share.

use profile::{
    AmountBase, AmountUnit, Certainty, Claim, Finding, FindingAmount, FindingEvidence,
    FindingPlace, Interference, PlaceInCode, TracedFunction,
};

/// Returns a finding for each function in which the program loses time by its threads, the largest
/// loss first. `next` is the command that shows more.
pub fn findings(result: &Interference, next: &[String]) -> Vec<Finding> {
    let claims = result.functions.iter();
    claims
        .filter_map(|function| claim_of_function(function, next))
        .collect()
}

fn claim_of_function(function: &TracedFunction, next: &[String]) -> Option<Finding> {
    let loss = function.loss.filter(|loss| loss.solo.is_claimed)?.solo.loss;
    let cause = function
        .cause
        .map(|cause| FindingEvidence::LossCause { cause });
    let executions = FindingEvidence::Executions {
        calls: function.calls,
        mean_ns: function.mean_ns,
    };
    Some(Finding {
        claim: Claim::LosesTime,
        place: FindingPlace {
            image: (!function.image.is_empty()).then(|| function.image.clone()),
            what: PlaceInCode::Procedure {
                name: function.name.clone(),
            },
        },
        amount: FindingAmount {
            value: loss.estimate,
            interval: Some([loss.low, loss.high]),
            unit: AmountUnit::Fraction,
            relative_to: AmountBase::ThreadTime,
            certainty: Certainty::Measured,
        },
        evidence: cause.into_iter().chain([executions]).collect(),
        doubts: Vec::new(),
        next: next.to_vec(),
    })
}
