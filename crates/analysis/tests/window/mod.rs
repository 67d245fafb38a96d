//! A processor that executes out of order within a window and retires in order, and the samples
//! that a clock would take: known causes for the stalls that the analysis explains. Units and
//! latencies are the model's. Programs compute, so that addresses and branches follow from their
//! data, and a cache hierarchy and a branch predictor determine delays. Only misses of the
//! instruction cache are drawn at random.
//!
//! As measured on real processors, a sample shows the instruction after the one that holds up
//! retirement, or that instruction itself if it is not yet in the window.

mod code;
mod contents;
mod execute;
mod memory;
mod nest;
mod predictor;
mod processor;
mod registers;

use super::pipeline::{CAUSES, Random};
use analysis::stall::culprits::Cause;
use execute::State;
use iced_x86::Instruction as Code;
use machine::{EdgeKind, Flow, FlowGraph, Instruction, InstructionCost, ProcessorModel};
use memory::Data;
use predictor::Predictor;
use processor::{Core, Held, Met, line};
use profile::Accesses;
use registers::Ways;

pub use code::{Program, program};

/// Number of jumps for which the processor makes one branch record.
const RECORDED: u64 = 20;

/// Samples of each instruction of the graph, and its stalled cycles by cause.
pub struct WindowRun {
    pub samples: Vec<f64>,
    pub stalls: Vec<[f64; CAUSES]>,
    /// Executions of each block and each edge, divided by the cycles between samples.
    pub blocks: Vec<f64>,
    pub edges: Vec<f64>,
    /// For each edge, records of taken jumps along it: mispredicted ones, and all.
    pub jumps: Vec<(u64, u64)>,
    /// Accesses of each instruction, as registers at the samples show them.
    pub accesses: Vec<Option<Accesses>>,
    /// Accesses, misses of the first-level cache, misses of the first-level translation table, and
    /// walks.
    pub counts: [u64; 4],
}

/// Draws the probability that each instruction's line of code is not in the cache.
fn uncached(graph: &FlowGraph, random: &mut Random) -> Vec<f64> {
    let draw = |_: &Instruction| match random.below(6) {
        0 => 0.5 * random.unit().powi(2),
        _ => 0.0,
    };
    graph.instructions.iter().map(draw).collect()
}

/// Samples at random intervals.
struct Seen {
    clock: Random,
    period: u64,
    next: u64,
    samples: Vec<f64>,
    stalls: Vec<[f64; CAUSES]>,
}

impl Seen {
    /// Marks an instruction as visible from after one cycle to another, for a reason.
    fn mark(&mut self, index: usize, from: u64, until: u64, cause: Option<Cause>) {
        let position = cause.and_then(|cause| Cause::ALL.iter().position(|one| *one == cause));
        if let Some(cause) = position {
            self.stalls[index][cause] += until.saturating_sub(from) as f64;
        }
        self.samples[index] += self.pass(until);
    }

    /// Returns how many samples are taken up to a cycle.
    fn pass(&mut self, until: u64) -> f64 {
        let mut samples = 0.0;
        while self.next <= until {
            samples += 1.0;
            self.next += 1 + self.clock.below(2 * self.period as usize - 1) as u64;
        }
        samples
    }

    /// Adds the samples of an instruction's delay to the instruction after it.
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

/// A block of the program as the processor executes it.
struct Executed<'a> {
    operations: Vec<Operation<'a>>,
    /// The edges out of it, the jump first.
    ways: Vec<usize>,
}

/// Instructions that are executed as one.
struct Operation<'a> {
    index: usize,
    one: Instruction,
    cost: InstructionCost<'a>,
    code: Vec<Code>,
    uncached: f64,
}

/// A program in execution, and the observations.
struct Execution<'a> {
    state: State,
    data: Data,
    predictor: Predictor,
    core: Core<'a>,
    seen: Seen,
    followed: Ways,
    /// The instruction executed last.
    before: Option<Held>,
    /// State of the last branch: taken, and mispredicted.
    taken: bool,
    mispredicted: bool,
}

impl Execution<'_> {
    fn step(&mut self, operation: &Operation<'_>) {
        let mut met = Met {
            uncached: operation.uncached,
            ..Met::default()
        };
        for code in &operation.code {
            let did = self.state.step(code);
            met.address = met.address.or(did.address);
            self.taken = did.taken;
        }
        if let Some(address) = met.address {
            met.late = self.data.access(address);
        }
        let (index, one) = (operation.index, &operation.one);
        if let Flow::Branch(_) = one.flow {
            met.mispredicted = !self.predictor.predicts(one.address.0, self.taken);
            self.mispredicted = met.mispredicted;
        }
        let held = self.core.step(one, &operation.cost, &met);
        let before = self.seen.samples[index];
        if let Some(earlier) = self.before.take() {
            self.seen.after(&earlier, index);
        }
        if held.there > held.from {
            self.seen.mark(index, held.from, held.there, held.absent);
        }
        let samples = self.seen.samples[index] - before;
        self.followed.sample(one, samples);
        self.followed.step(index, one, met.address);
        self.before = Some(held);
    }
}

/// Runs the procedure again and again, with a sample every `period` cycles on average.
pub fn run(
    program: &Program,
    model: &ProcessorModel,
    random: &mut Random,
    cycles: u64,
    period: u64,
) -> WindowRun {
    let Program {
        graph, contents, ..
    } = program;
    let uncached = uncached(graph, random);
    let count = graph.instructions.len();
    let seen = Seen {
        clock: Random(random.next()),
        period,
        next: period,
        samples: vec![0.0; count],
        stalls: vec![[0.0; CAUSES]; count],
    };
    let mut blocks = vec![0.0; graph.blocks.len()];
    let mut edges = vec![0.0; graph.edges.len()];
    let mut jumps = vec![(0, 0); graph.edges.len()];
    let executed: Vec<Executed> = (0..graph.blocks.len())
        .map(|block| Executed {
            operations: operations(program, model, block, &uncached),
            ways: ways(graph, block),
        })
        .collect();
    let mut run = Execution {
        data: Data::new(contents.areas()),
        state: State::new(contents.clone()),
        predictor: Predictor::new(),
        core: Core::new(model, random),
        seen,
        followed: Ways::default(),
        before: None,
        taken: false,
        mispredicted: false,
    };
    let mut block = 0;
    edges[0] = 1.0;
    while run.core.retired < cycles {
        blocks[block] += 1.0;
        (run.taken, run.mispredicted) = (false, false);
        let Executed { operations, ways } = &executed[block];
        operations.iter().for_each(|one| run.step(one));
        let way = ways[usize::from(!run.taken && ways.len() > 1)];
        edges[way] += 1.0;
        let recorded = (edges[way] as u64).is_multiple_of(RECORDED);
        if recorded && graph.edges[way].kind == EdgeKind::Taken {
            jumps[way].0 += u64::from(run.mispredicted);
            jumps[way].1 += 1;
        }
        block = graph.edges[way].to.unwrap_or_else(|| {
            // The delay of the return shows in the caller, which calls again.
            if let Some(before) = run.before.take() {
                run.seen.pass(before.gone);
            }
            edges[0] += 1.0;
            0
        });
    }
    let by_period = |counts: Vec<f64>| counts.iter().map(|one| one / period as f64).collect();
    WindowRun {
        samples: run.seen.samples,
        stalls: run.seen.stalls,
        blocks: by_period(blocks),
        edges: by_period(edges),
        jumps,
        accesses: (0..count)
            .map(|index| run.followed.seen.remove(&index))
            .collect(),
        counts: run.data.counts,
    }
}

/// Returns the operations that the processor executes for a block. A branch is one operation with
/// the instruction before it that sets its flags, if both are in the same line.
fn operations<'a>(
    program: &Program,
    model: &'a ProcessorModel,
    block: usize,
    uncached: &[f64],
) -> Vec<Operation<'a>> {
    let Program { graph, code, .. } = program;
    let mut found: Vec<Operation> = Vec::new();
    for index in graph.blocks[block].instructions.clone() {
        let one = graph.instructions[index];
        match found.last_mut() {
            Some(before)
                if before.one.kind.fusible_flags
                    && one.kind.fusible_branch
                    && line(&before.one) == line(&one) =>
            {
                before.one.flow = one.flow;
                before.one.length += one.length;
                before.code.push(code[index]);
            }
            _ => found.push(Operation {
                index,
                one,
                cost: model.cost(&one),
                code: vec![code[index]],
                uncached: uncached[index],
            }),
        }
    }
    found
}

/// Returns the edges out of a block, the jump first.
fn ways(graph: &FlowGraph, block: usize) -> Vec<usize> {
    let out = |edge: &usize| graph.edges[*edge].from == Some(block);
    let mut ways: Vec<usize> = (0..graph.edges.len()).filter(out).collect();
    ways.sort_by_key(|edge| graph.edges[*edge].kind != EdgeKind::Taken);
    ways
}
