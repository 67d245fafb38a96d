//! Analysis of a trace, item by item, in memory that does not grow with the length of the run.

use super::functions::waits_for;
use super::solo::Solos;
use super::turns::{TurnRole, Turns};
use super::waits::FunctionWaitSums;
use profile::known_code::KnownOperation;
use profile::{
    BlockId, Execution, MachineLoad, ThreadIndex, TraceBatch, TraceHead, TraceItem, TracedBlock,
    Wait,
};
use rustc_hash::FxHashMap;

/// Maximum number of pending waits of a thread: waits that no execution has enclosed yet.
const PENDING: usize = 4096;
/// Maximum number of threads, and of call stacks, that are kept for a function.
const THREADS: usize = 256;
const STACKS: usize = 64;
/// Maximum number of frames of a call stack. A longer one is cut.
const FRAMES: usize = 64;

/// State of a thread between its items.
#[derive(Debug, Default)]
struct ThreadState {
    /// Waits that no execution has enclosed yet, in the order of their ends.
    pending: Vec<Wait>,
    /// The sampling period of each function: the number of executions that a recorded one
    /// represents. Then the index of the call stack of each function's next execution.
    periods: FxHashMap<BlockId, u64>,
    stacks: FxHashMap<BlockId, usize>,
}

/// Executions in a thread.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct ThreadSum {
    pub calls: u64,
    pub ticks: u64,
}

/// A call stack with its counts.
#[derive(Debug, Default)]
pub(super) struct StackSum {
    pub places: Vec<u32>,
    /// Number of sightings.
    pub count: u64,
    /// Total duration of the calls that were made with this stack.
    pub ticks: u64,
}

/// Sums over the executions of a function. Times are in ticks.
#[derive(Debug, Default)]
pub(super) struct FunctionState {
    pub calls: u64,
    pub recorded: u64,
    pub ticks: u64,
    pub longest: u64,
    pub unwound: u64,
    pub waits: FunctionWaitSums,
    pub threads: FxHashMap<ThreadIndex, ThreadSum>,
    pub stacks: Vec<StackSum>,
    role: Option<TurnRole>,
    /// True if the function gives its CPU to other threads, judged by its name.
    yields: bool,
}

/// Consumes the items of a run in order, and returns the result at the end.
#[derive(Debug)]
pub struct Analyser {
    pub(super) functions: Vec<FunctionState>,
    pub(super) solos: Solos,
    pub(super) turns: Turns,
    pub(super) executions: u64,
    pub(super) lost: u64,
    /// Items that contradict the clock, and items of functions without a description.
    pub(super) contradictory: u64,
    pub(super) unknown: u64,
    /// True if the numbers of system calls are those of AArch64.
    pub(super) aarch64: bool,
    threads: FxHashMap<ThreadIndex, ThreadState>,
    /// Time that threads were ready without a CPU, in ticks.
    ready: u64,
    /// The part of `ready` in which other processes had the CPUs.
    taken: u64,
}

impl Analyser {
    /// Creates an analyser for a run on a machine of the given architecture.
    pub fn new(blocks: &[TracedBlock], aarch64: bool) -> Self {
        let mut analyser = Self {
            functions: Vec::new(),
            solos: Solos::new(aarch64),
            turns: Turns::default(),
            executions: 0,
            lost: 0,
            contradictory: 0,
            unknown: 0,
            aarch64,
            threads: FxHashMap::default(),
            ready: 0,
            taken: 0,
        };
        analyser.set_blocks(blocks);
        analyser
    }

    /// Sets the list of all functions. Functions that are already known come first, because a
    /// program loads libraries while it runs. Items of functions outside the list are only counted.
    pub fn set_blocks(&mut self, blocks: &[TracedBlock]) {
        self.solos.set_blocks(blocks);
        for block in blocks.iter().skip(self.functions.len()) {
            let waits_for = waits_for(&block.name);
            self.functions.push(FunctionState {
                role: TurnRole::of_function(&block.name, waits_for),
                yields: KnownOperation::Yield.has_function(&block.name),
                ..FunctionState::default()
            });
        }
    }

    /// Adds the next items of a thread. The division of the items into batches makes no difference.
    pub fn push(&mut self, batch: &TraceBatch) {
        let thread = batch.thread;
        let mut state = self.threads.remove(&thread).unwrap_or_default();
        let mut is_compared = self.solos.is_open(thread);
        for item in &batch.items {
            match item {
                TraceItem::Execution(execution) => {
                    if is_compared {
                        self.solos.add_execution(thread, execution);
                        is_compared = self.solos.is_open(thread);
                    }
                    self.add_execution(thread, &mut state, execution);
                }
                TraceItem::Wait(wait) => {
                    if is_compared {
                        self.solos.add_wait(thread, wait);
                    }
                    self.add_wait(&mut state, wait);
                }
                TraceItem::Solo(interval) => {
                    self.solos.begin(thread, *interval);
                    is_compared = true;
                }
                TraceItem::Period { block, period } => {
                    self.solos.set_period(thread, *block, *period);
                    state.periods.insert(*block, u64::from((*period).max(1)));
                }
                TraceItem::Stack { block, places } => {
                    if let Some(function) = self.functions.get_mut(*block as usize)
                        && let Some(number) = function.add_stack(places)
                    {
                        state.stacks.insert(*block, number);
                    }
                }
                TraceItem::Lost(count) => self.lost = self.lost.saturating_add(*count),
            }
        }
        self.threads.insert(thread, state);
    }

    fn add_wait(&mut self, state: &mut ThreadState, wait: &Wait) {
        let Some(length) = wait.end.checked_sub(wait.start) else {
            self.contradictory += 1;
            return;
        };
        let ready = if wait.preempted {
            length
        } else {
            wait.queued.min(length)
        };
        self.ready = self.ready.saturating_add(ready);
        self.taken = self.taken.saturating_add(wait.taken.min(ready));
        if state.pending.len() >= PENDING {
            state.pending.drain(..PENDING / 2);
        }
        state.pending.push(*wait);
    }

    fn add_execution(
        &mut self,
        thread: ThreadIndex,
        state: &mut ThreadState,
        execution: &Execution,
    ) {
        let Some(enter) = execution.leave.checked_sub(execution.duration) else {
            self.contradictory += 1;
            return;
        };
        let Some(function) = self.functions.get_mut(execution.block as usize) else {
            self.unknown += 1;
            return;
        };
        let weight = state.periods.get(&execution.block).copied().unwrap_or(1);
        let ticks = execution.duration;
        self.executions += 1;
        function.recorded += 1;
        function.calls = function.calls.saturating_add(weight);
        function.ticks = function.ticks.saturating_add(ticks.saturating_mul(weight));
        function.longest = function.longest.max(ticks);
        function.unwound += u64::from(execution.unwound);
        if function.threads.len() < THREADS || function.threads.contains_key(&thread) {
            let sum = function.threads.entry(thread).or_default();
            sum.calls = sum.calls.saturating_add(weight);
            sum.ticks = sum.ticks.saturating_add(ticks.saturating_mul(weight));
        }
        if let Some(number) = state.stacks.remove(&execution.block)
            && let Some(stack) = function.stacks.get_mut(number)
        {
            stack.ticks = stack.ticks.saturating_add(ticks);
        }
        // Executions arrive in the order of their ends. So this one is the innermost around these
        // waits.
        let outside = state.pending.partition_point(|wait| wait.start < enter);
        for wait in state.pending.drain(outside..) {
            function.waits.add(&wait, weight);
        }
        if function.yields {
            function.waits.add_yield(ticks, weight, self.aarch64);
        }
        if let Some(role) = function.role {
            let address = execution.address;
            self.turns
                .add(role, execution.block, thread, address, ticks);
        }
    }

    /// Returns the time that threads were ready without a CPU, and the processes that had the CPUs.
    /// The kernel accounts a control group's throttling by CPU, not by thread. So the throttled
    /// part is too small if more threads than CPUs wait.
    pub(super) fn machine_load(&self, head: &TraceHead) -> MachineLoad {
        let ns = 1e9 / head.ticks_per_second.max(1) as f64;
        let ready_ns = self.ready as f64 * ns;
        let limit = head.throttled.as_ref().map_or(0, |limit| limit.ns);
        let throttled_ns = (limit as f64).min(ready_ns);
        let taken = self.taken as f64 / self.ready.max(1) as f64;
        let others = head.cpu_users.iter().filter(|user| !user.target);
        MachineLoad {
            ready_ns,
            taken_ns: (ready_ns - throttled_ns) * taken,
            throttled_ns,
            others: others.cloned().collect(),
            limit: head.throttled.clone(),
        }
    }
}

impl FunctionState {
    /// Counts a call stack. Returns its index, or `None` if there is no room for it.
    fn add_stack(&mut self, places: &[u32]) -> Option<usize> {
        let places = places.get(..FRAMES.min(places.len())).unwrap_or_default();
        let known = self.stacks.iter().position(|stack| stack.places == places);
        let number = known.unwrap_or(self.stacks.len());
        if number >= STACKS {
            return None;
        }
        if known.is_none() {
            self.stacks.push(StackSum {
                places: places.to_vec(),
                ..StackSum::default()
            });
        }
        if let Some(stack) = self.stacks.get_mut(number) {
            stack.count += 1;
        }
        Some(number)
    }
}
