//! Times of a profile's samples, in equal slices.

/// The time range of a profile, in equal slices from its first sample on. Frames of the module
/// `[slice]` have their numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TimeAxis {
    /// The length of a slice in nanoseconds.
    pub slice_ns: u64,
    /// The number of slices.
    pub slices: u32,
}

/// Maximum number of slices, plus one if the end falls on an edge: each costs a copy of its calling
/// contexts.
const MOST_SLICES: f64 = 300.0;
/// Least number of samples in a slice, so that a running thread shows in each.
const SAMPLES_IN_SLICE: f64 = 5.0;
/// Shortest slice in nanoseconds: profilers' clocks are not more exact.
const SHORTEST_NS: f64 = 1000.0;

/// Range and width of the slices of a [`TimeAxis`].
#[derive(Clone, Copy, Debug)]
pub(crate) struct TimeSlices {
    first_ns: f64,
    slice_ns: f64,
    slices: u32,
}

impl TimeSlices {
    /// Divides the time from `first_ns` to `last_ns` into slices of a round length, none shorter
    /// than `shortest_ns`; `None` for an empty or invalid range.
    pub fn between_times(first_ns: f64, last_ns: f64, shortest_ns: f64) -> Option<Self> {
        let length = last_ns - first_ns;
        if !(length.is_finite() && length > 0.0 && length < u64::MAX as f64) {
            return None;
        }
        let least = (length / MOST_SLICES).max(shortest_ns).max(SHORTEST_NS);
        let power = 10_f64.powf(least.log10().floor());
        let rounds = [1.0, 2.0, 5.0, 10.0].map(|times| times * power);
        let slice_ns = rounds.into_iter().find(|round| *round >= least)?;
        Some(Self {
            first_ns,
            slice_ns,
            slices: (length / slice_ns) as u32 + 1,
        })
    }

    /// Returns the slice of a time; for times outside of the axis, the nearest one.
    pub fn slice_at(&self, ns: f64) -> u32 {
        // A cast saturates, and converts NaN to 0.
        (((ns - self.first_ns) / self.slice_ns) as u32).min(self.slices - 1)
    }

    /// Returns the length of the time between two moments in each slice.
    pub fn parts_between(&self, from: f64, to: f64) -> impl Iterator<Item = (u32, f64)> {
        let axis = *self;
        let (first, last) = (axis.slice_at(from), axis.slice_at(to));
        (first..=last).filter_map(move |slice| {
            let start = if slice == first {
                from
            } else {
                axis.first_ns + f64::from(slice) * axis.slice_ns
            };
            let end = if slice == last {
                to
            } else {
                axis.first_ns + f64::from(slice + 1) * axis.slice_ns
            };
            (end > start).then_some((slice, end - start))
        })
    }

    /// Returns the length and the number of the slices.
    pub fn time_axis(&self) -> TimeAxis {
        TimeAxis {
            slice_ns: self.slice_ns as u64,
            slices: self.slices,
        }
    }
}

/// The first and the last of some times, and their number.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct TimeRange {
    ends: Option<(f64, f64)>,
    count: u32,
}

impl TimeRange {
    /// Widens the range to include a time.
    pub fn add_time(&mut self, ns: f64) {
        if ns.is_finite() {
            let (first, last) = self.ends.unwrap_or((ns, ns));
            self.ends = Some((first.min(ns), last.max(ns)));
            self.count = self.count.saturating_add(1);
        }
    }

    /// Divides the range into slices, none shorter than `shortest_ns`.
    pub fn slices_from(self, shortest_ns: f64) -> Option<TimeSlices> {
        let (first, last) = self.ends?;
        TimeSlices::between_times(first, last, shortest_ns)
    }

    /// Divides the range into slices with several of its times each, if these are of samples.
    pub fn slices_of_samples(self) -> Option<TimeSlices> {
        self.slices_for(self.count as usize)
    }

    /// Divides the range into slices with several of `samples` samples each; without samples, as
    /// finely as allowed.
    pub fn slices_for(self, samples: usize) -> Option<TimeSlices> {
        let (first, last) = self.ends?;
        let each = match samples {
            0 => 0.0,
            some => (last - first) / some as f64,
        };
        self.slices_from(SAMPLES_IN_SLICE * each)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slices_are_round_and_hold_every_time() {
        let axis = TimeSlices::between_times(5e8, 61.3e9, 0.0).expect("a time");
        assert_eq!(axis.time_axis().slice_ns, 500_000_000);
        assert_eq!(axis.time_axis().slices, 122);
        let slices = [0.0, 5e8, 1e9, 61.3e9, 1e12].map(|ns| axis.slice_at(ns));
        assert_eq!(slices, [0, 0, 1, 121, 121]);
        let few = TimeSlices::between_times(0.0, 1e9, 3e8).expect("a time");
        assert_eq!(few.time_axis().slice_ns, 500_000_000);
        assert!(TimeSlices::between_times(3.0, 3.0, 0.0).is_none());
        assert!(TimeSlices::between_times(f64::NAN, 3.0, 0.0).is_none());
        assert!(
            TimeSlices::between_times(0.0, 4000.0, 0.0)
                .is_some_and(|axis| axis.time_axis().slices <= 300)
        );
    }

    #[test]
    fn parts_add_up_to_the_whole() {
        let axis = TimeSlices::between_times(0.0, 300e9, 0.0).expect("a time");
        for (from, to) in [(0.0, 300e9), (0.2e9, 0.3e9), (0.9e9, 1.1e9), (7e9, 7e9)] {
            let parts: Vec<(u32, f64)> = axis.parts_between(from, to).collect();
            let sum: f64 = parts.iter().map(|(_, ns)| ns).sum();
            assert!((sum - (to - from)).abs() < 1.0, "{from} to {to}: {parts:?}");
            assert!(parts.iter().all(|(_, ns)| *ns <= 1e9 + 1.0));
        }
    }
}
