//! Analysis of a trace, item by item, in memory that does not grow with the length of the run.

use super::blocks::BlockState;
use super::cell::Cell;
use super::kinds::Kinds;
use super::options::Options;
use super::pairs::Pairs;
use super::solo::Solos;
use super::tallies::Tallies;
use super::worker::{Thread, Worker};
use profile::{BlockId, MachineLoad, ThreadIndex, TraceBatch, TraceHead, TraceItem, TracedBlock};
use rustc_hash::FxHashMap;

/// Maximum number of threads with a state of their own; a further one takes the place of the thread that was silent
/// longest.
const THREADS: usize = 1024;
/// Sums by thread and kind that are kept, before threads give theirs up.
const CELLS: usize = 1 << 20;

/// Takes a run's items as they come and says at the end what they mean.
#[derive(Debug)]
pub struct Analyser {
    pub(super) options: Options,
    pub(super) blocks: Vec<BlockState>,
    pub(super) kinds: Kinds,
    pub(super) pairs: Pairs,
    threads: FxHashMap<ThreadIndex, Box<Thread>>,
    /// Sums by kind of the threads that have lost their states.
    pub(super) retired: FxHashMap<u32, Cell>,
    pub(super) tallies: Tallies,
    /// Time for which threads were blocked or held up by other processes, in ticks.
    blocked: FxHashMap<ThreadIndex, u64>,
    /// Time for which all of them were ready without a CPU, in ticks.
    ready: u64,
    /// The part of that in which other processes had the CPUs.
    pub(super) taken: u64,
    /// See [`Worker::lap`].
    lap: Option<u64>,
    clock: u64,
    cells: usize,
    pub(super) solos: Solos,
}

impl Analyser {
    /// For a run of these blocks; [`Analyser::set_blocks`] when there are more.
    pub fn new(blocks: &[TracedBlock], options: Options) -> Self {
        let lap = super::events::length(&options.event_costs);
        let mut analyser = Self {
            options,
            lap,
            blocks: Vec::new(),
            kinds: Kinds::default(),
            pairs: Pairs::default(),
            threads: FxHashMap::default(),
            retired: FxHashMap::default(),
            tallies: Tallies::default(),
            blocked: FxHashMap::default(),
            ready: 0,
            taken: 0,
            clock: 0,
            cells: 0,
            solos: Solos::default(),
        };
        analyser.set_blocks(blocks);
        analyser
    }

    /// All blocks, those that are known already first: libraries are loaded while a program runs. Items of
    /// blocks that are not described yet are not counted.
    pub fn set_blocks(&mut self, blocks: &[TracedBlock]) {
        self.solos.set_blocks(blocks);
        for (number, block) in blocks.iter().enumerate().skip(self.blocks.len()) {
            let state = BlockState::new(number as BlockId, block, &self.options);
            self.blocks.push(state);
        }
    }

    /// Takes what a thread did next. How a thread's items are cut into batches makes no difference.
    pub fn push(&mut self, batch: &TraceBatch) {
        if batch.items.is_empty() {
            return;
        }
        self.clock += 1;
        let mut thread = match self.threads.remove(&batch.thread) {
            Some(thread) => thread,
            None => self.new_thread(),
        };
        thread.last_active = self.clock;
        let before = thread.cells.all.len();
        let mut worker = Worker {
            options: &self.options,
            blocks: &mut self.blocks,
            kinds: &mut self.kinds,
            pairs: &mut self.pairs,
            tallies: &mut self.tallies,
            lap: self.lap,
            thread: &mut thread,
            index: batch.thread,
        };
        if !worker.kinds.has_begun() {
            worker.kinds.begin(&batch.items);
        }
        let mut blocked = 0u64;
        let mut is_open = self.solos.is_open(batch.thread);
        for item in &batch.items {
            match item {
                TraceItem::Solo(interval) => {
                    self.solos.begin(batch.thread, *interval);
                    is_open = true;
                    continue;
                }
                TraceItem::Period { block, period } => {
                    self.solos.set_period(batch.thread, *block, *period);
                }
                TraceItem::Execution(execution) if is_open => {
                    self.solos.add_execution(batch.thread, execution);
                    is_open = self.solos.is_open(batch.thread);
                }
                TraceItem::Wait(wait) if is_open => {
                    let aarch64 = worker.options.aarch64;
                    self.solos.add_wait(batch.thread, wait, aarch64);
                }
                _ => {}
            }
            if let TraceItem::Wait(wait) = item {
                let length = wait.end.saturating_sub(wait.start);
                let (asleep, ready) = match wait.preempted {
                    true => (0, length),
                    false => (length, wait.queued.min(length)),
                };
                let away = asleep.saturating_add(wait.taken.min(ready));
                blocked = blocked.saturating_add(away);
                self.ready = self.ready.saturating_add(ready);
                self.taken = self.taken.saturating_add(wait.taken.min(ready));
            }
            worker.item(item);
        }
        if blocked > 0 {
            let sum = self.blocked.entry(batch.thread).or_default();
            *sum = sum.saturating_add(blocked);
        }
        self.cells += thread.cells.all.len() - before;
        self.threads.insert(batch.thread, thread);
        while self.cells > CELLS && self.threads.len() > 1 {
            self.retire_one();
        }
    }

    /// The part of each thread's duration for which it was neither blocked nor held up by other processes.
    pub(super) fn busy(&self, head: &TraceHead) -> Vec<f64> {
        let busy = head.threads.iter().enumerate().map(|(index, thread)| {
            let time = thread.end.saturating_sub(thread.start).max(1) as f64;
            let blocked = self.blocked.get(&(index as ThreadIndex)).copied();
            (1.0 - blocked.unwrap_or(0) as f64 / time).clamp(0.0, 1.0)
        });
        busy.collect()
    }

    /// The part of the time ready without a CPU in which a control group's limit held the program up. The limit counts CPUs, not threads:
    /// where more threads than CPUs wait, the part is too small rather than too large.
    pub(super) fn throttled(&self, head: &TraceHead) -> f64 {
        let ns = head.throttled.as_ref().map_or(0, |limit| limit.ns);
        let ticks = ns as f64 * head.ticks_per_second as f64 / 1e9;
        (ticks / self.ready.max(1) as f64).min(1.0)
    }

    /// Returns the time that threads were ready without a CPU, and the processes that had the CPUs.
    pub(super) fn machine_load(&self, head: &TraceHead) -> MachineLoad {
        let ns = 1e9 / head.ticks_per_second.max(1) as f64;
        let throttled = self.throttled(head);
        let others = head.cpu_users.iter().filter(|user| !user.target);
        MachineLoad {
            ready_ns: self.ready as f64 * ns,
            taken_ns: (1.0 - throttled) * self.taken as f64 * ns,
            throttled_ns: throttled * self.ready as f64 * ns,
            others: others.cloned().collect(),
            limit: head.throttled.clone(),
        }
    }

    fn new_thread(&mut self) -> Box<Thread> {
        if self.threads.len() >= THREADS {
            self.retire_one();
        }
        Box::default()
    }

    /// Takes the state of the thread that has been silent longest.
    #[cold]
    fn retire_one(&mut self) {
        let silent = self
            .threads
            .iter()
            .min_by_key(|(index, thread)| (thread.last_active, **index));
        let Some(index) = silent.map(|(index, _)| *index) else {
            return;
        };
        let cells = self.flush(index);
        self.cells = self.cells.saturating_sub(cells.len());
        for cell in cells {
            let kept = self
                .retired
                .entry(cell.kind)
                .or_insert(Cell::new(cell.kind));
            kept.merge(&cell);
        }
        self.tallies.retired += 1;
    }

    /// Counts everything of a thread, and gives its sums by kind.
    fn flush(&mut self, index: ThreadIndex) -> Vec<Cell> {
        let Some(mut thread) = self.threads.remove(&index) else {
            return Vec::new();
        };
        let mut worker = Worker {
            options: &self.options,
            blocks: &mut self.blocks,
            kinds: &mut self.kinds,
            pairs: &mut self.pairs,
            tallies: &mut self.tallies,
            lap: self.lap,
            thread: &mut thread,
            index,
        };
        worker.flush();
        thread.cells.all
    }

    /// Counts what is still waiting, and gives the sums by thread and kind, in the order of threads.
    pub(super) fn settle(&mut self) -> Vec<(ThreadIndex, Vec<Cell>)> {
        let mut threads: Vec<ThreadIndex> = self.threads.keys().copied().collect();
        threads.sort_unstable();
        let mut all = Vec::new();
        for index in threads {
            let mut cells = self.flush(index);
            cells.retain(|cell| cell.recorded > 0);
            all.push((index, cells));
        }
        all
    }
}
