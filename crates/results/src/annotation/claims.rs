//! Claims about the instructions of a procedure.

use super::procedure::AnnotatedProcedure;
use analysis::stall::culprits::{Account, Culprit};
use analysis::statistics::interval_of_count;
use profile::{
    AmountBase, AmountUnit, Certainty, Claim, Finding, FindingAmount, FindingDoubt,
    FindingEvidence, FindingPlace, PlaceInCode,
};

/// Part of the procedure's time below which a stall is no claim.
const LEAST_STALL: f64 = 0.01;

/// Least share of the procedure's samples with which an instruction of unknown stall is suspected.
const LEAST_SUSPECTED: f64 = 0.1;

/// Returns a claim for each instruction that waits, the longest wait first. If its execution count
/// is unknown, all of its time bounds the wait. `next` is the command that shows more.
pub fn stall_findings(annotated: &AnnotatedProcedure, next: &[String]) -> Vec<Finding> {
    let total = annotated.total_samples();
    let instructions = annotated.graph.instructions.iter().enumerate();
    let finding = |(index, instruction): (usize, &machine::Instruction)| {
        let samples = annotated.samples[index];
        let found = match &annotated.accounts[index] {
            Some(account) => claim_of_account(samples, total, account)?,
            None => claim_of_suspects(samples, total, &annotated.suspects[index])?,
        };
        let procedure = annotated.name.clone();
        let address = instruction.address.0;
        Some(Finding {
            claim: Claim::Stalls,
            place: FindingPlace {
                image: Some(annotated.image.clone()),
                what: PlaceInCode::Instruction { procedure, address },
            },
            amount: found.amount,
            evidence: found.evidence,
            doubts: found.doubts,
            next: next.to_vec(),
        })
    };
    let mut findings: Vec<Finding> = instructions.filter_map(finding).collect();
    findings.sort_by(|a, b| b.amount.value.total_cmp(&a.amount.value));
    findings
}

/// A claim without its place.
#[derive(Debug)]
struct StallClaim {
    amount: FindingAmount,
    evidence: Vec<FindingEvidence>,
    doubts: Vec<FindingDoubt>,
}

/// Returns the claim about an instruction with an account of its cycles; `None` if its stall is
/// short.
fn claim_of_account(samples: f64, total: f64, account: &Account) -> Option<StallClaim> {
    let share = samples / total;
    let part = |cycles: f64| share * cycles / account.cycles;
    let value = part(account.stall);
    if account.stall.is_nan() || value < LEAST_STALL {
        return None;
    }
    let most: f64 = account.culprits.iter().map(|one| one.most).sum();
    let evidence = account.culprits.iter().map(|one| {
        let others = most - one.most + account.minor;
        // A guessed frequency gives no lower bound.
        let least = if account.sure {
            (account.stall - others).max(0.0)
        } else {
            0.0
        };
        FindingEvidence::StallCulprit {
            culprit: one.cause.name().to_owned(),
            least: part(least),
            most: part(one.most),
        }
    });
    let low = (account.stall - account.error).max(0.0);
    let high = (account.stall + account.error).min(account.cycles);
    Some(StallClaim {
        amount: FindingAmount {
            value,
            interval: account.sure.then(|| [part(low), part(high)]),
            unit: AmountUnit::Fraction,
            relative_to: AmountBase::ProcedureTime,
            certainty: Certainty::Measured,
        },
        evidence: evidence.collect(),
        doubts: if account.sure {
            Vec::new()
        } else {
            vec![FindingDoubt::UnsureFrequency]
        },
    })
}

/// Returns the claim about an instruction of unknown execution count; `None` if it has few samples.
fn claim_of_suspects(samples: f64, total: f64, suspects: &[Culprit]) -> Option<StallClaim> {
    let share = samples / total;
    if suspects.is_empty() || share.is_nan() || share < LEAST_SUSPECTED {
        return None;
    }
    let (low, high) = interval_of_count(samples);
    let evidence = suspects.iter().map(|one| FindingEvidence::StallCulprit {
        culprit: one.cause.name().to_owned(),
        least: 0.0,
        most: share,
    });
    Some(StallClaim {
        amount: FindingAmount {
            value: share,
            interval: Some([low / total, (high / total).min(1.0)]),
            unit: AmountUnit::Fraction,
            relative_to: AmountBase::ProcedureTime,
            certainty: Certainty::UpperBound,
        },
        evidence: evidence.collect(),
        doubts: vec![FindingDoubt::UnsureFrequency],
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use analysis::stall::culprits::Cause;

    fn culprit(cause: Cause, most: f64) -> Culprit {
        Culprit {
            cause,
            at: Vec::new(),
            most,
        }
    }

    /// Returns an instruction that takes ten cycles and waits for eight of them.
    fn account(culprits: Vec<Culprit>) -> Account {
        Account {
            frequency: 1.0,
            sure: true,
            cycles: 10.0,
            minimum: 2.0,
            static_stall: None,
            stall: 8.0,
            culprits,
            minor: 0.0,
            unexplained: 0.0,
            gain: 0.0,
            error: 1.0,
        }
    }

    #[test]
    fn a_stall_is_a_part_of_the_procedures_time() {
        let culprits = vec![culprit(Cause::DataCache, 8.0), culprit(Cause::DataTlb, 3.0)];
        let found = claim_of_account(500.0, 1000.0, &account(culprits)).expect("a claim");
        assert_eq!(found.amount.value, 0.4);
        assert_eq!(found.amount.interval, Some([0.35, 0.45]));
        let FindingEvidence::StallCulprit { least, most, .. } = &found.evidence[0] else {
            panic!("{found:?}");
        };
        assert_eq!((*least, *most), (0.25, 0.4));
    }

    #[test]
    fn a_guessed_frequency_gives_neither_an_interval_nor_a_least() {
        let mut guessed = account(vec![culprit(Cause::DataCache, 8.0)]);
        guessed.sure = false;
        let found = claim_of_account(500.0, 1000.0, &guessed).expect("a claim");
        assert_eq!(found.amount.interval, None);
        assert_eq!(found.doubts, [FindingDoubt::UnsureFrequency]);
        let least = |one: &FindingEvidence| match one {
            FindingEvidence::StallCulprit { least, .. } => *least,
            other => panic!("{other:?}"),
        };
        assert_eq!(least(&found.evidence[0]), 0.0);
    }

    #[test]
    fn short_waits_and_cold_suspects_are_no_claims() {
        assert!(claim_of_account(5.0, 1000.0, &account(Vec::new())).is_none());
        let suspects = [culprit(Cause::DataCache, 0.0)];
        assert!(claim_of_suspects(50.0, 1000.0, &suspects).is_none());
        assert!(claim_of_suspects(500.0, 1000.0, &[]).is_none());
        assert!(claim_of_suspects(0.0, 0.0, &suspects).is_none());
        let hot = claim_of_suspects(500.0, 1000.0, &suspects).expect("a claim");
        assert_eq!(hot.amount.certainty, Certainty::UpperBound);
    }
}
