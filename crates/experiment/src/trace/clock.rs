//! Conversion between the processor's time-stamp counter and the kernel's clock.

/// Readings of the kernel's clock and of the time-stamp counter at the same moment.
#[derive(Clone, Copy, Debug)]
pub(super) struct TimePair {
    pub ns: u64,
    pub ticks: u64,
}

impl TimePair {
    /// Returns the best of four readings. An interrupt between the two clocks makes a reading
    /// worse.
    pub fn read_closest() -> Self {
        let tries = (0..4).map(|_| Self::read_once());
        let closest = tries.min_by_key(|(apart, _)| *apart);
        closest.map_or_else(|| Self::read_once().1, |(_, pair)| pair)
    }

    /// Reads both clocks once. Also returns the ticks that the reading took.
    pub fn read_once() -> (u64, Self) {
        let before = super::read_tsc();
        let ns = sampler::monotonic_ns();
        let after = super::read_tsc();
        let apart = after.saturating_sub(before);
        let pair = Self {
            ns,
            ticks: before + apart / 2,
        };
        (apart, pair)
    }
}

/// A pair of readings from the start of the run, and a recent one.
#[derive(Clone, Copy, Debug)]
pub(super) struct TscClock {
    pub first: TimePair,
    pub last: TimePair,
}

impl TscClock {
    /// Returns the counter's value at a time of the kernel's clock.
    pub fn ticks_at(&self, ns: u64) -> u64 {
        let elapsed = self.last.ns.saturating_sub(self.first.ns).max(1);
        let rate = (self.last.ticks - self.first.ticks) as f64 / elapsed as f64;
        let from_last = ns as i64 - self.last.ns as i64;
        self.last
            .ticks
            .wrapping_add((from_last as f64 * rate) as i64 as u64)
    }
}
