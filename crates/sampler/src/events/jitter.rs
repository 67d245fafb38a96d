//! Random sampling periods (DCPI section 4.1.1).
//!
//! A program in lock-step with a constant period is sampled at the same few places again and again.
//! The kernel keeps the period of a clock event constant, so a new random one is set several times
//! a second. Between two settings the phase drifts against any fixed rhythm.

use crate::events::perf;
use std::os::fd::OwnedFd;

/// Periods are drawn uniformly from the nominal one, plus or minus this many percent.
const SPREAD_PERCENT: u64 = 10;

/// Draws periods.
pub(crate) struct Jitter {
    state: u64,
}

impl Jitter {
    pub fn new(seed: u64) -> Self {
        Self { state: seed | 1 }
    }

    /// Draws a random period around `nominal`.
    pub fn random_period(&mut self, nominal: u64) -> u64 {
        self.period_within(nominal, SPREAD_PERCENT)
    }

    /// Draws a random period around `nominal`, plus or minus this many percent.
    pub fn period_within(&mut self, nominal: u64, percent: u64) -> u64 {
        // xorshift64: enough to break up rhythms.
        self.state ^= self.state << 13;
        self.state ^= self.state >> 7;
        self.state ^= self.state << 17;
        let spread = nominal * percent / 100;
        nominal - spread + self.state % (2 * spread + 1)
    }

    /// Sets a new period for each event. Setting fails harmlessly for an event that has just ended.
    pub fn set_periods(&mut self, events: &[OwnedFd], nominal: u64) {
        for fd in events {
            let _ = perf::set_period(fd, self.random_period(nominal));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn periods_lie_evenly_around_the_nominal_one() {
        let mut jitter = Jitter::new(42);
        let periods: Vec<u64> = (0..10_000).map(|_| jitter.random_period(200_000)).collect();
        assert!(periods.iter().all(|p| (180_000..=220_000).contains(p)));
        let mean = periods.iter().sum::<u64>() as f64 / 1e4;
        assert!((mean - 200_000.0).abs() < 600.0, "{mean}"); // 5 standard errors
        assert_eq!(jitter.random_period(1), 1);
    }
}
