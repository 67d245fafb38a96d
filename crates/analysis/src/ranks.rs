//! Shifts between runs by ranks: the estimators of Hodges and Lehmann ("Estimates of location based
//! on rank tests", 1963), with the intervals of Wilcoxon's tests.
//!
//! Runs of programs have outliers, from wrong accounting or other work on the machine. With ranks,
//! an outlier weighs no more than any other run. The runs of a side need no particular
//! distribution; those of pairs need symmetric differences.

use crate::statistics::{Interval, interval_of_runs};

/// Probability outside of an interval on each side.
const OUTSIDE: f64 = 0.025;
/// Greatest number of runs for which the distribution of ranks is computed exactly; beyond, the
/// normal one is accurate enough.
const MOST_COUNTED: usize = 40;

/// Returns the shift from a typical run of `b` to one of `a`, with its 95 % interval. Too few runs
/// for ranks (fewer than four a side) are assumed to be normal.
pub fn shift_of_runs(a: &[f64], b: &[f64]) -> Option<Interval> {
    let all = a.len() + b.len();
    let products = a.len() * b.len();
    let outside = if all <= MOST_COUNTED {
        rank_sums(a.len(), all, a.len() * (a.len() + 1) / 2)
    } else {
        normal_quantile(products as f64, (all + 1) as f64 / 12.0 * products as f64)
    };
    let differences = a.iter().flat_map(|a| b.iter().map(move |b| a - b));
    match outside {
        Some(outside) => interval_of_sorted(differences.collect(), outside),
        None => interval_of_runs(a, b),
    }
}

/// Returns the typical difference of pairs, with its 95 % interval. A disturbance that both runs of
/// a pair share cancels out. From twelve pairs on, a single wrong one cannot move an end far. Fewer
/// than six are assumed to be normal.
pub fn shift_of_pairs(differences: &[f64]) -> Option<Interval> {
    let n = differences.len();
    let sums = n * (n + 1) / 2;
    let outside = if n <= MOST_COUNTED {
        rank_sums_of_signs(n)
    } else {
        {
            let variance = sums as f64 * (2 * n + 1) as f64 / 12.0;
            normal_quantile(sums as f64, variance)
        }
    };
    let means = (0..n).flat_map(|i| (i..n).map(move |j| (differences[i] + differences[j]) / 2.0));
    match outside {
        Some(outside) => interval_of_sorted(means.collect(), outside),
        None => interval_of_runs(differences, &[]),
    }
}

/// Returns the median of `values`, and the interval without the `outside` lowest and highest of
/// them.
fn interval_of_sorted(mut values: Vec<f64>, outside: usize) -> Option<Interval> {
    if values.is_empty() || values.iter().any(|value| !value.is_finite()) {
        return None;
    }
    values.sort_unstable_by(f64::total_cmp);
    let n = values.len();
    let (low, high) = (values[outside], values[n - 1 - outside]);
    let estimate = (values[(n - 1) / 2] + values[n / 2]) / 2.0;
    // The caller only asks whether 0 is inside.
    let p = if low <= 0.0 && high >= 0.0 {
        1.0
    } else {
        2.0 * OUTSIDE
    };
    Some(Interval {
        estimate,
        low,
        high,
        p,
    })
}

/// Returns how many of all values to leave out on each side, if their number below 0 is normal.
fn normal_quantile(values: f64, variance: f64) -> Option<usize> {
    let outside = values / 2.0 - 1.96 * variance.sqrt() - 0.5;
    (outside >= 0.0).then_some(outside as usize)
}

/// Returns how many values to leave out on each side, by the exact distribution of the sum of
/// `chosen` out of `all` ranks; the smallest sum is `least`.
fn rank_sums(chosen: usize, all: usize, least: usize) -> Option<usize> {
    // ways[k][s]: number of choices of k ranks with the sum s.
    let most = all * (all + 1) / 2;
    let mut ways = vec![vec![0.0; most + 1]; chosen + 1];
    ways[0][0] = 1.0;
    for rank in 1..=all {
        for k in (1..=chosen.min(rank)).rev() {
            for sum in rank..=most {
                ways[k][sum] += ways[k - 1][sum - rank];
            }
        }
    }
    last_outside(ways.pop()?.get(least..)?)
}

/// Returns how many values to leave out on each side, by the exact distribution of the sum of those
/// of `n` ranks that are above 0.
fn rank_sums_of_signs(n: usize) -> Option<usize> {
    let most = n * (n + 1) / 2;
    let mut ways = vec![0.0; most + 1];
    ways[0] = 1.0;
    for rank in 1..=n {
        for sum in (rank..=most).rev() {
            ways[sum] += ways[sum - rank];
        }
    }
    last_outside(&ways)
}

/// Returns the last value whose probability, together with all before it, is within the allowed
/// one.
fn last_outside(ways: &[f64]) -> Option<usize> {
    let all: f64 = ways.iter().sum();
    let mut below = 0.0;
    let inside = ways.iter().position(|count| {
        below += count;
        below > OUTSIDE * all
    });
    inside?.checked_sub(1)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Tables of Wilcoxon's tests, two-sided at 5 %: the largest statistic that is significant.
    #[test]
    fn the_distribution_is_that_of_the_tables() {
        for (n, critical) in [
            (5, None),
            (6, Some(0)),
            (7, Some(2)),
            (10, Some(8)),
            (20, Some(52)),
        ] {
            assert_eq!(rank_sums_of_signs(n), critical, "{n} pairs");
        }
        let of_sides = |a: usize, b: usize| rank_sums(a, a + b, a * (a + 1) / 2);
        for (a, b, critical) in [
            (3, 3, None),
            (4, 4, Some(0)),
            (5, 5, Some(2)),
            (10, 10, Some(23)),
            (8, 12, Some(22)),
        ] {
            assert_eq!(of_sides(a, b), critical, "{a} and {b} runs");
        }
        // The normal distribution continues the exact one without a jump.
        let normal = |a: f64| normal_quantile(a * a, (2.0 * a + 1.0) / 12.0 * a * a);
        assert_eq!(normal(20.0), rank_sums(20, 40, 210));
    }

    #[test]
    fn one_run_that_was_accounted_wrongly_changes_little() {
        let before: Vec<f64> = (0..12).map(|run| (400.0 + f64::from(run)).ln()).collect();
        let mut after: Vec<f64> = before.iter().map(|run| run + 0.10).collect();
        after[3] = 1.15_f64.ln();
        let pairs: Vec<f64> = after.iter().zip(&before).map(|(a, b)| a - b).collect();
        for shift in [shift_of_runs(&after, &before), shift_of_pairs(&pairs)] {
            let shift = shift.expect("an interval");
            assert!(shift.low > 0.05 && shift.high < 0.15, "{shift:?}");
        }
        let normal = interval_of_runs(&after, &before).expect("an interval");
        assert!(normal.low < -1.0, "{normal:?}");
    }

    #[test]
    fn drift_of_the_machine_is_in_no_pair() {
        let pairs: Vec<f64> = (0..10)
            .map(|pair| 0.1 + 0.001 * f64::from(pair % 3))
            .collect();
        let before: Vec<f64> = (0..10).map(|pair| 0.2 * f64::from(pair)).collect();
        let after: Vec<f64> = before.iter().zip(&pairs).map(|(b, d)| b + d).collect();
        assert!(shift_of_pairs(&pairs).expect("an interval").low > 0.09);
        assert!(shift_of_runs(&after, &before).expect("an interval").low < 0.0);
    }

    proptest! {
        /// For any runs, the interval contains its estimate and shifts with the runs.
        #[test]
        fn an_interval_is_in_order(a in prop::collection::vec(-9.0..9.0f64, 2..60), b in prop::collection::vec(-9.0..9.0f64, 2..60)) {
            let moved: Vec<f64> = a.iter().map(|value| value + 1.0).collect();
            for (one, other) in [
                (shift_of_runs(&a, &b), shift_of_runs(&moved, &b)),
                (shift_of_pairs(&a), shift_of_pairs(&moved)),
            ] {
                let (one, other) = (one.unwrap(), other.unwrap());
                prop_assert!(one.low <= one.estimate && one.estimate <= one.high);
                prop_assert!((other.low - one.low - 1.0).abs() < 1e-9);
                prop_assert!((other.high - one.high - 1.0).abs() < 1e-9);
            }
        }
    }
}
