//! The difference of two amounts, with its interval.

use crate::statistics::nearer_to_zero;
use statrs::function::gamma::gamma_lr;

/// A change, with its interval.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Change {
    /// The estimate.
    pub estimate: f64,
    /// Lower end of its interval.
    pub low: f64,
    /// Upper end.
    pub high: f64,
}

impl Change {
    /// Returns the end of the interval that is nearer to no change; 0 if the interval contains it.
    pub fn conservative(&self) -> f64 {
        nearer_to_zero(self.low, self.high)
    }

    /// Returns the factor whose logarithm has this estimate.
    pub(super) fn of_logarithm(estimate: f64, reach: f64) -> Self {
        Self {
            estimate: estimate.exp(),
            low: (estimate - reach).exp(),
            high: (estimate + reach).exp(),
        }
    }
}

/// Returns the change of an amount from the first to the second set, with its interval at this
/// confidence. `noise` is the relative standard deviation from run to run.
///
/// Combines the intervals of both counts (exact, Garwood) by the square-and-add rule (Newcombe's
/// MOVER).
pub fn amount_change(counts: [u64; 2], exposure: [f64; 2], noise: f64, confidence: f64) -> Change {
    change_within(counts, exposure, [1.0, 1.0], noise, confidence)
}

/// Returns the change of a share of all samples, from -1 to 1. A share varies less than a count, by
/// `1 − share`, because the other samples vary with it.
pub fn share_change(counts: [u64; 2], totals: [f64; 2], noise: f64, confidence: f64) -> Change {
    let rest = [0, 1].map(|set| {
        let rest = 1.0 - counts[set] as f64 / totals[set];
        // If all n samples are of this row, 3 / n of the others may still exist.
        rest.max(3.0 / totals[set]).clamp(0.0, 1.0).sqrt()
    });
    let change = change_within(counts, totals, rest, noise, confidence);
    // A share is between nothing and all.
    let [least, most] = [-1.0, 1.0];
    Change {
        estimate: change.estimate.clamp(least, most),
        low: change.low.clamp(least, most),
        high: change.high.clamp(least, most),
    }
}

fn change_within(
    counts: [u64; 2],
    exposure: [f64; 2],
    width: [f64; 2],
    noise: f64,
    confidence: f64,
) -> Change {
    let [a, b] = [0, 1].map(|set| {
        let (low, high) = count_interval(counts[set], noise, confidence);
        let middle = counts[set] as f64;
        let below = (middle - low) * width[set] / exposure[set];
        let above = (high - middle) * width[set] / exposure[set];
        (below, middle / exposure[set], above)
    });
    let estimate = b.1 - a.1;
    Change {
        estimate,
        low: estimate - b.0.hypot(a.2),
        high: estimate + b.2.hypot(a.0),
    }
}

/// Returns the interval of the expected count behind a count.
fn count_interval(count: u64, noise: f64, confidence: f64) -> (f64, f64) {
    let count = count as f64;
    // The count whose sampling error alone equals this count's error with the noise.
    let effective = count / (1.0 + noise * noise * count);
    let scale = if count == 0.0 { 1.0 } else { count / effective };
    let half = (1.0 - confidence) / 2.0;
    // Garwood: P(X ≥ n | low) = P(X ≤ n | high) = half.
    let low = if effective > 0.0 {
        solve_increasing(|mean| gamma_lr(effective, mean), half, effective)
    } else {
        0.0
    };
    let high = solve_increasing(
        |mean| gamma_lr(effective + 1.0, mean),
        1.0 - half,
        effective,
    );
    (low * scale, high * scale)
}

/// Returns the mean at which an increasing function has this value. `near` is a guess that sets the
/// search range.
fn solve_increasing(function: impl Fn(f64) -> f64, value: f64, near: f64) -> f64 {
    let (mut low, mut high) = (0.0, near + 20.0 + 20.0 * near.sqrt());
    for _ in 0..80 {
        let middle = (low + high) / 2.0;
        if middle > 0.0 && function(middle) < value {
            low = middle;
        } else {
            high = middle;
        }
    }
    (low + high) / 2.0
}
