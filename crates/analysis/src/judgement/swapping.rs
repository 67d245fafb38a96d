//! Swapping (ours): memory that does not fit is one cause, whichever code touches it.

use super::sequences::{LEAST, Sequences, UnitedPlace};
use profile::{
    AmountBase, AmountUnit, Certainty, Claim, Finding, FindingAmount, FindingDoubt,
    FindingEvidence, FindingPlace, MemoryNeed, TimeKind,
};

/// The place that stands for all code that touches the memory.
const TOUCHING: &str = "touching memory that was swapped out";
/// Part of the swapping above which one place stands for all. Tuned by `benches/run_cases.py`.
const ONE_TOUCHES: f64 = 0.8;

/// Finds the sequences that mostly swap, if there are several. The place is the dearest one, if it
/// has nearly all.
pub(super) fn find_touching(sequences: &Sequences<'_>) -> Option<UnitedPlace> {
    let swapping: Vec<f64> = (sequences.sequences.iter())
        .map(|sequence| sequence.time_of_kinds(|kind| kind == TimeKind::Swapping))
        .collect();
    let times = swapping.iter().zip(&sequences.sequences).enumerate();
    let inside = times.filter(|(_, (swaps, all))| **swaps > 0.0 && **swaps >= all.time() / 2.0);
    let inside: Vec<usize> = inside.map(|(at, _)| at).collect();
    let most = |a: &&usize, b: &&usize| swapping[**a].total_cmp(&swapping[**b]);
    let dearest = *inside.iter().max_by(most).filter(|_| inside.len() > 1)?;
    let all: f64 = inside.iter().map(|at| swapping[*at]).sum();
    let path = if swapping[dearest] >= ONE_TOUCHES * all {
        sequences.sequences[dearest].path.clone()
    } else {
        vec![(TOUCHING.to_owned(), String::new())]
    };
    Some(UnitedPlace { path, inside })
}

/// Returns the swapping of no listed sequence, as a part of the working time, if it is more than
/// the listed ones have and large enough to be reported.
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
