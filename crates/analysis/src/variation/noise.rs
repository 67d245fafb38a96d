//! Differences that are more than sampling and run-to-run noise.

use super::pair::RowOrigin;
use statrs::distribution::{ChiSquared, ContinuousCDF, FisherSnedecor};

/// Least expected count in every set for the chi-square approximation (Cochran's rule).
pub const LEAST_EXPECTED: f64 = 5.0;

/// Rows with fewer expected samples in a set say nothing about the noise: sampling drowns it.
const LEAST_FOR_NOISE: f64 = 25.0;

/// Least part of the heaviest row's samples that a row must have to be used for estimating the
/// noise.
const LEAST_WEIGHT: f64 = 0.1;

/// Number of heaviest rows that are used for estimating the noise in any case.
const ENOUGH_ROWS: usize = 8;

/// Least number of rows for an estimate.
const LEAST_ROWS: usize = 3;

/// Variation between the sets in all rows, beyond sampling.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Noise {
    /// `s`: standard deviation of a row between sets, as a part of the row; 0 if sampling explains
    /// everything.
    pub relative: f64,
    /// Number of rows behind the estimate; 0 if there is none.
    pub rows: usize,
}

/// Returns the expected counts of a row that is the same in all sets; `None` without samples.
fn expected_counts(counts: &[u64], exposure: &[f64]) -> Option<Vec<f64>> {
    let total: f64 = exposure.iter().sum();
    let sum: f64 = counts.iter().map(|count| *count as f64).sum();
    let usable = counts.len() == exposure.len()
        && counts.len() >= 2
        && total.is_finite()
        && exposure.iter().all(|e| *e > 0.0);
    // Divide first, because the product of a huge exposure and a count overflows.
    (usable && sum > 0.0).then(|| exposure.iter().map(|e| e / total * sum).collect())
}

/// Returns `X²`, with the square of the noise.
fn chi_square(counts: &[u64], expected: &[f64], noise2: f64) -> f64 {
    let terms = counts.iter().zip(expected).map(|(count, expected)| {
        (*count as f64 - expected).powi(2) / (expected + noise2 * expected * expected)
    });
    terms.sum()
}

impl Noise {
    /// Estimates the noise of rows of an origin from the counts of the heaviest; `exposure` has one
    /// value for each set. With too few rows, returns the usual noise.
    pub fn estimate_noise(
        rows: &[(Vec<u64>, RowOrigin)],
        exposure: &[f64],
        origin: RowOrigin,
    ) -> Self {
        let mut heavy: Vec<(&[u64], Vec<f64>)> = rows
            .iter()
            .filter(|row| row.1 == origin)
            .map(|row| &row.0)
            .filter_map(|counts| Some((counts.as_slice(), expected_counts(counts, exposure)?)))
            .filter(|(_, expected)| expected.iter().all(|e| *e >= LEAST_FOR_NOISE))
            .collect();
        let weight = |row: &(&[u64], Vec<f64>)| row.1.iter().sum::<f64>();
        heavy.sort_by(|a, b| weight(b).total_cmp(&weight(a)));
        // Sampling drowns the noise in light rows, so only as many rows are used as give a stable
        // median.
        let least = heavy.first().map_or(0.0, weight) * LEAST_WEIGHT;
        let enough = heavy.partition_point(|row| weight(row) >= least);
        heavy.truncate(enough.max(ENOUGH_ROWS));
        let rows = heavy.len();
        let usual = Self {
            relative: origin.usual_noise(),
            rows: 0,
        };
        let Ok(chi) = ChiSquared::new(exposure.len() as f64 - 1.0) else {
            return usual;
        };
        if rows < LEAST_ROWS {
            return usual;
        }
        // The median of few rows may be low by chance.
        let cautious = 0.5 - 0.2 / (rows as f64).sqrt();
        let typical = chi.inverse_cdf(cautious);
        let median = |noise2: f64| {
            let statistic = |row: &(&[u64], Vec<f64>)| chi_square(row.0, &row.1, noise2);
            let mut all: Vec<f64> = heavy.iter().map(statistic).collect();
            all.sort_unstable_by(f64::total_cmp);
            // The lower of two middle ones, because the upper may be the one that changed.
            all.get((all.len() - 1) / 2).copied().unwrap_or(0.0)
        };
        // The median falls as the noise grows; no row varies by more than itself in each set.
        let (mut low, mut high) = (0.0, exposure.len() as f64);
        for _ in 0..60 {
            let middle = (low + high) / 2.0;
            if median(middle * middle) > typical {
                low = middle;
            } else {
                high = middle;
            }
        }
        Self {
            relative: if high < 1e-9 { 0.0 } else { high },
            rows,
        }
    }

    /// Returns the probability that a row that is the same in all sets differs at least as much as
    /// this one; `None` with too few samples.
    pub fn p_value(&self, counts: &[u64], exposure: &[f64]) -> Option<f64> {
        let expected = expected_counts(counts, exposure)?;
        if expected.iter().any(|e| *e < LEAST_EXPECTED) {
            return None;
        }
        let statistic = chi_square(counts, &expected, self.relative * self.relative);
        Some(self.upper_tail(statistic, counts.len() as f64 - 1.0))
    }

    /// Returns the upper tail of a chi-square statistic. The noise was itself estimated, by a
    /// median of `rows` values with `freedom` degrees each: with few rows the tail is that of F.
    fn upper_tail(&self, statistic: f64, freedom: f64) -> f64 {
        if self.relative == 0.0 {
            return ChiSquared::new(freedom).map_or(1.0, |chi| chi.sf(statistic));
        }
        // A median is as precise as a mean of 2/π times as many values.
        let behind = (self.rows as f64 * freedom * std::f64::consts::FRAC_2_PI).max(1.0);
        FisherSnedecor::new(freedom, behind).map_or(1.0, |f| f.sf(statistic / freedom))
    }
}
