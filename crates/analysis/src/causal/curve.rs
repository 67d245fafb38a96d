//! The curve of a causal profile, with its band.
//!
//! The paper plots the combined experiments as points. With twenty speedups, each has few
//! experiments, and neighbours hardly differ. So the points are smoothed. `f(s)`, the period at a
//! speedup in units of the measured baseline, is taken to be a straight line plus a random walk in
//! `s`, of any steepness and with steps of variance `τ²·Δs`: critical paths change at some speedup,
//! which makes kinks, not waves. Given `τ` and the variance `σ²` of a visit, `f` minimises
//!
//! `Σ_j W_j (z_j − f_j)² + (σ/τ)² f'Kf`
//!
//! over the measured ratios `z_j`, where `W_j` are visits over `f_j²` (the inverse variance of
//! `z_j`, up to `σ²`) and `f'Kf` are the steps off the straight line, squared, over their lengths.
//! The size of the walk's steps is unknown: every `τ` of a grid is weighted by its restricted
//! likelihood (Patterson, Thompson 1971), which includes the variation among experiments with the
//! same speedup. Little data gives nearly the straight line, much data the points themselves. The
//! band is that of the Bayesian model (Wahba 1983; Nychka 1988), averaged over `τ`: it includes the
//! error of smoothing.

use super::combine::{Level, Levels};
use super::effect::Estimate;
use super::phase::Phase;

/// Distances `τ` of the curve from a straight line: 1 point to 100 points, each 1.5 times the one
/// before.
const LEAST_WALK: f64 = 0.01;
const WALKS: i32 = 12;

/// The curve.
pub(super) struct Curve {
    speedups: Vec<f64>,
    /// Period in units of the measured baseline, at 0 and at `speedups`.
    pub period: Vec<f64>,
    /// Variance of the period at each, and its covariance with that at 0.
    variance: Vec<(f64, f64)>,
    /// Degrees of freedom left to estimate the variance from.
    pub freedom: f64,
}

impl Curve {
    /// Returns the program speedups, for the whole run.
    pub fn estimates(&self, phase: &Phase) -> Vec<Estimate> {
        let (Some(&base), Some(&(base_variance, _))) = (self.period.first(), self.variance.first())
        else {
            return Vec::new();
        };
        let rows = self.speedups.iter().zip(&self.period).zip(&self.variance);
        rows.skip(1)
            .map(|((&speedup, &period), &(variance, covariance))| {
                let ratio = period / base;
                // First-order error with the covariance, because both ends of the ratio come from
                // one curve.
                let variance = variance - 2.0 * ratio * covariance + ratio * ratio * base_variance;
                let error = variance.max(0.0).sqrt() / base;
                let interval = phase.interval(1.0 - ratio, error, self.freedom);
                Estimate {
                    speedup,
                    program: interval.estimate,
                    low: interval.low,
                    high: interval.high,
                }
            })
            .collect()
    }
}

/// Fits the curve through the levels.
pub(super) fn fit_curve(levels: &Levels) -> Curve {
    let speedups: Vec<f64> = levels.all().map(|level| level.speedup).collect();
    let ratio = |speedup: f64, ratio: f64| if speedup == 0.0 { 1.0 } else { ratio };
    let measured: Vec<f64> = levels.all().map(|l| ratio(l.speedup, l.ratio)).collect();
    let visits: Vec<f64> = levels.all().map(Level::counted_visits).collect();
    let (within, experiments) = visit_variation(levels, &measured);
    let data = Data {
        measured: &measured,
        within,
        experiments,
        walk: walk_penalty(&speedups),
    };
    let mut curve = data.for_itself(&visits);
    // The weights depend on the curve.
    for _ in 0..3 {
        let weights = visits.iter().zip(&curve.period).map(|(n, f)| n / (f * f));
        let Some(next) = data.average_smoothing(&weights.collect::<Vec<_>>(), curve.unit) else {
            break;
        };
        if next.period.iter().any(|f| *f < 1e-3) {
            break;
        }
        curve = next;
    }
    Curve {
        speedups,
        period: curve.period,
        variance: curve.variance,
        freedom: curve.freedom,
    }
}

/// Returns how much the visits of experiments with the same speedup vary: the sum of squares, each
/// divided by its expected number of visits, and the number of experiments.
fn visit_variation(levels: &Levels, ratios: &[f64]) -> (f64, f64) {
    let mut sum = 0.0;
    for (level, ratio) in levels.all().zip(ratios) {
        let period = ratio * levels.baseline_period;
        for experiment in &level.experiments {
            let expected = experiment.amount / period;
            let off = experiment.visits - expected;
            sum += off * off / if expected > 0.0 { expected } else { 1.0 };
        }
    }
    (sum, levels.freedom * levels.experiments() as f64)
}

/// Input of the curve, without the weights.
struct Data<'a> {
    measured: &'a [f64],
    within: f64,
    experiments: f64,
    walk: Matrix,
}

/// A curve.
struct Solved {
    period: Vec<f64>,
    /// Variance at each level, and covariance with the first.
    variance: Vec<(f64, f64)>,
    /// Degrees of freedom that are left.
    freedom: f64,
    /// The variance of a visit, `σ²`.
    unit: f64,
    /// Twice the negative log of the restricted likelihood, up to a constant.
    badness: f64,
}

impl Data<'_> {
    /// Solves without a curve: every level stands alone.
    fn for_itself(&self, visits: &[f64]) -> Solved {
        let freedom = (self.experiments - visits.len() as f64).max(1.0);
        let unit = self.within / freedom;
        let pairs = visits.iter().zip(self.measured);
        let mut variance: Vec<(f64, f64)> = pairs.map(|(n, f)| (unit * f * f / n, 0.0)).collect();
        if let Some(first) = variance.first_mut() {
            first.1 = first.0;
        }
        Solved {
            period: self.measured.to_vec(),
            variance,
            freedom,
            unit,
            badness: 0.0,
        }
    }

    /// Returns the mean over all `τ`; `None` if the levels do not determine a straight line.
    fn average_smoothing(&self, weights: &[f64], unit: f64) -> Option<Solved> {
        if self.measured.len() < 3 {
            return None;
        }
        // If all experiments agree, use the smallest variance that arithmetic allows.
        let unit = unit.max(1e-9);
        let walks = (0..WALKS).map(|step| LEAST_WALK * 1.5f64.powi(step));
        let solved: Vec<Solved> = walks
            .filter_map(|walk| self.solve(weights, unit / (walk * walk)))
            .collect();
        let best = solved.iter().map(|s| s.badness).min_by(f64::total_cmp)?;
        // Relative to the best one: the likelihoods themselves would underflow to 0.
        let share = |s: &Solved| (-0.5 * (s.badness - best)).exp();
        let all: f64 = solved.iter().map(share).sum();
        let mean = |of: &dyn Fn(&Solved) -> f64| -> f64 {
            solved.iter().map(|s| share(s) / all * of(s)).sum()
        };
        let at = |values: &[f64], at: usize| values.get(at).copied().unwrap_or(0.0);
        let size = 0..self.measured.len();
        let period: Vec<f64> = size.clone().map(|i| mean(&|s| at(&s.period, i))).collect();
        let spread = |i: usize, j: usize| {
            mean(&|s| (at(&s.period, i) - at(&period, i)) * (at(&s.period, j) - at(&period, j)))
        };
        let own = |i: usize| mean(&|s| s.variance.get(i).map_or(0.0, |v| v.0)) + spread(i, i);
        let shared = |i: usize| mean(&|s| s.variance.get(i).map_or(0.0, |v| v.1)) + spread(0, i);
        Some(Solved {
            variance: size.map(|i| (own(i), shared(i))).collect(),
            freedom: mean(&|s| s.freedom),
            unit: mean(&|s| s.unit),
            badness: best,
            period,
        })
    }

    fn solve(&self, weights: &[f64], lambda: f64) -> Option<Solved> {
        let size = weights.len();
        let mut matrix = self.walk.clone();
        for (i, row) in matrix.iter_mut().enumerate() {
            row.iter_mut().for_each(|entry| *entry *= lambda);
            row[i] += weights[i];
        }
        let factor = cholesky_factor(matrix)?;
        let right = weights.iter().zip(self.measured).map(|(w, z)| w * z);
        let period = solve_factored(&factor, right.collect());
        let misfit = weights.iter().zip(self.measured.iter().zip(&period));
        let misfit: f64 = misfit.map(|(w, (z, f))| w * (z - f) * (z - f)).sum();
        let walked = |(row, f): (&Vec<f64>, &f64)| f * dot_product(row, &period);
        let steps: f64 = self.walk.iter().zip(&period).map(walked).sum();
        // A straight line, which has no penalty, takes two degrees of freedom.
        let freedom = (self.experiments - 2.0).max(1.0);
        let unit = (self.within + misfit + lambda * steps) / freedom;
        let determinant: f64 = (0..size).map(|i| 2.0 * factor[i][i].ln()).sum();
        let badness =
            freedom * unit.max(1e-300).ln() + determinant - (size as f64 - 2.0) * lambda.ln();
        let column = |at: usize| {
            let mut one = vec![0.0; size];
            one[at] = 1.0;
            solve_factored(&factor, one)
        };
        let (first, own) = (column(0), (0..size).map(|i| column(i)[i]));
        let own: Vec<f64> = own.collect();
        let variance = own.iter().zip(&first);
        (badness.is_finite() && period.iter().all(|f| f.is_finite())).then(|| Solved {
            variance: variance.map(|(a, b)| (unit * a, unit * b)).collect(),
            freedom: (self.experiments - dot_product(weights, &own)).max(1.0),
            period,
            unit,
            badness,
        })
    }
}

/// A square matrix, by rows.
type Matrix = Vec<Vec<f64>>;

/// Returns `K`: `f'Kf` sums the squared steps of `f` off the straight line from its first to its
/// last point, divided by their lengths.
fn walk_penalty(speedups: &[f64]) -> Matrix {
    let size = speedups.len();
    let mut matrix = vec![vec![0.0; size]; size];
    for (at, two) in speedups.windows(2).enumerate() {
        let one = 1.0 / (two[1] - two[0]);
        for (i, j, sign) in [(0, 0, 1.0), (1, 1, 1.0), (0, 1, -1.0), (1, 0, -1.0)] {
            matrix[at + i][at + j] += sign * one;
        }
    }
    if let (Some(first), Some(last)) = (speedups.first(), speedups.last())
        && last > first
    {
        let one = 1.0 / (last - first);
        let end = size - 1;
        for (i, j, sign) in [(0, 0, -1.0), (end, end, -1.0), (0, end, 1.0), (end, 0, 1.0)] {
            matrix[i][j] += sign * one;
        }
    }
    matrix
}

fn dot_product(a: &[f64], b: &[f64]) -> f64 {
    a.iter().zip(b).map(|(a, b)| a * b).sum()
}

/// Returns Cholesky's factor in the lower half; `None` if the matrix is not positive definite.
fn cholesky_factor(mut matrix: Matrix) -> Option<Matrix> {
    for i in 0..matrix.len() {
        for j in 0..=i {
            let rest = matrix[i][j] - dot_product(&matrix[i][..j], &matrix[j][..j]);
            if i > j {
                matrix[i][j] = rest / matrix[j][j];
            } else if rest > 0.0 && rest.is_finite() {
                matrix[i][i] = rest.sqrt();
            } else {
                return None;
            }
        }
    }
    Some(matrix)
}

/// Solves `LL'x = b` for `x`.
fn solve_factored(factor: &Matrix, mut x: Vec<f64>) -> Vec<f64> {
    for i in 0..x.len() {
        x[i] = (x[i] - dot_product(&factor[i][..i], &x[..i])) / factor[i][i];
    }
    for i in (0..x.len()).rev() {
        x[i] /= factor[i][i];
        for j in 0..i {
            x[j] -= factor[i][j] * x[i];
        }
    }
    x
}
