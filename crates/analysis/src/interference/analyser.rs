//! What is done with each item, in memory that does not grow with the length of the run.

use super::blocks::BlockState;
use super::cells::Cell;
use super::kinds::Kinds;
use super::options::Options;
use super::pairs::Pairs;
use super::worker::{Thread, Worker};
use profile::{BlockId, ThreadIndex, TraceBatch, TraceHead, TraceItem, TracedBlock};
use rustc_hash::FxHashMap;

/// Threads with a state of their own; a further one takes the place of that which was silent longest.
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
    /// What threads left that have lost their states, by kind.
    pub(super) retired: FxHashMap<u32, Cell>,
    pub(super) tallies: Tallies,
    /// How long threads were blocked, in ticks.
    blocked: FxHashMap<ThreadIndex, u64>,
    /// See [`Worker::lap`].
    lap: Option<u64>,
    clock: u64,
    cells: usize,
}

/// What went wrong, or was seen, in all.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Tallies {
    pub executions: u64,
    pub lost: u64,
    /// Of blocks that nobody described.
    pub unknown: u64,
    /// That were left before they were entered, or before what the thread did earlier.
    pub backwards: u64,
    pub retired: u64,
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
            clock: 0,
            cells: 0,
        };
        analyser.set_blocks(blocks);
        analyser
    }

    /// All blocks, those that are known already first: libraries are loaded while a program runs. Items of
    /// blocks that are not described yet are not counted.
    pub fn set_blocks(&mut self, blocks: &[TracedBlock]) {
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
        for item in &batch.items {
            if let TraceItem::Wait(wait) = item
                && !wait.preempted
            {
                blocked = blocked.saturating_add(wait.end.saturating_sub(wait.start));
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

    /// Of each thread the part of its duration that it was not blocked for.
    pub(super) fn busy(&self, head: &TraceHead) -> Vec<f64> {
        let busy = head.threads.iter().enumerate().map(|(index, thread)| {
            let time = thread.end.saturating_sub(thread.start).max(1) as f64;
            let blocked = self.blocked.get(&(index as ThreadIndex)).copied();
            (1.0 - blocked.unwrap_or(0) as f64 / time).clamp(0.0, 1.0)
        });
        busy.collect()
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
