//! Claims of an interference run, in the form that all methods share.

use profile::{
    AmountBase, AmountUnit, CauseKind, Certainty, Claim, Finding, FindingAmount, FindingEvidence,
    FindingPlace, FunctionLoss, Interference, PlaceInCode, TracedFunction,
};

/// Returns one finding for the contention for locks, and one for each other function that loses
/// time to other threads. `next` is the command that shows more.
pub fn findings(result: &Interference, next: &[String]) -> Vec<Finding> {
    let is_other = |function: &&TracedFunction| {
        result.contention.is_none() || !function.cause.is_some_and(CauseKind::is_contention)
    };
    let others = result.functions.iter().filter(is_other);
    let others = others.filter_map(|function| {
        let is_shared = function.cause == Some(CauseKind::SharedLine);
        let cause = function.cause.map(|cause| FindingEvidence::LossCause {
            cause,
            shared_line: function.shared_line.clone().filter(|_| is_shared),
        });
        let loss = function.loss?;
        let mut finding = claim_of_loss(&function.name, &function.image, &loss, cause)?;
        finding.evidence.push(FindingEvidence::Executions {
            calls: function.calls,
            mean_ns: function.mean_ns,
        });
        Some(finding)
    });
    let contention = result.contention.iter().filter_map(|contention| {
        claim_of_loss(
            &contention.function,
            &contention.image,
            &contention.loss,
            Some(FindingEvidence::LossCause {
                cause: contention.cause,
                shared_line: None,
            }),
        )
    });
    let mut findings: Vec<Finding> = contention.chain(others).collect();
    findings.sort_by(|a, b| b.amount.value.total_cmp(&a.amount.value));
    for finding in &mut findings {
        finding.next = next.to_vec();
    }
    findings
}

fn claim_of_loss(
    name: &str,
    image: &str,
    loss: &FunctionLoss,
    cause: Option<FindingEvidence>,
) -> Option<Finding> {
    let amount = loss.solo.is_claimed.then_some(loss.solo.loss)?;
    Some(Finding {
        claim: Claim::LosesTime,
        place: FindingPlace {
            image: (!image.is_empty()).then(|| image.to_owned()),
            what: PlaceInCode::Procedure {
                name: name.to_owned(),
            },
        },
        amount: FindingAmount {
            value: amount.estimate,
            interval: Some([amount.low, amount.high]),
            unit: AmountUnit::Fraction,
            relative_to: AmountBase::ThreadTime,
            certainty: Certainty::Measured,
        },
        evidence: cause.into_iter().collect(),
        doubts: Vec::new(),
        next: Vec::new(),
    })
}
