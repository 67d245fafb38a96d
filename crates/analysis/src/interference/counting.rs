//! Adds executions to all sums when they have waited long enough.

use super::blocks::BlockState;
use super::events::{Lap, Runs};
use super::queue::{Entries, Entry};
use super::shape::exact_key;
use super::wait_sum::WaitSum;
use super::worker::{Local, Worker};
use profile::{BlockId, CauseKind};
use std::sync::Arc;

/// A thread that executes a block so often is warm; its first execution is left out.
const WARM: u64 = 10;

impl Worker<'_> {
    /// Counts executions of a block of which many wait.
    #[inline(never)]
    pub(super) fn count_some(&mut self, number: BlockId) {
        let Some(at) = self.thread.local(number) else {
            return;
        };
        let local = self.thread.locals.get(at);
        let n = local.map_or(0, |local| local.queue.excess());
        self.count(at, n);
    }

    /// Counts the first `n` executions of a block that wait, but for the thread's first.
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
        self.add(at, &mut entries, from, n);
        entries.remove(n);
        if let Some(local) = self.thread.locals.get_mut(at) {
            local.queue.entries = entries;
        }
    }

    /// Adds executions of a block to all sums: those together that follow each other and are of one kind.
    fn add(&mut self, at: usize, entries: &mut Entries, from: usize, to: usize) {
        let Some(local) = self.thread.locals.get_mut(at) else {
            return;
        };
        // What a block waits for that its callers are told of goes by its own name.
        let waits_for: Vec<Option<CauseKind>> = match entries.waits() {
            true => self.blocks.iter().map(|block| block.waits_for).collect(),
            false => Vec::new(),
        };
        let Some(block) = self.blocks.get_mut(local.block as usize) else {
            return;
        };
        if block.has_watched() {
            let arguments = entries.watched.get(from..to).unwrap_or_default();
            block.follow(entries.all.get(from..to).unwrap_or_default(), arguments);
        }
        let (all, details) = entries.part(from, to);
        self.tallies.executions += all.len() as u64;
        let cells = &mut self.thread.cells;
        let unknown = if details.is_empty() { 0 } else { all.len() };
        let detailed = all.iter_mut().take(unknown).filter(|entry| entry.detailed);
        for (entry, details) in detailed.zip(details) {
            block.unwound += u64::from(details.unwound);
            let shape = &details.shape;
            let key = exact_key(details.exact, &shape.arguments);
            entry.cell = cells.find(key, shape, self.kinds);
            if details.exact == block.base && !block.has_grouping() {
                local.leaf = entry.cell;
            }
        }
        let mut waits = details.iter().filter_map(|details| details.waits.as_ref());
        let mut rest = &*all;
        while let Some(first) = rest.first() {
            let Some(cell) = cells.all.get_mut(first.cell as usize) else {
                return;
            };
            if first.leave >= cell.until {
                self.kinds.next_window(cell, first.leave);
            }
            let waits = first.waited.then(|| waits.next()).flatten();
            let fates = waits.map(|waits| block.fates(waits, &waits_for, self.options.aarch64));
            let added = match fates {
                Some(fates) => self.kinds.add_waited(cell, first, fates.of(first.net)),
                None => self.kinds.add(cell, rest),
            };
            let Some(added) = added else {
                return;
            };
            let (run, others) = rest.split_at(added.n);
            rest = others;
            let weight = u64::from(first.weight);
            if self.lap.is_some() {
                let runs = Runs {
                    n: added.n as u64,
                    ran: added.sum,
                    floor: added.kind.smallest.at(4),
                    known: added.kind.recorded,
                    weight,
                };
                if waits.is_some() || !local.lap.takes(&runs, self.lap) {
                    let costs = &self.options.event_costs;
                    add_events(block, &runs, run, waits, &mut local.lap, costs);
                }
            }
            match waits.zip(fates) {
                None => block.least_compared = 0,
                Some((waits, fates)) => block.add_waits(waits, &fates, weight),
            }
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
                && let Some(mut first) = local.first.take()
            {
                self.add(at, &mut first, 0, 1);
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
