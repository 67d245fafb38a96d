//! Copies of a line that was inlined at several places: a copy is reported if it is worth another
//! amount than the others.

use super::combine::Combined;
use super::effect::Effect;
use statrs::distribution::{ChiSquared, ContinuousCDF};
use std::collections::{BTreeMap, BTreeSet};

/// Probability below which copies are taken to differ: that of a difference this large by chance.
const DIFFERENT: f64 = 0.05;
/// Standard errors in half of a 95 % interval.
const HALF_INTERVAL: f64 = 1.96;

/// One copy of a line at a progress point.
struct Copy {
    fragment: usize,
    samples: f64,
    slope: f64,
    error: f64,
}

/// Leaves out copies whose effects agree with their part of the line's samples, if the line as a
/// whole has an effect.
pub(super) fn keep_different(combined: &Combined, found: &mut Vec<(usize, Effect)>) {
    let mut copies: BTreeMap<_, Vec<Copy>> = BTreeMap::new();
    let mut wholes = BTreeSet::new();
    for (fragment, effect) in found.iter() {
        let Some(share) = combined.line_of(*fragment) else {
            continue;
        };
        let line = (share.line, &effect.point, effect.measure);
        if !share.is_copy {
            wholes.insert(line);
            continue;
        }
        copies.entry(line).or_default().push(Copy {
            fragment: *fragment,
            samples: share.samples,
            slope: effect.slope.estimate,
            error: (effect.slope.high - effect.slope.low) / (2.0 * HALF_INTERVAL),
        });
    }
    let told =
        |(line, copies): &(_, Vec<Copy>)| wholes.contains(line) && chance_of(copies) >= DIFFERENT;
    let told: BTreeSet<usize> = copies
        .into_iter()
        .filter(told)
        .flat_map(|(_, copies)| copies)
        .map(|copy| copy.fragment)
        .collect();
    found.retain(|(fragment, _)| !told.contains(fragment));
}

/// Returns the probability that copies differ this much by chance, if a sample is worth the same in
/// each.
fn chance_of(copies: &[Copy]) -> f64 {
    let weighted = |of: &dyn Fn(&Copy) -> f64| -> f64 {
        let weighted = copies
            .iter()
            .map(|copy| of(copy) / (copy.error * copy.error));
        weighted.sum()
    };
    let square = weighted(&|copy| copy.samples * copy.samples);
    let of_sample = weighted(&|copy| copy.slope * copy.samples) / square;
    let deviation = weighted(&|copy| (copy.slope - of_sample * copy.samples).powi(2));
    let freedom = copies.len() as f64 - 1.0;
    // A single copy has nothing to differ from.
    let chi = ChiSquared::new(freedom).ok();
    chi.filter(|_| deviation.is_finite())
        .map_or(1.0, |chi| 1.0 - chi.cdf(deviation))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn chance(copies: &[(f64, f64, f64)]) -> f64 {
        let copies: Vec<Copy> = copies
            .iter()
            .map(|&(samples, slope, error)| Copy {
                fragment: 0,
                samples,
                slope,
                error,
            })
            .collect();
        chance_of(&copies)
    }

    #[test]
    fn copies_differ_where_a_sample_is_worth_more() {
        // In proportion to the samples, up to chance.
        assert!(chance(&[(100.0, 0.31, 0.03), (50.0, 0.15, 0.03)]) > 0.5);
        assert!(chance(&[(100.0, 0.4, 0.03), (100.0, 0.0, 0.03)]) < 1e-6);
        assert!(chance(&[(100.0, 0.3, 0.03), (10.0, 0.3, 0.03)]) < 1e-6);
        assert!(chance(&[(1.0, 0.4, 0.3), (1.0, 0.0, 0.3), (1.0, 0.2, 0.3)]) > 0.3);
        // A single copy; and values that cannot be computed with.
        assert_eq!(chance(&[(100.0, 0.4, 0.03)]), 1.0);
        assert_eq!(chance(&[(100.0, 0.4, 0.0), (100.0, 0.0, 0.0)]), 1.0);
        assert_eq!(chance(&[(0.0, 0.4, 0.1), (0.0, 0.0, 0.1)]), 1.0);
        assert_eq!(chance(&[]), 1.0);
    }
}
