//! Loss by intervention: compares a thread's executions while all other threads were held with its
//! own executions shortly before and after.
//!
//! `loss = 1 − duration alone / duration together`. The duration of a block in a window is the
//! thread's time in the block divided by the number of executions that ended in the window. An
//! execution that extends beyond the window counts only for its time inside. So the estimate
//! favours neither long nor short executions. Time without a CPU does not count, nor does time that
//! the thread asked to wait.
//!
//! The program's speed is its progress: the executions that ended, each weighted by its time alone.
//!
//! # Censoring
//!
//! A thread that waits for a held thread makes no progress. The interval is cut at the beginning of
//! such a wait, because the rest says nothing about speed. If hardly an execution ended before, the
//! time alone does not count, and the interval counts as stuck. If nearly all intervals are stuck,
//! the threads depend on each other.
//!
//! # Error
//!
//! Both durations are ratios of sums over intervals. The residuals of the intervals give the
//! variance of the loss (the linearised estimator for clusters). The estimator allows for the
//! correlation of an interval's windows. Placebo intervals show the method's own error: a loss is
//! claimed only above the placebos' loss.

use super::functions::CallTarget;
use super::waits::{is_asked_for, target_of_wait};
use crate::statistics::Interval;
use profile::known_code::KnownOperation;
use profile::{
    Between, BlockId, Execution, FunctionLoss, LockLoss, SoloInterval, SoloLoss, SoloReport,
    SoloSchedule, SoloVerdict, ThreadIndex, TraceHead, TracedBlock, Wait,
};
use rustc_hash::{FxHashMap, FxHashSet};
use std::collections::VecDeque;

/// Maximum number of entries in [`Intervals::sums`]. Beyond it, neighbours are merged.
const KEPT: usize = 4096;
/// Maximum number of open intervals of a thread.
const WAITING: usize = 1024;
/// Maximum number of executions that are kept for an interval.
const EXECUTIONS: usize = 1 << 18;
/// Least number of executions that must have ended before their mean duration is used.
const ENOUGH: f64 = 20.0;
/// Least number of intervals for an estimate with a confidence interval. With eleven, workers of an
/// idle queue seemed to lose .78 [.53, 1] to each other (`benches/interference_cases.py`, *idle*).
const INTERVALS: usize = 16;
/// Least fraction of a window without progress at its end that counts as a halt.
const CUT: f64 = 0.25;
/// Least ratio of an execution's duration to the usual one, for a thread that counts as spinning.
const LONGER: f64 = 10.0;
/// Threads depend on others in a block if fewer executions than this end alone there per halt.
const DEPENDENCE: f64 = 8.0;
/// Fewest executions that end alone before a halt. The halt ends the window just behind an
/// execution, so that with fewer of them the window alone holds too little time for each.
const FEW: f64 = 8.0;
/// Least part of the intervals that are stuck, of threads that only depend on each other. A lock
/// that the holding of threads does not know stops fewer: those in which a held thread had it.
const ALWAYS: f64 = 0.9;
/// The same, where no loss is claimed: then nothing speaks for such a lock.
const MOSTLY: f64 = 0.75;
/// Least loss of a program that is claimed, and least loss in a block that is listed, as fractions
/// of the threads' time.
const LEAST: f64 = 0.05;
const LISTED: f64 = 0.01;
/// Largest width of the confidence interval of a claimed loss. A wider one says nothing.
const WIDEST: f64 = 0.4;
/// Largest width of the interval of a contended function's loss, if the loss of all together is not
/// known.
const KNOWN: f64 = 0.1;

/// Time of a sampled execution's record, in units of one where all are recorded, and the same of an
/// execution that is only counted (`benches/interference.py` measures both).
const SAMPLED: f64 = 5.0;
const COUNTED: f64 = 0.1;
/// Least part of a time that is not its records'.
const LEAST_LEFT: f64 = 0.25;

/// A block with the address of a lock. The address is 0 if the block is no lock function.
type Key = (BlockId, u64);

/// Time of a block within a window, in ticks, and the number of executions that ended there.
#[derive(Clone, Copy, Debug, Default)]
struct Window {
    time: f64,
    /// The part of `time` outside of nested traced blocks.
    own: f64,
    exits: f64,
    /// Executions whose records `own` includes; of a thread, those that `time` includes.
    records: f64,
}

impl Window {
    fn of_own_time(own: f64) -> Self {
        Self {
            own,
            ..Self::default()
        }
    }

    fn add(&mut self, other: Self) {
        self.time += other.time;
        self.own += other.own;
        self.exits += other.exits;
        self.records += other.records;
    }

    /// Takes away the time that records took, in ticks each.
    fn without_records(&mut self, ticks: f64) {
        let left = |time: f64| (time - ticks * self.records).max(time.min(LEAST_LEFT * time));
        (self.time, self.own) = (left(self.time), left(self.own));
    }
}

/// The windows of an interval, with the other threads and alone.
#[derive(Clone, Copy, Debug, Default)]
struct Pair {
    together: Window,
    alone: Window,
}

impl Pair {
    fn window(&mut self, alone: bool) -> &mut Window {
        if alone {
            &mut self.alone
        } else {
            &mut self.together
        }
    }

    fn add(&mut self, other: Self) {
        self.together.add(other.together);
        self.alone.add(other.alone);
    }
}

/// Sums of one interval, or of several neighbouring ones.
#[derive(Debug, Default)]
struct Sums {
    /// The thread's time, and its progress as `exits`.
    all: Pair,
    blocks: FxHashMap<Key, Pair>,
}

/// Intervals of one kind, solo or placebo.
#[derive(Debug, Default)]
struct Intervals {
    sums: Vec<Sums>,
    count: u64,
    /// Intervals whose time alone does not count, because the thread halted too early.
    stuck: u64,
    busy: u64,
    /// Number of intervals in each entry of `sums` except the last, and in the last entry.
    each: u64,
    last: u64,
}

impl Intervals {
    fn push(&mut self, sums: Sums) {
        self.each = self.each.max(1);
        if self.last == 0 || self.last == self.each {
            if self.sums.len() == KEPT {
                self.halve();
            }
            self.sums.push(sums);
            self.last = 1;
            return;
        }
        self.last += 1;
        if let Some(last) = self.sums.last_mut() {
            merge(last, sums);
        }
    }

    fn halve(&mut self) {
        let mut halved: Vec<Sums> = Vec::with_capacity(KEPT);
        for (number, sums) in std::mem::take(&mut self.sums).into_iter().enumerate() {
            match halved.last_mut().filter(|_| number % 2 == 1) {
                Some(last) => merge(last, sums),
                None => halved.push(sums),
            }
        }
        self.sums = halved;
        self.each *= 2;
    }

    fn total(&self, of: impl Fn(&Sums) -> Pair) -> Pair {
        let mut total = Pair::default();
        self.sums.iter().for_each(|sums| total.add(of(sums)));
        total
    }

    /// Estimates the fraction of the thread's time together that is lost in a part of the program.
    /// `of` returns the part's time together and alone in an interval.
    ///
    /// `loss = (part / progress together − part / progress alone) / (time / progress together)`.
    /// The error comes from the linearised estimator for clusters, with intervals as clusters.
    fn loss(&self, of: impl Fn(&Sums) -> (f64, f64)) -> Option<Between> {
        let n = self.sums.len() as f64;
        let mut total = Pair::default();
        self.sums.iter().for_each(|sums| total.add(sums.all));
        let is_known = total.together.exits > 0.0 && total.alone.exits > 0.0;
        if !is_known || total.together.time <= 0.0 || self.sums.len() < INTERVALS {
            return None;
        }
        // A recorded execution takes longer than those that it represents, if only for its record.
        // So a function with nothing but short executions may seem to have more time than there is.
        let of = |sums: &Sums| {
            let own = of(sums);
            let all = (sums.all.together.time, sums.all.alone.time);
            (own.0.min(all.0), own.1.min(all.1))
        };
        let (together, alone) =
            (self.sums.iter().map(of)).fold((0.0, 0.0), |sum, own| (sum.0 + own.0, sum.1 + own.1));
        let (together, alone) = (together / total.together.exits, alone / total.alone.exits);
        let cost = total.together.time / total.together.exits;
        let loss = (together - alone) / cost;
        let residuals = self.sums.iter().map(|sums| {
            let (own, all) = (of(sums), sums.all);
            let lost =
                own.0 - loss * all.together.time - (together - loss * cost) * all.together.exits;
            let left = own.1 - alone * all.alone.exits;
            (lost / total.together.exits - left / total.alone.exits) / cost
        });
        let squares: f64 = residuals.map(|residual| residual * residual).sum();
        let error = (squares * n / (n - 1.0)).sqrt();
        let interval = Interval::new(loss, error, n - 1.0)?;
        Some(Between {
            estimate: interval.estimate,
            low: interval.low,
            high: interval.high.min(1.0),
        })
    }
}

fn merge(to: &mut Sums, from: Sums) {
    to.all.add(from.all);
    for (key, pair) in from.blocks {
        to.blocks.entry(key).or_default().add(pair);
    }
}

/// An interval of a thread whose items still arrive.
#[derive(Debug)]
struct Open {
    interval: SoloInterval,
    /// Executions, each with the number of executions that it represents.
    executions: Vec<(Execution, f64)>,
    /// Times that do not count, as begin and end, in order.
    off: Vec<(u64, u64)>,
    /// Times that the thread was blocked by others, in order.
    blocked: Vec<BlockedTime>,
}

/// A time that a thread was blocked by others.
#[derive(Clone, Copy, Debug)]
struct BlockedTime {
    start: u64,
    end: u64,
    /// Another thread of the program ended it by a futex.
    is_futex: bool,
}

/// All intervals of a run.
#[derive(Debug, Default)]
pub(super) struct Solos {
    /// Open intervals of each thread, in order. There may be several, because a run may be read
    /// late.
    open: FxHashMap<ThreadIndex, VecDeque<Open>>,
    solo: Intervals,
    placebo: Intervals,
    /// For each block, whether it is a lock function. Its first argument then identifies the lock.
    locks: Vec<bool>,
    /// Number of halts alone, by the block that the thread was in, if that is no lock function.
    halts: FxHashMap<Key, f64>,
    aarch64: bool,
    /// Sampling period of a block in a thread: the executions that each recorded one represents.
    /// Blocks without an entry have period 1.
    periods: FxHashMap<(ThreadIndex, BlockId), u32>,
}

/// Losses of a run: of the program, and of each function with enough intervals.
pub(super) struct SoloResult {
    pub report: SoloReport,
    pub losses: FxHashMap<BlockId, BlockLosses>,
    pub contention: Option<FunctionLoss>,
}

/// Loss in a function, and in each of its locks if it takes several.
pub(super) struct BlockLosses {
    pub function: FunctionLoss,
    pub locks: Vec<LockLoss>,
}

impl Solos {
    /// Creates an empty set of intervals for a run on a machine of the given architecture.
    pub fn new(aarch64: bool) -> Self {
        Self {
            aarch64,
            ..Self::default()
        }
    }

    /// Sets the list of all blocks. Blocks that are already known come first.
    pub fn set_blocks(&mut self, blocks: &[TracedBlock]) {
        let new = blocks.iter().skip(self.locks.len());
        let is_lock = |block: &TracedBlock| {
            use KnownOperation::{FutexLock, Lock};
            let operation = KnownOperation::of_function(&block.name);
            matches!(operation, Some(Lock | FutexLock))
        };
        self.locks.extend(new.map(is_lock));
    }

    /// Begins an interval of a thread.
    pub fn begin(&mut self, thread: ThreadIndex, interval: SoloInterval) {
        let open = Open {
            interval,
            executions: Vec::new(),
            off: Vec::new(),
            blocked: Vec::new(),
        };
        let waiting = self.open.entry(thread).or_default();
        waiting.push_back(open);
        if waiting.len() > WAITING
            && let Some(first) = waiting.pop_front()
        {
            self.close(first);
        }
    }

    /// Returns whether the thread has an open interval.
    pub fn is_open(&self, thread: ThreadIndex) -> bool {
        !self.open.is_empty() && self.open.contains_key(&thread)
    }

    /// Sets the sampling period of a block in a thread for the executions that follow.
    pub fn set_period(&mut self, thread: ThreadIndex, block: BlockId, period: u32) {
        self.periods.insert((thread, block), period);
    }

    /// Adds a wait of a thread. Time without a CPU does not count. An exception is a wait for a
    /// lock, or a lock that made the thread give its CPU away: there only the time that other
    /// processes took does not count.
    pub fn add_wait(&mut self, thread: ThreadIndex, wait: &Wait) {
        let is_by_others = !wait.preempted || wait.waker.is_some() && wait.system_call.is_some();
        let length = wait.end.saturating_sub(wait.start);
        let off = if is_by_others { wait.taken } else { length };
        let ready = wait.end.saturating_sub(off.min(length));
        let asked = is_asked_for(wait, self.aarch64);
        let is_futex = target_of_wait(wait, self.aarch64) == Some(CallTarget::Futex);
        for open in self.open.get_mut(&thread).into_iter().flatten() {
            if wait.end <= open.interval.before.0 || wait.start >= open.interval.after.1 {
                continue;
            }
            if asked {
                open.off.push((wait.start, wait.end));
            } else {
                open.off.push((ready, wait.end));
                open.blocked.push(BlockedTime {
                    start: wait.start,
                    end: ready,
                    is_futex,
                });
            }
        }
    }

    /// Adds an execution of a thread.
    pub fn add_execution(&mut self, thread: ThreadIndex, execution: &Execution) {
        let enter = execution.leave.saturating_sub(execution.duration);
        let Some(waiting) = self.open.get_mut(&thread) else {
            return;
        };
        let period = self.periods.get(&(thread, execution.block)).copied();
        let stands_for = f64::from(period.unwrap_or(1).max(1));
        for open in waiting.iter_mut() {
            let (begin, end) = open.interval.whole();
            if execution.leave <= begin {
                break;
            }
            if enter < end && open.executions.len() < EXECUTIONS {
                open.executions.push((*execution, stands_for));
            }
        }
        let is_over = |open: &&Open| {
            let (begin, end) = open.interval.whole();
            let late = end.saturating_add(end.saturating_sub(begin));
            enter >= end || execution.leave > late
        };
        let count = waiting.iter().take_while(is_over).count();
        let over: Vec<Open> = waiting.drain(..count).collect();
        if waiting.is_empty() {
            self.open.remove(&thread);
        }
        over.into_iter().for_each(|open| self.close(open));
    }

    fn close(&mut self, mut open: Open) {
        open.off.sort_unstable();
        let clock = Clock::new(&open.off);
        let SoloInterval {
            before,
            alone,
            after,
            placebo,
            busy,
        } = open.interval;
        let ordered = [before.0, before.1, alone.0, alone.1, after.0, after.1];
        if !ordered.is_sorted() {
            return; // of a damaged trace
        }
        let stuck_at = self.halt_in(&open, &clock, alone, !placebo);
        let mut windows = Vec::with_capacity(5);
        // An apparent halt may also be time in which the machine took the CPU unseen. We cut it off
        // in all windows, at as many window ends per unit of time. Otherwise the window alone would
        // have less of such time.
        for (from, to) in [before, after] {
            let middle = from + (to - from) / 2;
            for (from, to) in [(from, middle), (middle, to)] {
                let cut = self.halt_in(&open, &clock, (from, to), false);
                windows.push((false, from, cut.unwrap_or(to)));
            }
        }
        windows.push((true, alone.0, stuck_at.unwrap_or(alone.1)));
        let mut sums = self.sum_windows(&open, &clock, &windows);
        if stuck_at.is_some() && !placebo {
            self.count_halt(&open.executions, alone.1);
        }
        let ended: f64 = sums.blocks.values().map(|pair| pair.alone.exits).sum();
        let is_stuck = stuck_at.is_some() && !placebo && ended < FEW;
        let intervals = if placebo {
            &mut self.placebo
        } else {
            &mut self.solo
        };
        intervals.busy += u64::from(busy);
        intervals.count += 1;
        intervals.stuck += u64::from(is_stuck);
        if is_stuck {
            // The windows together stay: without them the times of most contention were left out.
            let blocks = sums.blocks.values_mut();
            blocks.for_each(|pair| pair.alone = Window::default());
            sums.all.alone = Window::default();
        }
        intervals.push(sums);
    }

    /// Counts a halt for the innermost execution that was under way at `end`.
    fn count_halt(&mut self, executions: &[(Execution, f64)], end: u64) {
        let enter = |execution: &Execution| execution.leave.saturating_sub(execution.duration);
        let under_way = executions
            .iter()
            .filter(|(execution, _)| enter(execution) < end && execution.leave > end);
        let innermost = under_way.max_by_key(|(execution, _)| enter(execution));
        // At a lock it waits for the lock's holder, which never is dependence.
        if let Some((execution, stands_for)) = innermost.filter(|(it, _)| !self.is_lock(it.block)) {
            *self.halts.entry(self.key(execution)).or_default() += stands_for;
        }
    }

    /// Sums executions within windows. Each window is alone (`true`) or together.
    ///
    /// A recorded execution represents others in its CPU time only. The kernel sees every time in
    /// which the thread was blocked, so that these count once each: multiplied by a sampling
    /// period, a single long wait would be longer than its window.
    fn sum_windows(&self, open: &Open, clock: &Clock, windows: &[(bool, u64, u64)]) -> Sums {
        let executions = &open.executions;
        let blocked = open.blocked.iter().map(|it| (it.start, it.end));
        let mut off: Vec<(u64, u64)> = open.off.iter().copied().chain(blocked).collect();
        off.sort_unstable();
        let on_cpu = Clock::new(&off);
        let mut sums = Sums::default();
        for (alone, from, to) in windows {
            let time = clock.between(*from, *to);
            sums.all.window(*alone).add(Window {
                time,
                ..Window::default()
            });
        }
        // In reverse order outer executions come before those inside of them.
        let mut around: Vec<(u64, Key, f64)> = Vec::new();
        for (execution, stands_for) in executions.iter().rev() {
            let leave = execution.leave;
            let enter = leave.saturating_sub(execution.duration);
            while around.last().is_some_and(|(start, ..)| *start >= leave) {
                around.pop();
            }
            let key = self.key(execution);
            let again = around.iter().any(|(_, outer, _)| *outer == key);
            let parent = around.last().copied();
            around.push((enter, key, *stands_for));
            for (alone, from, to) in windows {
                if enter >= *to || *from >= leave {
                    continue;
                }
                let (start, end) = (enter.max(*from), leave.min(*to));
                let time = stands_for * clock.between(start, end);
                let inside = stands_for * on_cpu.between(start, end);
                let mut add = |key: Key, of: Window| {
                    sums.blocks.entry(key).or_default().window(*alone).add(of);
                };
                let counts = f64::from(u8::from(!again));
                let ended = f64::from(u8::from(leave <= *to));
                // Half of a record's time is between its two stamps.
                let ended_here = stands_for * ended;
                let (own, on_average) = if *stands_for > 1.0 {
                    (SAMPLED, SAMPLED / stands_for + COUNTED)
                } else {
                    (1.0, 1.0)
                };
                let of = Window {
                    time: counts * time,
                    own: inside,
                    exits: counts * ended_here,
                    records: 0.5 * own * ended_here,
                };
                add(key, of);
                if let Some((_, outer, stands_for)) = parent {
                    let around = Window {
                        records: 0.5 * on_average * ended_here,
                        ..Window::of_own_time(-stands_for * inside)
                    };
                    add(outer, around);
                }
                sums.all.window(*alone).records += on_average * ended_here;
            }
        }
        let sampled_lock = self.longest_sampled_lock(executions);
        for blocked in &open.blocked {
            let Some(key) = self.blocked_in(executions, blocked, sampled_lock) else {
                continue;
            };
            for (alone, from, to) in windows {
                let own = clock.between(blocked.start.max(*from), blocked.end.min(*to));
                let pair = sums.blocks.entry(key).or_default();
                pair.window(*alone).add(Window::of_own_time(own));
            }
        }
        sums
    }

    /// Returns the innermost block in which a thread was blocked. Where lock functions are sampled,
    /// the block may be an execution that was not recorded. So a wait at a futex outside of the
    /// recorded lock functions belongs to `sampled_lock`.
    fn blocked_in(
        &self,
        executions: &[(Execution, f64)],
        blocked: &BlockedTime,
        sampled_lock: Option<Key>,
    ) -> Option<Key> {
        let enter = |it: &Execution| it.leave.saturating_sub(it.duration);
        let ended = executions.partition_point(|(it, _)| it.leave <= blocked.start);
        let mut after = executions.iter().skip(ended).map(|(it, _)| it);
        let around = after.find(|it| enter(it) <= blocked.start);
        let is_elsewhere = blocked.is_futex && !around.is_some_and(|it| self.is_lock(it.block));
        let lock = sampled_lock.filter(|_| is_elsewhere);
        lock.or_else(|| around.map(|it| self.key(it)))
    }

    /// Returns the sampled lock function with the longest of these executions.
    fn longest_sampled_lock(&self, executions: &[(Execution, f64)]) -> Option<Key> {
        let sampled = executions.iter().filter(|(_, period)| *period > 1.0);
        let locks = sampled.filter(|(it, _)| self.is_lock(it.block));
        let longest = locks.max_by_key(|(it, _)| it.duration);
        longest.map(|(it, _)| self.key(it))
    }

    fn is_lock(&self, block: BlockId) -> bool {
        self.locks.get(block as usize) == Some(&true)
    }

    fn key(&self, execution: &Execution) -> Key {
        let address = if self.is_lock(execution.block) {
            execution.address
        } else {
            0
        };
        (execution.block, address)
    }

    /// Returns the time since which the thread made no progress until the end of a window. `waits`
    /// also counts times in which it was blocked.
    fn halt_in(
        &self,
        open: &Open,
        clock: &Clock,
        (start, end): (u64, u64),
        waits: bool,
    ) -> Option<u64> {
        let whole = clock.between(start, end);
        let long = |since: &u64| clock.between(*since, end) >= CUT * whole.max(1.0);
        let blocked = open.blocked.iter();
        let blocked = blocked
            .filter(|it| waits && it.start < end && it.end >= end)
            .map(|it| it.start.max(start));
        let spins = open.executions.iter().filter_map(|(execution, _)| {
            let enter = execution.leave.saturating_sub(execution.duration);
            if enter >= end || execution.leave <= end {
                return None;
            }
            let key = self.key(execution);
            let of = |sums: &Sums| sums.blocks.get(&key).copied().unwrap_or_default();
            let usual = self.solo.total(of).together;
            let usually = usual.time / usual.exits.max(1.0);
            let since = enter.max(start);
            let blocked = blocked_within(&open.blocked, (since, end));
            let takes = clock.between(since, end) - if waits { 0.0 } else { blocked };
            (usual.exits >= ENOUGH && takes > LONGER * usually).then_some(since)
        });
        blocked.chain(spins).filter(long).min()
    }

    /// Returns the losses. `contended` are the functions in which threads contend for locks.
    pub fn finish(mut self, head: &TraceHead, contended: &FxHashSet<BlockId>) -> SoloResult {
        let schedule = &head.solo;
        let mut open: Vec<_> = std::mem::take(&mut self.open).into_iter().collect();
        open.sort_unstable_by_key(|(thread, _)| *thread);
        for open in open.into_iter().flat_map(|(_, waiting)| waiting) {
            self.close(open);
        }
        self.leave_out_records(head.call_ticks as f64);
        self.count_progress();
        self.leave_out_dependence();
        let whole = |sums: &Sums| (sums.all.together.time, sums.all.alone.time);
        let program = self.against_placebo(whole, LEAST);
        let verdict = self.verdict(program.as_ref(), schedule);
        let mut losses = self.block_losses();
        let mut contention = self.contention_loss(contended, &losses);
        // Among many functions one exceeds the method's error by chance. So a function's loss is
        // claimed only if the program's is.
        let is_lost = verdict == SoloVerdict::Interference;
        let of_functions = losses.values_mut().flat_map(|of| {
            let locks = of.locks.iter_mut().map(|lock| &mut lock.loss);
            locks.chain([&mut of.function])
        });
        for loss in of_functions.chain(&mut contention) {
            loss.solo.is_claimed &= is_lost && is_narrow(loss);
        }
        let report = SoloReport {
            intervals: self.solo.count,
            placebos: self.placebo.count,
            given_up: schedule.given_up,
            stuck: self.solo.stuck,
            threads: self.solo.busy as f64 / self.solo.count.max(1) as f64,
            verdict,
            program,
            refused: schedule.refused.clone(),
        };
        SoloResult {
            report,
            losses,
            contention,
        }
    }

    fn verdict(&self, program: Option<&SoloLoss>, schedule: &SoloSchedule) -> SoloVerdict {
        if self.solo.count == 0 {
            return if schedule.refused.is_none() && schedule.one_busy > schedule.several_busy {
                SoloVerdict::OneThread
            } else {
                SoloVerdict::NotMeasured
            };
        }
        let stuck = self.solo.stuck as f64 / self.solo.count as f64;
        match program {
            Some(loss) if loss.is_claimed && stuck < ALWAYS => SoloVerdict::Interference,
            _ if stuck >= MOSTLY => SoloVerdict::Dependence,
            Some(SoloLoss { loss, .. }) if loss.high < -2.0 * LEAST => SoloVerdict::Dependence,
            Some(_) => SoloVerdict::NotFound,
            None => SoloVerdict::NotMeasured,
        }
    }

    /// Takes away the time that the records of executions took, which the program takes only while
    /// it is traced.
    fn leave_out_records(&mut self, ticks: f64) {
        for sums in self.solo.sums.iter_mut().chain(&mut self.placebo.sums) {
            let pairs = sums.blocks.values_mut().chain([&mut sums.all]);
            for pair in pairs {
                pair.together.without_records(ticks);
                pair.alone.without_records(ticks);
            }
        }
    }

    /// Removes the blocks in which threads depend on others. A thread that runs alone often halts
    /// in such a block ([`DEPENDENCE`]), and reaches it as often as its progress predicts. A lock
    /// differs: alone, a thread makes progress without waiting for it.
    fn leave_out_dependence(&mut self) {
        let totals = self.totals();
        let mut all = Pair::default();
        self.solo.sums.iter().for_each(|sums| all.add(sums.all));
        let progress = all.alone.exits / all.together.exits.max(1.0);
        let depends = |(key, halts): (&Key, &f64)| {
            let exits = totals.get(key).copied().unwrap_or_default();
            let expected = exits.together.exits * progress;
            let came = exits.alone.exits + halts;
            (exits.alone.exits < DEPENDENCE * halts && 2.0 * came >= expected).then_some(*key)
        };
        let keys: Vec<Key> = self.halts.iter().filter_map(depends).collect();
        for sums in self.solo.sums.iter_mut().chain(&mut self.placebo.sums) {
            for pair in keys.iter().filter_map(|key| sums.blocks.remove(key)) {
                sums.all.together.time -= pair.together.own;
                sums.all.alone.time -= pair.alone.own;
            }
        }
    }

    /// Sums the windows of all solo intervals by block and lock.
    fn totals(&self) -> FxHashMap<Key, Pair> {
        let mut totals: FxHashMap<Key, Pair> = FxHashMap::default();
        for (key, pair) in self.solo.sums.iter().flat_map(|sums| &sums.blocks) {
            totals.entry(*key).or_default().add(*pair);
        }
        totals
    }

    /// Sums the progress in each interval: the executions that ended, each weighted by its time
    /// alone without traced callees. Executions that are far rarer alone, such as waits for a lock,
    /// exist because of other threads. They do not count.
    fn count_progress(&mut self) {
        let mut totals = self.totals();
        totals.retain(|_, pair| pair.alone.exits >= ENOUGH && pair.alone.own > 0.0);
        let speed = |pair: &Pair| pair.alone.exits / pair.together.exits.max(1.0);
        let mut speeds: Vec<(f64, f64)> = (totals.values())
            .map(|pair| (speed(pair), pair.alone.own))
            .collect();
        speeds.sort_by(|a, b| a.0.total_cmp(&b.0));
        let half: f64 = speeds.iter().map(|(_, own)| own / 2.0).sum();
        let mut below = 0.0;
        let median = speeds.iter().find(|(_, own)| {
            below += own;
            below >= half
        });
        let least = median.map_or(0.0, |(speed, _)| speed / 2.0);
        totals.retain(|_, pair| speed(pair) >= least);
        for sums in self.solo.sums.iter_mut().chain(&mut self.placebo.sums) {
            for (key, pair) in &sums.blocks {
                let Some(total) = totals.get(key) else {
                    continue;
                };
                let worth = total.alone.own / total.alone.exits;
                sums.all.together.exits += worth * pair.together.exits;
                sums.all.alone.exits += worth * pair.alone.exits;
            }
        }
    }

    /// Estimates a loss and the same loss in placebos. The loss is claimed if its lower bound
    /// exceeds `least` plus the placebos' loss.
    fn against_placebo(&self, of: impl Fn(&Sums) -> (f64, f64), least: f64) -> Option<SoloLoss> {
        let loss = self.solo.loss(&of)?;
        let placebo = self.placebo.loss(&of);
        let error = placebo.filter(|placebo| placebo.low > 0.0);
        Some(SoloLoss {
            loss,
            placebo,
            is_claimed: loss.low > least + error.map_or(0.0, |placebo| placebo.estimate),
        })
    }

    /// Returns the sorted keys of the blocks that `is_asked` selects and that occur in intervals.
    fn keys(&self, is_asked: impl Fn(BlockId) -> bool) -> Vec<Key> {
        let keys = self.solo.sums.iter().flat_map(|sums| sums.blocks.keys());
        let mut keys: Vec<Key> = keys
            .copied()
            .filter(|(block, _)| is_asked(*block))
            .collect();
        keys.sort_unstable();
        keys.dedup();
        keys
    }

    /// Estimates the loss in each block, and for each lock of a block with several locks.
    fn block_losses(&self) -> FxHashMap<BlockId, BlockLosses> {
        let keys = self.keys(|_| true);
        let of_blocks = keys.chunk_by(|a, b| a.0 == b.0).filter_map(|keys| {
            let (block, _) = keys.first()?;
            let by_lock = keys.iter().filter(|_| keys.len() > 1).filter_map(|key| {
                Some(LockLoss {
                    address: key.1,
                    loss: self.loss_of(&[*key])?,
                })
            });
            let mut locks: Vec<LockLoss> = by_lock.collect();
            let lost = |lock: &LockLoss| lock.loss.solo.loss.estimate;
            locks.sort_by(|a, b| lost(b).total_cmp(&lost(a)));
            let function = self.loss_of(keys)?;
            Some((*block, BlockLosses { function, locks }))
        });
        of_blocks.collect()
    }

    /// Estimates the loss in all contended functions together. Functions that are executed often
    /// are sampled, and their loss may be hardly known. Then the others' loss is a lower bound.
    fn contention_loss(
        &self,
        contended: &FxHashSet<BlockId>,
        losses: &FxHashMap<BlockId, BlockLosses>,
    ) -> Option<FunctionLoss> {
        let all = self.loss_of(&self.keys(|block| contended.contains(&block)));
        let is_known = |block: &BlockId| {
            let loss = losses.get(block);
            loss.is_some_and(|it| it.function.solo.loss.interval_width() <= KNOWN)
        };
        all.filter(is_narrow).or_else(|| {
            let is_summed = |block| contended.contains(&block) && is_known(&block);
            self.loss_of(&self.keys(is_summed))
        })
    }

    fn loss_of(&self, keys: &[Key]) -> Option<FunctionLoss> {
        let own = |sums: &Sums| {
            let pairs = keys.iter().filter_map(|key| sums.blocks.get(key));
            pairs.fold((0.0, 0.0), |(together, alone), pair| {
                (together + pair.together.own, alone + pair.alone.own)
            })
        };
        let solo = self.against_placebo(own, LISTED)?;
        let sums = self.solo.sums.iter();
        let (part, all) = sums.fold((0.0, 0.0), |(part, all), sums| {
            (part + own(sums).0, all + sums.all.together.time)
        });
        Some(FunctionLoss {
            share: part / all,
            solo,
        })
    }
}

/// Returns whether the interval of a loss says something.
fn is_narrow(loss: &FunctionLoss) -> bool {
    loss.solo.loss.interval_width() <= WIDEST
}

/// Returns for how long the thread was blocked within a window.
fn blocked_within(times: &[BlockedTime], (start, end): (u64, u64)) -> f64 {
    let inside = |it: &BlockedTime| it.end.min(end).saturating_sub(it.start.max(start));
    times.iter().map(inside).sum::<u64>() as f64
}

/// Clock of a thread that skips the times that do not count.
struct Clock {
    /// Begin and end of each skipped time, and the total skipped until its end.
    off: Vec<(u64, u64, u64)>,
}

impl Clock {
    fn new(off: &[(u64, u64)]) -> Self {
        let mut merged: Vec<(u64, u64, u64)> = Vec::with_capacity(off.len());
        for (start, end) in off {
            let (last, sum) = merged.last().map_or((0, 0), |(_, end, sum)| (*end, *sum));
            let start = (*start).max(last);
            if *end > start {
                merged.push((start, *end, sum + (end - start)));
            }
        }
        Self { off: merged }
    }

    /// Returns the total skipped time before `time`.
    fn off_until(&self, time: u64) -> u64 {
        let after = self.off.partition_point(|(_, end, _)| *end <= time);
        let before = after.checked_sub(1).and_then(|at| self.off.get(at));
        let sum = before.map_or(0, |(_, _, sum)| *sum);
        let part = self
            .off
            .get(after)
            .map_or(0, |(start, ..)| time.saturating_sub(*start));
        sum.saturating_add(part)
    }

    fn between(&self, from: u64, to: u64) -> f64 {
        if to <= from {
            return 0.0;
        }
        let off = self.off_until(to) - self.off_until(from);
        (to - from).saturating_sub(off) as f64
    }
}
