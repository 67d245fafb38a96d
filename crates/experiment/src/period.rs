//! The time between samples: short, unless samples are expensive on this machine.

use crate::own_filter::forbidden_call;
use std::sync::OnceLock;

/// The shortest period, that of Coz (section 3.2), in nanoseconds.
const SHORTEST: u64 = 1_000_000;
/// The longest period: threads that synchronise more often than this are sped up by averages alone.
const LONGEST: u64 = 4_000_000;
/// The fraction of a program's time that samples may take. A thread that does not run all the time
/// hides the cost of its samples, but no longer when the code that it waits for is sped up. Where a
/// sample took 6 % of a millisecond, two thirds of the gain of `read_ahead` of
/// `tests/programs/causal` were missed.
const BUDGET: f64 = 0.01;

/// Returns the shortest period at which samples cost little on this machine, in nanoseconds;
/// measured once.
pub(crate) fn affordable_period() -> u64 {
    static PERIOD: OnceLock<u64> = OnceLock::new();
    *PERIOD.get_or_init(|| match forbidden_call() {
        Ok(None) => sampler::signalled_sample_cost().map_or(SHORTEST, period_for),
        // A signal may end this process.
        _ => SHORTEST,
    })
}

fn period_for(cost_ns: u64) -> u64 {
    ((cost_ns as f64 / BUDGET) as u64).clamp(SHORTEST, LONGEST)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn expensive_samples_are_fewer() {
        assert_eq!(period_for(5_000), SHORTEST);
        assert_eq!(period_for(25_000), 2_500_000);
        assert_eq!(period_for(u64::MAX), LONGEST);
    }
}
