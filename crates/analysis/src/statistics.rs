//! Intervals for means of few runs, and false discoveries among many results.
//!
//! Student's and Welch's intervals assume independent runs and a roughly normal mean of each side.
//! With the usual three to ten runs, no estimator knows the distribution's tails. A bootstrap of
//! three values has only ten different outcomes, and so is not used here.

use statrs::distribution::{ChiSquared, ContinuousCDF, StudentsT};

/// Returns the 95 % confidence interval of the mean of a Poisson distribution with one known value
/// (Garwood's): the expected number of samples behind `count`.
pub fn interval_of_count(count: f64) -> (f64, f64) {
    let quantile = |p: f64, freedom: f64| {
        let chi = ChiSquared::new(freedom).ok();
        chi.map_or(0.0, |chi| 0.5 * chi.inverse_cdf(p))
    };
    (
        quantile(0.025, 2.0 * count),
        quantile(0.975, 2.0 * count + 2.0),
    )
}

/// Returns the 95 % confidence interval of a part, given the number of samples (Wilson's).
pub fn interval_of_part(part: f64, samples: f64) -> [f64; 2] {
    const Z: f64 = 1.96;
    if samples <= 0.0 {
        return [0.0, 1.0];
    }
    let (square, scale) = (Z * Z / samples, 1.0 + Z * Z / samples);
    let middle = part + square / 2.0;
    let half = (part * (1.0 - part) * square + square * square / 4.0).sqrt();
    [(middle - half) / scale, (middle + half) / scale]
}

/// An estimate with its 95 % confidence interval.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Interval {
    /// The estimate.
    pub estimate: f64,
    /// The lower end.
    pub low: f64,
    /// The upper end.
    pub high: f64,
    /// The probability of an estimate this far from 0 if the truth is 0 (two-sided).
    pub p: f64,
}

impl Interval {
    /// Returns the reliable end: the one nearer to 0, or 0 if the interval contains it.
    pub fn conservative(&self) -> f64 {
        nearer_to_zero(self.low, self.high)
    }

    /// Makes the interval by Student's distribution with `freedom` degrees of freedom; `None` if a
    /// value is not a number.
    pub(crate) fn new(estimate: f64, error: f64, freedom: f64) -> Option<Self> {
        if !(estimate.is_finite() && error.is_finite()) {
            return None;
        }
        if error == 0.0 {
            // All runs agree to the last digit, as counts of instructions or allocations can.
            return Some(Self {
                estimate,
                low: estimate,
                high: estimate,
                p: if estimate == 0.0 { 1.0 } else { 0.0 },
            });
        }
        let student = StudentsT::new(0.0, 1.0, freedom).ok()?;
        let reach = student.inverse_cdf(0.975) * error;
        Some(Self {
            estimate,
            low: estimate - reach,
            high: estimate + reach,
            p: 2.0 * student.cdf(-(estimate / error).abs()),
        })
    }
}

/// Returns the end of an interval that is nearer to 0; 0 if the interval contains it.
pub(crate) fn nearer_to_zero(low: f64, high: f64) -> f64 {
    if low > 0.0 {
        low
    } else if high < 0.0 {
        high
    } else {
        0.0
    }
}

/// Returns the mean of the runs `a`, less that of `b` if there are any; `None` if a side has fewer
/// than two.
pub fn interval_of_runs(a: &[f64], b: &[f64]) -> Option<Interval> {
    if b.is_empty() {
        mean_interval(a)
    } else {
        difference_interval(a, b)
    }
}

/// Returns the mean of the runs; `None` if there are fewer than two, or a value is not a number.
fn mean_interval(runs: &[f64]) -> Option<Interval> {
    let (mean, variance) = moments(runs)?;
    let n = runs.len() as f64;
    Interval::new(mean, (variance / n).sqrt(), n - 1.0)
}

/// Returns the mean of `a` less the mean of `b` (Welch); `None` if either has fewer than two runs.
fn difference_interval(a: &[f64], b: &[f64]) -> Option<Interval> {
    let ((mean_a, variance_a), (mean_b, variance_b)) = (moments(a)?, moments(b)?);
    let (n_a, n_b) = (a.len() as f64, b.len() as f64);
    let (part_a, part_b) = (variance_a / n_a, variance_b / n_b);
    let square = |x: f64| x * x;
    let freedom =
        square(part_a + part_b) / (square(part_a) / (n_a - 1.0) + square(part_b) / (n_b - 1.0));
    Interval::new(mean_a - mean_b, (part_a + part_b).sqrt(), freedom)
}

fn moments(runs: &[f64]) -> Option<(f64, f64)> {
    if runs.len() < 2 {
        return None;
    }
    let n = runs.len() as f64;
    let mean = runs.iter().sum::<f64>() / n;
    let variance = runs.iter().map(|x| (x - mean) * (x - mean)).sum::<f64>() / (n - 1.0);
    variance.is_finite().then_some((mean, variance))
}

/// Returns the q-values of p-values: rows with `q ≤ x` are together false with a rate of at most
/// `x` (Benjamini and Hochberg's step-up procedure). Untested rows have no q-value, and do not
/// count.
pub fn benjamini_hochberg(p_values: &[Option<f64>]) -> Vec<Option<f64>> {
    let mut order: Vec<(usize, f64)> = p_values
        .iter()
        .enumerate()
        .filter_map(|(index, p)| Some((index, (*p)?)))
        .collect();
    order.sort_by(|a, b| b.1.total_cmp(&a.1));
    let tested = order.len();
    let mut q_values = vec![None; p_values.len()];
    let mut least: f64 = 1.0;
    for (behind, (index, p)) in order.into_iter().enumerate() {
        let ranks = tested as f64 / (tested - behind) as f64;
        least = least.min(p * ranks);
        if let Some(q) = q_values.get_mut(index) {
            *q = Some(least);
        }
    }
    q_values
}

#[cfg(test)]
mod tests {
    use super::*;

    fn close(a: f64, b: f64) -> bool {
        (a - b).abs() < 1e-3 * b.abs().max(1e-3)
    }

    #[test]
    fn intervals_of_counts_are_garwoods() {
        // By R: poisson.test(0), poisson.test(2), poisson.test(100).
        for (count, low, high) in [
            (0.0, 0.0, 3.688_879),
            (2.0, 0.242_209, 7.224_688),
            (100.0, 81.363_97, 121.627_3),
        ] {
            let found = interval_of_count(count);
            assert!(close(found.0, low) && close(found.1, high), "{found:?}");
        }
    }

    #[test]
    fn parts_have_the_intervals_of_the_tables() {
        // 8 of 10: 0.490 to 0.943 (Newcombe 1998, method 3).
        let [low, high] = interval_of_part(0.8, 10.0);
        assert!((low - 0.490).abs() < 1e-3 && (high - 0.943).abs() < 1e-3);
        let [low, high] = interval_of_part(0.0, 20.0);
        assert!(low.abs() < 1e-9 && (high - 0.161).abs() < 1e-3);
        assert_eq!(interval_of_part(0.0, 0.0), [0.0, 1.0]);
    }

    #[test]
    fn intervals_are_those_of_the_textbooks() {
        // By R: t.test(c(30.02, 29.99, 30.11, 29.97, 30.01, 29.99), c(29.89, 29.93, 29.72,
        // 29.98, 30.02, 29.98)): t = 1.959, df = 7.031, p = 0.09077, -0.01956905 to 0.20956905.
        let a = [30.02, 29.99, 30.11, 29.97, 30.01, 29.99];
        let b = [29.89, 29.93, 29.72, 29.98, 30.02, 29.98];
        let found = difference_interval(&a, &b).unwrap();
        assert!(
            close(found.estimate, 0.095) && close(found.p, 0.09077),
            "{found:?}"
        );
        assert!(
            close(found.low, -0.01957) && close(found.high, 0.20957),
            "{found:?}"
        );
        assert_eq!(found.conservative(), 0.0);
        // t(0.975, 2) = 4.302653.
        let found = mean_interval(&[1.0, 2.0, 3.0]).unwrap();
        assert!(close(found.low, 2.0 - 4.302653 / 3f64.sqrt()), "{found:?}");
    }

    #[test]
    fn what_cannot_be_estimated_has_no_interval() {
        assert_eq!(mean_interval(&[1.0]), None);
        assert_eq!(difference_interval(&[1.0, 2.0], &[1.0]), None);
        assert_eq!(mean_interval(&[1.0, f64::NAN]), None);
        let same = difference_interval(&[5.0, 5.0], &[3.0, 3.0]).unwrap();
        assert_eq!((same.low, same.high, same.p), (2.0, 2.0, 0.0));
    }

    #[test]
    fn discoveries_are_those_of_the_paper() {
        // Benjamini and Hochberg (1995), §4.1: 15 p-values, of which the four smallest hold at
        // 0.05.
        let p = [
            0.0001, 0.0004, 0.0019, 0.0095, 0.0201, 0.0278, 0.0298, 0.0344, 0.0459, 0.3240, 0.4262,
            0.5719, 0.6528, 0.7590, 1.0,
        ];
        let q = benjamini_hochberg(&p.map(Some));
        let found: Vec<bool> = q.iter().map(|q| q.unwrap() <= 0.05).collect();
        assert_eq!(found.iter().filter(|x| **x).count(), 4);
        assert!(found[3] && !found[4]);
    }
}
