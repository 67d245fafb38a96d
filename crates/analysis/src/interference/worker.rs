//! What each item does to a thread and to the sums.

use super::analyser::Tallies;
use super::blocks::BlockState;
use super::cells::{Cell, Cells};
use super::instants::Instants;
use super::kinds::{Kinds, Shape};
use super::nesting::{Collapsed, More, NO_BLOCK, Pending, Sequence, TRANSPARENT, mix};
use super::options::Options;
use super::pairs::Pairs;
use super::queue::{Entries, Entry, Queue};
use super::waits::WaitSum;
use profile::{BlockId, Execution, TRACED_ARGUMENTS, ThreadIndex, TraceItem, Wait};
use std::sync::Arc;

/// A thread that executes a block so often is warm; its first execution is left out.
const WARM: u64 = 10;

/// A thread.
#[derive(Debug, Default)]
pub(super) struct Thread {
    pending: Pending,
    /// For each block its position in `locals`, plus one.
    slots: Vec<u32>,
    locals: Vec<Local>,
    pub cells: Cells,
    pub last_active: u64,
    last_leave: u64,
}

/// A block in a thread.
#[derive(Debug)]
struct Local {
    block: BlockId,
    queue: Queue,
    /// When the last execution that counts began.
    counted_enter: u64,
    counted: u64,
    /// The first one, until the thread is warm.
    first: Option<Box<Entries>>,
    /// The stack that the next execution has.
    stack: Option<u32>,
}

impl Thread {
    #[inline]
    fn local(&self, block: BlockId) -> Option<usize> {
        let slot = self.slots.get(block as usize)?;
        (*slot as usize).checked_sub(1)
    }

    #[cold]
    fn add_local(&mut self, block: BlockId) -> usize {
        let at = block as usize;
        if at >= self.slots.len() {
            self.slots.resize(at + 1, 0);
        }
        self.locals.push(Local {
            block,
            queue: Queue::default(),
            counted_enter: 0,
            counted: 0,
            first: None,
            stack: None,
        });
        if let Some(slot) = self.slots.get_mut(at) {
            *slot = self.locals.len() as u32;
        }
        self.locals.len() - 1
    }
}

/// What items act on.
pub(super) struct Worker<'a> {
    pub options: &'a Options,
    pub blocks: &'a mut [BlockState],
    pub kinds: &'a mut Kinds,
    pub pairs: &'a mut Pairs,
    pub tallies: &'a mut Tallies,
    pub thread: &'a mut Thread,
    pub index: ThreadIndex,
}

impl Worker<'_> {
    #[inline]
    pub fn item(&mut self, item: &TraceItem) {
        match item {
            TraceItem::Execution(execution) => self.execution(execution),
            other => self.other(other),
        }
    }

    #[cold]
    fn other(&mut self, item: &TraceItem) {
        match item {
            TraceItem::Execution(_) => {}
            TraceItem::Wait(wait) => self.wait(wait),
            TraceItem::Stack { block, places } => self.stack(*block, places),
            TraceItem::Period { block, period } => self.period(*block, *period),
            TraceItem::Lost(lost) => self.lost(*lost),
        }
    }

    #[inline]
    fn execution(&mut self, execution: &Execution) {
        let number = execution.block;
        let Some(block) = self.blocks.get_mut(number as usize) else {
            self.tallies.unknown += 1;
            return;
        };
        let (leave, duration) = (execution.leave, execution.duration);
        if leave < duration || leave < self.thread.last_leave {
            self.tallies.backwards += 1;
            return;
        }
        self.thread.last_leave = leave;
        let enter = leave - duration;
        let pending = &mut self.thread.pending;
        let pairs = &mut *self.pairs;
        let mut entry = Entry {
            enter,
            leave,
            net: duration,
            exact: block.base,
            collapsed: block.base,
            inside: 0,
            weight: block.period,
            unwound: execution.unwound,
            waited: false,
        };
        let mut waits = None;
        if block.followed() && pending.is_leaf(enter) && block.probe_ticks == 0 {
            let kinds = (block.base, block.base);
            let size = (1, duration);
            pending.push((enter, leave), number, kinds, size, |a, b| pairs.add(a, b));
        } else {
            let mut inside = pending.take(enter, |a, b| pairs.add(a, b));
            let kinds = block.kinds_with(&inside);
            entry.net = self.options.net(duration, &inside);
            let size = (inside.count + 1, entry.net);
            if block.followed() {
                pending.push((enter, leave), number, kinds, size, |a, b| pairs.add(a, b));
                if let Some(waits) = &mut inside.waits {
                    WaitSum::inside(waits, number);
                }
                let probes = inside.probes.saturating_add(block.probe_ticks);
                if inside.waits.is_some() || probes > 0 {
                    pending.say_more(inside.waits.clone(), probes);
                }
            } else {
                if let Some(waits) = inside.waits.as_mut().filter(|_| !block.excluded) {
                    WaitSum::inside(waits, number);
                }
                let more = More {
                    sequences: Some((inside.exact, inside.collapsed)),
                    waits: inside.waits.clone(),
                    probes: inside.probes.saturating_add(block.probe_ticks),
                    hole: inside.ragged,
                };
                let times = (enter, leave);
                pending.push_other(times, NO_BLOCK, size, more, |a, b| pairs.add(a, b));
                if block.excluded {
                    return;
                }
            }
            (entry.exact, entry.collapsed) = kinds;
            entry.inside = inside.count;
            entry.waited = inside.waits.is_some();
            waits = inside.waits;
        }
        let seen = Instants::execution(enter, leave, self.index);
        block.instants.add(seen);
        let at = match self.thread.local(number) {
            Some(at) => at,
            None => {
                block.threads.push(self.index);
                self.thread.add_local(number)
            }
        };
        let Some(local) = self.thread.locals.get_mut(at) else {
            return;
        };
        if let Some(stack) = local.stack {
            local.stack = None;
            block.stacks.measured(stack, entry.leave - entry.enter);
        }
        let arguments = block.with_arguments.then_some(&execution.arguments);
        let to_count = local.queue.push(entry, arguments, waits);
        if local.counted > 0
            && local.counted_enter >= entry.enter
            && local.queue.entries.all.len() == 1
        {
            local.queue.is_recursive();
            block.twice += 1;
        }
        if to_count > 0 {
            self.count(at, to_count);
        }
    }

    /// Counts the first `n` executions of a block that wait, but for the thread's first.
    #[inline(never)]
    fn count(&mut self, at: usize, n: usize) {
        let Some(local) = self.thread.locals.get_mut(at) else {
            return;
        };
        let number = local.block;
        let mut entries = std::mem::take(&mut local.queue.entries);
        let from = usize::from(local.counted == 0);
        if from == 1 {
            local.first = entries.first().map(Box::new);
        }
        local.counted += n as u64;
        if let Some(last) = entries.all.get(n.saturating_sub(1)) {
            local.counted_enter = last.enter;
        }
        if local.counted >= WARM
            && local.first.take().is_some()
            && let Some(block) = self.blocks.get_mut(number as usize)
        {
            block.warm_up += 1;
        }
        self.add(number, &entries, from, n);
        entries.remove(n);
        if let Some(local) = self.thread.locals.get_mut(at) {
            local.queue.entries = entries;
        }
    }

    /// Adds executions of a block to all sums.
    fn add(&mut self, number: BlockId, entries: &Entries, from: usize, to: usize) {
        let all = entries.all.get(from..to).unwrap_or_default();
        let arguments = entries.arguments.get(from..to).unwrap_or_default();
        if self.add_alike(number, all, arguments) {
            return;
        }
        let Some(block) = self.blocks.get_mut(number as usize) else {
            return;
        };
        let mut waits = entries.waits_of(from, to);
        self.tallies.executions += all.len() as u64;
        for (place, entry) in all.iter().enumerate() {
            let grouped = arguments.get(place).map(|values| block.grouped(values));
            let shape = Shape {
                block: number,
                exact: entry.exact,
                collapsed: entry.collapsed,
                arguments: grouped.unwrap_or_default(),
                inside: entry.inside,
            };
            let weight = u64::from(entry.weight);
            let times = (entry.net, entry.net.saturating_mul(weight));
            let Some(cell) = self.thread.cells.of(shape.key(), self.kinds, &shape) else {
                continue;
            };
            cell.add(times, weight);
            self.kinds.add(cell.kind, entry.leave, times, weight);
            block.unwound += u64::from(entry.unwound);
            if let Some(values) = arguments.get(place) {
                block.follow(values, entry.net);
            }
            match entry.waited.then(|| waits.next()).flatten() {
                None => block.least_blocked = 0,
                Some(waits) => block.add_waits(waits, weight),
            }
        }
    }

    /// Adds executions that are all of one kind and in one part of the run, as those of most functions that are
    /// executed often are: the sums change once. False: they are not, and nothing was added.
    fn add_alike(
        &mut self,
        number: BlockId,
        all: &[Entry],
        arguments: &[[u64; TRACED_ARGUMENTS]],
    ) -> bool {
        let (Some(block), [first, .., last]) = (self.blocks.get_mut(number as usize), all) else {
            return false;
        };
        let grouped = arguments.first().map(|values| block.grouped(values));
        let window = self.kinds.window(first.leave);
        let alike = |e: &Entry| e.exact == first.exact && e.weight == first.weight && !e.waited;
        if self.kinds.window(last.leave) != window
            || self.kinds.window(first.leave) != window
            || !all.iter().all(alike)
            || !arguments
                .iter()
                .all(|values| Some(block.grouped(values)) == grouped)
        {
            return false;
        }
        let shape = Shape {
            block: number,
            exact: first.exact,
            collapsed: first.collapsed,
            arguments: grouped.unwrap_or_default(),
            inside: first.inside,
        };
        let Some(cell) = self.thread.cells.of(shape.key(), self.kinds, &shape) else {
            return false;
        };
        let sum = all.iter().fold(0, |sum: u64, e| sum.saturating_add(e.net));
        let least = all.iter().map(|e| e.net).min().unwrap_or(u64::MAX);
        let (n, weight) = (all.len() as u64, u64::from(first.weight));
        let together = Cell {
            n: n * weight,
            recorded: n,
            sum: sum.saturating_mul(weight),
            min: least,
            ..*cell
        };
        cell.merge(&together);
        let durations = all.iter().map(|e| e.net);
        self.kinds.add_all(&together, window, durations, weight);
        self.tallies.executions += n;
        block.unwound += all.iter().filter(|e| e.unwound).count() as u64;
        block.least_blocked = 0;
        for (values, entry) in arguments.iter().zip(all) {
            block.follow(values, entry.net);
        }
        true
    }

    fn wait(&mut self, wait: &Wait) {
        if wait.end < wait.start {
            self.tallies.backwards += 1;
            return;
        }
        let more = More {
            waits: Some(Arc::new(WaitSum::of(wait))),
            ..More::default()
        };
        self.push_other(wait.start, wait.end, TRANSPARENT, more);
    }

    fn lost(&mut self, lost: u64) {
        self.tallies.lost = self.tallies.lost.saturating_add(lost);
        let at = self.thread.last_leave;
        let more = More {
            hole: true,
            ..More::default()
        };
        self.push_other(at, at, NO_BLOCK, more);
    }

    /// Something without a kind.
    fn push_other(&mut self, enter: u64, leave: u64, block: u32, more: More) {
        let more = More {
            sequences: Some((Sequence::EMPTY, Collapsed::EMPTY)),
            ..more
        };
        let pairs = &mut *self.pairs;
        let pending = &mut self.thread.pending;
        pending.push_other((enter, leave), block, (0, 0), more, |a, b| pairs.add(a, b));
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
        if let Some(local) = self.thread.locals.get_mut(at) {
            local.stack = stack;
        }
    }

    fn period(&mut self, number: BlockId, period: u32) {
        match self.blocks.get_mut(number as usize) {
            Some(block) => block.period = period.max(1),
            None => self.tallies.unknown += 1,
        }
    }

    /// Counts all that is still waiting.
    pub fn flush(&mut self) {
        for at in 0..self.thread.locals.len() {
            let waiting = |local: &Local| local.queue.entries.all.len();
            let waiting = self.thread.locals.get(at).map_or(0, waiting);
            if waiting > 0 {
                self.count(at, waiting);
            }
            if let Some(local) = self.thread.locals.get_mut(at)
                && let Some(first) = local.first.take()
            {
                let number = local.block;
                self.add(number, &first, 0, 1);
            }
        }
        let pairs = &mut *self.pairs;
        self.thread.pending.take(0, |a, b| pairs.add(a, b));
    }
}

/// The hash that the kinds of a block begin with.
pub(super) fn base(number: BlockId) -> u64 {
    mix(u64::from(number) + 1, 0x0b10_c0de)
}
