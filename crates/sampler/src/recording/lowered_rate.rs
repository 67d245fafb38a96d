//! A sampling rate that is lowered while samples come, so that the whole recording has the lower
//! one.

use rustc_hash::FxHashSet;

/// Reductions of the rate of the timed events, and their times.
///
/// Samples at a higher rate are thinned out: a recording states one rate, so each of its samples
/// must stand for the same time.
pub(crate) struct LoweredRate {
    /// Factor by which the recording's periods exceed the requested ones.
    factor: u64,
    /// Factors of the kernel's periods, each from a time on; the last one is in force.
    changes: Vec<RateChange>,
    /// Number of skipped samples since the last kept one, by event.
    passed_over: Vec<u64>,
    /// Events whose rate is lowered.
    timed: FxHashSet<usize>,
}

struct RateChange {
    time: u64,
    factor: u64,
    /// The samples that each event had lost at that time.
    lost: Vec<u64>,
}

impl LoweredRate {
    /// Creates a rate that is not lowered.
    pub fn new(events: usize) -> Self {
        Self {
            factor: 1,
            changes: vec![RateChange {
                time: 0,
                factor: 1,
                lost: vec![0; events],
            }],
            passed_over: vec![0; events],
            timed: FxHashSet::default(),
        }
    }

    /// Marks an event as one whose rate can be lowered.
    pub fn add_timed(&mut self, event: usize) {
        self.timed.insert(event);
    }

    /// Returns whether the rate of an event can be lowered.
    pub fn is_timed(&self, event: usize) -> bool {
        self.timed.contains(&event)
    }

    /// Returns the events whose rate can be lowered.
    pub fn timed_events(&self) -> impl Iterator<Item = usize> + '_ {
        self.timed.iter().copied()
    }

    /// Returns the factor by which the periods of an event exceed the requested ones.
    pub fn factor(&self, event: usize) -> u64 {
        if self.is_timed(event) { self.factor } else { 1 }
    }

    /// Returns the factor by which the kernel's current periods exceed the requested ones.
    pub fn kernel_factor(&self) -> u64 {
        self.changes.last().map_or(1, |change| change.factor)
    }

    /// Halves the rate. With `lost`, the samples that each event has lost, the kernel's periods
    /// were doubled at `time`, too. Without, samples come as before, and every second one is
    /// skipped.
    pub fn halve(&mut self, time: u64, lost: Option<Vec<u64>>) {
        self.factor *= 2;
        if let Some(lost) = lost {
            let factor = self.kernel_factor() * 2;
            self.changes.push(RateChange { time, factor, lost });
        }
    }

    /// Returns the number of samples at a time for each one that the recording keeps.
    pub fn excess_at(&self, event: usize, time: u64) -> u64 {
        if !self.is_timed(event) {
            return 1;
        }
        let change = self.changes.iter().rev().find(|one| one.time <= time);
        self.factor / change.map_or(1, |one| one.factor)
    }

    /// Returns whether to keep a sample of this time. Called once for each sample.
    pub fn keeps_sample(&mut self, event: usize, time: u64) -> bool {
        let excess = self.excess_at(event, time);
        self.is_turn(event, excess)
    }

    /// Returns whether to keep a sample that was kept before the rate was halved.
    pub fn keeps_half(&mut self, event: usize) -> bool {
        let excess = if self.is_timed(event) { 2 } else { 1 };
        self.is_turn(event, excess)
    }

    /// Accepts one sample in `excess`.
    fn is_turn(&mut self, event: usize, excess: u64) -> bool {
        let Some(passed_over) = self.passed_over.get_mut(event) else {
            return true;
        };
        *passed_over += 1;
        let is_turn = *passed_over >= excess;
        if is_turn {
            *passed_over = 0;
        }
        is_turn
    }

    /// Returns how many of the `lost` samples of an event it would have lost at the recording's
    /// stated rate.
    pub fn lost_at_rate(&self, event: usize, lost: u64) -> u64 {
        if !self.is_timed(event) {
            return lost;
        }
        let lost_by = |change: &RateChange| change.lost.get(event).copied().unwrap_or(0);
        let ends = self.changes.iter().skip(1).map(lost_by).chain([lost]);
        let weighed = self.changes.iter().zip(ends).map(|(change, end)| {
            u128::from(end.saturating_sub(lost_by(change))) * u128::from(change.factor)
        });
        (weighed.sum::<u128>() / u128::from(self.factor)) as u64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn kept(rate: &mut LoweredRate, event: usize, times: impl Iterator<Item = u64>) -> usize {
        times.filter(|time| rate.keeps_sample(event, *time)).count()
    }

    #[test]
    fn what_came_at_a_higher_rate_is_thinned_out() {
        let mut rate = LoweredRate::new(2);
        rate.add_timed(0);
        assert_eq!(kept(&mut rate, 0, 0..100), 100);
        rate.halve(100, Some(vec![0, 0]));
        rate.halve(200, Some(vec![0, 0]));
        assert_eq!((rate.factor(0), rate.factor(1)), (4, 1));
        assert_eq!(kept(&mut rate, 0, 0..100), 25);
        assert_eq!(kept(&mut rate, 0, 100..200), 50);
        assert_eq!(kept(&mut rate, 0, 200..300), 100);
        assert_eq!(kept(&mut rate, 1, 0..100), 100, "no event of time");
        // If the kernel's periods cannot be set, samples keep coming as before.
        rate.halve(300, None);
        assert_eq!((rate.factor(0), rate.kernel_factor()), (8, 4));
        assert_eq!(kept(&mut rate, 0, 300..400), 50);
    }

    #[test]
    fn lost_samples_count_as_those_that_were_kept() {
        let mut rate = LoweredRate::new(2);
        rate.add_timed(0);
        rate.halve(100, Some(vec![80, 7]));
        rate.halve(200, Some(vec![120, 8]));
        // 80 at four times the rate, 40 at twice the rate, 30 at the rate.
        assert_eq!(rate.lost_at_rate(0, 150), 20 + 20 + 30);
        assert_eq!(rate.lost_at_rate(1, 9), 9);
    }
}
