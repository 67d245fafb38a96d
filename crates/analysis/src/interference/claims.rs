//! Claims of a run's scores, in the form that all methods share.

use profile::{
    AmountBase, AmountUnit, Between, BlockScore, Certainty, Claim, Finding, FindingAmount,
    FindingDoubt, FindingEvidence, FindingPlace, PlaceInCode, Standing,
};

/// Returns a finding for each function in which threads lose time to others, in the order of the scores. `next` is the
/// command that shows more.
pub fn findings(scores: &[BlockScore], next: &[String]) -> Vec<Finding> {
    let loses = |block: &&BlockScore| {
        matches!(
            block.score.standing,
            Standing::Interference | Standing::ForWork
        )
    };
    let scores = scores.iter().filter(loses);
    scores.map(|score| claim_of_score(score, next)).collect()
}

fn claim_of_score(score: &BlockScore, next: &[String]) -> Finding {
    let amount = lost_to_others(score);
    let doubts = score.doubts.iter().map(|doubt| FindingDoubt::Score {
        doubt: doubt.kind,
        value: doubt.value,
    });
    let holds_zero = (amount.low <= 0.0).then_some(FindingDoubt::IntervalHoldsZero);
    Finding {
        claim: Claim::LosesTime,
        place: FindingPlace {
            image: (!score.image.is_empty()).then(|| score.image.clone()),
            what: PlaceInCode::Procedure {
                name: score.name.clone(),
            },
        },
        amount: FindingAmount {
            value: amount.estimate,
            interval: Some([amount.low, amount.high]),
            unit: AmountUnit::Fraction,
            relative_to: AmountBase::ThreadTime,
            certainty: Certainty::Measured,
        },
        evidence: evidence_of(score),
        doubts: holds_zero.into_iter().chain(doubts).collect(),
        next: next.to_vec(),
    }
}

/// The part of what the program loses in a function that others were seen to be the reason of. Threads that wait for the work of
/// others lose all of it to them.
fn lost_to_others(block: &BlockScore) -> Between {
    let part = match block.score.standing {
        Standing::Interference if block.solo.is_none() && block.score.sci.estimate > 0.0 => {
            (block.score.hindered / block.score.sci.estimate).min(1.0)
        }
        _ => 1.0,
    };
    Between {
        estimate: part * block.score.program.estimate,
        low: part * block.score.program.low,
        high: part * block.score.program.high,
    }
}

fn evidence_of(block: &BlockScore) -> Vec<FindingEvidence> {
    let mut evidence = vec![
        FindingEvidence::Executions {
            calls: block.executions.calls,
            mean_ns: block.durations.mean_ns,
            floor_ns: block.floor.ns,
        },
        FindingEvidence::LostTime {
            running: block.breakdown.running,
            blocked: block.breakdown.blocked,
            scheduler: block.breakdown.scheduler,
        },
    ];
    let causes = block.causes.iter().filter(|cause| cause.measured);
    evidence.extend(causes.map(|cause| FindingEvidence::SuspectedCause {
        cause: cause.kind,
        share: cause.share,
        measured: cause.measured,
    }));
    evidence
}
