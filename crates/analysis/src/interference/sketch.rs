//! Summaries of durations in bounded memory that can be put together: the few smallest, a histogram
//! with logarithmic steps, and sums by time windows.

/// Number of the smallest durations that are kept.
const SMALLEST: usize = 5;

/// The smallest durations, ascending.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Smallest([u64; SMALLEST]);

impl Default for Smallest {
    fn default() -> Self {
        Self([u64::MAX; SMALLEST])
    }
}

impl Smallest {
    #[inline]
    pub fn add(&mut self, duration: u64) {
        let [.., last] = &mut self.0;
        if duration < *last {
            *last = duration;
            self.0.sort_unstable();
        }
    }

    pub fn merge(&mut self, other: &Self) {
        for duration in other.0 {
            self.add(duration);
        }
    }

    /// The `k`-th smallest, from 1, or the last that there is.
    pub fn at(&self, k: usize) -> u64 {
        let mut known = self.0.iter().take(k.max(1));
        known.rfind(|d| **d != u64::MAX).copied().unwrap_or(0)
    }
}

/// Steps in a doubling of the duration: 4.4 % each.
const STEPS: u32 = 16;

/// Histogram of durations, in steps of 4.4 %.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Histogram {
    /// The step of the first count.
    base: usize,
    counts: Vec<u64>,
}

/// The step that a duration falls into. Below 16 each has its own.
///
/// A float begins with the octave and then has the parts of it; finding the first bit takes some processors several operations.
#[inline]
pub(super) fn step(duration: u64) -> usize {
    const EXACT: std::ops::Range<u64> = STEPS as u64..1 << f64::MANTISSA_DIGITS;
    const FIRST: usize = (f64::MAX_EXP as usize - 1 + STEPS.ilog2() as usize - 1) * STEPS as usize;
    if !EXACT.contains(&duration) {
        return step_by_bits(duration);
    }
    let float = (duration as i64) as f64;
    (float.to_bits() >> (f64::MANTISSA_DIGITS - 1 - STEPS.ilog2())) as usize - FIRST
}

#[cold]
fn step_by_bits(duration: u64) -> usize {
    let octaves = (duration | u64::from(STEPS)).ilog2() - STEPS.ilog2();
    (octaves * STEPS) as usize + (duration >> octaves) as usize
}

/// The first duration that is above a step.
fn end(step: usize) -> u64 {
    let next = step + 1;
    let steps = STEPS as usize;
    if next < steps {
        return next as u64;
    }
    let (octave, part) = (next / steps + 3, next % steps);
    match octave {
        64.. => u64::MAX,
        _ => ((steps + part) as u64) << (octave - 4),
    }
}

impl Histogram {
    #[inline]
    pub fn add(&mut self, duration: u64, weight: u64) {
        let step = step(duration);
        match self.counts.get_mut(step.wrapping_sub(self.base)) {
            Some(count) => *count += weight,
            None => self.add_step(step, weight),
        }
    }

    /// Widens the range first; a thousand steps at most.
    #[cold]
    fn add_step(&mut self, step: usize, weight: u64) {
        if self.counts.is_empty() {
            self.base = step;
        }
        if step < self.base {
            let missing = self.base - step;
            self.counts.splice(0..0, std::iter::repeat_n(0, missing));
            self.base = step;
        }
        let at = step - self.base;
        if at >= self.counts.len() {
            self.counts.resize(at + 1, 0);
        }
        if let Some(count) = self.counts.get_mut(at) {
            *count += weight;
        }
    }

    pub fn merge(&mut self, other: &Self) {
        for (at, count) in other.counts.iter().enumerate() {
            if *count > 0 {
                self.add_step(other.base + at, *count);
            }
        }
    }

    /// Durations with counts, ascending: the last duration of each step.
    pub fn steps(&self) -> impl Iterator<Item = (u64, u64)> {
        let steps = self.counts.iter().enumerate();
        steps
            .filter(|(_, count)| **count > 0)
            .map(|(at, count)| (end(self.base + at) - 1, *count))
    }

    pub fn total(&self) -> u64 {
        self.counts.iter().sum()
    }

    /// Returns how many took at most this, to the end of its step.
    pub fn up_to(&self, duration: u64) -> u64 {
        let last = step(duration);
        let within = (last + 1).saturating_sub(self.base);
        self.counts.iter().take(within).sum()
    }

    /// The duration that a fraction of the executions stays within, to a step.
    pub fn quantile(&self, fraction: f64) -> u64 {
        let rank = (fraction * self.total() as f64).ceil().max(1.0) as u64;
        let mut seen = 0;
        for (duration, count) in self.steps() {
            seen += count;
            if seen >= rank {
                return duration;
            }
        }
        0
    }
}

/// Number of time windows of a run.
pub(super) const WINDOWS: usize = 32;

/// The executions that ended in a part of the run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Window {
    pub n: u64,
    /// Sum of durations, without the time that executions were asked to wait.
    pub sum: u64,
    /// The time that they were asked to wait.
    pub asked: u64,
    /// The least that one took without waiting for others.
    pub min: u64,
}

impl Default for Window {
    fn default() -> Self {
        Self {
            n: 0,
            sum: 0,
            asked: 0,
            min: u64::MAX,
        }
    }
}

impl Window {
    pub fn merge(&mut self, other: &Self) {
        self.n += other.n;
        self.sum = self.sum.saturating_add(other.sum);
        self.asked = self.asked.saturating_add(other.asked);
        self.min = self.min.min(other.min);
    }
}

/// Halves the number of windows in use: they last twice as long from now on.
pub(super) fn halve(windows: &mut [Window; WINDOWS]) {
    let before = *windows;
    for (at, window) in windows.iter_mut().enumerate() {
        *window = Window::default();
        for old in before.iter().skip(2 * at).take(2) {
            window.merge(old);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn steps_are_narrow_and_in_order(number in 0u64..1 << 62, shift in 0u32..62) {
            let duration = number >> shift;
            let step = step(duration);
            let first = if step == 0 { 0 } else { end(step - 1) };
            prop_assert!(first <= duration && duration < end(step), "{first} {duration} {}", end(step));
            prop_assert!((end(step) - 1 - first) as f64 <= 0.0625 * first as f64);
            prop_assert_eq!(step, step_by_bits(duration));
        }

        #[test]
        fn a_histogram_is_what_was_added(
            mut durations in proptest::collection::vec(0u64..1 << 40, 1..200),
            cut in 0usize..200,
            fraction in 0.01f64..1.0,
        ) {
            let (mut one, mut other, mut whole) = <(Histogram, Histogram, Histogram)>::default();
            for (at, duration) in durations.iter().enumerate() {
                if at < cut { one.add(*duration, 1) } else { other.add(*duration, 1) }
                whole.add(*duration, 1);
            }
            one.merge(&other);
            prop_assert!(one.steps().eq(whole.steps()));
            prop_assert_eq!(whole.total(), durations.len() as u64);
            durations.sort_unstable();
            let rank = (fraction * durations.len() as f64).ceil() as usize;
            let truth = durations[rank.max(1) - 1] as f64;
            let quantile = whole.quantile(fraction) as f64;
            prop_assert!(quantile >= truth && quantile <= truth * 1.0626 + 1.0);
        }

        #[test]
        fn the_smallest_are_kept(durations in proptest::collection::vec(0u64..1000, 1..30), k in 1usize..6) {
            let mut smallest = Smallest::default();
            durations.iter().for_each(|d| smallest.add(*d));
            let mut sorted = durations;
            sorted.sort_unstable();
            prop_assert_eq!(smallest.at(k), sorted[k.min(sorted.len()) - 1]);
        }
    }
}
