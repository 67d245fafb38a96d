//! Cycles as text: with few samples a range, and nothing where they are not known.

use analysis::statistics::interval_of_count;

/// From so many samples on their number alone says enough: the half of its interval is a third of it.
const ENOUGH: f64 = 30.0;

/// How many samples there would have been on average, in 19 of 20 cases.
pub fn sample_range(samples: f64) -> (f64, f64) {
    interval_of_count(samples)
}

/// What `samples` come to at so many for each unit, less `off`: `12.3`, or `0.4..12.9` if they are few.
pub fn amount_text(samples: f64, each: f64, off: f64, decimals: usize) -> String {
    let amount = |samples: f64| (samples / each - off).max(0.0);
    if samples >= ENOUGH {
        return format!("{:.decimals$}", amount(samples));
    }
    let (low, high) = sample_range(samples);
    format!("{:.decimals$}..{:.decimals$}", amount(low), amount(high))
}
