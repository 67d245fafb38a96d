//! Estimates of what a block lost: its interval, its scale where not everything was recorded, and its parts.

use super::blocks::BlockState;
use super::floor::Group;
use super::kinds::Kind;
use super::known::Parts;
use profile::{Between, Level, TracedBlock};
use statrs::distribution::{ContinuousCDF, StudentsT};

/// Returns the factor that scales sums over recorded executions, if not all were recorded. It is the ratio of the calls
/// that the threads counted to the calls that the recorded ones stand for by their periods.
pub(super) fn recording_scale(block: &TracedBlock, period: u32, lost: u64) -> f64 {
    let some_missing = period > 1 || lost > 0;
    match some_missing && block.calls > 0 && block.represented > 0 {
        true => block.calls as f64 / block.represented as f64,
        false => 1.0,
    }
}

/// Caps a loss at the whole time. An execution that stands for thousands may claim more.
pub(super) fn cap_loss(excess: Between, time: f64) -> Between {
    Between {
        estimate: excess.estimate.min(time),
        low: excess.low.min(time),
        high: excess.high.min(time),
    }
}

/// Returns what was lost, in ticks. The estimate has the floors of the groups. The lower end has the floor of each kind by
/// itself, as the parts of the run say it; the upper one the shortest execution. To both comes what another
/// such run would differ by: Student's interval of the sum over the parts of the run.
pub(super) fn loss_interval(groups: &[Group], kinds: &[&Kind]) -> Between {
    let mut windows: Vec<(u64, f64)> = Vec::new();
    let (mut estimate, mut low, mut high) = (0.0, 0.0, 0.0);
    for group in groups {
        let floor = group.floor();
        estimate += group.excess(floor);
        high += group.excess(group.smallest.at(1));
        windows.resize(group.windows.len(), (0, 0.0));
        for (to, window) in windows.iter_mut().zip(&group.windows) {
            to.0 += window.n;
            to.1 += group.lost_in(window, floor);
        }
    }
    // Of kinds that there was no room to tell apart, nothing is certain.
    let exact = |kind: &&&Kind| kind.recorded > 0 && kind.level == Level::Exact;
    for kind in kinds.iter().filter(exact) {
        let group = Group::one(kind);
        low += group.excess(group.high()).max(0.0);
    }
    let used = |w: &(u64, f64)| w.0 > 0;
    let first = windows.iter().position(used).unwrap_or(0);
    let last = windows
        .iter()
        .rposition(used)
        .map_or(first, |last| last + 1);
    let excesses: Vec<f64> = windows
        .get(first..last)
        .unwrap_or_default()
        .iter()
        .map(|w| w.1)
        .collect();
    let error = half_interval(&excesses);
    let estimate = f64::max(estimate, 0.0);
    Between {
        estimate,
        low: (low.min(estimate) - error).max(0.0),
        high: high.max(estimate) + error,
    }
}

/// Returns half of the 95 % interval of the sum of `parts`. Parts after each other are often alike,
/// which makes it narrower than it should be.
fn half_interval(parts: &[f64]) -> f64 {
    let n = parts.len() as f64;
    if parts.len() < 4 {
        return 0.0;
    }
    let mean = parts.iter().sum::<f64>() / n;
    let variance = parts.iter().map(|p| (p - mean) * (p - mean)).sum::<f64>() / (n - 1.0);
    let student = StudentsT::new(0.0, 1.0, n - 1.0);
    let reach = student.map_or(2.0, |student| student.inverse_cdf(0.975));
    reach * (n * variance).sqrt()
}

/// Splits the loss. Time ready without a CPU is lost as such, and so are waits for other threads. Of other waits, the
/// part above the least of any execution is lost.
pub(super) fn split_loss(
    state: &BlockState,
    groups: &[Group],
    n: u64,
    excess: f64,
    exact: f64,
) -> Parts {
    let fates = &state.fates;
    // A thread that yields is ready, but has nothing to do.
    if state.yields {
        return Parts {
            scheduler: 0.0,
            blocked: 0.0,
            running: excess,
        };
    }
    let scheduler = (exact * fates.ready as f64).min(excess);
    let least = match state.least_compared {
        u64::MAX => 0.0,
        least => least as f64,
    };
    let compared = (exact * fates.compared as f64 - n as f64 * least).max(0.0);
    let idle: f64 = groups.iter().map(Group::asked).sum();
    let asked = (fates.asked as f64 - idle).max(0.0);
    let lost = exact * (fates.lost as f64 + asked) + compared;
    let blocked = lost.clamp(0.0, excess - scheduler);
    Parts {
        scheduler,
        blocked,
        running: excess - scheduler - blocked,
    }
}
