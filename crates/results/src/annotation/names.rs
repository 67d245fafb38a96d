//! Names of the parts of annotations, for listings, JSON and the page.

use super::procedure::FrequencyBasis;
use analysis::stall::{Confidence, CycleDoubt};

/// Returns the name of a frequency's confidence. Medium confidence counts as low.
pub fn confidence_name(confidence: Confidence) -> &'static str {
    match confidence {
        Confidence::Low | Confidence::Medium => "low",
        Confidence::High => "high",
    }
}

/// Returns the reason why cycles are unknown, in a few words.
pub fn doubt_name(doubt: CycleDoubt) -> &'static str {
    match doubt {
        CycleDoubt::NoScale => "no scale",
        CycleDoubt::NoRatio => "how it compares with what was counted",
        CycleDoubt::UnknownJumps => "jumps that are not understood",
        CycleDoubt::NotRun => "its frequency is not known, or 0",
        CycleDoubt::BelowBest => "below the best case",
    }
}

/// Returns the source of frequencies, in a few words.
pub fn basis_name(basis: FrequencyBasis) -> &'static str {
    match basis {
        FrequencyBasis::Counts => "counts",
        FrequencyBasis::Lines(_) => "counts of lines",
        FrequencyBasis::Bursts => "out-of-order, executions counted",
        FrequencyBasis::Instructions => "out-of-order, instructions counted",
        FrequencyBasis::InOrder => "in-order",
        FrequencyBasis::OutOfOrder => "out-of-order, relative",
    }
}
