//! The simulated core, with the timing of each instruction.

use super::super::pipeline::Random;
use super::memory::Late;
use analysis::stall::culprits::Cause;
use machine::{Instruction, InstructionCost, ProcessorModel};
use std::collections::VecDeque;

/// Instructions in the window, stores that are not yet in the cache, instructions retired in a
/// cycle.
const WINDOW: usize = 224;
const STORES: usize = 56;
const RETIRED: u64 = 4;

/// Cycles of a line of code from the next cache, of a mispredicted branch, and of a locked
/// instruction.
const FETCH: u64 = 14;
const MISPREDICT: u64 = 18;
const LOCKED: u64 = 20;

/// Number of lines that stores fetch at the same time.
const FETCHED: u64 = 10;

/// Number of cycles with known occupancy of the units.
const HORIZON: usize = 1 << 15;

/// Number of occupied units of a kind in each cycle.
struct Units {
    count: u32,
    taken: Vec<(u64, u32)>,
}

impl Units {
    fn room(&self, cycle: u64) -> bool {
        let (of, taken) = self.taken[cycle as usize % HORIZON];
        of != cycle || taken < self.count
    }

    /// Returns whether there is room for `length` cycles from `at` on. (No iterator: most of the
    /// test's time is spent here.)
    fn free(&self, at: u64, length: u64) -> bool {
        let mut cycle = at;
        while cycle < at + length {
            if !self.room(cycle) {
                return false;
            }
            cycle += 1;
        }
        true
    }

    fn take(&mut self, cycle: u64) {
        let slot = &mut self.taken[cycle as usize % HORIZON];
        *slot = (cycle, if slot.0 == cycle { slot.1 + 1 } else { 1 });
    }
}

pub fn line(one: &Instruction) -> u64 {
    (one.end().0 - 1) / 64
}

pub struct Core<'a> {
    model: &'a ProcessorModel,
    random: &'a mut Random,
    units: Vec<Units>,
    ready: [u64; 128],
    /// Cycle in which the window takes the next instruction, and the number and the bytes of the
    /// instructions taken in that cycle. `why` is the cause of the delay.
    fetched: u64,
    beside: (u32, u32),
    why: Option<Cause>,
    /// Cycles in which the last instructions left the window, and in which the last stores left the
    /// buffer.
    window: VecDeque<u64>,
    stores: VecDeque<u64>,
    pub retired: u64,
    retired_beside: u64,
    /// Cycle before which no memory access starts.
    fence: u64,
    line: u64,
}

/// Conditions of an instruction's execution.
#[derive(Clone, Copy, Default)]
pub struct Met {
    /// Probability that its line of code is not in the cache.
    pub uncached: f64,
    /// Address of its access, and the delay of the data.
    pub address: Option<u64>,
    pub late: Late,
    /// True if it is a mispredicted branch.
    pub mispredicted: bool,
}

/// The time for which one instruction kept all later ones from retiring.
pub struct Held {
    /// Cycles in which it became the oldest, entered the window, started, and left.
    pub from: u64,
    pub there: u64,
    pub started: u64,
    pub gone: u64,
    pub absent: Option<Cause>,
    pub waiting: Cause,
    /// End of the wait for its address translation.
    pub translated: u64,
    pub executing: Cause,
}

impl<'a> Core<'a> {
    pub fn new(model: &'a ProcessorModel, random: &'a mut Random) -> Self {
        let units = |one: &machine::Resource| Units {
            count: one.units,
            taken: vec![(0, 0); HORIZON],
        };
        Self {
            units: model.resources().iter().map(units).collect(),
            model,
            random,
            ready: [0; 128],
            fetched: 1,
            beside: (0, 0),
            why: None,
            window: VecDeque::new(),
            stores: VecDeque::new(),
            retired: 0,
            retired_beside: 0,
            fence: 0,
            line: 0,
        }
    }

    fn chance(&mut self, of: f64) -> bool {
        of > 0.0 && self.random.unit() < of
    }

    /// Delays the next instruction's entry into the window to a cycle.
    fn hold(&mut self, until: u64, why: Option<Cause>) {
        if until > self.fetched {
            (self.fetched, self.beside, self.why) = (until, (0, 0), why);
        }
    }

    /// Returns the cycle in which the window takes an instruction.
    fn fetch(&mut self, one: &Instruction, uncached: f64, uops: u32) -> u64 {
        let line = line(one);
        if line != self.line && self.chance(uncached) {
            self.hold(self.fetched + FETCH, Some(Cause::InstructionCache));
        }
        self.line = line;
        if self.window.len() == WINDOW {
            let room = self.window.pop_front().unwrap_or(0);
            self.hold(room, None);
        }
        if one.kind.store && self.stores.len() == STORES {
            let room = self.stores.pop_front().unwrap_or(0);
            self.hold(room, Some(Cause::StoreBuffer));
        }
        let processor = self.model.processor();
        let (taken, bytes) = self.beside;
        let length = u32::from(one.length);
        let full = taken + uops > processor.width || bytes + length > processor.fetch;
        if taken > 0 && full {
            (self.fetched, self.beside) = (self.fetched + 1, (0, 0));
        }
        self.beside.0 += uops;
        self.beside.1 += length;
        self.fetched
    }

    /// Returns the first cycle in which the needed units are free, and whether one is busy for
    /// long.
    fn start(&mut self, needed: &[(u16, u16)], from: u64) -> (u64, Cause) {
        let (mut at, mut why) = (from, Cause::Ports);
        // A set of units has all the cycles of its members, in sequence or in parallel.
        let cycles = |resource: usize, cycles: u16, units: &[Units]| {
            u64::from(cycles).div_ceil(u64::from(units[resource].count))
        };
        'cycle: loop {
            for (resource, of) in needed {
                let resource = usize::from(*resource);
                let length = cycles(resource, *of, &self.units);
                if !self.units[resource].free(at, length) {
                    if length > 2 {
                        why = Cause::Unit;
                    }
                    at += 1;
                    continue 'cycle;
                }
            }
            break;
        }
        for (resource, of) in needed {
            let resource = usize::from(*resource);
            for cycle in at..at + cycles(resource, *of, &self.units) {
                self.units[resource].take(cycle);
            }
        }
        (at, why)
    }

    /// Executes an instruction.
    pub fn step(&mut self, one: &Instruction, cost: &InstructionCost<'_>, met: &Met) -> Held {
        let (uops, latency) = (cost.uops, u64::from(cost.latency));
        let from = self.retired;
        let there = self.fetch(one, met.uncached, uops);
        let absent = self.why.take();
        let reads = one
            .reads
            .iter()
            .map(|one| self.ready[usize::from(one.number())]);
        let mut ready = reads.fold(there + 1, u64::max);
        let memory = one.kind.load || one.kind.store || one.kind.serialising;
        if memory {
            ready = ready.max(self.fence);
        }
        let alone = one.kind.locked || one.kind.serialising;
        if alone {
            let drained = self.stores.back().copied().unwrap_or(0);
            ready = ready.max(self.retired).max(drained);
        }
        let (started, waiting) = self.start(cost.units, ready);
        let mut done = started + latency;
        let mut executing = Cause::Dependency;
        if one.kind.divide || latency >= 10 && !memory {
            executing = Cause::Unit;
        }
        let late = met.late;
        done += late.translation;
        let (mut fetched, mut translated) = (0, started);
        if late.translation > 0 {
            (translated, executing) = (done, Cause::DataTlb);
        }
        if one.kind.load && late.data > 0 {
            done += late.data;
            executing = Cause::DataCache;
        } else {
            fetched = late.data;
        }
        if alone {
            done = done.max(started + LOCKED);
            executing = Cause::Synchronisation;
            self.fence = done;
        }
        for register in one.writes.iter() {
            self.ready[usize::from(register.number())] = done;
        }
        let mut gone = (done + 1).max(self.retired);
        if gone == self.retired && self.retired_beside >= RETIRED {
            gone += 1;
        }
        self.retired_beside = if gone == self.retired {
            self.retired_beside + 1
        } else {
            1
        };
        self.retired = gone;
        self.window.push_back(gone);
        if one.kind.store {
            let before = self.stores.back().copied().unwrap_or(0);
            let after = (fetched / FETCHED).max(1);
            self.stores
                .push_back((gone + fetched.max(1)).max(before + after));
        }
        if met.mispredicted {
            self.hold(done + MISPREDICT, Some(Cause::Mispredict));
        }
        Held {
            from,
            there,
            started: if alone { from } else { started },
            gone,
            absent,
            waiting,
            translated: if alone { from } else { translated },
            executing,
        }
    }
}
