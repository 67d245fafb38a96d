//! The counter of the processor's clock, beside the clock of the kernel.

/// Time stamps of a clock and of the time-stamp counter, taken together.
#[derive(Clone, Copy, Debug)]
pub(super) struct TimePair {
    pub ns: u64,
    pub ticks: u64,
}

impl TimePair {
    /// Reads the pair with the shortest time between the two clocks, out of some attempts: an interrupt may come between them.
    pub fn read_closest() -> Self {
        let tries = (0..4).map(|_| Self::read_once());
        let closest = tries.min_by_key(|(apart, _)| *apart);
        closest.map_or_else(|| Self::read_once().1, |(_, pair)| pair)
    }

    /// Also how far apart the time stamps of the counter were.
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

/// The clock and the counter at the start, and lately.
#[derive(Clone, Copy, Debug)]
pub(super) struct TscClock {
    pub first: TimePair,
    pub last: TimePair,
}

impl TscClock {
    /// The counter at a time of the clock.
    pub fn ticks_at(&self, ns: u64) -> u64 {
        let elapsed = self.last.ns.saturating_sub(self.first.ns).max(1);
        let rate = (self.last.ticks - self.first.ticks) as f64 / elapsed as f64;
        let from_last = ns as i64 - self.last.ns as i64;
        self.last
            .ticks
            .wrapping_add((from_last as f64 * rate) as i64 as u64)
    }
}
