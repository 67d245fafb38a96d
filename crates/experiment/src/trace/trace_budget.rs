//! Choice of the executions to trace, so that tracing stays within its budget (section 3.2.3).

use super::memory::TraceMemory;
use profile::TracedBlock;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

/// Shortest period above 1. Executions that are not recorded cost time, too.
const SHORTEST: u32 = 16;
/// Maximum time to read, analyse and store an execution, in units of the time to record it. More
/// time than that has another cause.
const AFTERWARDS: f64 = 6.0;
/// Time between two checks of the costs. A check comes earlier if the budget of a window is spent
/// before its end. Otherwise blocks with millions of executions a second would be recorded until
/// then.
const WINDOW: Duration = Duration::from_millis(100);
/// Cost of a recorded execution of a sampled block, in units of its cost if all are recorded. The
/// cost is higher because a sampled execution calls the runtime. Each execution that is only
/// counted costs [`COUNTING`] of that unit (`benches/interference.py` measures both).
const BY_COUNT: f64 = 5.0;
const COUNTING: f64 = 0.1;
/// Cost of the scheduler's probes for each wait of the target, in nanoseconds: one switch and one
/// wake-up (`kernel.bpf_stats_enabled`).
const WAIT: f64 = 1100.0;
/// Longest period that the budget chooses.
const LONGEST: u32 = 1 << 20;
/// Longest period that a user can request. The runtime counts to half as much again, in 31 bits.
const MOST: u32 = 1 << 30;

/// Observations of the target so far.
pub(super) struct SeenExecutions<'a> {
    /// Number of executions recorded with the present period, by block.
    pub executions: &'a [u64],
    /// Number of waits of the target's threads.
    pub waits: u64,
    /// Number of the target's threads that can run at the same time.
    pub threads: usize,
    /// Number of records that were read.
    pub read: u64,
    /// Number of records that were not read yet.
    pub unread: u64,
}

/// Keeps the cost of tracing within a budget.
pub(super) struct TraceBudget {
    /// Part of the target's time that tracing may take.
    budget: f64,
    /// Cost of recording one execution, in ticks.
    pub cost: u64,
    before: Vec<u64>,
    waits_before: u64,
    read_before: u64,
    unread_before: u64,
    /// CPU time of this thread at the last check, in nanoseconds.
    own_before: u64,
    since: u64,
}

impl TraceBudget {
    pub fn new(budget: f64, cost: u64, now: u64) -> Self {
        Self {
            budget,
            cost,
            before: Vec::new(),
            waits_before: 0,
            read_before: 0,
            unread_before: 0,
            own_before: own_time(),
            since: now,
        }
    }

    /// Sets the period of a block. A thread's records tell from when on the thread uses it.
    pub fn set(shared: &TraceMemory, blocks: &mut [TracedBlock], block: usize, period: u32) {
        if let (Some(known), Some(word)) = (blocks.get_mut(block), shared.periods.get(block)) {
            let period = period.clamp(1, MOST);
            known.period = period;
            word.store(if period <= 1 { 0 } else { 2 * period }, Relaxed);
        }
    }

    /// Checks the costs since the last check, and lengthens the periods of the blocks that cost
    /// most. A target that uses all CPUs also waits for the controller. So the controller's CPU
    /// time counts, and so does the cost of waits.
    pub fn step(
        &mut self,
        shared: &TraceMemory,
        blocks: &mut [TracedBlock],
        seen: &SeenExecutions<'_>,
        now: u64,
        ticks_per_ns: f64,
    ) {
        let SeenExecutions {
            executions,
            waits,
            threads,
            read,
            unread,
        } = *seen;
        let window = now.saturating_sub(self.since);
        self.before.resize(executions.len(), 0);
        let counts = executions.iter().zip(&self.before).enumerate();
        // A target that writes faster than we read executes more than we see, probably of the same
        // blocks.
        let grown = unread.saturating_sub(self.unread_before) as f64;
        let behind = 1.0 + grown / read.saturating_sub(self.read_before).max(1) as f64;
        let mut costs: Vec<(u64, usize)> = counts
            .map(|(block, (count, before))| (count.saturating_sub(*before), block))
            .map(|(count, block)| ((count as f64 * behind) as u64, block))
            .collect();
        let own_now = own_time();
        let own = own_now.saturating_sub(self.own_before);
        let all: u64 = costs.iter().map(|(new, _)| new).sum();
        let recording = self.cost as f64;
        let afterwards = own as f64 * ticks_per_ns / all.max(1) as f64;
        let afterwards = afterwards.min(AFTERWARDS * recording);
        let mut counting = 0.0;
        for (cost, block) in &mut costs {
            let period = f64::from(blocks.get(*block).map_or(1, |block| block.period));
            let each = if period > 1.0 {
                BY_COUNT * recording
            } else {
                recording
            };
            if period > 1.0 {
                counting += *cost as f64 * period * COUNTING * recording;
            }
            *cost = (*cost as f64 * (each + afterwards)) as u64;
        }
        let time = window as f64 * threads.max(1) as f64;
        let new_waits = waits.saturating_sub(self.waits_before);
        let fixed = counting + new_waits as f64 * WAIT * ticks_per_ns;
        // No period reduces the cost of counting or of waits. The rest of the budget is for
        // recording, but at least a quarter of the whole.
        let budget = (self.budget - fixed / time.max(1.0)).max(self.budget / 4.0);
        let mut left: f64 = costs.iter().map(|(cost, _)| *cost as f64).sum();
        let whole = WINDOW.as_nanos() as f64 * ticks_per_ns;
        if (window as f64) < whole && left <= budget * whole * threads.max(1) as f64 {
            return;
        }
        (self.since, self.own_before) = (now, own_now);
        self.before.copy_from_slice(executions);
        self.waits_before = waits;
        (self.read_before, self.unread_before) = (read, unread);
        costs.retain(|(cost, _)| *cost > 0);
        costs.sort_unstable_by(|a, b| b.cmp(a));
        // Rare blocks are recorded completely. Together they cannot take more than half of the
        // budget.
        let rare = budget * time / 2.0 / costs.len().max(1) as f64;
        for (cost, block) in costs {
            if left <= budget * time || cost as f64 <= rare {
                break;
            }
            // The other blocks keep at least a fair share of the budget.
            let excess = cost as f64 / (budget * time / 2.0);
            let old = blocks.get(block).map_or(1, |block| block.period);
            let longer = (f64::from(old) * excess).clamp(1.0, f64::from(LONGEST)) as u32;
            let period = longer.next_power_of_two().clamp(SHORTEST, LONGEST).max(old);
            if period > old {
                Self::set(shared, blocks, block, period);
            }
            left -= cost as f64 * (1.0 - f64::from(old) / f64::from(period));
        }
    }
}

/// Returns the CPU time of this thread in nanoseconds. 0 if the kernel does not report it.
fn own_time() -> u64 {
    let text = std::fs::read_to_string("/proc/thread-self/schedstat").unwrap_or_default();
    let first = text.split(' ').next();
    first.and_then(|ns| ns.parse().ok()).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use profile::{BlockKind, ImageOffset};

    fn block(name: &str) -> TracedBlock {
        TracedBlock {
            name: name.into(),
            image: String::new(),
            build_id: None,
            offset: ImageOffset(0),
            kind: BlockKind::Function,
            period: 1,
            refused: None,
            unfinished: 0,
            calls: 0,
            represented: 0,
            shared_line: None,
        }
    }

    /// Checks with ticks of a nanosecond, a cost of 50 ticks per execution, and one thread that may
    /// spend 5 %.
    #[test]
    fn what_is_too_hot_is_sampled_soon_and_a_short_burst_is_not() {
        const MS: u64 = 1_000_000;
        let shared = TraceMemory::new(1 << 20).expect("memory");
        let mut blocks = vec![block("hot"), block("cool")];
        let mut budget = TraceBudget::new(0.05, 50, 0);
        let mut step = |executions: &[u64], waits, now, blocks: &mut Vec<TracedBlock>| {
            // The test's own CPU time is not spent on reading records.
            budget.own_before = u64::MAX;
            let seen = SeenExecutions {
                executions,
                waits,
                threads: 1,
                read: 0,
                unread: 0,
            };
            let periods =
                |blocks: &[TracedBlock]| blocks.iter().map(|b| b.period).collect::<Vec<_>>();
            let before = periods(blocks);
            budget.step(&shared, blocks, &seen, now, 1.0);
            let both = before.into_iter().zip(periods(blocks)).enumerate();
            both.filter(|(_, (before, after))| before != after)
                .map(|(block, _)| block)
                .collect::<Vec<_>>()
        };
        // 50 % of 5 ms is within the budget of 100 ms. The next 5 ms exceed it.
        assert!(step(&[50_000, 10], 0, 5 * MS, &mut blocks).is_empty());
        assert_eq!(step(&[150_000, 20], 0, 10 * MS, &mut blocks), [0]);
        assert!(blocks[0].period >= 16 && blocks[1].period == 1);
        // The same cost is small in proportion to a whole window.
        assert!(step(&[150_100, 4_000], 0, 200 * MS, &mut blocks).is_empty());
        // 3 % are within the budget, but not together with 20,000 waits.
        assert!(step(&[150_200, 64_000], 0, 300 * MS, &mut blocks).is_empty());
        let both = step(&[150_300, 124_000], 20_000, 400 * MS, &mut blocks);
        assert_eq!(both, [1]);
    }

    /// Three functions take half of the budget each after their periods were set. That is no reason
    /// to sample a function that is rarely called.
    #[test]
    fn what_is_rare_is_recorded_whole_beside_what_is_hot() {
        const WINDOW_NS: u64 = 100_000_000;
        let shared = TraceMemory::new(1 << 20).expect("memory");
        let mut blocks = ["one", "two", "three", "rare"].map(block).to_vec();
        let mut budget = TraceBudget::new(0.05, 50, 0);
        budget.own_before = u64::MAX;
        let seen = SeenExecutions {
            executions: &[1_000_000, 1_000_000, 1_000_000, 50],
            waits: 0,
            threads: 1,
            read: 0,
            unread: 0,
        };
        budget.step(&shared, &mut blocks, &seen, WINDOW_NS, 1.0);
        let sampled: Vec<bool> = blocks.iter().map(|block| block.period > 1).collect();
        assert_eq!(sampled, [true, true, true, false]);
    }

    /// The records that were read took 4 % of 100 ms to write. Twenty times as many were written
    /// meanwhile.
    #[test]
    fn what_is_written_faster_than_it_is_read_counts_too() {
        const WINDOW_NS: u64 = 100_000_000;
        let shared = TraceMemory::new(1 << 20).expect("memory");
        for (unread, is_sampled) in [(0, false), (1_600_000, true)] {
            let mut blocks = vec![block("hot")];
            let mut budget = TraceBudget::new(0.05, 50, 0);
            budget.own_before = u64::MAX;
            let seen = SeenExecutions {
                executions: &[80_000],
                waits: 0,
                threads: 1,
                read: 80_000,
                unread,
            };
            budget.step(&shared, &mut blocks, &seen, WINDOW_NS, 1.0);
            assert_eq!(blocks[0].period > 1, is_sampled);
        }
    }
}
