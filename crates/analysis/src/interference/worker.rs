//! Effects of each item on a thread and on the sums.

use super::blocks::{BlockState, grouped};
use super::cells::{Cells, NO_CELL};
use super::events::Lap;
use super::instants::Instants;
use super::kinds::Kinds;
use super::nesting::{More, Pending};
use super::node::{NO_BLOCK, TRANSPARENT};
use super::options::Options;
use super::pairs::Pairs;
use super::queue::{Details, Entries, Entry, Queue};
use super::sequences::{Collapsed, Sequence};
use super::shape::{Shape, exact_key};
use super::tallies::Tallies;
use super::wait_sum::WaitSum;
use profile::{BlockId, EventSample, Execution, TRACED_ARGUMENTS, ThreadIndex, TraceItem, Wait};
use std::sync::Arc;

/// A thread.
#[derive(Debug, Default)]
pub(super) struct Thread {
    pub pending: Pending,
    /// For each block its position in `locals`, plus one.
    slots: Vec<u32>,
    pub locals: Vec<Local>,
    pub cells: Cells,
    pub last_active: u64,
    last_leave: u64,
}

/// A block in a thread.
#[derive(Debug)]
pub(super) struct Local {
    pub block: BlockId,
    /// See [`BlockState::base`].
    base: u64,
    /// Number of executions that each recorded one stands for. If it is more than one, nothing is
    /// known of those that are not recorded: they are not followed, which is to say, part of the
    /// kinds of their callers.
    period: u32,
    /// True if the block is plain, no arguments are looked at, and no stack is expected: see [`Worker::execution`].
    short: bool,
    /// Arguments tell executions apart: these bits of them.
    grouped: bool,
    kept: [u64; TRACED_ARGUMENTS],
    pub queue: Queue,
    /// Start of the last execution, in ticks.
    last_enter: u64,
    /// Start of the last execution that counts, in ticks.
    pub counted_enter: u64,
    pub counted: u64,
    /// The cell of those that contain nothing, if no arguments tell executions apart; else, and at first, [`NO_CELL`].
    pub leaf: u32,
    /// The first one, until the thread is warm.
    pub first: Option<Box<Entries>>,
    /// The stack that the next execution has.
    stack: Option<u32>,
    /// The executions that events are compared of together.
    pub lap: Lap,
}

impl Thread {
    #[inline]
    pub fn local(&self, block: BlockId) -> Option<usize> {
        let slot = self.slots.get(block as usize)?;
        (*slot as usize).checked_sub(1)
    }

    /// For how many an execution of a block stands.
    #[inline]
    fn period(&self, block: BlockId) -> u32 {
        let local = self.local(block).and_then(|at| self.locals.get(at));
        local.map_or(1, |local| local.period)
    }

    #[cold]
    fn add_local(&mut self, block: BlockId, thread: ThreadIndex, state: &mut BlockState) -> usize {
        state.threads.push(thread);
        let at = block as usize;
        if at >= self.slots.len() {
            self.slots.resize(at + 1, 0);
        }
        self.locals.push(Local {
            block,
            base: state.base,
            period: 1,
            short: false,
            grouped: state.has_grouping(),
            kept: state.kept,
            queue: Queue::default(),
            last_enter: 0,
            counted_enter: 0,
            counted: 0,
            leaf: NO_CELL,
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

/// State that items act on.
pub(super) struct Worker<'a> {
    pub options: &'a Options,
    pub blocks: &'a mut [BlockState],
    pub kinds: &'a mut Kinds,
    pub pairs: &'a mut Pairs,
    pub tallies: &'a mut Tallies,
    /// Minimum duration of the groups that are compared for events; `None`: there are no events.
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
            TraceItem::Solo(_) => {}
            TraceItem::Event(sample) => self.event(sample),
        }
    }

    /// Most contain nothing and are of blocks that were met before: these take the short way.
    #[inline]
    fn execution(&mut self, execution: &Execution) {
        let Execution {
            block: number,
            leave,
            duration,
            ..
        } = *execution;
        let thread = &mut *self.thread;
        let at = thread.local(number);
        let Some(local) = at.and_then(|at| thread.locals.get_mut(at)) else {
            return self.any(execution);
        };
        if leave < duration || leave < thread.last_leave {
            return self.any(execution);
        }
        let enter = leave - duration;
        let cell = match local.grouped {
            false => local.leaf,
            true => {
                let arguments = grouped(&execution.arguments, &local.kept);
                thread.cells.known(exact_key(local.base, &arguments))
            }
        };
        let short = local.short
            && thread.pending.is_leaf(enter)
            && enter > local.last_enter
            && !Instants::meets(enter, leave)
            && cell != NO_CELL
            && !execution.unwound;
        if !short {
            return self.any(execution);
        }
        thread.last_leave = leave;
        local.last_enter = enter;
        let (kinds, size) = ((local.base, local.base), (1, duration));
        let pending = &mut thread.pending;
        pending.push((enter, leave), number, kinds, size, self.pairs);
        let full = local.queue.push(Entry {
            enter,
            leave,
            net: duration,
            weight: 1,
            cell,
            detailed: false,
            waited: false,
        });
        if full {
            self.count_some(number);
        }
    }

    /// Any execution.
    #[inline(never)]
    fn any(&mut self, execution: &Execution) {
        let Execution {
            block: number,
            leave,
            duration,
            ..
        } = *execution;
        let Some(block) = self.blocks.get(number as usize) else {
            self.tallies.unknown += 1;
            return;
        };
        if leave < duration || leave < self.thread.last_leave {
            self.tallies.backwards += 1;
            return;
        }
        self.thread.last_leave = leave;
        let enter = leave - duration;
        let plain = block.plain && self.thread.period(number) <= 1;
        let pending = &mut self.thread.pending;
        let called = if !plain {
            None
        } else if pending.is_leaf(enter) {
            Some(Called {
                exact: block.base,
                collapsed: block.base,
                inside: 0,
                net: duration,
            })
        } else {
            pending.take_calls(enter, self.pairs).map(|calls| {
                let (exact, collapsed) = block.kinds_of(calls.exact, calls.collapsed);
                Called {
                    exact,
                    collapsed,
                    inside: calls.count,
                    net: self.options.net(duration, calls.count, calls.net),
                }
            })
        };
        let Some(called) = called else {
            return self.with_more(execution);
        };
        let kinds = (called.exact, called.collapsed);
        let size = (called.inside + 1, called.net);
        pending.push((enter, leave), number, kinds, size, self.pairs);
        self.queue(execution, called, 0);
    }

    /// An execution of a block that is not plain, or with more in it than calls.
    #[inline(never)]
    fn with_more(&mut self, execution: &Execution) {
        let Execution {
            block: number,
            leave,
            duration,
            ..
        } = *execution;
        let enter = leave - duration;
        let Some(block) = self.blocks.get(number as usize) else {
            return;
        };
        let followed = !block.excluded && self.thread.period(number) <= 1;
        let (pending, pairs) = (&mut self.thread.pending, &mut *self.pairs);
        let mut inside = pending.take(enter, pairs);
        let (exact, collapsed) = block.kinds_with(&inside);
        let count = inside.count;
        let net = self.options.net(duration, count, inside.net);
        let (times, size) = ((enter, leave), (count + 1, net));
        if let Some(waits) = inside.waits.as_mut().filter(|_| !block.excluded) {
            WaitSum::inside(waits, number);
        }
        if block.yields {
            // It is a way of waiting, and no part of what its callers do.
            let more = More {
                sequences: Some((Sequence::EMPTY, Collapsed::EMPTY)),
                waits: Some(Arc::new(WaitSum::yielded(net, number))),
                ..More::default()
            };
            pending.push_other(times, TRANSPARENT, (0, 0), more, pairs);
        } else if followed {
            pending.push(times, number, (exact, collapsed), size, pairs);
            if inside.waits.is_some() {
                pending.say_more(inside.waits.clone());
            }
        } else {
            let more = More {
                sequences: Some((inside.exact, inside.collapsed)),
                waits: inside.waits.clone(),
                hole: inside.ragged,
            };
            pending.push_other(times, NO_BLOCK, size, more, pairs);
        }
        if block.excluded {
            return;
        }
        let called = Called {
            exact,
            collapsed,
            inside: count,
            net,
        };
        let off = inside.waits.as_ref().map_or(0, |waits| waits.off());
        let at = self.queue(execution, called, off);
        if let (Some(at), Some(waits)) = (at, inside.waits) {
            self.say_more(at, execution, called, Some(waits));
        }
    }

    /// Lets an execution, which was off the CPU for so long, wait until it counts; gives the position of its block in `locals`.
    #[inline(never)]
    fn queue(&mut self, execution: &Execution, called: Called, off: u64) -> Option<usize> {
        let number = execution.block;
        let (leave, duration) = (execution.leave, execution.duration);
        let enter = leave - duration;
        let thread = &mut *self.thread;
        let block = self.blocks.get_mut(number as usize)?;
        if Instants::meets(enter, leave) {
            block.instants.add(enter, leave, off, self.index);
        }
        let at = match thread.local(number) {
            Some(at) => at,
            None => thread.add_local(number, self.index, block),
        };
        let local = thread.locals.get_mut(at)?;
        if let Some(stack) = local.stack.take() {
            block.stacks.measured(stack, duration);
        }
        if local.last_enter >= enter {
            block.twice += u64::from(local.contained(enter));
        }
        local.last_enter = enter;
        local.short = block.plain && local.period <= 1 && !block.has_watched();
        let cell = match (called.exact == block.base, block.has_grouping()) {
            (true, false) => local.leaf,
            (_, false) => thread.cells.known(called.exact),
            (_, true) => {
                let arguments = block.grouped(&execution.arguments);
                thread.cells.known(exact_key(called.exact, &arguments))
            }
        };
        let full = local.queue.push(Entry {
            enter,
            leave,
            net: called.net,
            weight: local.period,
            cell,
            detailed: false,
            waited: false,
        });
        if block.has_watched() {
            local.queue.entries.watched.push(execution.arguments);
        }
        if cell == NO_CELL || execution.unwound {
            self.say_more(at, execution, called, None);
        }
        if full {
            self.count_some(number);
        }
        Some(at)
    }

    /// Adds details to the last execution in a queue.
    #[cold]
    fn say_more(
        &mut self,
        at: usize,
        execution: &Execution,
        called: Called,
        waits: Option<Arc<WaitSum>>,
    ) {
        let Some(local) = self.thread.locals.get_mut(at) else {
            return;
        };
        let Some(block) = self.blocks.get(execution.block as usize) else {
            return;
        };
        local.queue.say_more(Details {
            shape: Shape {
                block: execution.block,
                collapsed: called.collapsed,
                arguments: block.grouped(&execution.arguments),
                inside: called.inside,
            },
            exact: called.exact,
            unwound: execution.unwound,
            waits,
        });
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
            None => self.thread.add_local(number, self.index, block),
        };
        if let Some(local) = self.thread.locals.get_mut(at) {
            // Where not all calls are recorded, a stack is one of a call that is not.
            local.stack = stack.filter(|_| local.period <= 1);
            local.short = false;
        }
    }

    fn period(&mut self, number: BlockId, period: u32) {
        let Some(block) = self.blocks.get_mut(number as usize) else {
            self.tallies.unknown += 1;
            return;
        };
        if block.excluded {
            return;
        }
        let period = period.max(1);
        block.period = block.period.max(period);
        let at = match self.thread.local(number) {
            Some(at) => at,
            None => self.thread.add_local(number, self.index, block),
        };
        if let Some(local) = self.thread.locals.get_mut(at) {
            local.period = period;
            local.short = false;
        }
    }
}

/// Properties by which an execution is compared.
#[derive(Clone, Copy)]
struct Called {
    exact: u64,
    collapsed: u64,
    /// Executions in it.
    inside: u64,
    /// Duration without the overhead of tracing.
    net: u64,
}
