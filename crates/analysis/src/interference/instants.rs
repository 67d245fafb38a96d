//! Samples of whether another thread was in the same block at the same time.
//!
//! The run is sampled at regular instants: the threads that are in the block, and the running time of these executions,
//! without their waits. Long executions are met more often, in proportion to their length `d`. So the mean of their
//! running time `r` is `Σ r/d / Σ 1/d`. Instants are kept for a while, because the items of different threads arrive in
//! turns.

use profile::ThreadIndex;

/// Number of instants that are kept.
const KEPT: usize = 1024;
/// Maximum number of executions at an instant.
const AT_ONCE: usize = 6;
/// Instants are `2^SHIFT` ticks apart: about a millisecond.
const SHIFT: u32 = 21;

#[derive(Clone, Debug, Default)]
struct Instant {
    number: u64,
    met: Vec<(ThreadIndex, Met)>,
}

/// An execution, in ticks.
#[derive(Clone, Copy, Debug)]
struct Met {
    duration: f64,
    /// Time on a CPU.
    ran: f64,
}

/// Executions with others at the same time, or without.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Group {
    pub n: u64,
    inverse: f64,
    ran: f64,
}

impl Group {
    fn add(&mut self, met: Met) {
        self.n += 1;
        self.inverse += 1.0 / met.duration.max(1.0);
        self.ran += met.ran.max(1.0) / met.duration.max(1.0);
    }

    /// The mean time that executions run, in ticks.
    pub fn mean_running(&self) -> f64 {
        self.ran / self.inverse
    }
}

/// The instants of a block.
#[derive(Clone, Debug, Default)]
pub(super) struct Instants {
    kept: Vec<Instant>,
    pub alone: Group,
    pub with_others: Group,
    /// Executions that came when their instant was over.
    pub late: u64,
}

impl Instants {
    /// Returns whether an execution is met at any instant.
    #[inline]
    pub fn meets(enter: u64, leave: u64) -> bool {
        enter >> SHIFT != leave >> SHIFT
    }

    /// Adds an execution that is, which was off the CPU for so long.
    #[cold]
    pub fn add(&mut self, enter: u64, leave: u64, off: u64, thread: ThreadIndex) {
        if self.kept.is_empty() {
            self.kept = vec![Instant::default(); KEPT];
        }
        let duration = leave - enter;
        let met = Met {
            duration: duration as f64,
            ran: duration.saturating_sub(off) as f64,
        };
        let last = leave >> SHIFT;
        // Of a very long one only as many as are kept.
        let first = ((enter >> SHIFT) + 1).max(last.saturating_sub(KEPT as u64 - 1));
        for number in first..=last {
            let place = number as usize % KEPT;
            let Some(instant) = self.kept.get_mut(place) else {
                return;
            };
            if instant.number > number {
                self.late += 1;
                continue;
            }
            if instant.number < number {
                judge(instant, &mut self.alone, &mut self.with_others);
                instant.number = number;
            }
            let own = instant.met.iter_mut().find(|met| met.0 == thread);
            if let Some(inner) = own {
                // It contains the one that was met.
                inner.1 = met;
            } else if instant.met.len() < AT_ONCE {
                instant.met.push((thread, met));
            }
        }
    }

    /// Counts all that was met.
    pub fn settle(&mut self) {
        for instant in &mut self.kept {
            judge(instant, &mut self.alone, &mut self.with_others);
            instant.number = 0;
        }
    }
}

fn judge(instant: &mut Instant, alone: &mut Group, with_others: &mut Group) {
    let first = instant.met.first().map(|(thread, _)| *thread);
    let others = instant.met.iter().any(|(thread, _)| Some(*thread) != first);
    for (_, met) in instant.met.drain(..) {
        match others {
            true => with_others.add(met),
            false => alone.add(met),
        }
    }
}
