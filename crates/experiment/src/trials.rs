//! Results of the experiments of one choice so far, which decide how many more it gets.

use crate::choose::Tried;
use profile::{Experiment, Progress};

/// The rates of progress with and without a speedup.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Trials {
    without: Spread,
    with: Spread,
    /// The speedups of the experiments that count.
    tried: Tried,
    attempts: u32,
}

/// Running mean and spread of numbers (Welford).
#[derive(Clone, Copy, Debug, Default)]
struct Spread {
    n: f64,
    mean: f64,
    squares: f64,
}

/// Number of experiments of each kind before a verdict.
const ENOUGH: f64 = 4.0;
/// A smaller relative gain counts as none.
const LITTLE: f64 = 0.02;
/// Standard errors beyond which a difference is more than chance.
const CHANCE: f64 = 2.0;

impl Spread {
    fn add(&mut self, value: f64) {
        self.n += 1.0;
        let off = value - self.mean;
        self.mean += off / self.n;
        self.squares += off * (value - self.mean);
    }

    /// Returns the square of the mean's standard error.
    fn error(&self) -> f64 {
        self.squares / ((self.n - 1.0) * self.n).max(1.0)
    }
}

impl Trials {
    /// Adds an experiment, by its most visited point. If the experiment does not count or has no
    /// sample, only the attempt is counted.
    pub fn add(&mut self, experiment: &Experiment, counts: bool) {
        let is_baseline = experiment.speedup == 0.0;
        if !is_baseline {
            self.attempts += 1;
        }
        if !counts || experiment.samples == 0 {
            return;
        }
        let visits = experiment.counts.iter().map(|count| match count {
            Progress::Visits(visits) => *visits,
            Progress::Latency { departures, .. } => *departures,
        });
        let rate = visits.max().unwrap_or(0) as f64 / (experiment.effective_ns() as f64).max(1.0);
        if is_baseline {
            self.without.add(rate);
        } else {
            self.with.add(rate);
            self.tried.add_speedup(experiment.speedup);
        }
    }

    /// Returns the number of experiments with a speedup above 0, including those that do not count.
    pub fn attempts(&self) -> u32 {
        self.attempts
    }

    /// Returns the speedups that were tried.
    pub fn tried(&self) -> Tried {
        self.tried
    }

    /// Returns whether the experiments show no gain.
    pub fn show_nothing(&self) -> bool {
        if self.with.n < ENOUGH || self.without.n < ENOUGH {
            return false;
        }
        let gain = self.with.mean - self.without.mean;
        let error = (self.with.error() + self.without.error()).sqrt();
        gain.abs() < CHANCE * error || gain.abs() < LITTLE * self.without.mean
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn trials(rates: &[(f64, u64)]) -> Trials {
        let mut trials = Trials::default();
        for (speedup, visits) in rates {
            trials.add(
                &Experiment {
                    fragment: 0,
                    speedup: *speedup,
                    start_ns: 0,
                    duration_ns: 1_000_000_000,
                    delay_ns: 0,
                    samples: 1,
                    counts: vec![Progress::Visits(3), Progress::Visits(*visits)],
                    disturbance: None,
                    meetings: None,
                    spinning: None,
                    at_pace: false,
                },
                true,
            );
        }
        trials
    }

    #[test]
    fn what_moves_nothing_is_known_after_some_experiments() {
        let even: Vec<_> = [(0.0, 1000), (0.5, 1004), (0.0, 1010), (1.0, 998)].repeat(2);
        assert!(trials(&even).show_nothing());
        assert!(!trials(&even[..4]).show_nothing());
        assert!(!trials(&[]).show_nothing());
    }

    #[test]
    fn what_moves_much_goes_on() {
        let up: Vec<_> = [(0.0, 1000), (0.5, 1250), (0.0, 1010), (1.0, 1500)].repeat(2);
        assert!(!trials(&up).show_nothing());
        let down: Vec<_> = [(0.0, 1000), (0.5, 800), (0.0, 1010), (1.0, 700)].repeat(2);
        assert!(!trials(&down).show_nothing());
    }
}
