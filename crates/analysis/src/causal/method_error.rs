//! The systematic error of predictions.
//!
//! More experiments reduce the random error, and not the error of the method. Delays come late.
//! Samples miss a part of a line's time. A thread is credited for a little more or less than it
//! waited. Code that is really faster also waits less often, and its threads meet in another order.
//! Programs whose lines can really be made faster show its size (`benches/causal.py`,
//! `benches/causal_sets.py`). Of 113 predictions, 75 % had the truth in their interval with an
//! allowance of 4 % of the effect, and 92 % with the two terms below, which were chosen by these
//! programs.

use super::effect::Estimate;
use crate::statistics::Interval;

/// Standard deviation of any prediction's error, in program speedup.
const ANY: f64 = 0.015;
/// Standard deviation of a large effect's error, as a part of the effect.
const OF_EFFECT: f64 = 0.09;
/// Speedup of the fragment above which [`ANY`] counts in full. Below, the program is hardly
/// delayed, and the error is smaller.
const FULL_FROM: f64 = 0.25;
/// Half-width of a 95 % interval, in standard deviations.
const REACH: f64 = 1.96;

/// Widens the intervals of an effect, and returns that of the slope.
pub(super) fn widen(slope: Interval, curve: &mut [Estimate]) -> Interval {
    for at in curve {
        let any = ANY * (at.speedup / FULL_FROM).min(1.0);
        (at.low, at.high) = widened(at.program, at.low, at.high, any);
    }
    let (low, high) = widened(slope.estimate, slope.low, slope.high, ANY);
    Interval { low, high, ..slope }
}

/// Returns the ends of an interval, with the error of the method added as independent of chance.
fn widened(estimate: f64, low: f64, high: f64, any: f64) -> (f64, f64) {
    let error = REACH * any.hypot(OF_EFFECT * estimate);
    (
        estimate - (estimate - low).hypot(error),
        estimate + (high - estimate).hypot(error),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn certain_predictions_keep_the_error_of_the_method() {
        let (low, high) = widened(0.5, 0.5, 0.5, ANY);
        assert!((0.5 - low - 0.0930).abs() < 1e-4, "{low}");
        assert!((high - 0.5 - 0.0930).abs() < 1e-4, "{high}");
        let (low, high) = widened(0.0, -0.2, 0.3, ANY);
        assert!((-0.203..-0.2).contains(&low) && (0.3..0.302).contains(&high));
    }

    #[test]
    fn small_speedups_have_small_errors() {
        let at = |speedup: f64| Estimate {
            speedup,
            ..Estimate::default()
        };
        let mut curve = [at(0.0), at(0.05), at(0.25), at(1.0)];
        let slope = Interval {
            estimate: 0.0,
            low: 0.0,
            high: 0.0,
            p: 1.0,
        };
        let slope = widen(slope, &mut curve);
        let widths = curve.map(|at| at.high);
        assert_eq!(widths[0], 0.0);
        assert!((widths[1] * 5.0 - widths[2]).abs() < 1e-12);
        assert_eq!(widths[2..], [slope.high; 2]);
        assert_eq!(slope.p, 1.0);
    }
}
