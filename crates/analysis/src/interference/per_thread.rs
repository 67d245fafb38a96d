//! Executions of a block by the threads that they were in.

use super::cell::Cell;
use super::floor::{ENOUGH_FOR_A_PART, Group};
use super::known::{AnalysedRun, Cells};
use profile::{ThreadIndex, ThreadScore};
use rustc_hash::FxHashMap;

/// Maximum number of threads that are named for a block.
const THREADS_NAMED: usize = 64;

/// A block's executions by thread.
pub(super) struct PerThread {
    /// In ticks: what each lost, its executions, its shortest, what it was asked to wait.
    threads: Vec<(ThreadIndex, f64, u64, u64, f64)>,
    /// The shortest executions by group and thread, of threads with enough.
    minima: Vec<Vec<u64>>,
    /// Loss if each thread had its own floor.
    pub own_floor: f64,
}

impl PerThread {
    pub fn add_up(groups: &[Group], numbers: &[u32], cells: &Cells) -> Self {
        let mut threads: FxHashMap<ThreadIndex, (f64, u64, u64, f64)> = FxHashMap::default();
        let mut minima = Vec::new();
        let mut own_floor = 0.0;
        for group in groups {
            let floor = group.floor();
            let mut of_group: FxHashMap<ThreadIndex, Cell> = FxHashMap::default();
            let members = group.members.iter().filter_map(|at| numbers.get(*at));
            for (thread, cell) in members.filter_map(|kind| cells.get(kind)).flatten() {
                of_group
                    .entry(*thread)
                    .and_modify(|sum| sum.merge(cell))
                    .or_insert(*cell);
            }
            let mut of_group: Vec<(ThreadIndex, Cell)> = of_group.into_iter().collect();
            of_group.sort_unstable_by_key(|(thread, _)| *thread);
            let mut least = Vec::new();
            for (thread, cell) in of_group {
                let lost = |floor: u64| group.lost_in(&cell.sums, floor);
                let own = cell.recorded >= ENOUGH_FOR_A_PART;
                own_floor += lost(if own { cell.sums.min } else { floor }).max(0.0);
                if own {
                    least.push(cell.sums.min);
                }
                let asked = match group.turn {
                    Some(_) => 0.0,
                    None => cell.sums.asked as f64,
                };
                let sum = threads.entry(thread).or_insert((0.0, 0, u64::MAX, 0.0));
                *sum = (
                    sum.0 + lost(floor),
                    sum.1 + cell.sums.n,
                    sum.2.min(cell.sums.min),
                    sum.3 + asked,
                );
            }
            minima.push(least);
        }
        let threads = threads
            .into_iter()
            .map(|(t, (lost, n, min, asked))| (t, lost, n, min, asked));
        Self {
            threads: threads.collect(),
            minima,
            own_floor,
        }
    }

    /// The duration of those that executed it, but for those that hardly did: one that waits for all the others to end would make any
    /// score smaller.
    pub fn total_time(&self, run: &AnalysedRun<'_>, all: &[ThreadIndex], n: u64) -> f64 {
        let lost: f64 = self.threads.iter().map(|thread| thread.1).sum();
        let known = self.threads.len() as f64;
        let hardly = |index: &ThreadIndex| {
            let own = self.threads.iter().find(|thread| thread.0 == *index);
            own.is_some_and(|own| {
                (own.2 * 10) as f64 * known < n as f64 && own.1 * 10.0 * known < lost
            })
        };
        let threads = all.iter().filter(|thread| !hardly(thread));
        let time: f64 = threads.map(|thread| run.thread_ticks(*thread)).sum();
        time.max(1.0)
    }

    /// Returns the part of the loss that the thread has that lost most.
    pub fn largest_loser(&self) -> f64 {
        let lost = self.threads.iter().map(|thread| thread.1.max(0.0));
        let (sum, most) = lost.fold((0.0, 0.0), |(sum, most), lost| {
            (sum + lost, f64::max(most, lost))
        });
        most / f64::max(sum, 1.0)
    }

    /// Returns what each thread lost and what it was asked to wait, in ticks.
    pub fn losses(&self, exact: f64) -> Vec<(ThreadIndex, f64, f64)> {
        let threads = self.threads.iter();
        threads
            .map(|thread| (thread.0, exact * thread.1, exact * thread.4))
            .collect()
    }

    pub fn shortest_of(&self, group: usize) -> Vec<u64> {
        self.minima.get(group).cloned().unwrap_or_default()
    }

    pub fn scores(&self, run: &AnalysedRun<'_>, exact: f64) -> Vec<ThreadScore> {
        let scores = self.threads.iter().filter_map(|(index, lost, n, min, _)| {
            let thread = run.head.threads.get(*index as usize)?;
            let ticks = run.thread_ticks(*index);
            Some(ThreadScore {
                tid: thread.tid,
                pid: thread.pid,
                name: thread.name.clone(),
                sci: (exact * lost / ticks.max(1.0)).max(0.0),
                calls: (exact * *n as f64).round() as u64,
                min_ns: *min as f64 * run.ns,
                duration_ns: ticks * run.ns,
            })
        });
        let mut scores: Vec<ThreadScore> = scores.collect();
        let lost = |score: &ThreadScore| score.sci * score.duration_ns;
        scores.sort_by(|a, b| lost(b).total_cmp(&lost(a)).then(a.tid.cmp(&b.tid)));
        scores.truncate(THREADS_NAMED);
        scores
    }
}
