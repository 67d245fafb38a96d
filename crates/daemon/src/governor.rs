//! Chooses the sampling rate: as high as the budget allows. Pure: it computes the rate from the costs alone.
//!
//! Three kinds of cost are told apart, because a change of rate helps with one of them only:
//!
//! - *by samples*: taking them, draining and writing them. Proportional to the rate, or less.
//! - *by processes*: following those that start, map files and end. Not changed by the rate.
//! - *lumps*: merging parts, closing epochs, searching names. Each counts evenly over the time that it is for.

use std::collections::VecDeque;
use std::time::Duration;

/// The lowest rate that the budget leads to, in samples a second on each CPU.
const LEAST_RATE: u64 = 10;
/// The time constant of the average that the rate is lowered by.
const AVERAGE: Duration = Duration::from_secs(300);
/// Multiple of the budget from which the cost of one window lowers the rate at once.
const BURST: f64 = 5.0;
/// Part of the budget that samples keep however much the rest costs: to give up more would save next to nothing.
const SAMPLES_LEAST: f64 = 0.2;
/// Part of the budget left for samples that a lowered rate is expected to take.
const MARGIN: f64 = 0.8;
/// Part of the budget that a raised rate is expected to take together with the rest.
const RAISE_TO: f64 = 0.7;
/// Time for which each window must allow a higher rate before it is raised: each change begins a new epoch.
const CALM: Duration = Duration::from_secs(90);
/// Least factor by which the rate is raised.
const STEP_LEAST: f64 = 1.5;
/// Greatest factor by which the rate is raised: few samples say little about the cost of many.
const STEP_MOST: f64 = 4.0;
/// Limit on the lumps that are told apart.
const LUMPS: usize = 64;

/// CPU time that was spent in a window, in nanoseconds, lumps aside.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct WindowCost {
    /// The length of the window.
    pub passed: Duration,
    /// CPU time that samples cost.
    pub samples_ns: u64,
    /// CPU time that processes cost.
    pub processes_ns: u64,
}

/// The decision about the rate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum RateVerdict {
    /// Keep the rate.
    Keep,
    /// Sample at another rate.
    Change(u64),
    /// Say that the budget is exceeded: the rate was asked for, and stays.
    Exceeded,
}

/// A cost that counts evenly until a time.
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
    /// The time that was judged so far.
    now: Duration,
    lumps: VecDeque<Lump>,
    /// Average cost in CPUs: of samples and of processes.
    average: Option<(f64, f64)>,
    /// The time for which each window allowed a higher rate, and the highest that all allowed.
    calm: (Duration, u64),
    exceeded: bool,
    /// Cost that the last verdict was about, at the rate of that time, in CPUs.
    judged: f64,
}

impl RateGovernor {
    /// Begins with a rate, which is the highest; `budget` is a share of the machine, 0 to 1. Not `free`, it never changes the rate.
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

    /// Counts a lump, evenly over a time from now on.
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
            // Two become one, of the same sum.
            let rest = oldest.until.saturating_sub(self.now).as_secs_f64();
            lump.ns_per_ns += oldest.ns_per_ns * rest / over.as_secs_f64();
        }
        self.lumps.push_back(lump);
    }

    /// Returns the cost of lumps now, as a share of the machine.
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
        // Before there is an average, half of the budget is as good a guess as any.
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

    /// Says once when the budget is exceeded, and again only when it was kept in between.
    fn warn_over_budget(&mut self, spent: f64) -> RateVerdict {
        let before = self.exceeded;
        self.exceeded = spent > self.budget || (before && spent > RAISE_TO * self.budget);
        match self.exceeded && !before {
            true => RateVerdict::Exceeded,
            false => RateVerdict::Keep,
        }
    }

    /// A lower rate, if the average asks for it.
    fn lower_rate(&mut self, average: (f64, f64), window: (f64, f64), lumps: f64) -> Option<u64> {
        if average.0 + average.1 + lumps <= self.budget {
            return None;
        }
        // The average lags behind: one step, not many.
        let (samples, processes) = (average.0.max(window.0), average.1.max(window.1));
        let allowed = (self.budget - processes - lumps).max(SAMPLES_LEAST * self.budget);
        if samples <= allowed {
            return None; // it is not for the samples that the budget is exceeded
        }
        let to = (self.rate as f64 * MARGIN * allowed / samples) as u64;
        self.change_rate(to.max(LEAST_RATE.min(self.most)))
    }

    /// A higher rate, if all windows have allowed it for a while.
    fn raise_rate(
        &mut self,
        passed: Duration,
        (samples, processes): (f64, f64),
        lumps: f64,
    ) -> Option<u64> {
        // The floor is MARGIN of the one that rates are lowered to, so that they do not go up and down.
        let floor = SAMPLES_LEAST * MARGIN * RAISE_TO * self.budget;
        let allowed = (RAISE_TO * self.budget - processes - lumps).max(floor);
        let step = (allowed / samples.max(f64::MIN_POSITIVE)).min(STEP_MOST);
        let to = ((self.rate as f64 * step).ceil() as u64).min(self.most);
        if to <= self.rate || (step < STEP_LEAST && to < self.most) {
            self.calm = (Duration::ZERO, u64::MAX);
            return None;
        }
        self.calm = (self.calm.0 + passed, self.calm.1.min(to));
        match self.calm.0 >= CALM {
            true => {
                // What the average still knows of a worse time is over.
                self.average = Some((samples, processes));
                self.judged = samples + processes + lumps;
                self.change_rate(self.calm.1)
            }
            false => None,
        }
    }

    fn change_rate(&mut self, to: u64) -> Option<u64> {
        self.calm = (Duration::ZERO, u64::MAX);
        if to == self.rate {
            return None;
        }
        // What is known of the cost holds for the new rate, too.
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
