//! Threads that wait for each other more often than delays can follow.
//!
//! A delay is as long as a sampling period, and follows a sample. Threads that meet in between wait
//! for each other at some meetings and not at others, which no real speedup would cause. In a
//! simulation without noise (`crates/runtime-abi/tests/line_pace.rs`) predictions were right where
//! pieces of work between two barriers took 2.5 ms. Where they took a millisecond or less, they
//! were between a tenth of the truth and twice it. That error is systematic, so that no number of
//! experiments shows it. Only bounds remain certain: a faster line saves a program no time while no
//! thread runs the line, and no more than the line's own time. Intervals are widened towards these
//! bounds, the more so the more often threads meet.

use super::disturbance;
use super::effect::{Estimate, Measure};
use crate::statistics::Interval;
use profile::{CausalProfile, CausalRun};

/// Sampling periods of a thread's running time between two meetings above which intervals stay as
/// measured. (Two threads that run one line at a time and meet every 5 ms, `openmp` of
/// `tests/programs/causal`, were predicted 0.7 of the truth.)
const FOLLOWED: f64 = 8.0;
/// Sampling periods up to which only the bounds are known, if delays were charged after samples.
const LOST: f64 = 1.7;
/// Unit of time between meetings if delays were charged at the pace of the line, in nanoseconds, in
/// place of the sampling period. The distance of samples does not matter then
/// (`crates/runtime-abi/tests/line_pace.rs`), but the constants were tuned with samples each
/// millisecond.
const PERIOD_AT_PACE: f64 = 1e6;
/// Units of [`PERIOD_AT_PACE`] between meetings below which the doubt grows again, if delays were
/// charged at the pace of the line. Above it, half of the doubt after samples is left. Going to
/// sleep and waking up take a part of such short times, and no delay makes that part longer.
/// Predictions for `tests/programs/causal/meetings.c` were off by a fifth of the truth.
const FOLLOWED_AT_PACE: f64 = 0.3;
/// See [`LOST`].
const LOST_AT_PACE: f64 = 0.1;

/// Part of their running time above which waits for each other's processors make predictions for
/// threads that meet less exact (`unequal` of `tests/programs/causal/meetings.c`: they wait a
/// quarter of it). Tuned by `benches/causal_meetings.py`.
const QUEUED: f64 = 0.15;
/// Doubt about threads that wait for processors and meet more often than once in
/// [`QUEUED_MEETINGS`] sampling periods. Tuned by `benches/causal_meetings.py`.
const QUEUED_DOUBT: f64 = 0.5;
/// See [`QUEUED_DOUBT`].
/// Tuned by `benches/causal_meetings.py`.
const QUEUED_MEETINGS: f64 = 100.0;

/// Factor by which a line may run longer than its samples say: some of a processor's time is in no
/// sample. Without it, intervals ended short of truths that are the whole time of a line
/// (`barrier`, `lock` of `tests/programs/causal/meetings.c`). Tuned by
/// `benches/causal_meetings.py`.
const UNSAMPLED: f64 = 1.1;

/// Part of the samples in spinning code above which threads are taken to meet by spinning. Tuned by
/// `benches/causal_meetings.py`.
const SPINNING: f64 = 0.02;

/// Meetings of a program's threads that are too frequent.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct FrequentMeetings {
    /// Running time of a thread between two meetings, in nanoseconds.
    pub every_ns: f64,
    /// Fraction of the distance from the measured interval to the bounds by which intervals are
    /// widened, 0 to 1.
    doubt: f64,
    how: MeetingKind,
}

/// Manner in which threads meet, and in which delays followed.
#[derive(Clone, Copy, Debug, PartialEq)]
enum MeetingKind {
    /// Threads sleep, and delays came after samples.
    AfterSamples,
    /// Threads sleep, and most delays were charged at the pace of the line.
    AtPace,
    /// Threads spin for this part of their running time. The number of meetings is unknown: at
    /// worst, one at each visit of the busiest progress point.
    Spinning(f64),
    /// Threads also wait for each other's processors, for this part of their running time.
    Queued(f64),
}

/// The most that a program can gain, for each saved part of a line's time.
#[derive(Clone, Copy, Debug)]
pub(super) struct Bound(f64);

/// Sums over the experiments without delays. (Delays change how often threads meet.)
#[derive(Clone, Copy, Debug, Default)]
struct Counts {
    /// Running time of all threads, in nanoseconds.
    ran: f64,
    /// Time that threads waited for a processor that another thread of the program had, in
    /// nanoseconds.
    queued: f64,
    meetings: f64,
    spinning: f64,
    /// Visits of the busiest progress point.
    visits: f64,
}

impl Counts {
    fn of(profile: &CausalProfile) -> Self {
        let mut sum = Self::default();
        for experiment in profile.runs.iter().flat_map(|run| &run.experiments) {
            let Some(meetings) = experiment.meetings.filter(|_| experiment.speedup == 0.0) else {
                continue;
            };
            let target = experiment.disturbance.and_then(|it| it.target);
            sum.ran += target.map_or(experiment.duration_ns, |target| target.ran_ns) as f64;
            sum.queued += disturbance::waited_for_siblings(experiment);
            sum.meetings += meetings as f64;
            sum.spinning += experiment.spinning.unwrap_or(0) as f64;
            sum.visits += disturbance::most_visits(experiment).unwrap_or(0) as f64;
        }
        sum
    }
}

impl FrequentMeetings {
    /// Returns the meetings of a profile's threads; `None` if threads meet rarely, or if meetings
    /// were not counted.
    pub fn of(profile: &CausalProfile) -> Option<Self> {
        let period = period_ns(profile)?;
        let counts = Counts::of(profile);
        let sleeping = Self::sleeping(profile, counts.ran / counts.meetings, period);
        let spinning = counts.spinning * period / counts.ran;
        let spinning = (spinning >= SPINNING).then(|| {
            let every_ns = counts.ran / counts.visits;
            (every_ns, doubt_after_samples(every_ns, period))
        });
        let spinning = spinning.map(|(every_ns, doubt)| Self {
            every_ns,
            doubt,
            how: MeetingKind::Spinning(counts.spinning * period / counts.ran),
        });
        let queued = counts.queued / counts.ran;
        let meets = sleeping.every_ns < QUEUED_MEETINGS * period;
        let queued = (queued >= QUEUED && meets).then_some(Self {
            doubt: QUEUED_DOUBT,
            how: MeetingKind::Queued(queued),
            ..sleeping
        });
        let all = [Some(sleeping), spinning, queued].into_iter().flatten();
        all.filter(|it| it.doubt > 0.0)
            .max_by(|a, b| a.doubt.total_cmp(&b.doubt))
    }

    /// Returns the meetings of threads that sleep until they are woken.
    fn sleeping(profile: &CausalProfile, every_ns: f64, period: f64) -> Self {
        let experiments = || profile.runs.iter().flat_map(|run| &run.experiments);
        let delayed = || experiments().filter(|it| it.speedup > 0.0);
        let at_pace = 2 * delayed().filter(|it| it.at_pace).count() > delayed().count();
        let (left, period) = if at_pace {
            let period = PERIOD_AT_PACE;
            let lost = between(every_ns, FOLLOWED_AT_PACE * period, LOST_AT_PACE * period);
            (0.5 + 0.5 * lost.clamp(0.0, 1.0), period)
        } else {
            (1.0, period)
        };
        Self {
            every_ns,
            doubt: left * doubt_after_samples(every_ns, period),
            how: if at_pace {
                MeetingKind::AtPace
            } else {
                MeetingKind::AfterSamples
            },
        }
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

    /// Returns the warning for the reader.
    pub fn warning(&self, profile: &CausalProfile) -> String {
        let ms = |ns: f64| ns / 1e6;
        let every = ms(self.every_ns);
        let samples = || {
            let period = ms(period_ns(profile).unwrap_or(0.0));
            format!("delays come about every {period:.0} ms")
        };
        let what = match self.how {
            MeetingKind::AtPace => format!(
                "threads wait for each other every {every:.2} ms of their running time, and delays were spread over the operations \
                 in between, which is an approximation"
            ),
            MeetingKind::AfterSamples => format!(
                "threads wait for each other every {every:.2} ms of their running time, and {}",
                samples()
            ),
            MeetingKind::Queued(part) => format!(
                "threads wait for each other every {every:.2} ms of their running time, and for processors that others of them have, for {:.0} % of it",
                100.0 * part
            ),
            MeetingKind::Spinning(part) => format!(
                "threads spin for {:.0} % of their running time, perhaps at each visit of a progress point ({every:.2} ms), and {}",
                100.0 * part,
                samples()
            ),
        };
        format!(
            "{what}: predictions can be too small or too large by more than chance, so intervals reach towards nothing and towards \
             the whole time of the line"
        )
    }
}

/// Returns the doubt if delays come after samples: 0 above [`FOLLOWED`] periods, 1 up to [`LOST`].
fn doubt_after_samples(every_ns: f64, period: f64) -> f64 {
    let doubt = between(every_ns, FOLLOWED * period, LOST * period);
    if doubt.is_finite() {
        doubt.clamp(0.0, 1.0)
    } else {
        0.0
    }
}

/// Returns 0 at the length `none` and 1 at `all`, on a logarithmic scale between and beyond.
fn between(every_ns: f64, none: f64, all: f64) -> f64 {
    (none / every_ns).ln() / (none / all).ln()
}

impl Bound {
    /// Returns the bound for a fragment with `samples` undelayed samples in `undelayed_ns`
    /// nanoseconds without delays. For throughput, that is the part of the time in which a thread
    /// runs the fragment. Latencies can shrink by more, because requests queue up.
    pub fn new(runs: &[CausalRun], measure: Measure, samples: u64, undelayed_ns: f64) -> Self {
        let period = runs.iter().map(|run| run.settings.sample_period_ns).max();
        let ran = samples as f64 * period.unwrap_or(0) as f64 / undelayed_ns.max(1.0);
        match measure {
            Measure::Throughput => Self((UNSAMPLED * ran).min(1.0)),
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
