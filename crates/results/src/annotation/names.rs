//! Names of what annotations are made from, for listings, JSON and the page.

use super::procedure::FrequencyBasis;
use analysis::stall::{Confidence, CycleDoubt};

/// The word for how sure a frequency is. What is between low and high in order is not better than low.
pub fn confidence_name(confidence: Confidence) -> &'static str {
    match confidence {
        Confidence::Low | Confidence::Medium => "low",
        Confidence::High => "high",
    }
}

/// Why cycles are not known, in a few words.
pub fn doubt_name(doubt: CycleDoubt) -> &'static str {
    match doubt {
        CycleDoubt::NoScale => "no scale",
        CycleDoubt::UnknownJumps => "jumps that are not understood",
        CycleDoubt::NotRun => "its frequency is not known, or 0",
        CycleDoubt::BelowBest => "below the best case",
    }
}

/// Where frequencies come from, in a few words.
pub fn basis_name(basis: FrequencyBasis) -> &'static str {
    match basis {
        FrequencyBasis::Counts => "counts",
        FrequencyBasis::Lines(_) => "counts of lines",
        FrequencyBasis::Instructions => "out-of-order, instructions counted",
        FrequencyBasis::InOrder => "in-order",
        FrequencyBasis::OutOfOrder => "out-of-order, relative",
    }
}
