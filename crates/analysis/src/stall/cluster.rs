//! The frequency of one equivalence class from the ratios of its issue points (section 6.1.3).

use super::{Confidence, Estimate};

/// An issue point, with those before it that its wait overlaps; or an instruction that is issued
/// together with another (`own_minimum` is 0).
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Ratio {
    /// Samples of all of them, and of the issue point itself.
    pub samples: f64,
    pub own_samples: f64,
    /// Least cycles of all of them, and of the issue point itself.
    pub minimum: f64,
    pub own_minimum: f64,
}

impl Ratio {
    fn value(&self) -> f64 {
        self.samples / self.minimum
    }
}

/// The largest ratio of a cluster, divided by the smallest: the paper's 1.5.
const CLUSTER_WIDTH: f64 = 1.5;

/// The least share of its class's issue points that a cluster has.
const LEAST_SHARE: f64 = 0.34;

/// Maximum mean number of cycles of a plausible stall.
const LARGEST_STALL: f64 = 600.0;

/// Mean number of samples below which single ratios say little, and all are combined.
const FEW_SAMPLES: f64 = 12.0;

/// Estimates the frequency of a class; `None` if it has no issue point.
pub(super) fn estimate_class(ratios: &[Ratio]) -> Option<Estimate> {
    let total: f64 = ratios.iter().map(|ratio| ratio.own_samples).sum();
    let minimum: f64 = ratios.iter().map(|ratio| ratio.own_minimum).sum();
    let mut points: Vec<&Ratio> = ratios.iter().filter(|one| one.own_minimum > 0.0).collect();
    if points.is_empty() {
        return None;
    }
    let mean = Estimate {
        frequency: total / minimum,
        confidence: Confidence::Low,
        deviation: None,
    };
    if total < FEW_SAMPLES * points.len() as f64 {
        return Some(mean);
    }
    points.sort_by(|a, b| a.value().total_cmp(&b.value()));
    let least = (LEAST_SHARE * points.len() as f64).ceil().max(1.0) as usize;
    let largest = |frequency: f64| {
        let stall = |one: &Ratio| one.own_samples / frequency - one.own_minimum;
        ratios.iter().map(stall).fold(0.0, f64::max)
    };
    let mut rest = points.as_slice();
    while let Some(first) = rest.first() {
        let within = cluster_end(rest, first.value());
        // Smallest first: stalls only add samples, so that the smallest ratios are nearest to the
        // frequency.
        let (cluster, after) = rest.split_at(within);
        let frequency = mean_of(cluster);
        if cluster.len() >= least && frequency > 0.0 && largest(frequency) <= LARGEST_STALL {
            return Some(Estimate {
                frequency,
                confidence: cluster_confidence(cluster, points.len(), frequency),
                deviation: None,
            });
        }
        rest = after;
    }
    Some(mean)
}

/// Returns how many of the smallest ratios belong together: those within the width, up to the first
/// gap that sampling error does not explain.
fn cluster_end(sorted: &[&Ratio], smallest: f64) -> usize {
    let mut end = 1;
    let (mut samples, mut minimum) = sorted
        .first()
        .map_or((0.0, 0.0), |first| (first.samples, first.minimum));
    for ratio in sorted.iter().skip(1) {
        let mean = samples / minimum;
        // The standard deviation of a ratio with `n` samples is 1/sqrt(n) of it.
        let error = 3.0 * mean * (1.0 / (mean * ratio.minimum).max(1.0)).sqrt();
        if ratio.value() > CLUSTER_WIDTH * smallest || ratio.value() > mean + error + 0.04 * mean {
            break;
        }
        samples += ratio.samples;
        minimum += ratio.minimum;
        end += 1;
    }
    end
}

fn mean_of(cluster: &[&Ratio]) -> f64 {
    let samples: f64 = cluster.iter().map(|ratio| ratio.samples).sum();
    let minimum: f64 = cluster.iter().map(|ratio| ratio.minimum).sum();
    samples / minimum
}

/// Rates the confidence (section 6.1.5) by the number of issue points, how tightly they are
/// clustered, and the number of samples.
fn cluster_confidence(cluster: &[&Ratio], points: usize, frequency: f64) -> Confidence {
    let samples: f64 = cluster.iter().map(|ratio| ratio.samples).sum();
    let share = cluster.len() as f64 / points as f64;
    let spread = match (cluster.first(), cluster.last()) {
        (Some(first), Some(last)) => (last.value() - first.value()) / frequency,
        _ => f64::INFINITY,
    };
    if cluster.len() >= 3 && share >= 0.3 && samples >= 400.0 && spread <= 0.35 {
        Confidence::High
    } else if cluster.len() >= 2 && samples >= 100.0 {
        Confidence::Medium
    } else {
        Confidence::Low
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Figure 7: the copy loop. The true frequency is 1575.1.
    #[test]
    fn the_papers_copy_loop() {
        let samples = [
            3126, 0, 1636, 390, 1482, 0, 27766, 0, 1493, 174_727, 1548, 0, 1586,
        ];
        let minima = [1, 0, 1, 0, 1, 0, 1, 0, 1, 1, 1, 0, 1];
        let ratios: Vec<Ratio> = samples
            .into_iter()
            .zip(minima)
            .map(|(samples, minimum)| Ratio {
                samples: f64::from(samples),
                own_samples: f64::from(samples),
                minimum: f64::from(minimum),
                own_minimum: f64::from(minimum),
            })
            .collect();
        let estimate = estimate_class(&ratios).expect("issue points");
        assert!(
            (estimate.frequency / 1575.1 - 1.0).abs() < 0.05,
            "{estimate:?}"
        );
        assert_eq!(estimate.confidence, Confidence::High);
    }

    #[test]
    fn without_issue_points_nothing_is_known() {
        let folded = Ratio {
            samples: 5.0,
            own_samples: 5.0,
            minimum: 0.0,
            own_minimum: 0.0,
        };
        assert_eq!(estimate_class(&[folded]), None);
        assert_eq!(estimate_class(&[]), None);
    }
}
