//! Cycles as text: with few samples a range, and nothing if they are unknown.

use crate::output::group_digits;
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
    let count = analysed.graph.blocks[index].instructions.len();
    if let Some(deviation) = counted_deviation(analysed, index) {
        let deviation = deviation.hypot(1.0 / samples.max(1.0).sqrt());
        let (low, high) = interval_around(samples / often, deviation);
        let each = count.max(1) as f64;
        return format!(
            "{:.1}/{count} = {:.2}CPI, 95 %: {low:.1} to {high:.1} cycles, {:.2} to {:.2}CPI",
            samples / often,
            samples / often / each,
            low / each,
            high / each,
        );
    }
    let confidence = match analysed.basis {
        FrequencyBasis::Counts => "exact",
        _ => estimate.map_or("none", |one| confidence_name(one.confidence)),
    };
    format!(
        "{}/{count} = {}CPI (confidence {confidence})",
        amount_text(samples, often, 0.0, 1),
        amount_text(samples, often * count.max(1) as f64, 0.0, 2)
    )
}

/// Returns how often a block was executed in the counted run, with the interval, if executions were
/// counted in bursts.
pub fn executions_text(analysed: &AnnotatedProcedure, index: usize) -> Option<String> {
    let deviation = counted_deviation(analysed, index)?;
    let estimate = analysed.frequencies.blocks[index]?;
    let executions = estimate.frequency * analysed.cycles_per_sample?;
    let (low, high) = interval_around(executions, deviation);
    let number = |value: f64| group_digits(value.round() as u64);
    Some(format!(
        "{} times, 95 %: {} to {}",
        number(executions),
        number(low),
        number(high)
    ))
}

/// Returns the standard deviation of the logarithm of a block's frequency, if its scale was counted
/// in bursts and its cycles are known.
fn counted_deviation(analysed: &AnnotatedProcedure, index: usize) -> Option<f64> {
    let is_counted = analysed.basis == FrequencyBasis::Bursts && analysed.trust[index].is_known();
    analysed.frequencies.blocks[index]
        .filter(|_| is_counted)?
        .deviation
}

/// Returns the 95 % interval of a value with this standard deviation of its logarithm.
fn interval_around(value: f64, deviation: f64) -> (f64, f64) {
    let factor = (1.96 * deviation).exp();
    (value / factor, value * factor)
}
