//! A processor that executes out of order within a window and retires in order, and the samples
//! that a clock would take: known causes for what the analysis says of stalls. Units and latencies
//! are the model's; what goes wrong is drawn at random, but for data accesses: those have addresses, and a
//! hierarchy of caches decides.
//!
//! As measured on real ones, a sample shows the instruction after the one that holds up retirement;
//! the one itself when it is not yet in the window.

mod code;
mod memory;
mod registers;

use super::pipeline::Random;
use analysis::stall::culprits::Cause;
use machine::{EdgeKind, Flow, Graph, Instruction, Model};
use memory::Data;
use profile::Accesses;
use registers::Ways;
use std::collections::VecDeque;

pub use code::procedure;

/// Instructions in the window, stores that are not yet in the cache, instructions retired a cycle.
const WINDOW: usize = 224;
const STORES: usize = 56;
const RETIRED: u64 = 4;

/// Cycles: a line of code from the next cache, a branch that was not predicted, a locked instruction.
const FETCH: u64 = 14;
const MISPREDICT: u64 = 18;
const LOCKED: u64 = 20;

/// Lines that stores fetch at the same time.
const FETCHED: u64 = 10;

/// The processor's records of branches are taken of one jump in so many.
const RECORDED: u64 = 20;

/// Cycles for which it is known how many units are taken.
const HORIZON: usize = 1 << 15;

/// What goes wrong with an instruction.
#[derive(Clone, Copy, Default)]
struct Trouble {
    /// How often its line of code is not in the cache.
    fetch: f64,
    /// How often it jumps, and how often that is not predicted.
    taken: f64,
    mispredict: f64,
}

/// What was seen of each instruction of the graph, and for how many cycles by cause.
pub struct Run {
    pub samples: Vec<f64>,
    pub stalls: Vec<[f64; 12]>,
    /// Executions of each block and each edge, by the cycles between samples.
    pub blocks: Vec<f64>,
    pub edges: Vec<f64>,
    /// Of some of the times when each edge was a jump that was taken: in how many that was not
    /// predicted, and how many.
    pub jumps: Vec<(u64, u64)>,
    /// What registers at the samples showed of the memory that each accesses.
    pub accesses: Vec<Option<Accesses>>,
}

fn troubles(graph: &Graph, random: &mut Random) -> Vec<Trouble> {
    let draw = |one: &Instruction| {
        let mut trouble = Trouble {
            taken: 0.02 + 0.96 * random.unit(),
            ..Trouble::default()
        };
        if let Flow::Branch(target) = one.flow {
            if target < one.address {
                trouble.taken = 0.5 + 0.45 * random.unit();
            }
            if random.below(2) == 0 {
                let rarer = trouble.taken.min(1.0 - trouble.taken);
                trouble.mispredict = rarer * random.unit();
            }
        }
        if random.below(6) == 0 {
            trouble.fetch = 0.5 * random.unit().powi(2);
        }
        trouble
    };
    graph.instructions.iter().map(draw).collect()
}

/// How many units of a kind are taken in each cycle.
struct Units {
    count: u32,
    taken: Vec<(u64, u32)>,
}

impl Units {
    fn room(&self, cycle: u64) -> bool {
        let (of, taken) = self.taken[cycle as usize % HORIZON];
        of != cycle || taken < self.count
    }

    fn take(&mut self, cycle: u64) {
        let slot = &mut self.taken[cycle as usize % HORIZON];
        *slot = (cycle, if slot.0 == cycle { slot.1 + 1 } else { 1 });
    }
}

fn line(one: &Instruction) -> u64 {
    (one.end().0 - 1) / 64
}

struct Core<'a> {
    model: &'a Model,
    random: &'a mut Random,
    data: Data,
    units: Vec<Units>,
    ready: [u64; 128],
    /// When the window takes the next instruction, how many it took in that cycle, their bytes, and
    /// why not earlier.
    fetched: u64,
    beside: (u32, u32),
    why: Option<Cause>,
    /// When each of the last left the window, and each of the last stores the buffer.
    window: VecDeque<u64>,
    stores: VecDeque<u64>,
    retired: u64,
    retired_beside: u64,
    /// Nothing that accesses memory starts before.
    fence: u64,
    line: u64,
    /// Whether the last branch was not predicted.
    missed: bool,
}

/// The time that one instruction kept all after it from retiring.
struct Held {
    /// Since when it was the oldest, when it was there, when it had started, when it was gone.
    from: u64,
    there: u64,
    started: u64,
    gone: u64,
    absent: Option<Cause>,
    waiting: Cause,
    /// Until when the translation of its address was waited for.
    translated: u64,
    executing: Cause,
    address: Option<u64>,
}

impl<'a> Core<'a> {
    fn new(model: &'a Model, random: &'a mut Random, data: Data) -> Self {
        let units = |one: &machine::Resource| Units {
            count: one.units,
            taken: vec![(0, 0); HORIZON],
        };
        Self {
            units: model.resources().iter().map(units).collect(),
            model,
            random,
            data,
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
            missed: false,
        }
    }

    fn chance(&mut self, of: f64) -> bool {
        of > 0.0 && self.random.unit() < of
    }

    /// Nothing is taken into the window before a cycle.
    fn hold(&mut self, until: u64, why: Option<Cause>) {
        if until > self.fetched {
            (self.fetched, self.beside, self.why) = (until, (0, 0), why);
        }
    }

    /// When the window takes an instruction.
    fn fetch(&mut self, one: &Instruction, trouble: &Trouble, uops: u32) -> u64 {
        let line = line(one);
        if line != self.line && self.chance(trouble.fetch) {
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

    /// When the units are free that it needs, and whether one is kept for long.
    fn start(&mut self, one: &Instruction, from: u64) -> (u64, Cause) {
        let (mut at, mut why) = (from, Cause::Ports);
        let needed = self.model.cost(one).units;
        // Sets of units have all the cycles of their members, one after the other or beside.
        let cycles = |resource: usize, cycles: u16, units: &[Units]| {
            u64::from(cycles).div_ceil(u64::from(units[resource].count))
        };
        'cycle: loop {
            for (resource, of) in needed {
                let resource = usize::from(*resource);
                let length = cycles(resource, *of, &self.units);
                if !(at..at + length).all(|cycle| self.units[resource].room(cycle)) {
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
    fn step(&mut self, index: usize, one: &Instruction, trouble: &Trouble) -> Held {
        let cost = self.model.cost(one);
        let (uops, latency) = (cost.uops, u64::from(cost.latency));
        let from = self.retired;
        let there = self.fetch(one, trouble, uops);
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
        let (started, waiting) = self.start(one, ready);
        let mut done = started + latency;
        let mut executing = Cause::Dependency;
        if one.kind.divide || latency >= 10 && !memory {
            executing = Cause::Unit;
        }
        let accessed = self.data.access(index, self.random);
        let (address, late) = accessed.unzip();
        let late = late.unwrap_or_default();
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
        self.missed = matches!(one.flow, Flow::Branch(_)) && self.chance(trouble.mispredict);
        if self.missed {
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
            address,
        }
    }
}

/// What is seen: every now and then where the program is.
struct Seen {
    clock: Random,
    period: u64,
    next: u64,
    samples: Vec<f64>,
    stalls: Vec<[f64; 12]>,
}

impl Seen {
    /// An instruction is seen from after one cycle to another, for a reason.
    fn mark(&mut self, index: usize, from: u64, until: u64, cause: Option<Cause>) {
        let position = cause.and_then(|cause| Cause::ALL.iter().position(|one| *one == cause));
        if let Some(cause) = position {
            self.stalls[index][cause] += until.saturating_sub(from) as f64;
        }
        self.samples[index] += self.pass(until);
    }

    /// How many samples are taken up to a cycle.
    fn pass(&mut self, until: u64) -> f64 {
        let mut samples = 0.0;
        while self.next <= until {
            samples += 1.0;
            self.next += 1 + self.clock.below(2 * self.period as usize - 1) as u64;
        }
        samples
    }

    /// What an instruction held up once it was there is seen at the one after it.
    fn after(&mut self, held: &Held, index: usize) {
        let from = held.there.max(held.from);
        let started = held.started.max(from);
        self.mark(index, from, started, Some(held.waiting));
        // An empty pipeline has to be filled.
        let filled = held.absent.map_or(started, |_| held.gone.min(started + 2));
        self.mark(index, started, filled, held.absent);
        let stalls = held.gone > held.from + 1;
        let translated = held.translated.clamp(filled, held.gone);
        let walks = Some(Cause::DataTlb).filter(|_| stalls);
        self.mark(index, filled, translated, walks);
        self.mark(
            index,
            translated,
            held.gone,
            Some(held.executing).filter(|_| stalls),
        );
    }
}

/// Runs the procedure again and again, with a sample every `period` cycles on average.
pub fn run(graph: &Graph, model: &Model, random: &mut Random, cycles: u64, period: u64) -> Run {
    let troubles = troubles(graph, random);
    let count = graph.instructions.len();
    let mut seen = Seen {
        clock: Random(random.next()),
        period,
        next: period,
        samples: vec![0.0; count],
        stalls: vec![[0.0; 12]; count],
    };
    let mut blocks = vec![0.0; graph.blocks.len()];
    let mut edges = vec![0.0; graph.edges.len()];
    let mut jumps = vec![(0, 0); graph.edges.len()];
    let data = Data::new(graph, random);
    let mut core = Core::new(model, random, data);
    let mut followed = Ways::default();
    let of_block = |block| operations(graph, block, &troubles);
    let operations: Vec<_> = (0..graph.blocks.len()).map(of_block).collect();
    let ways: Vec<_> = (0..graph.blocks.len())
        .map(|block| ways(graph, block))
        .collect();
    let (mut block, mut before): (usize, Option<Held>) = (0, None);
    edges[0] = 1.0;
    while core.retired < cycles {
        blocks[block] += 1.0;
        for (index, one, trouble) in &operations[block] {
            let held = core.step(*index, one, trouble);
            let taken = seen.samples[*index];
            if let Some(before) = before.take() {
                seen.after(&before, *index);
            }
            if held.there > held.from {
                seen.mark(*index, held.from, held.there, held.absent);
            }
            followed.sample(one, seen.samples[*index] - taken);
            followed.step(*index, one, held.address);
            before = Some(held);
        }
        let last = graph.blocks[block].instructions.end - 1;
        let taken = core.random.unit() < troubles[last].taken;
        let way = ways[block][usize::from(!taken && ways[block].len() > 1)];
        edges[way] += 1.0;
        let recorded = (edges[way] as u64).is_multiple_of(RECORDED);
        if recorded && graph.edges[way].kind == EdgeKind::Taken {
            jumps[way].0 += u64::from(core.missed);
            jumps[way].1 += 1;
        }
        block = graph.edges[way].to.unwrap_or_else(|| {
            // What the return held up is seen in the caller, who calls again.
            if let Some(before) = before.take() {
                seen.pass(before.gone);
            }
            edges[0] += 1.0;
            0
        });
    }
    let by_period = |counts: Vec<f64>| counts.iter().map(|one| one / period as f64).collect();
    Run {
        samples: seen.samples,
        stalls: seen.stalls,
        blocks: by_period(blocks),
        edges: by_period(edges),
        jumps,
        accesses: (0..count)
            .map(|index| followed.seen.remove(&index))
            .collect(),
    }
}

/// The instructions of a block; a branch that is executed as one with what sets its flags, which
/// it is in the same line, is in it.
fn operations(
    graph: &Graph,
    block: usize,
    troubles: &[Trouble],
) -> Vec<(usize, Instruction, Trouble)> {
    let mut found: Vec<(usize, Instruction, Trouble)> = Vec::new();
    for index in graph.blocks[block].instructions.clone() {
        let (one, trouble) = (graph.instructions[index], troubles[index]);
        match found.last_mut() {
            Some((_, before, both))
                if before.kind.fusible_flags
                    && one.kind.fusible_branch
                    && line(before) == line(&one) =>
            {
                before.flow = one.flow;
                before.length += one.length;
                both.mispredict = trouble.mispredict;
            }
            _ => found.push((index, one, trouble)),
        }
    }
    found
}

/// The edges out of a block, the one that is a jump first.
fn ways(graph: &Graph, block: usize) -> Vec<usize> {
    let out = |edge: &usize| graph.edges[*edge].from == Some(block);
    let mut ways: Vec<usize> = (0..graph.edges.len()).filter(out).collect();
    ways.sort_by_key(|edge| graph.edges[*edge].kind != EdgeKind::Taken);
    ways
}
