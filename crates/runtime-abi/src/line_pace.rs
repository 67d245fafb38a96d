//! The pace at which a thread runs the selected line between two operations.
//!
//! Samples come each millisecond, and threads may synchronise more often. If each sample were
//! charged whole, a few operations would see the whole delay and most of them none, and a wait of
//! 0.1 ms would forgive a debt of a millisecond.
//!
//! So where operations are frequent, the thread keeps a pace for each *stretch*, from one kind of
//! operation to the next: the fraction of its time that samples found in the line. At each
//! operation it charges at this pace for the time since the last one. Sampled time that was charged
//! too little or too much is spread over the time that follows: in the end the charge equals the
//! sampled time.
//!
//! Only the thread itself, with its signal handler, writes these words.

use core::sync::atomic::{AtomicI64, AtomicU64, Ordering::Relaxed};

/// Maximum number of stretches of a thread.
const STRETCHES: usize = 8;
/// Sampling periods over which uncharged time is spread. In the simulation of `tests/line_pace.rs`,
/// 8 to 64 give the same result.
const SPREAD: u64 = 32;
/// Approximate number of periods over which the pace is averaged.
const REMEMBERED: u64 = 256;
/// Operations are frequent if fewer periods than this lie between two; tuned with the simulation of
/// `tests/line_pace.rs`.
const FREQUENT: f64 = 1.5;
/// Number of operations over which the time between them is averaged.
const RECENT: u64 = 16;

/// The pace of a thread.
#[repr(C)]
pub struct LinePace {
    /// Experiment of this state ([`crate::Clock::epoch`] + 1); 0: none.
    experiment: AtomicU64,
    /// End of the last operation, by the monotonic clock.
    operated: AtomicU64,
    /// Mean time between two operations.
    between: AtomicU64,
    /// Time for which the thread stood still since the last operation.
    stood: AtomicU64,
    /// Time since the last operation that samples found in the line.
    sampled: AtomicU64,
    /// Time in this stretch that is accounted for already.
    charged_for: AtomicU64,
    /// The stretch that began with the last operation.
    stretch: AtomicU64,
    stretches: [Stretch; STRETCHES],
}

/// A part of the thread's code, identified by the operation that starts it. Times in nanoseconds.
#[repr(C)]
struct Stretch {
    /// The operation that starts the stretch.
    key: AtomicU64,
    /// Time that the thread ran in the stretch.
    ran: AtomicU64,
    /// Time in the stretch that samples found in the line.
    sampled: AtomicU64,
    /// The uncharged part of `sampled`; negative if too much was charged.
    rest: AtomicI64,
}

impl LinePace {
    /// Begins with another thread, whose start routine is `routine` (0: unknown). A thread may live
    /// for less than the time between two samples. So the state of the slot's former threads is
    /// kept, and all threads with the same routine share their first stretch.
    pub fn begin_thread(&self, routine: u64, now: u64) {
        if routine == 0 {
            self.experiment.store(0, Relaxed);
            self.between.store(0, Relaxed);
        }
        self.begin_part(now);
        self.stretch.store(routine, Relaxed);
    }

    /// Adds a sample that found the selected line for `span` nanoseconds at the time `now`. Returns
    /// the time to charge now.
    pub fn add_sample(&self, epoch: u16, span: u64, now: u64, period: u64) -> u64 {
        if !self.is_of(epoch) {
            self.begin(epoch, now);
        }
        let between = self.between.load(Relaxed);
        let since = now.saturating_sub(self.operated.load(Relaxed));
        let longest = (FREQUENT * period as f64) as u64;
        if between == 0 || between >= longest || since > 2 * longest {
            // A stretch without operations begins.
            self.operated.store(now, Relaxed);
            self.stood.store(0, Relaxed);
            return span + self.sampled.swap(0, Relaxed);
        }
        self.sampled.fetch_add(span, Relaxed);
        0
    }

    /// Adds a standstill of the thread in the middle of a stretch.
    pub fn add_standing(&self, ns: u64) {
        self.stood.fetch_add(ns, Relaxed);
    }

    /// Begins an operation. Returns the time of the selected line since the last one that is to be
    /// charged now.
    pub fn begin_operation(&self, epoch: u16, now: u64, period: u64) -> u64 {
        let ran = self.ran_until(now);
        let since_last = self.charged_for.swap(0, Relaxed) + ran;
        if !self.is_of(epoch) {
            self.begin(epoch, now);
            return 0;
        }
        let long = since_last.min(RECENT * period);
        let between = match self.between.load(Relaxed) {
            0 => long,
            mean => mean - mean / RECENT + long / RECENT,
        };
        self.between.store(between.max(1), Relaxed);
        let sampled = self.sampled.swap(0, Relaxed);
        self.stretch_now().run(ran, sampled, period)
    }

    /// Returns the time of the selected line in the current stretch that is to be charged now.
    /// Called before the thread pays in the middle of a stretch: a thread does not owe the delay
    /// that its own line causes.
    pub fn charge_part(&self, epoch: u16, now: u64, period: u64) -> u64 {
        if !self.is_of(epoch) {
            return 0;
        }
        let ran = self.ran_until(now);
        self.charged_for.fetch_add(ran, Relaxed);
        let sampled = self.sampled.swap(0, Relaxed);
        self.stretch_now().run(ran, sampled, period)
    }

    /// Returns the running time since the last call, or since the last operation.
    fn ran_until(&self, now: u64) -> u64 {
        let last = self.operated.swap(now, Relaxed);
        let stood = self.stood.swap(0, Relaxed);
        now.saturating_sub(last).saturating_sub(stood)
    }

    /// Ends an operation. Its kind and object identify the stretch that begins.
    pub fn end_operation(&self, kind: u64, now: u64) {
        self.operated.store(now, Relaxed);
        self.stretch.store(kind, Relaxed);
    }

    fn is_of(&self, epoch: u16) -> bool {
        self.experiment.load(Relaxed) == u64::from(epoch) + 1
    }

    fn begin(&self, epoch: u16, now: u64) {
        for stretch in &self.stretches {
            stretch.forget();
        }
        self.begin_part(now);
        self.experiment.store(u64::from(epoch) + 1, Relaxed);
    }

    /// Discards time before `now` that was not charged.
    fn begin_part(&self, now: u64) {
        self.sampled.store(0, Relaxed);
        self.stood.store(0, Relaxed);
        self.charged_for.store(0, Relaxed);
        self.operated.store(now, Relaxed);
    }

    /// Returns the current stretch. If all slots are taken, it replaces the stretch that ran least
    /// and takes over its rest.
    fn stretch_now(&self) -> &Stretch {
        let key = self.stretch.load(Relaxed);
        let [first, ..] = &self.stretches;
        let mut least = first;
        for stretch in &self.stretches {
            if stretch.key.load(Relaxed) == key {
                return stretch;
            }
            if stretch.ran.load(Relaxed) < least.ran.load(Relaxed) {
                least = stretch;
            }
        }
        least.key.store(key, Relaxed);
        least.ran.store(0, Relaxed);
        least.sampled.store(0, Relaxed);
        least
    }
}

impl Stretch {
    fn forget(&self) {
        self.key.store(0, Relaxed);
        self.ran.store(0, Relaxed);
        self.sampled.store(0, Relaxed);
        self.rest.store(0, Relaxed);
    }

    /// Adds `ran` nanoseconds of the stretch, of which samples found `sampled` in the line. Returns
    /// the time to charge.
    fn run(&self, ran: u64, sampled: u64, period: u64) -> u64 {
        let all = self.ran.load(Relaxed) + ran;
        let found = self.sampled.load(Relaxed) + sampled;
        let rest = self.rest.load(Relaxed) + sampled as i64;
        // The case of nearly all operations, each of which waits for this code.
        let charged = if found == 0 && rest == 0 {
            0
        } else {
            let pace = found as f64 / all.max(1) as f64 + rest as f64 / (SPREAD * period) as f64;
            (ran as f64 * pace.clamp(0.0, 1.0)) as u64
        };
        let keep = u32::from(all > REMEMBERED * period);
        self.ran.store(all >> keep, Relaxed);
        self.sampled.store(found >> keep, Relaxed);
        self.rest.store(rest - charged as i64, Relaxed);
        charged
    }
}

impl Default for LinePace {
    fn default() -> Self {
        Self {
            experiment: AtomicU64::new(0),
            operated: AtomicU64::new(0),
            between: AtomicU64::new(0),
            stood: AtomicU64::new(0),
            sampled: AtomicU64::new(0),
            charged_for: AtomicU64::new(0),
            stretch: AtomicU64::new(0),
            stretches: core::array::from_fn(|_| Stretch::default()),
        }
    }
}

impl Default for Stretch {
    fn default() -> Self {
        Self {
            key: AtomicU64::new(0),
            ran: AtomicU64::new(0),
            sampled: AtomicU64::new(0),
            rest: AtomicI64::new(0),
        }
    }
}

/// Returns the delay count of a thread after a wait of `waited` nanoseconds. `local` is its count
/// before the wait. `reached` is the count of the thread or processor that it waited for: a thread
/// that ended the wait has paid all delays so far. The credit is no longer than the wait: beyond
/// that the thread would have gone on without waiting.
pub fn credited_delay(local: u64, reached: u64, waited: u64) -> u64 {
    local.max(reached.min(local.saturating_add(waited)))
}
