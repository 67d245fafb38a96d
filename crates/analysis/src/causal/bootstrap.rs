//! Standard errors of the combined points and of the slope (Efron's bootstrap, as in the paper's
//! Table 3).
//!
//! Most speedups have few experiments, and resampling three values gives few outcomes. So the
//! errors of all experiments with the fragment are pooled: the distance of each experiment's visits
//! from the curve's expectation, divided by the root of the expectation. Errors drawn with
//! replacement give new visits for every experiment, and new estimates follow from these.

use super::combine::{Level, Levels};
use super::curve::Curve;

const REPLICATES: usize = 500;

/// Errors estimated by the bootstrap.
pub(super) struct Errors {
    /// Slope of the regression through the origin.
    pub slope: f64,
    /// Its standard error.
    pub slope_error: f64,
    /// Standard errors of the program speedups, by level, without the baseline.
    pub points: Vec<f64>,
}

/// Resamples the experiments.
pub(super) fn resample_errors(levels: &Levels, curve: &Curve) -> Errors {
    let speedups: Vec<f64> = levels.speedups().map(|level| level.speedup).collect();
    let weights: Vec<f64> = levels.speedups().map(Level::counted_visits).collect();
    let slope = |ratios: &[f64]| -> f64 {
        let rows = || weights.iter().zip(&speedups).zip(ratios);
        let above: f64 = rows().map(|((w, s), ratio)| w * s * (1.0 - ratio)).sum();
        above / rows().map(|((w, s), _)| w * s * s).sum::<f64>()
    };
    // The visits that the curve expects of each experiment.
    let expected: Vec<Vec<f64>> = levels
        .all()
        .zip(&curve.period)
        .map(|(level, ratio)| {
            let period = ratio * levels.baseline_period;
            let of = level.experiments.iter();
            of.map(|experiment| experiment.amount / period).collect()
        })
        .collect();
    let residuals = inflated_residuals(levels, &expected, curve.freedom);
    let mut random = Random(0x5eed);
    let mut slopes = Moments::default();
    let mut points = vec![Moments::default(); speedups.len()];
    for _ in 0..REPLICATES {
        let mut ratios = expected.iter().zip(&curve.period).map(|(level, ratio)| {
            let of = level.iter();
            let all: f64 = of.clone().sum();
            let drawn: f64 = of.map(|e| e + e.sqrt() * random.pick_one(&residuals)).sum();
            // Drawn errors may leave no visits, and then there is no period.
            ratio * all / drawn.max(0.05 * all)
        });
        let Some(base) = ratios.next() else {
            break;
        };
        let ratios: Vec<f64> = ratios.map(|ratio| ratio / base).collect();
        slopes.add(slope(&ratios));
        for (moments, ratio) in points.iter_mut().zip(&ratios) {
            moments.add(*ratio);
        }
    }
    let measured: Vec<f64> = levels.speedups().map(|level| level.ratio).collect();
    Errors {
        slope: slope(&measured),
        slope_error: slopes.deviation(),
        points: points.iter().map(Moments::deviation).collect(),
    }
}

/// Returns the errors with mean 0, enlarged by the degrees of freedom that the curve took.
fn inflated_residuals(levels: &Levels, expected: &[Vec<f64>], freedom: f64) -> Vec<f64> {
    let experiments = levels.all().flat_map(|level| &level.experiments);
    let pairs = experiments.zip(expected.iter().flatten());
    let mut all: Vec<f64> = pairs
        .filter(|(_, expected)| **expected > 0.0)
        .map(|(experiment, expected)| (experiment.visits - expected) / expected.sqrt())
        .collect();
    let n = all.len() as f64;
    let mean = all.iter().sum::<f64>() / n;
    let scale = (n / freedom.min(n)).sqrt();
    for residual in &mut all {
        *residual = (*residual - mean) * scale;
    }
    all
}

/// Running mean and variance.
#[derive(Clone, Copy, Default)]
struct Moments {
    n: f64,
    mean: f64,
    squares: f64,
}

impl Moments {
    fn add(&mut self, x: f64) {
        self.n += 1.0;
        let off = x - self.mean;
        // Welford's method: the sum of squares less the square of the sum would cancel out.
        self.mean += off / self.n;
        self.squares += off * (x - self.mean);
    }

    fn deviation(&self) -> f64 {
        (self.squares / (self.n - 1.0).max(1.0)).sqrt()
    }
}

/// SplitMix64 (Steele, Lea, Flood 2014): the same profile always has the same report.
pub(super) struct Random(pub u64);

impl Random {
    pub(super) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// Picks a value at random; 0 if there is none.
    fn pick_one(&mut self, from: &[f64]) -> f64 {
        let at = (u128::from(self.next()) * from.len() as u128) >> 64;
        from.get(at as usize).copied().unwrap_or(0.0)
    }
}
