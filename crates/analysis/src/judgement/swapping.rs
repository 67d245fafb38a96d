//! Swapping that is spread over so many places that none of them is a finding (ours): memory that does not fit is one cause, whoever touches it.

use super::sequences::{LEAST, Sequences};
use profile::{
    AmountBase, AmountUnit, Certainty, Claim, Finding, FindingAmount, FindingDoubt,
    FindingEvidence, FindingPlace, MemoryNeed, TimeKind,
};

/// Returns the swapping that no listed sequence has, as a part of the working time, if it is more than they have and worth a word.
pub(super) fn find_spread_swapping(
    sequences: &Sequences<'_>,
    listed: &[bool],
    need: Option<MemoryNeed>,
    next: &[String],
) -> Option<Finding> {
    let all = sequences.time_of_kind(TimeKind::Swapping);
    let own = sequences.sequences.iter().zip(listed);
    let own = own.filter(|(_, listed)| **listed);
    let known: f64 = own
        .map(|(own, _)| own.time_of_kinds(|kind| kind == TimeKind::Swapping))
        .sum();
    let part = (all - known) / sequences.working_ns;
    if part < LEAST || known > all / 2.0 {
        return None;
    }
    let spent = FindingEvidence::TimeSpent {
        on: TimeKind::Swapping,
        part: 1.0,
    };
    let short = need.map(|need| FindingEvidence::MemoryShort { need });
    Some(Finding {
        claim: Claim::TakesTime,
        place: FindingPlace::default(),
        amount: FindingAmount {
            value: part,
            interval: None,
            unit: AmountUnit::Fraction,
            relative_to: AmountBase::WorkingTime,
            certainty: Certainty::UpperBound,
        },
        evidence: std::iter::once(spent).chain(short).collect(),
        doubts: vec![FindingDoubt::OneRun],
        next: next.to_vec(),
    })
}
