//! Chooses the sampling rate: as high as the budget allows. Pure: it computes the rate from the
//! costs alone.
//!
//! There are three kinds of cost, and a change of rate affects only the first:
//!
//! - *by samples*: taking, draining and writing them. Proportional to the rate, or less.
//! - *by processes*: following those that start, map files and end. Independent of the rate.
//! - *lumps*: merging parts, closing epochs, searching names. Each is spread evenly over the time
//!   that it serves.

use std::collections::VecDeque;
use std::time::Duration;

/// The lowest rate that the budget leads to, in samples a second on each CPU.
const LEAST_RATE: u64 = 10;
/// Time constant of the average by which the rate is lowered.
const AVERAGE: Duration = Duration::from_secs(300);
/// Multiple of the budget above which the cost of one window lowers the rate at once.
const BURST: f64 = 5.0;
/// Fraction of the budget that samples keep whatever the rest costs: giving up more would save next
/// to nothing.
const SAMPLES_LEAST: f64 = 0.2;
/// Fraction of the budget left for samples that a lowered rate is expected to take.
const MARGIN: f64 = 0.8;
/// Fraction of the budget that a raised rate and the rest are expected to take together.
const RAISE_TO: f64 = 0.7;
/// Time for which each window must permit a higher rate before it is raised: each change begins a
/// new epoch.
const CALM: Duration = Duration::from_secs(90);
/// Least factor by which the rate is raised.
const STEP_LEAST: f64 = 1.5;
/// Greatest factor by which the rate is raised: few samples say little about the cost of many.
const STEP_MOST: f64 = 4.0;
/// Maximum number of lumps tracked separately.
const LUMPS: usize = 64;

/// CPU time spent in a window, in nanoseconds, without lumps.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct WindowCost {
    /// The length of the window.
    pub passed: Duration,
    /// CPU time spent on samples.
    pub samples_ns: u64,
    /// CPU time spent on processes.
    pub processes_ns: u64,
}

/// The decision about the rate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum RateVerdict {
    /// Keeps the rate.
    Keep,
    /// Samples at another rate.
    Change(u64),
    /// Reports that the budget is exceeded: the user's rate stays.
    Exceeded,
}

/// A cost spread evenly until a time.
struct Lump {
    ns_per_ns: f64,
    until: Duration,
}

/// Judges costs, window by window.
pub(crate) struct RateGovernor {
    /// Budget, in CPUs.
    budget: f64,
    cpus: f64,
    rate: u64,
    /// The highest rate.
    most: u64,
    /// True if the rate may be changed.
    free: bool,
    /// The time judged so far.
    now: Duration,
    lumps: VecDeque<Lump>,
    /// Average cost in CPUs: of samples and of processes.
    average: Option<(f64, f64)>,
    /// Time for which each window permitted a higher rate, and the highest that all permitted.
    calm: (Duration, u64),
    exceeded: bool,
    /// Cost behind the last verdict, at the rate of that time, in CPUs.
    judged: f64,
}

impl RateGovernor {
    /// Begins with a rate, which is also the highest; `budget` is a share of the machine, 0 to 1.
    /// Unless `free`, the rate never changes.
    pub(crate) fn new(budget: f64, cpus: u32, rate: u64, free: bool) -> Self {
        let cpus = f64::from(cpus.max(1));
        Self {
            budget: budget * cpus,
            cpus,
            rate,
            most: rate,
            free,
            now: Duration::ZERO,
            lumps: VecDeque::new(),
            average: None,
            calm: (Duration::ZERO, u64::MAX),
            exceeded: false,
            judged: 0.0,
        }
    }

    /// Adds a lump, spread evenly over a time from now on.
    pub(crate) fn add_lump(&mut self, cost_ns: u64, over: Duration) {
        if cost_ns == 0 || over.is_zero() {
            return;
        }
        let mut lump = Lump {
            ns_per_ns: cost_ns as f64 / over.as_nanos() as f64,
            until: self.now + over,
        };
        if self.lumps.len() >= LUMPS
            && let Some(oldest) = self.lumps.pop_front()
        {
            // Two lumps become one with the same sum.
            let rest = oldest.until.saturating_sub(self.now).as_secs_f64();
            lump.ns_per_ns += oldest.ns_per_ns * rest / over.as_secs_f64();
        }
        self.lumps.push_back(lump);
    }

    /// Returns the current cost of lumps, as a share of the machine.
    pub(crate) fn lumps_share(&self) -> f64 {
        self.lumps.iter().map(|lump| lump.ns_per_ns).sum::<f64>() / self.cpus
    }

    /// Returns the share of the machine that led to the last verdict.
    pub(crate) fn judged_share(&self) -> f64 {
        self.judged / self.cpus
    }

    /// Judges a window.
    pub(crate) fn judge_window(&mut self, cost: WindowCost) -> RateVerdict {
        if cost.passed.is_zero() {
            return RateVerdict::Keep;
        }
        self.now += cost.passed;
        self.lumps.retain(|lump| lump.until > self.now);
        let in_cpus = |ns: u64| ns as f64 / cost.passed.as_nanos() as f64;
        let window = (in_cpus(cost.samples_ns), in_cpus(cost.processes_ns));
        let lumps = self.lumps_share() * self.cpus;
        let weight = 1.0 - (-cost.passed.as_secs_f64() / AVERAGE.as_secs_f64()).exp();
        // Before there is an average, half of the budget is assumed.
        let (samples, processes) = self.average.unwrap_or((self.budget / 2.0, 0.0));
        let mut average = (
            samples + (window.0 - samples) * weight,
            processes + (window.1 - processes) * weight,
        );
        if window.0 + window.1 + lumps > BURST * self.budget {
            average = window;
        }
        self.average = Some(average);
        self.judged = average.0 + average.1 + lumps;
        if !self.free {
            return self.warn_over_budget(average.0 + average.1 + lumps);
        }
        self.lower_rate(average, window, lumps)
            .or_else(|| self.raise_rate(cost.passed, window, lumps))
            .map_or(RateVerdict::Keep, RateVerdict::Change)
    }

    /// Reports once that the budget is exceeded, and again only after it was kept in between.
    fn warn_over_budget(&mut self, spent: f64) -> RateVerdict {
        let before = self.exceeded;
        self.exceeded = spent > self.budget || (before && spent > RAISE_TO * self.budget);
        if self.exceeded && !before {
            RateVerdict::Exceeded
        } else {
            RateVerdict::Keep
        }
    }

    /// Returns a lower rate, if the average demands it.
    fn lower_rate(&mut self, average: (f64, f64), window: (f64, f64), lumps: f64) -> Option<u64> {
        if average.0 + average.1 + lumps <= self.budget {
            return None;
        }
        // The average lags behind: one step, not many.
        let (samples, processes) = (average.0.max(window.0), average.1.max(window.1));
        let allowed = (self.budget - processes - lumps).max(SAMPLES_LEAST * self.budget);
        if samples <= allowed {
            return None; // samples are not the cause of the excess
        }
        let to = (self.rate as f64 * MARGIN * allowed / samples) as u64;
        self.change_rate(to.max(LEAST_RATE.min(self.most)))
    }

    /// Returns a higher rate, if all windows have permitted it for a while.
    fn raise_rate(
        &mut self,
        passed: Duration,
        (samples, processes): (f64, f64),
        lumps: f64,
    ) -> Option<u64> {
        // The floor is MARGIN times the one for lowering, so that the rate does not oscillate.
        let floor = SAMPLES_LEAST * MARGIN * RAISE_TO * self.budget;
        let allowed = (RAISE_TO * self.budget - processes - lumps).max(floor);
        let step = (allowed / samples.max(f64::MIN_POSITIVE)).min(STEP_MOST);
        let to = ((self.rate as f64 * step).ceil() as u64).min(self.most);
        if to <= self.rate || (step < STEP_LEAST && to < self.most) {
            self.calm = (Duration::ZERO, u64::MAX);
            return None;
        }
        self.calm = (self.calm.0 + passed, self.calm.1.min(to));
        if self.calm.0 >= CALM {
            // The average's memory of a worse time no longer applies.
            self.average = Some((samples, processes));
            self.judged = samples + processes + lumps;
            self.change_rate(self.calm.1)
        } else {
            None
        }
    }

    fn change_rate(&mut self, to: u64) -> Option<u64> {
        self.calm = (Duration::ZERO, u64::MAX);
        if to == self.rate {
            return None;
        }
        // Scales the average to the new rate.
        if let Some((samples, _)) = &mut self.average {
            *samples *= to as f64 / self.rate as f64;
        }
        self.rate = to;
        Some(to)
    }
}

#[cfg(test)]
#[path = "governor_tests.rs"]
mod tests;
