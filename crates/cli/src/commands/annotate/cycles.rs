//! Cycles as text: with few samples a range, and nothing if they are unknown.

use analysis::stall::{CycleDoubt, CycleTrust};
use analysis::statistics::interval_of_count;
use results::annotation::{AnnotatedProcedure, FrequencyBasis, confidence_name, doubt_name};

/// Number of samples from which on no range is given: half of the interval is then a third of the
/// number.
const ENOUGH: f64 = 30.0;

/// Returns `samples / each - off` as text: `12.3`, or `0.4..12.9` if the samples are few.
pub fn amount_text(samples: f64, each: f64, off: f64, decimals: usize) -> String {
    let amount = |samples: f64| (samples / each - off).max(0.0);
    if samples >= ENOUGH {
        return format!("{:.decimals$}", amount(samples));
    }
    let (low, high) = interval_of_count(samples);
    format!("{:.decimals$}..{:.decimals$}", amount(low), amount(high))
}

/// Returns the cycles of a block, or the reason that they are unknown.
pub fn actual_text(analysed: &AnnotatedProcedure, index: usize, samples: f64) -> String {
    let estimate = analysed.frequencies.blocks[index];
    let often = estimate.map_or(0.0, |one| one.frequency);
    if let CycleTrust::Unknown(doubt) = analysed.trust[index] {
        let name = doubt_name(doubt);
        return match doubt {
            CycleDoubt::BelowBest => format!(
                "not known: {:.1} cycles would be {name}; the counts, the clock or the model are wrong, or it ran while others waited",
                samples / often
            ),
            _ => format!("not known: {name}"),
        };
    }
    let confidence = match analysed.basis {
        FrequencyBasis::Counts => "exact",
        _ => estimate.map_or("none", |one| confidence_name(one.confidence)),
    };
    let count = analysed.graph.blocks[index].instructions.len();
    format!(
        "{}/{count} = {}CPI (confidence {confidence})",
        amount_text(samples, often, 0.0, 1),
        amount_text(samples, often * count.max(1) as f64, 0.0, 2)
    )
}
