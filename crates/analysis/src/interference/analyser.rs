//! What is done with each item, in memory that does not grow with the length of the run.

use super::blocks::BlockState;
use super::instants::Instants;
use super::kinds::{Kinds, Shape};
use super::nesting::{Node, Pending, mix};
use super::options::Options;
use super::pairs::Pairs;
use super::waits::WaitSum;
use profile::{BlockId, Execution, ThreadIndex, TraceBatch, TraceItem, TracedBlock, Wait};
use rustc_hash::FxHashMap;
use std::collections::VecDeque;
use std::sync::Arc;

/// Threads with a state of their own; a further one takes the place of that which was silent longest.
const THREADS: usize = 1024;
/// Sums by thread and kind that are kept, before threads give theirs up.
const CELLS: usize = 1 << 20;
/// An execution waits for so many others of its block and thread before it counts, in case an outer one of
/// the same block contains it; and for so many where a block has been seen to call itself.
const PATIENCE: usize = 16;
const PATIENCE_RECURSIVE: usize = 1024;
/// A thread that executes a block so often is warm; its first execution is left out.
const WARM: u64 = 10;

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

/// The executions of a kind in a thread.
#[derive(Clone, Copy, Debug)]
pub(super) struct Cell {
    pub kind: u32,
    pub n: u64,
    pub recorded: u64,
    pub sum: u64,
    pub min: u64,
}

impl Cell {
    fn new(kind: u32) -> Self {
        Self {
            kind,
            n: 0,
            recorded: 0,
            sum: 0,
            min: u64::MAX,
        }
    }

    pub fn merge(&mut self, other: &Self) {
        self.n += other.n;
        self.recorded += other.recorded;
        self.sum = self.sum.saturating_add(other.sum);
        self.min = self.min.min(other.min);
    }
}

/// An execution that is over, and may still be found inside another of its block.
#[derive(Clone, Debug)]
struct Entry {
    enter: u64,
    leave: u64,
    shape: Shape,
    /// It stands for so many.
    weight: u32,
    unwound: bool,
    raw_arguments: [u64; 3],
    waits: Option<Arc<WaitSum>>,
}

/// A block in a thread.
#[derive(Debug, Default)]
struct Local {
    queue: VecDeque<Entry>,
    patience: usize,
    /// When the last execution that counts began.
    counted_enter: u64,
    counted: u64,
    /// The first one, until the thread is warm.
    first: Option<Box<Entry>>,
    /// The last key with the cell that belongs to it.
    last: Option<(u64, u32)>,
    /// The stack that the next execution has.
    stack: Option<u32>,
}

/// A thread.
#[derive(Debug, Default)]
struct Thread {
    pending: Pending,
    /// For each block its position in `locals`, plus one.
    slots: Vec<u32>,
    locals: Vec<(BlockId, Local)>,
    cells: Vec<Cell>,
    /// The cell of a key.
    by_key: FxHashMap<u64, u32>,
    last_active: u64,
    last_leave: u64,
}

impl Thread {
    #[inline]
    fn local(&mut self, block: BlockId) -> Option<usize> {
        let slot = self.slots.get(block as usize).copied().unwrap_or(0);
        (slot as usize).checked_sub(1)
    }

    #[cold]
    fn add_local(&mut self, block: BlockId) -> usize {
        let at = block as usize;
        if at >= self.slots.len() {
            self.slots.resize(at + 1, 0);
        }
        let local = Local {
            patience: PATIENCE,
            ..Local::default()
        };
        self.locals.push((block, local));
        if let Some(slot) = self.slots.get_mut(at) {
            *slot = self.locals.len() as u32;
        }
        self.locals.len() - 1
    }
}

impl Analyser {
    /// For a run of these blocks; [`Analyser::set_blocks`] when there are more.
    pub fn new(blocks: &[TracedBlock], options: Options) -> Self {
        let mut analyser = Self {
            options,
            blocks: Vec::new(),
            kinds: Kinds::default(),
            pairs: Pairs::default(),
            threads: FxHashMap::default(),
            retired: FxHashMap::default(),
            tallies: Tallies::default(),
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
        let before = thread.cells.len();
        let mut worker = Worker {
            options: &self.options,
            blocks: &mut self.blocks,
            kinds: &mut self.kinds,
            pairs: &mut self.pairs,
            tallies: &mut self.tallies,
            thread: &mut thread,
            index: batch.thread,
        };
        for item in &batch.items {
            match item {
                TraceItem::Execution(execution) => worker.execution(execution),
                TraceItem::Wait(wait) => worker.wait(wait),
                TraceItem::Stack { block, places } => worker.stack(*block, places),
                TraceItem::Period { block, period } => worker.period(*block, *period),
                TraceItem::Lost(lost) => worker.lost(*lost),
            }
        }
        self.cells += thread.cells.len() - before;
        self.threads.insert(batch.thread, thread);
        while self.cells > CELLS && self.threads.len() > 1 {
            self.retire_one();
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
            thread: &mut thread,
            index,
        };
        worker.flush();
        thread.cells
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

/// What items act on.
struct Worker<'a> {
    options: &'a Options,
    blocks: &'a mut [BlockState],
    kinds: &'a mut Kinds,
    pairs: &'a mut Pairs,
    tallies: &'a mut Tallies,
    thread: &'a mut Thread,
    index: ThreadIndex,
}

impl Worker<'_> {
    #[inline]
    fn execution(&mut self, execution: &Execution) {
        let Some(block) = self.blocks.get_mut(execution.block as usize) else {
            self.tallies.unknown += 1;
            return;
        };
        let leave = execution.leave;
        let Some(enter) = leave.checked_sub(execution.duration) else {
            self.tallies.backwards += 1;
            return;
        };
        if leave < self.thread.last_leave {
            self.tallies.backwards += 1;
            return;
        }
        self.thread.last_leave = leave;
        let pairs = &mut *self.pairs;
        let mut inside = self.thread.pending.take(enter, |a, b| pairs.add(a, b));
        if let Some(waits) = inside.waits.as_mut().filter(|_| !block.excluded) {
            WaitSum::inside(waits, execution.block);
        }
        let (exact, collapsed) = block.kinds_with(&inside);
        let mut node = Node::execution(enter, leave, exact, collapsed, inside.count + 1);
        node.block = Some(execution.block);
        node.waits.clone_from(&inside.waits);
        if block.excluded || block.period > 1 {
            node.exact = inside.exact;
            node.collapsed = inside.collapsed;
            node.block = None;
        }
        self.thread.pending.push(node, |a, b| pairs.add(a, b));
        if block.excluded {
            return;
        }
        let entry = Entry {
            enter,
            leave,
            shape: Shape {
                block: execution.block,
                exact,
                collapsed,
                arguments: block.grouped(&execution.arguments),
                inside: inside.count,
            },
            weight: block.period,
            unwound: execution.unwound,
            raw_arguments: execution.arguments,
            waits: inside.waits,
        };
        self.enqueue(entry);
    }

    /// Puts an execution behind the others of its block and thread, in place of those that it contains.
    #[inline]
    fn enqueue(&mut self, entry: Entry) {
        let number = entry.shape.block;
        let at = match self.thread.local(number) {
            Some(at) => at,
            None => {
                if let Some(block) = self.blocks.get_mut(number as usize) {
                    block.threads.push(self.index);
                }
                self.thread.add_local(number)
            }
        };
        let Some((_, local)) = self.thread.locals.get_mut(at) else {
            return;
        };
        if let Some(stack) = local.stack.take()
            && let Some(block) = self.blocks.get_mut(number as usize)
        {
            block.stacks.measured(stack, entry.leave - entry.enter);
        }
        while local
            .queue
            .back()
            .is_some_and(|inner| inner.enter >= entry.enter)
        {
            local.queue.pop_back();
            local.patience = PATIENCE_RECURSIVE;
        }
        if local.queue.is_empty()
            && local.counted > 0
            && local.counted_enter >= entry.enter
            && let Some(block) = self.blocks.get_mut(number as usize)
        {
            local.patience = PATIENCE_RECURSIVE;
            block.twice += 1;
        }
        local.queue.push_back(entry);
        if local.queue.len() > local.patience
            && let Some(oldest) = local.queue.pop_front()
        {
            self.count(at, oldest);
        }
    }

    /// Counts an execution, but for a thread's first of a block.
    #[inline]
    fn count(&mut self, at: usize, entry: Entry) {
        let Some((number, local)) = self.thread.locals.get_mut(at) else {
            return;
        };
        local.counted += 1;
        local.counted_enter = entry.enter;
        if local.counted == 1 {
            local.first = Some(Box::new(entry));
            return;
        }
        if local.counted == WARM
            && local.first.take().is_some()
            && let Some(block) = self.blocks.get_mut(*number as usize)
        {
            block.warm_up += 1;
        }
        self.add(at, entry);
    }

    /// Adds an execution to all sums.
    #[inline]
    fn add(&mut self, at: usize, entry: Entry) {
        let shape = &entry.shape;
        let overhead = shape.inside.saturating_mul(self.options.call_overhead);
        let duration = (entry.leave - entry.enter).saturating_sub(overhead);
        let key = shape.key();
        let known = match self.thread.locals.get(at) {
            Some((
                _,
                Local {
                    last: Some((last, cell)),
                    ..
                },
            )) if *last == key => Some(*cell),
            _ => None,
        };
        let cell = match known {
            Some(cell) => cell,
            None => self.cell(at, key, shape),
        };
        let window = self.kinds.window(entry.leave);
        let Some(cell) = self.thread.cells.get_mut(cell as usize) else {
            return;
        };
        let weight = u64::from(entry.weight);
        cell.n += weight;
        cell.recorded += 1;
        cell.sum = cell.sum.saturating_add(duration.saturating_mul(weight));
        cell.min = cell.min.min(duration);
        if let Some(kind) = self.kinds.all.get_mut(cell.kind as usize) {
            kind.recorded += 1;
            kind.smallest.add(duration);
            kind.histogram.add(duration, weight);
            if let Some(window) = kind.windows.get_mut(window) {
                window.add(duration, weight);
            }
        }
        self.tallies.executions += 1;
        if let Some(block) = self.blocks.get_mut(shape.block as usize) {
            block.add(
                duration,
                weight,
                entry.unwound,
                &entry.raw_arguments,
                entry.waits.as_deref(),
            );
            let seen = Instants::execution(entry.enter, entry.leave, self.index);
            block.instants.add(seen);
        }
    }

    /// The cell of a shape in this thread.
    fn cell(&mut self, at: usize, key: u64, shape: &Shape) -> u32 {
        let cell = match self.thread.by_key.get(&key) {
            Some(cell) => *cell,
            None => {
                let (key, kind) = match self.kinds.exact(key) {
                    Some(kind) => (key, kind),
                    None => self.kinds.make(shape, key),
                };
                let next = self.thread.cells.len() as u32;
                let cell = *self.thread.by_key.entry(key).or_insert(next);
                if cell == next {
                    self.thread.cells.push(Cell::new(kind));
                }
                cell
            }
        };
        if let Some((_, local)) = self.thread.locals.get_mut(at) {
            local.last = Some((key, cell));
        }
        cell
    }

    fn wait(&mut self, wait: &Wait) {
        if wait.end < wait.start {
            self.tallies.backwards += 1;
            return;
        }
        let mut node = Node::transparent(wait.start, wait.end, 0);
        node.waits = Some(Arc::new(WaitSum::of(wait)));
        let pairs = &mut *self.pairs;
        self.thread.pending.push(node, |a, b| pairs.add(a, b));
    }

    fn stack(&mut self, number: BlockId, places: &[u32]) {
        let Some(block) = self.blocks.get_mut(number as usize) else {
            self.tallies.unknown += 1;
            return;
        };
        if block.excluded {
            return;
        }
        let stack = block.stacks.add(places);
        let at = match self.thread.local(number) {
            Some(at) => at,
            None => {
                block.threads.push(self.index);
                self.thread.add_local(number)
            }
        };
        if let Some((_, local)) = self.thread.locals.get_mut(at) {
            local.stack = stack;
        }
    }

    fn period(&mut self, number: BlockId, period: u32) {
        match self.blocks.get_mut(number as usize) {
            Some(block) => block.period = period.max(1),
            None => self.tallies.unknown += 1,
        }
    }

    fn lost(&mut self, lost: u64) {
        self.tallies.lost = self.tallies.lost.saturating_add(lost);
        let hole = Node::hole(self.thread.last_leave);
        let pairs = &mut *self.pairs;
        self.thread.pending.push(hole, |a, b| pairs.add(a, b));
    }

    /// Counts all that is still waiting.
    fn flush(&mut self) {
        for at in 0..self.thread.locals.len() {
            while let Some(entry) = self.oldest(at) {
                self.count(at, entry);
            }
            let first = self
                .thread
                .locals
                .get_mut(at)
                .and_then(|(_, l)| l.first.take());
            if let Some(first) = first {
                self.add(at, *first);
            }
        }
        let pairs = &mut *self.pairs;
        self.thread.pending.take(0, |a, b| pairs.add(a, b));
    }

    fn oldest(&mut self, at: usize) -> Option<Entry> {
        let (_, local) = self.thread.locals.get_mut(at)?;
        local.queue.pop_front()
    }
}

/// The hash that the kinds of a block begin with.
pub(super) fn base(number: BlockId) -> u64 {
    mix(u64::from(number) + 1, 0x0b10_c0de)
}
