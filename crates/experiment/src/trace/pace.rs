//! How often a block is traced: not at all where that would cost too much (section 3.2.3).

use super::memory::Shared;
use profile::{BlockId, TracedBlock};
use std::sync::atomic::Ordering::Relaxed;

/// The shortest period that is worth its name: what is not traced costs something, too.
const SHORTEST: u32 = 16;
/// Reading, analysing and storing an execution takes at most so many times as long as recording it: where we take more
/// time, it is for something else.
const AFTERWARDS: f64 = 6.0;
/// The longest one.
const LONGEST: u32 = 1 << 20;

/// Keeps the cost of tracing within a budget.
pub(super) struct Pace {
    /// Part of the target's time that tracing may take.
    budget: f64,
    /// Cost of recording one execution in ticks.
    cost: u64,
    before: Vec<u64>,
    /// CPU time that this thread had taken, in nanoseconds.
    own_before: u64,
    since: u64,
}

impl Pace {
    pub fn new(budget: f64, cost: u64, now: u64) -> Self {
        Self {
            budget,
            cost,
            before: Vec::new(),
            own_before: own_time(),
            since: now,
        }
    }

    /// Sets the period of a block.
    pub fn set(shared: &Shared, blocks: &mut [TracedBlock], block: usize, period: u32) {
        if let (Some(known), Some(word)) = (blocks.get_mut(block), shared.periods.get(block)) {
            known.period = period;
            word.store(if period <= 1 { 0 } else { period }, Relaxed);
        }
    }

    /// Looks at what was executed since the last time, and lengthens the periods of the blocks that
    /// cost most: which ones. A target that uses all CPUs waits for us, too: what we take counts.
    pub fn step(
        &mut self,
        shared: &Shared,
        blocks: &mut [TracedBlock],
        executions: &[u64],
        threads: usize,
        now: u64,
        ticks_per_ns: f64,
    ) -> Vec<BlockId> {
        let window = now.saturating_sub(std::mem::replace(&mut self.since, now));
        self.before.resize(executions.len(), 0);
        let mut costs: Vec<(u64, usize)> = Vec::new();
        for (block, (count, before)) in executions.iter().zip(&mut self.before).enumerate() {
            let new = count - std::mem::replace(before, *count);
            costs.push((new, block));
        }
        let own = own_time();
        let own = own.saturating_sub(std::mem::replace(&mut self.own_before, own));
        let all: u64 = costs.iter().map(|(new, _)| new).sum();
        let recording = self.cost as f64;
        let afterwards = own as f64 * ticks_per_ns / all.max(1) as f64;
        let each = recording + afterwards.min(AFTERWARDS * recording);
        for (cost, _) in &mut costs {
            *cost = (*cost as f64 * each) as u64;
        }
        let time = window as f64 * threads.max(1) as f64;
        let mut left: f64 = costs.iter().map(|(cost, _)| *cost as f64).sum();
        let mut changed = Vec::new();
        costs.sort_unstable_by(|a, b| b.cmp(a));
        for (cost, block) in costs {
            if left <= self.budget * time || cost == 0 {
                break;
            }
            // What the others may keep is at least a fair share of the budget.
            let excess = cost as f64 / (self.budget * time / 2.0);
            let old = blocks.get(block).map_or(1, |block| block.period);
            let longer = (f64::from(old) * excess).clamp(1.0, f64::from(LONGEST)) as u32;
            let period = longer.next_power_of_two().clamp(SHORTEST, LONGEST).max(old);
            if period > old {
                Self::set(shared, blocks, block, period);
                changed.push(block as BlockId);
            }
            left -= cost as f64 * (1.0 - f64::from(old) / f64::from(period));
        }
        changed
    }
}

/// The CPU time of this thread, in nanoseconds; 0 where the kernel does not say.
fn own_time() -> u64 {
    let text = std::fs::read_to_string("/proc/thread-self/schedstat").unwrap_or_default();
    let first = text.split(' ').next();
    first.and_then(|ns| ns.parse().ok()).unwrap_or(0)
}
