//! Intervals for means of few runs.
//!
//! Student's and Welch's: the runs are independent and the mean of a side is roughly normal. With
//! the three to ten runs that people make, no estimator knows the distribution's tails; a bootstrap of
//! three values has ten different outcomes, which is why it is not used here.

use statrs::distribution::{ContinuousCDF, StudentsT};

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
    /// The end that is nearer to 0, or 0 if the interval reaches over it: what can be relied on.
    pub fn conservative(&self) -> f64 {
        if self.low > 0.0 {
            self.low
        } else if self.high < 0.0 {
            self.high
        } else {
            0.0
        }
    }

    fn new(estimate: f64, error: f64, freedom: f64) -> Option<Self> {
        if error == 0.0 {
            // All runs agree to the last unit, as counts of instructions or allocations can.
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

/// The mean of the runs; `None` of fewer than two, or of what is not a number.
pub fn mean_interval(runs: &[f64]) -> Option<Interval> {
    let (mean, variance) = moments(runs)?;
    let n = runs.len() as f64;
    Interval::new(mean, (variance / n).sqrt(), n - 1.0)
}

/// The mean of `a` less the mean of `b` (Welch); `None` if one has fewer than two runs.
pub fn difference_interval(a: &[f64], b: &[f64]) -> Option<Interval> {
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

/// Which of these results to believe when many were asked for: Benjamini and Hochberg's procedure. At
/// most the share `rate` of the believed is expected to be chance (exactly so if the results are
/// independent or positively correlated).
pub fn discoveries(p_values: &[f64], rate: f64) -> Vec<bool> {
    let mut sorted: Vec<f64> = p_values.to_vec();
    sorted.sort_by(f64::total_cmp);
    let n = sorted.len() as f64;
    let fits = |(rank, p): (usize, &f64)| *p <= rate * (rank + 1) as f64 / n;
    let last = (0..sorted.len())
        .rev()
        .find(|rank| fits((*rank, &sorted[*rank])));
    let limit = last.map(|rank| sorted[rank]);
    p_values
        .iter()
        .map(|p| limit.is_some_and(|limit| *p <= limit))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn close(a: f64, b: f64) -> bool {
        (a - b).abs() < 1e-3 * b.abs().max(1e-3)
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
        // Benjamini and Hochberg (1995), §4.1: 15 p-values, of which the four smallest stand at 0.05.
        let p = [
            0.0001, 0.0004, 0.0019, 0.0095, 0.0201, 0.0278, 0.0298, 0.0344, 0.0459, 0.3240, 0.4262,
            0.5719, 0.6528, 0.7590, 1.0,
        ];
        let found = discoveries(&p, 0.05);
        assert_eq!(found.iter().filter(|x| **x).count(), 4);
        assert!(found[3] && !found[4]);
    }
}
