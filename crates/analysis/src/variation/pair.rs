//! Two recordings: the rows that differ from the common factor of all rows, and their own factors.

use super::change::Change;
use statrs::distribution::{ContinuousCDF, StudentsT};
use std::f64::consts::LN_2;

/// Rows with fewer samples in both sets together are not tested.
pub const LEAST_SAMPLES: u64 = 10;

/// Fewest samples of a row that informs the common factor: sampling drowns it in lighter rows.
const LEAST_INFORMATIVE: u64 = 20;

/// Maximum number of rows, the heaviest, that inform the background.
const MOST_INFORMATIVE: usize = 64;

/// The prior probability that a row has changed.
const CHANGED: f64 = 0.1;

/// Standard deviation of the logarithm of the factor by which a row changes, if it does.
const CHANGE_SPREAD: f64 = LN_2;

/// Standard deviation of the logarithm of the factor by which the machine is slower in one of two
/// runs of the same work. Tuned by `benches/pairs.py`.
const MACHINE_SPREAD: f64 = 0.15;

/// Step of the logarithm of the common factor on the grid, and its largest value.
const FACTOR_STEP: f64 = 0.01;
const FARTHEST_FACTOR: f64 = 4.0;

/// Logarithm of the factor by which cells of the grid that are left out are less probable than the
/// best one.
const NEGLIGIBLE: f64 = 14.0;

/// Quantile of the normal distribution, for intervals of 95 %.
const NORMAL_QUANTILE: f64 = 1.96;

/// Origin of a row's code. The kernel's work for the same program varies much more from run to run:
/// it depends on free pages, caches and other load.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RowOrigin {
    /// The program and its libraries.
    Program,
    /// The kernel.
    Kernel,
}

impl RowOrigin {
    /// Returns the usual noise of one run, for use without an estimate.
    pub(super) fn usual_noise(self) -> f64 {
        self.noise_prior().median / std::f64::consts::SQRT_2
    }

    /// Returns the prior of the row noise (of the logarithm of a ratio of two runs): its median,
    /// the standard deviation of its logarithm, and the degrees of freedom by which single rows
    /// have more or less. Tuned by `benches/pairs.py`.
    fn noise_prior(self) -> NoisePrior {
        match self {
            Self::Program => NoisePrior {
                median: 0.06,
                spread: 0.7,
                freedom: 8.0,
            },
            Self::Kernel => NoisePrior {
                median: 0.6,
                spread: 0.4,
                freedom: 2.0,
            },
        }
    }
}

struct NoisePrior {
    median: f64,
    spread: f64,
    freedom: f64,
}

/// Scale of a set's amounts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PairScale {
    /// An absolute amount (per run, second or unit of work): the common factor of all rows is
    /// small, such as a slower machine.
    Absolute,
    /// Shares of all samples: if one row grows, the shares of all others shrink by any factor.
    Shares,
}

/// One row of two sets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PairRow {
    /// Samples in the first and in the second set.
    pub counts: [u64; 2],
    /// Origin of its code.
    pub origin: RowOrigin,
}

/// The verdict on one row of two sets.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct PairVerdict {
    /// The probability that an unchanged row differs as much from the common factor; `None` with
    /// too few samples.
    pub p: Option<f64>,
    /// The factor by which the row changed, relative to the common factor.
    pub factor: Change,
    /// Variation of one set's amount of this row from run to run: relative standard deviation, for
    /// [`amount_change`].
    pub noise: f64,
}

/// Comparison of two sets.
#[derive(Clone, Debug, PartialEq)]
pub struct PairComparison {
    /// The common factor of all rows: the machine, its clock, a build that is slower everywhere;
    /// for shares, also the room that other rows left.
    pub common: Change,
    /// The factor of all samples together.
    pub total: Change,
    /// Variation of the program's rows from run to run: relative standard deviation of one run.
    pub noise: f64,
    /// The number of rows behind the common factor and the noise; 0 if both are priors.
    pub informative: usize,
    /// The verdicts, one for each row.
    pub rows: Vec<PairVerdict>,
}

/// The logarithm of a row's ratio, and its sampling variance.
#[derive(Clone, Copy)]
struct LogRatio {
    value: f64,
    variance: f64,
}

impl LogRatio {
    /// Computes the ratio with half a sample more on either side, so that zero has a logarithm too.
    fn of_counts(counts: [u64; 2], offset: f64) -> Self {
        let [a, b] = counts.map(|count| count as f64 + 0.5);
        Self {
            value: (b / a).ln() - offset,
            variance: 1.0 / a + 1.0 / b,
        }
    }
}

/// A common factor and a row noise, and their probability.
struct Cell {
    factor: f64,
    noise: f64,
    log_posterior: f64,
}

/// The posterior of common factor and noise, on a grid.
struct Background {
    cells: Vec<Cell>,
    freedom: f64,
    /// Rows behind the estimate.
    heavy: Vec<usize>,
}

/// Mean and variance of the common factor's logarithm.
#[derive(Clone, Copy)]
struct FactorPrior {
    mean: f64,
    deviation: f64,
}

/// Returns the logarithm of the likelihood of a row, which is unchanged or has changed.
fn log_likelihood(row: LogRatio, factor: f64, noise: f64) -> f64 {
    let density =
        |variance: f64| (-0.5 * (row.value - factor).powi(2) / variance).exp() / variance.sqrt();
    let same = row.variance + noise * noise;
    let likelihood =
        (1.0 - CHANGED) * density(same) + CHANGED * density(same + CHANGE_SPREAD * CHANGE_SPREAD);
    // Far out, both densities underflow to 0: one row must not rule out every cell.
    likelihood.max(f64::MIN_POSITIVE).ln()
}

impl Background {
    fn fit_ratios(rows: &Ratios, prior: FactorPrior, origin: RowOrigin) -> Self {
        let mut heavy: Vec<&(usize, LogRatio, u64)> = rows
            .iter()
            .filter(|row| row.2 >= LEAST_INFORMATIVE)
            .collect();
        // Ties go by index, so that the same rows give the same result.
        heavy.sort_by(|a, b| b.2.cmp(&a.2).then(a.0.cmp(&b.0)));
        heavy.truncate(MOST_INFORMATIVE);
        let reach = (3.0 * prior.deviation).min(0.6);
        let ends = heavy.iter().fold((-reach, reach), |(low, high), row| {
            (low.min(row.1.value - 0.2), high.max(row.1.value + 0.2))
        });
        let low = ends.0.max(-FARTHEST_FACTOR);
        let steps = ((ends.1.min(FARTHEST_FACTOR) - low) / FACTOR_STEP) as usize;
        let noise_prior = origin.noise_prior();
        let noises = (-4..=4).map(|step| noise_prior.median * 1.6f64.powi(step));
        let noises: Vec<f64> = noises.collect();
        let factors = (0..=steps).map(|step| low + step as f64 * FACTOR_STEP);
        let mut cells: Vec<Cell> = Vec::with_capacity((steps + 1) * noises.len());
        for factor in factors {
            for noise in &noises {
                let far = (factor - prior.mean) / prior.deviation;
                let loud = (noise / noise_prior.median).ln() / noise_prior.spread;
                let likelihood = heavy
                    .iter()
                    .map(|row| log_likelihood(row.1, factor, *noise));
                cells.push(Cell {
                    factor,
                    noise: *noise,
                    log_posterior: -0.5 * (far * far + loud * loud) + likelihood.sum::<f64>(),
                });
            }
        }
        Self {
            cells,
            freedom: noise_prior.freedom,
            heavy: heavy.iter().map(|row| row.0).collect(),
        }
    }

    /// Returns cells with their weights, whose sum is 1, without the evidence of one row.
    fn posterior_cells(&self, without: Option<LogRatio>) -> Vec<(f64, f64, f64)> {
        let log = |cell: &Cell| {
            let own = without.map_or(0.0, |row| log_likelihood(row, cell.factor, cell.noise));
            cell.log_posterior - own
        };
        // Relative to the best cell: the exponentials themselves would all be 0.
        let best = self.cells.iter().map(log).fold(f64::MIN, f64::max);
        let mut kept: Vec<(f64, f64, f64)> = self
            .cells
            .iter()
            .map(|cell| (cell.factor, cell.noise, log(cell) - best))
            .filter(|cell| cell.2 > -NEGLIGIBLE)
            .map(|(factor, noise, log)| (factor, noise, log.exp()))
            .collect();
        let sum: f64 = kept.iter().map(|cell| cell.2).sum();
        kept.iter_mut().for_each(|cell| cell.2 /= sum);
        kept
    }

    /// Returns the probability of a ratio as far from the common factor, and the row's own factor.
    fn judge_ratio(
        &self,
        index: usize,
        row: LogRatio,
        samples: u64,
        all: &[(f64, f64, f64)],
    ) -> PairVerdict {
        // A row must not be its own evidence: the common factor comes from the others.
        let others = self
            .heavy
            .contains(&index)
            .then(|| self.posterior_cells(Some(row)));
        let cells = others.as_deref().unwrap_or(all);
        let p = (samples >= LEAST_SAMPLES).then(|| self.two_sided_tail(row, cells));
        let common = moments(cells);
        let noise = common.noise.sqrt();
        let variance = row.variance + common.noise;
        let freedom = self.freedom_of(variance, noise);
        let student = StudentsT::new(0.0, 1.0, freedom);
        let quantile = student.map_or(f64::INFINITY, |student| student.inverse_cdf(0.975));
        let reach = quantile * (variance + common.variance).sqrt();
        PairVerdict {
            p,
            factor: Change::of_logarithm(row.value - common.mean, reach),
            noise: (quantile / NORMAL_QUANTILE) * ((common.noise + common.variance) / 2.0).sqrt(),
        }
    }

    /// Returns the two-sided probability of a ratio as far out as this one, by the cells'
    /// expectation.
    fn two_sided_tail(&self, row: LogRatio, cells: &[(f64, f64, f64)]) -> f64 {
        let (mut below, mut above) = (0.0, 0.0);
        for (factor, noise, weight) in cells {
            let variance = row.variance + noise * noise;
            let distance = (row.value - factor) / variance.sqrt();
            let student = StudentsT::new(0.0, 1.0, self.freedom_of(variance, *noise));
            // Each tail on its own: 1 less the other would lose small ones.
            let tail = |distance: f64| student.as_ref().map_or(0.5, |s| s.cdf(distance));
            below += weight * tail(distance);
            above += weight * tail(-distance);
        }
        (2.0 * f64::min(below, above)).min(1.0)
    }

    /// Returns the degrees of freedom of the sum of sampling's variance, which is known, and the
    /// row's noise, which is not (Welch and Satterthwaite).
    fn freedom_of(&self, variance: f64, noise: f64) -> f64 {
        (self.freedom * (variance / (noise * noise)).powi(2)).clamp(self.freedom, 1e5)
    }
}

/// Mean and variance of the common factor, and the mean square of the noise.
struct Moments {
    mean: f64,
    variance: f64,
    noise: f64,
}

fn moments(cells: &[(f64, f64, f64)]) -> Moments {
    let mean: f64 = cells
        .iter()
        .map(|(factor, _, weight)| factor * weight)
        .sum();
    let square = |factor: f64| (factor - mean).powi(2);
    Moments {
        mean,
        variance: cells.iter().map(|(factor, _, w)| square(*factor) * w).sum(),
        noise: cells.iter().map(|(_, noise, w)| noise * noise * w).sum(),
    }
}

/// Ratios of rows of one origin, with their index and their samples.
type Ratios = Vec<(usize, LogRatio, u64)>;

fn ratios_of(rows: &[PairRow], offset: f64, origin: RowOrigin) -> Ratios {
    let own = rows
        .iter()
        .enumerate()
        .filter(|(_, row)| row.origin == origin);
    own.map(|(index, row)| (index, LogRatio::of_counts(row.counts, offset), sum_of(row)))
        .collect()
}

/// Returns the logarithm of the ratio of two exposures; `None` if one is not a positive number.
fn offset_of(exposure: [f64; 2]) -> Option<f64> {
    let offset = (exposure[1] / exposure[0]).ln();
    (exposure.iter().all(|e| e.is_finite() && *e > 0.0) && offset.is_finite()).then_some(offset)
}

impl PairScale {
    fn factor_prior(self) -> FactorPrior {
        FactorPrior {
            mean: 0.0,
            deviation: match self {
                Self::Absolute => MACHINE_SPREAD,
                Self::Shares => FARTHEST_FACTOR,
            },
        }
    }
}

/// Compares two sets. `exposure` has the number of samples for one compared unit in each. Returns
/// `None` if an exposure is not a positive number.
pub fn compare_pair(
    rows: &[PairRow],
    exposure: [f64; 2],
    scale: PairScale,
) -> Option<PairComparison> {
    let offset = offset_of(exposure)?;
    let mut judged: Vec<Option<PairVerdict>> = vec![None; rows.len()];
    let mut judge_all = |background: &Background, members: &Ratios| {
        let all = background.posterior_cells(None);
        for (index, ratio, sum) in members {
            judged[*index] = Some(background.judge_ratio(*index, *ratio, *sum, &all));
        }
        moments(&all)
    };
    let prior = scale.factor_prior();
    let program_rows = ratios_of(rows, offset, RowOrigin::Program);
    let program = Background::fit_ratios(&program_rows, prior, RowOrigin::Program);
    let common = judge_all(&program, &program_rows);
    let kernel_rows = ratios_of(rows, offset, RowOrigin::Kernel);
    let kernel_prior = if program.heavy.is_empty() {
        prior
    } else {
        // Disturbances affect all of the kernel's rows together.
        FactorPrior {
            mean: common.mean,
            deviation: common.variance.sqrt().hypot(MACHINE_SPREAD),
        }
    };
    let kernel = Background::fit_ratios(&kernel_rows, kernel_prior, RowOrigin::Kernel);
    judge_all(&kernel, &kernel_rows);
    Some(PairComparison {
        common: Change::of_logarithm(common.mean, NORMAL_QUANTILE * common.variance.sqrt()),
        total: total_change(rows, offset),
        // A ratio has the noise of two runs.
        noise: (common.noise / 2.0).sqrt(),
        informative: program.heavy.len(),
        rows: judged.into_iter().flatten().collect(),
    })
}

/// Returns the change of the total. Only priors distinguish a slower machine from a program that is
/// slower everywhere.
fn total_change(rows: &[PairRow], offset: f64) -> Change {
    let add = |sum: [u64; 2], row: &PairRow| [0, 1].map(|i| sum[i].saturating_add(row.counts[i]));
    let total = LogRatio::of_counts(rows.iter().fold([0, 0], add), offset);
    let deviation = total.variance.sqrt().hypot(MACHINE_SPREAD);
    Change::of_logarithm(total.value, NORMAL_QUANTILE * deviation)
}

fn sum_of(row: &PairRow) -> u64 {
    row.counts[0].saturating_add(row.counts[1])
}

/// Returns, for each set, the factor by which most rows differ from all other sets together: a
/// slower machine or, for shares, the room that other rows left.
pub fn common_factors(
    rows: &[(Vec<u64>, RowOrigin)],
    exposure: &[f64],
    scale: PairScale,
) -> Vec<f64> {
    let total: f64 = exposure.iter().sum();
    let of_set = |set: usize| {
        let split = |(counts, origin): &(Vec<u64>, RowOrigin)| {
            let own = counts.get(set).copied().unwrap_or(0);
            let all = counts.iter().fold(0u64, |sum, c| sum.saturating_add(*c));
            PairRow {
                counts: [all.saturating_sub(own), own],
                origin: *origin,
            }
        };
        let rows: Vec<PairRow> = rows.iter().map(split).collect();
        let own = exposure.get(set).copied().unwrap_or(0.0);
        let Some(offset) = offset_of([total - own, own]) else {
            return 1.0;
        };
        let ratios = ratios_of(&rows, offset, RowOrigin::Program);
        let background = Background::fit_ratios(&ratios, scale.factor_prior(), RowOrigin::Program);
        moments(&background.posterior_cells(None)).mean.exp()
    };
    (0..exposure.len()).map(of_set).collect()
}
