//! What each item does to a thread and to the sums.

use super::analyser::Tallies;
use super::blocks::BlockState;
use super::cells::Cells;
use super::events::{Lap, Runs};
use super::kinds::Kinds;
use super::nesting::{More, NO_BLOCK, Pending, TRANSPARENT};
use super::options::Options;
use super::pairs::Pairs;
use super::queue::{Caller, Entries, Entry, Queue};
use super::sequences::{Collapsed, Sequence, mix};
use super::waits::WaitSum;
use profile::{BlockId, EventSample, Execution, ThreadIndex, TraceItem, Wait};
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
    /// When the last execution began.
    last_enter: u64,
    /// When the last execution that counts began.
    counted_enter: u64,
    counted: u64,
    /// The first one, until the thread is warm.
    first: Option<Box<Entries>>,
    /// The stack that the next execution has.
    stack: Option<u32>,
    /// The executions that events are compared of together.
    lap: Lap,
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
            last_enter: 0,
            counted_enter: 0,
            counted: 0,
            first: None,
            stack: None,
            lap: Lap::default(),
        });
        if let Some(slot) = self.slots.get_mut(at) {
            *slot = self.locals.len() as u32;
        }
        self.locals.len() - 1
    }
}

impl Local {
    /// Drops what an execution contains that began at `enter`. Whether it contains one that counts.
    #[cold]
    fn contained(&mut self, enter: u64) -> bool {
        let none_waits = self.queue.drop_since(enter);
        let twice = none_waits && self.counted > 0 && self.counted_enter >= enter;
        if twice {
            self.queue.is_recursive();
        }
        twice
    }
}

/// What items act on.
pub(super) struct Worker<'a> {
    pub options: &'a Options,
    pub blocks: &'a mut [BlockState],
    pub kinds: &'a mut Kinds,
    pub pairs: &'a mut Pairs,
    pub tallies: &'a mut Tallies,
    /// How long groups are that events are compared by; `None`: there are no events.
    pub lap: Option<u64>,
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
            TraceItem::Event(sample) => self.event(sample),
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
        let thread = &mut *self.thread;
        if leave < duration || leave < thread.last_leave {
            self.tallies.backwards += 1;
            return;
        }
        thread.last_leave = leave;
        let enter = leave - duration;
        let (pending, pairs) = (&mut thread.pending, &mut *self.pairs);
        let mut caller = None;
        if block.plain && pending.is_leaf(enter) {
            let kinds = (block.base, block.base);
            pending.push((enter, leave), number, kinds, (1, duration), pairs);
        } else {
            let times = (enter, leave);
            let called = Caller::of(pending, pairs, self.options, block, times, number);
            caller = Some(called);
            if block.excluded {
                return;
            }
        }
        block.instants.add(enter, leave, self.index);
        let at = match thread.local(number) {
            Some(at) => at,
            None => {
                block.threads.push(self.index);
                thread.add_local(number)
            }
        };
        let Some(local) = thread.locals.get_mut(at) else {
            return;
        };
        if let Some(stack) = local.stack {
            local.stack = None;
            block.stacks.measured(stack, duration);
        }
        if local.last_enter >= enter {
            block.twice += u64::from(local.contained(enter));
        }
        local.last_enter = enter;
        let to_count = local.queue.push(Entry {
            enter,
            leave,
            net: duration,
            exact: block.base,
            collapsed: block.base,
            inside: 0,
            weight: block.period,
            unwound: execution.unwound,
            waited: false,
            arguments: execution.arguments,
        });
        if let Some(caller) = caller {
            local.queue.last_called(caller);
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
        self.add(at, &entries, from, n);
        entries.remove(n);
        if let Some(local) = self.thread.locals.get_mut(at) {
            local.queue.entries = entries;
        }
    }

    /// Adds executions of a block to all sums: those together that follow each other and are of one kind.
    fn add(&mut self, at: usize, entries: &Entries, from: usize, to: usize) {
        let Some(number) = self.thread.locals.get(at).map(|local| local.block) else {
            return;
        };
        let all = entries.all.get(from..to).unwrap_or_default();
        let Some(block) = self.blocks.get_mut(number as usize) else {
            return;
        };
        self.tallies.executions += all.len() as u64;
        block.unwound += all.iter().filter(|entry| entry.unwound).count() as u64;
        block.follow(all);
        let mut waits = entries.waits_of(from, to);
        let (mut rest, mut until) = (all, 0);
        while let Some(first) = rest.first() {
            if first.leave >= until {
                until = self.kinds.until(first.leave);
            }
            let arguments = block.grouped(&first.arguments);
            let mut n = block.alike(first, &arguments, rest);
            // They end in order.
            if rest.get(n - 1).is_some_and(|last| last.leave >= until) {
                n = rest.partition_point(|entry| entry.leave < until).max(1);
            }
            let (run, others) = rest.split_at(n);
            rest = others;
            let weight = u64::from(first.weight);
            let waits = first.waited.then(|| waits.next()).flatten();
            let cell = self.thread.cells.of(number, first, &arguments, self.kinds);
            let added = cell.and_then(|cell| self.kinds.add(cell, run, weight, until));
            if self.lap.is_some()
                && let Some((sum, kind)) = added
                && let Some(local) = self.thread.locals.get_mut(at)
            {
                let runs = Runs {
                    n: n as u64,
                    ran: sum,
                    floor: kind.smallest.at(4),
                    known: kind.recorded,
                    weight,
                };
                if waits.is_some() || !local.lap.takes(&runs, self.lap) {
                    let costs = &self.options.event_costs;
                    add_events(block, &runs, run, waits, &mut local.lap, costs);
                }
            }
            match waits {
                None => block.least_blocked = 0,
                Some(waits) => block.add_waits(waits, weight),
            }
        }
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
        self.push_other((wait.start, wait.end), TRANSPARENT, more);
    }

    fn event(&mut self, sample: &EventSample) {
        let more = More {
            waits: Some(Arc::new(WaitSum::of_event(sample))),
            ..More::default()
        };
        self.push_other((sample.at, sample.at), TRANSPARENT, more);
    }

    fn lost(&mut self, lost: u64) {
        self.tallies.lost = self.tallies.lost.saturating_add(lost);
        let at = self.thread.last_leave;
        let more = More {
            hole: true,
            ..More::default()
        };
        self.push_other((at, at), NO_BLOCK, more);
    }

    /// Something without a kind.
    fn push_other(&mut self, times: (u64, u64), block: u32, more: More) {
        let more = More {
            sequences: Some((Sequence::EMPTY, Collapsed::EMPTY)),
            ..more
        };
        let pending = &mut self.thread.pending;
        pending.push_other(times, block, (0, 0), more, self.pairs);
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
            Some(block) => block.set_period(period),
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
                self.add(at, &first, 0, 1);
            }
        }
        self.thread.pending.end(self.pairs);
        for cell in &mut self.thread.cells.all {
            self.kinds.settle(cell);
        }
    }
}

/// Compares executions by their events, where there are some, or where one of them completes a group.
#[inline(never)]
fn add_events(
    block: &mut BlockState,
    runs: &Runs,
    entries: &[Entry],
    waits: Option<&Arc<WaitSum>>,
    lap: &mut Lap,
    costs: &[u64],
) {
    let off = waits.map_or(0, |waits| waits.off());
    let events = waits.map(|waits| &waits.events);
    for entry in entries {
        let one = Runs {
            n: 1,
            ran: entry.net.saturating_sub(off),
            ..*runs
        };
        block.events.add(&one, events, lap, costs);
    }
}

impl Caller {
    /// A call of a block that contains others, or of which more is to be said.
    #[inline(never)]
    fn of(
        pending: &mut Pending,
        pairs: &mut Pairs,
        options: &Options,
        block: &BlockState,
        (enter, leave): (u64, u64),
        number: BlockId,
    ) -> Self {
        let mut inside = pending.take(enter, pairs);
        let (exact, collapsed) = block.kinds_with(&inside);
        let net = options.net(leave - enter, &inside);
        let size = (inside.count + 1, net);
        let probes = inside.probes.saturating_add(block.probe_ticks);
        if let Some(waits) = inside.waits.as_mut().filter(|_| !block.excluded) {
            WaitSum::inside(waits, number);
        }
        if block.followed() {
            pending.push((enter, leave), number, (exact, collapsed), size, pairs);
            if inside.waits.is_some() || probes > 0 {
                pending.say_more(inside.waits.clone(), probes);
            }
        } else {
            let more = More {
                sequences: Some((inside.exact, inside.collapsed)),
                waits: inside.waits.clone(),
                probes,
                hole: inside.ragged,
            };
            pending.push_other((enter, leave), NO_BLOCK, size, more, pairs);
        }
        Self {
            exact,
            collapsed,
            inside: inside.count,
            net,
            waits: inside.waits,
        }
    }
}

/// The hash that the kinds of a block begin with.
pub(super) fn base(number: BlockId) -> u64 {
    mix(u64::from(number) + 1, 0x0b10_c0de)
}
