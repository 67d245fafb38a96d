//! The phase correction (Coz, "Adjusting for phases").
//!
//! Experiments with a fragment begin while it runs. So they measure the effect in phase A, when it
//! runs, and not in phase B, when it does not. With `s` samples in the fragment over a run of `T`,
//! and `s_obs` in experiments with it that took `t_obs`, it runs for `t_A ≈ s·t_obs/s_obs` (eq. 6),
//! and the effect on the whole run is that in phase A times `t_A/T` (eq. 8).
//!
//! Delays stretch the time of threads other than those that cause them, so counts from delayed time
//! and from undelayed time must not be mixed, or a fragment that runs all the time would seem not
//! to: `s` and `T` are those of the time in which nothing was delayed, and `s_obs` and `t_obs`
//! those of the baseline experiments. Profiles of Coz do not tell these apart and are not
//! corrected, which a warning says. (By all experiments and their effective durations, the stages
//! of the paper's ferret, which all run all the time, would run in 46 % to 62 % of it.)

use crate::statistics::Interval;

/// The part of the run time in which a fragment runs: `t_A/T`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Phase {
    /// The part, above 0 and at most 1.
    pub of: f64,
    /// Its standard error.
    pub error: f64,
}

impl Phase {
    /// The phase of a fragment that runs all the time, or whose phase is unknown.
    pub(super) const ALWAYS: Self = Self {
        of: 1.0,
        error: 0.0,
    };

    /// Estimates the phase from the samples `s` in `T`, and from the samples and durations of the
    /// baseline experiments. `T` is the fraction `of_run` of the run, in `pieces`.
    pub(super) fn new(
        samples: f64,
        run: f64,
        observed: &[(f64, f64)],
        pieces: usize,
        of_run: f64,
    ) -> Self {
        let seen: f64 = observed.iter().map(|(samples, _)| samples).sum();
        let time: f64 = observed.iter().map(|(_, time)| time).sum();
        if !(samples > 0.0 && run > 0.0 && seen > 0.0 && time > 0.0) {
            return Self::ALWAYS;
        }
        let of = (time / seen) * (samples / run);
        let rate = seen / time;
        let dispersion = |&(samples, time): &(f64, f64)| {
            let expected = rate * time;
            (samples - expected) * (samples - expected) / expected
        };
        // Timer samples vary less than independent ones; those of a fragment that comes and goes
        // vary more. A single experiment does not show which.
        let dispersion = match observed.len() {
            0 | 1 => 1.0,
            n => observed.iter().map(dispersion).sum::<f64>() / (n - 1) as f64,
        };
        let part = of.min(1.0);
        // The undelayed pieces were chosen by chance. If each lies entirely in phase A or outside,
        // the share in A varies like that of a sample without replacement.
        let chosen = (1.0 - part) / part / pieces.max(1) as f64 * (1.0 - of_run).max(0.0);
        let error = of * (dispersion / seen + 1.0 / samples + chosen).sqrt();
        Self { of: part, error }
    }

    /// Returns the interval of an estimate in phase A, scaled to the whole run, by chance alone.
    pub(super) fn interval(&self, estimate: f64, error: f64, freedom: f64) -> Interval {
        let square = |x: f64| x * x;
        let whole = self.of * estimate;
        let error = square(self.of * error) + square(self.error * estimate);
        Interval::new(whole, error.sqrt(), freedom).unwrap_or(Interval {
            estimate: whole,
            low: f64::NEG_INFINITY,
            high: f64::INFINITY,
            p: 1.0,
        })
    }
}
