//! Threads that wait for each other more often than delays can follow.
//!
//! A delay is as long as a sampling period, and comes behind a sample. Threads that meet in between wait for each
//! other at some meetings and not at others, as no real speedup would make them. In a simulation without noise (`crates/runtime-abi/tests/pace.rs`)
//! predictions were right where pieces of work between two barriers took 2.5 ms. Where they took a millisecond or less, they were between
//! a tenth of the truth and twice it. That error is none of chance, so that no number of experiments shows it. What remains certain are bounds: a faster line takes no time from a program
//! while no thread runs it, and none beyond its own. Intervals are widened towards these bounds, the more so the more often threads meet.

use super::effect::{Estimate, Measure};
use crate::statistics::Interval;
use profile::{CausalProfile, CausalRun};

/// Sampling periods of a thread's running time between two meetings from which on intervals are as measured.
const FOLLOWED: f64 = 4.0;
/// Sampling periods up to which nothing but the bounds is known, where delays were charged after samples.
const LOST: f64 = 1.7;
/// Where they were charged at the pace of the line, half of that doubt is left, which grows again below so many periods: to sleep and to be
/// woken takes a part of such times that no delay makes longer. `tests/programs/causal/meetings.c` was off by a fifth of the truth.
const FOLLOWED_AT_PACE: f64 = 0.3;
/// See [`LOST`].
const LOST_AT_PACE: f64 = 0.1;

/// Meetings of a program's threads, where they are too frequent.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct FrequentMeetings {
    /// Running time of a thread between two, in nanoseconds.
    pub every_ns: f64,
    /// The part of the way from what was measured to the bounds by which intervals are widened, 0 to 1.
    doubt: f64,
    /// Most delays were charged at the pace of the line.
    at_pace: bool,
}

/// The most that a program can gain, for each part of a line's time that is saved.
#[derive(Clone, Copy, Debug)]
pub(super) struct Bound(f64);

impl FrequentMeetings {
    /// Those of a profile; `None` where threads meet rarely, or where it was not counted.
    pub fn of(profile: &CausalProfile) -> Option<Self> {
        let period = period_ns(profile)?;
        let (mut meetings, mut ran) = (0.0, 0.0);
        let (mut delayed, mut at_pace) = (0, 0);
        for run in &profile.runs {
            delayed += run.experiments.iter().filter(|it| it.speedup > 0.0).count();
            at_pace += run.experiments.iter().filter(|it| it.at_pace).count();
            // Delays change how often threads meet.
            let undelayed = run.experiments.iter().filter(|it| it.speedup == 0.0);
            for experiment in undelayed {
                let Some(counted) = experiment.meetings else {
                    continue;
                };
                let target = experiment.disturbance.and_then(|it| it.target);
                meetings += counted as f64;
                ran += target.map_or(experiment.duration_ns, |target| target.ran_ns) as f64;
            }
        }
        let every_ns = ran / meetings;
        // 0 above a number of periods, 1 below another, by the logarithm in between.
        let between = |none: f64, all: f64| (none * period / every_ns).ln() / (none / all).ln();
        let doubt = between(FOLLOWED, LOST);
        let at_pace = 2 * at_pace > delayed;
        let left = match at_pace {
            true => 0.5 + 0.5 * between(FOLLOWED_AT_PACE, LOST_AT_PACE).clamp(0.0, 1.0),
            false => 1.0,
        };
        (doubt.is_finite() && doubt > 0.0).then_some(Self {
            every_ns,
            doubt: left * doubt.min(1.0),
            at_pace,
        })
    }

    /// Widens the intervals of an effect.
    pub fn widen(&self, bound: Bound, slope: Interval, curve: &mut [Estimate]) -> Interval {
        for at in curve {
            (at.low, at.high) = self.widened(at.low, at.high, bound.0 * at.speedup);
        }
        let (low, high) = self.widened(slope.low, slope.high, bound.0);
        Interval { low, high, ..slope }
    }

    fn widened(&self, low: f64, high: f64, most: f64) -> (f64, f64) {
        (
            low - self.doubt * low.max(0.0),
            high + self.doubt * (most - high).max(0.0),
        )
    }

    /// Says so to the reader.
    pub fn warning(&self, profile: &CausalProfile) -> String {
        let ms = |ns: f64| ns / 1e6;
        let how = match self.at_pace {
            true => "delays were spread over the operations in between, which is an approximation"
                .to_owned(),
            false => format!(
                "delays come about every {:.0} ms",
                ms(period_ns(profile).unwrap_or(0.0))
            ),
        };
        format!(
            "threads wait for each other every {:.2} ms of their running time, and {how}: predictions can be too small or too \
             large by more than chance, so intervals reach towards nothing and towards the whole time of the line",
            ms(self.every_ns),
        )
    }
}

impl Bound {
    /// That of a fragment with so many undelayed samples in so much undelayed time: of a throughput, the part of the
    /// time in which a thread runs it. Requests that queue up can become shorter by more.
    pub fn new(runs: &[CausalRun], measure: Measure, samples: u64, undelayed_ns: f64) -> Self {
        let period = runs.iter().map(|run| run.settings.sample_period_ns).max();
        let ran = samples as f64 * period.unwrap_or(0) as f64 / undelayed_ns.max(1.0);
        match measure {
            Measure::Throughput => Self(ran.min(1.0)),
            Measure::Latency => Self(1.0),
        }
    }
}

fn period_ns(profile: &CausalProfile) -> Option<f64> {
    let periods = profile.runs.iter().map(|run| run.settings.sample_period_ns);
    periods
        .max()
        .filter(|period| *period > 0)
        .map(|ns| ns as f64)
}
