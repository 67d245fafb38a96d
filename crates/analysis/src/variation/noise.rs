//! Which differences are more than sampling and run-to-run noise.

use crate::statistics::nearer_to_zero;
use statrs::distribution::{ChiSquared, ContinuousCDF, FisherSnedecor};
use statrs::function::beta::beta_reg;
use statrs::function::gamma::gamma_lr;

/// The least count that has to be expected in every set for the chi-square approximation (Cochran's
/// rule).
pub const LEAST_EXPECTED: f64 = 5.0;

/// Rows with fewer expected samples in a set say nothing about the noise: sampling drowns it.
const LEAST_FOR_NOISE: f64 = 25.0;

/// The noise is estimated from the rows that have at least this part of the samples of the heaviest.
const LEAST_WEIGHT: f64 = 0.1;

/// And from so many, if there are so many.
const ENOUGH_ROWS: usize = 8;

/// So many rows at least are needed.
const LEAST_ROWS: usize = 3;

/// How much the sets differ in all rows, beyond sampling.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Noise {
    /// `s`: standard deviation of a row between sets, as a part of the row; 0 if sampling explains
    /// everything.
    pub relative: f64,
    /// How many rows it was estimated from; 0: it was not.
    pub rows: usize,
}

/// A difference of two amounts, the second less the first.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Change {
    /// The difference.
    pub estimate: f64,
    /// Lower end of its interval.
    pub low: f64,
    /// Upper end.
    pub high: f64,
}

impl Change {
    /// The end of the interval that is nearer to no change; 0 if the interval holds it.
    pub fn conservative(&self) -> f64 {
        nearer_to_zero(self.low, self.high)
    }
}

/// The expected counts of a row that is the same in all sets; `None` where there are none.
fn expected(counts: &[u64], exposure: &[f64]) -> Option<Vec<f64>> {
    let total: f64 = exposure.iter().sum();
    let sum: f64 = counts.iter().map(|count| *count as f64).sum();
    let usable = counts.len() == exposure.len()
        && counts.len() >= 2
        && exposure.iter().all(|e| e.is_finite() && *e > 0.0);
    (usable && sum > 0.0).then(|| exposure.iter().map(|e| e * sum / total).collect())
}

/// `X²`, with the square of the noise.
fn chi_square(counts: &[u64], expected: &[f64], noise2: f64) -> f64 {
    let terms = counts.iter().zip(expected).map(|(count, expected)| {
        (*count as f64 - expected).powi(2) / (expected + noise2 * expected * expected)
    });
    terms.sum()
}

impl Noise {
    /// Estimates the noise from the counts of the heaviest rows; `exposure` has one value for each
    /// set.
    pub fn fit(rows: &[Vec<u64>], exposure: &[f64]) -> Self {
        let mut heavy: Vec<(&[u64], Vec<f64>)> = rows
            .iter()
            .filter_map(|counts| Some((counts.as_slice(), expected(counts, exposure)?)))
            .filter(|(_, expected)| expected.iter().all(|e| *e >= LEAST_FOR_NOISE))
            .collect();
        let weight = |row: &(&[u64], Vec<f64>)| row.1.iter().sum::<f64>();
        heavy.sort_by(|a, b| weight(b).total_cmp(&weight(a)));
        // In light rows sampling drowns the noise: as few as give a stable median.
        let least = heavy.first().map_or(0.0, weight) * LEAST_WEIGHT;
        let enough = heavy.partition_point(|row| weight(row) >= least);
        heavy.truncate(enough.max(ENOUGH_ROWS));
        let rows = heavy.len();
        let Ok(chi) = ChiSquared::new(exposure.len() as f64 - 1.0) else {
            return Self::default();
        };
        if rows < LEAST_ROWS {
            return Self::default();
        }
        // The median of few rows may be low by chance.
        let cautious = 0.5 - 0.2 / (rows as f64).sqrt();
        let typical = chi.inverse_cdf(cautious);
        let median = |noise2: f64| {
            let statistic = |row: &(&[u64], Vec<f64>)| chi_square(row.0, &row.1, noise2);
            let mut all: Vec<f64> = heavy.iter().map(statistic).collect();
            all.sort_unstable_by(f64::total_cmp);
            // Of an even number the lower one: the upper may be the one that changed.
            all.get((all.len() - 1) / 2).copied().unwrap_or(0.0)
        };
        // The median falls as the noise grows; no row strays by more than all of itself a set.
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

    /// The probability that a row that is the same in all sets differs at least as much as this
    /// one does; `None` with too few samples to tell.
    pub fn p_value(&self, counts: &[u64], exposure: &[f64]) -> Option<f64> {
        let expected = expected(counts, exposure)?;
        if expected.iter().any(|e| *e < LEAST_EXPECTED) {
            return None;
        }
        if let ([a, b], [exposure_a, exposure_b]) = (counts, exposure) {
            let exact = self.binomial(*a, *b, exposure_a / (exposure_a + exposure_b));
            if self.relative == 0.0 {
                return Some(exact);
            }
            let statistic = chi_square(counts, &expected, self.relative * self.relative);
            return Some(exact.max(self.tail(statistic, 1.0)));
        }
        let statistic = chi_square(counts, &expected, self.relative * self.relative);
        Some(self.tail(statistic, counts.len() as f64 - 1.0))
    }

    /// The upper tail of a chi-square statistic. The noise was itself estimated, by a median of
    /// `rows` values that have `freedom` degrees each: with few rows the tail is that of F.
    fn tail(&self, statistic: f64, freedom: f64) -> f64 {
        if self.relative == 0.0 {
            return ChiSquared::new(freedom).map_or(1.0, |chi| chi.sf(statistic));
        }
        // A median is worth 2/π of as many values in a mean.
        let behind = (self.rows as f64 * freedom * std::f64::consts::FRAC_2_PI).max(1.0);
        FisherSnedecor::new(freedom, behind).map_or(1.0, |f| f.sf(statistic / freedom))
    }

    /// The count that has, by sampling alone, the relative error that this one has with the noise.
    fn effective(&self, count: f64) -> f64 {
        count / (1.0 + self.relative * self.relative * count)
    }

    /// Two-sided exact test: of all samples, is the first set's part `share`?
    fn binomial(&self, a: u64, b: u64, share: f64) -> f64 {
        // Shrunk together, so that the ratio of the counts stays.
        let sum = a as f64 + b as f64;
        let smaller = (sum * share.min(1.0 - share)).max(1.0);
        let shrink = self.effective(smaller) / smaller;
        let (a, b) = (a as f64 * shrink, b as f64 * shrink);
        let at_most = |k: f64, rest: f64, share: f64| match (k, rest) {
            (_, rest) if rest <= 0.0 => 1.0,
            // P(X ≤ k) of n with probability p is I(1 − p; n − k, k + 1).
            (k, rest) => beta_reg(rest, k + 1.0, 1.0 - share),
        };
        let tail = at_most(a, b, share).min(at_most(b, a, 1.0 - share));
        (2.0 * tail).min(1.0)
    }

    /// The change of an amount from the first to the second set, with its interval at this
    /// confidence (0.95).
    pub fn change(&self, counts: [u64; 2], exposure: [f64; 2], confidence: f64) -> Change {
        self.change_within(counts, exposure, [1.0, 1.0], confidence)
    }

    /// The change of a share of all samples. A share varies less than a count: by `1 − share`, as
    /// the others' samples vary against it.
    pub fn change_of_share(&self, counts: [u64; 2], totals: [f64; 2], confidence: f64) -> Change {
        let rest = [0, 1].map(|set| {
            let rest = 1.0 - counts[set] as f64 / totals[set];
            // Of n samples that are all here, 3 / n might still be elsewhere.
            rest.max(3.0 / totals[set]).clamp(0.0, 1.0).sqrt()
        });
        self.change_within(counts, totals, rest, confidence)
    }

    fn change_within(
        &self,
        counts: [u64; 2],
        exposure: [f64; 2],
        width: [f64; 2],
        confidence: f64,
    ) -> Change {
        let [a, b] = [0, 1].map(|set| {
            let (low, high) = self.interval(counts[set], confidence);
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

    /// The interval of the expected count behind a count.
    fn interval(&self, count: u64, confidence: f64) -> (f64, f64) {
        let effective = self.effective(count as f64);
        let scale = if count == 0 {
            1.0
        } else {
            count as f64 / effective
        };
        let half = (1.0 - confidence) / 2.0;
        // Garwood: P(X ≥ n | low) = P(X ≤ n | high) = half.
        let low = if effective > 0.0 {
            solve(|mean| gamma_lr(effective, mean), half, effective)
        } else {
            0.0
        };
        let high = solve(
            |mean| gamma_lr(effective + 1.0, mean),
            1.0 - half,
            effective,
        );
        (low * scale, high * scale)
    }
}

/// Where an increasing function of a mean has this value; `near` says in which region.
fn solve(function: impl Fn(f64) -> f64, value: f64, near: f64) -> f64 {
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
