//! A small processor that issues two instructions a cycle in order, random programs for it, and the
//! samples of a periodic interrupt: known truth for the estimators.
#![allow(dead_code)] // each test uses a part

use analysis::stall::Ends;
use analysis::stall::culprits::Cause;
use analysis::stall::in_order::Issue;

/// Number of reasons for stalls, in the order of [`Cause::ALL`].
pub const CAUSES: usize = Cause::ALL.len();

/// SplitMix64.
pub struct Random(pub u64);

impl Random {
    pub fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ self.0 >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ mixed >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ mixed >> 31
    }

    pub fn below(&mut self, end: usize) -> usize {
        (self.next() % end as u64) as usize
    }

    pub fn unit(&mut self) -> f64 {
        (self.next() >> 11) as f64 / (1_u64 << 53) as f64
    }
}

#[derive(Clone, Copy, PartialEq)]
pub enum Kind {
    Plain,
    Load,
    Store,
    Multiply,
}

pub struct Instruction {
    pub kind: Kind,
    pub reads: [usize; 2],
    pub writes: usize,
    /// Probability that its data are not in the cache, and the penalty then, in cycles.
    miss: f64,
    penalty: u64,
    /// Probability that its page is not in the translation table.
    walk: f64,
}

/// Number of registers; the last is never written.
const REGISTERS: usize = 24;

pub struct Program {
    pub blocks: Vec<Vec<Instruction>>,
    pub edges: Vec<Ends>,
    /// For each block, its edges out with their probabilities.
    out: Vec<Vec<(usize, f64)>>,
    /// Probability that the first instruction of each block is not in the cache.
    fetch_miss: Vec<f64>,
    /// Probability that the branch at the end of each block is not predicted.
    mispredict: Vec<f64>,
}

/// Start address of programs; an instruction has 4 bytes.
pub const START: u64 = 0x1000;

/// Cycles of a page-table walk, of a line from the next cache, and of a mispredicted branch.
const WALK: u64 = 30;
const FETCH: u64 = 12;
const MISPREDICT: u64 = 6;

impl Program {
    /// Generates nested conditions and loops.
    pub fn random(random: &mut Random) -> Self {
        let mut program = Self {
            blocks: Vec::new(),
            edges: vec![(None, Some(0))],
            out: Vec::new(),
            fetch_miss: Vec::new(),
            mispredict: Vec::new(),
        };
        let first = program.block(random);
        let last = program.piece(random, first, 4);
        program.edge(last, None, 1.0);
        program
    }

    /// Adds page-table walks, and mispredictions: rarely at branches that mostly go the same way.
    /// Only an instruction that begins another cache line than all before it misses the instruction
    /// cache.
    pub fn trouble(&mut self, random: &mut Random) {
        let mut ends = Vec::new();
        for block in &self.blocks {
            let start = ends.last().copied().unwrap_or(START);
            ends.push(start + 4 * block.len() as u64);
        }
        for block in 0..self.blocks.len() {
            let line = (ends[block] - 4 * self.blocks[block].len() as u64) / 64;
            let from = self.edges.iter().filter(|edge| edge.1 == Some(block));
            let near = |from: Option<usize>| from.is_some_and(|from| (ends[from] - 4) / 64 == line);
            if from.clone().any(|edge| near(edge.0)) {
                self.fetch_miss[block] = 0.0;
            }
        }
        for block in &mut self.blocks {
            for one in block.iter_mut() {
                let accesses = matches!(one.kind, Kind::Load | Kind::Store);
                if accesses && random.below(6) == 0 {
                    one.walk = 0.3 * random.unit();
                }
            }
        }
        for (block, out) in self.out.iter().enumerate() {
            let rarer = out.iter().map(|(_, chance)| *chance).fold(1.0, f64::min);
            if out.len() > 1 && random.below(2) == 0 {
                self.mispredict[block] = rarer * random.unit();
            }
        }
    }

    fn block(&mut self, random: &mut Random) -> usize {
        let length = 2 + random.below(14);
        let instructions = (0..length).map(|_| {
            let kinds = [
                Kind::Plain,
                Kind::Plain,
                Kind::Plain,
                Kind::Load,
                Kind::Store,
                Kind::Multiply,
            ];
            let multiplies = random.below(4) == 0;
            let kind = kinds[random.below(if multiplies { 6 } else { 5 })];
            Instruction {
                kind,
                reads: [random.below(REGISTERS), random.below(REGISTERS)],
                writes: if kind == Kind::Store {
                    REGISTERS
                } else {
                    random.below(REGISTERS)
                },
                miss: if random.below(3) == 0 {
                    random.unit().powi(3)
                } else {
                    0.0
                },
                penalty: [10, 20, 90][random.below(3)],
                walk: 0.0,
            }
        });
        self.blocks.push(instructions.collect());
        self.out.push(Vec::new());
        self.mispredict.push(0.0);
        self.fetch_miss.push(if random.below(5) == 0 {
            random.unit().powi(2) * 0.5
        } else {
            0.0
        });
        self.blocks.len() - 1
    }

    fn edge(&mut self, from: usize, to: Option<usize>, probability: f64) {
        self.out[from].push((self.edges.len(), probability));
        self.edges.push((Some(from), to));
    }

    /// Generates code from a block on; returns the block where it ends.
    fn piece(&mut self, random: &mut Random, from: usize, depth: usize) -> usize {
        let mut last = from;
        for _ in 0..1 + random.below(3) {
            if depth == 0 {
                break;
            }
            let probability = 0.02 + 0.96 * random.unit();
            match random.below(3) {
                0 => {
                    let (then, end) = (self.block(random), self.block(random));
                    self.edge(last, Some(then), probability);
                    self.edge(last, Some(end), 1.0 - probability);
                    let then = self.piece(random, then, depth - 1);
                    self.edge(then, Some(end), 1.0);
                    last = end;
                }
                1 => {
                    let (then, other) = (self.block(random), self.block(random));
                    let end = self.block(random);
                    self.edge(last, Some(then), probability);
                    self.edge(last, Some(other), 1.0 - probability);
                    let then = self.piece(random, then, depth - 1);
                    let other = self.piece(random, other, depth - 1);
                    self.edge(then, Some(end), 1.0);
                    self.edge(other, Some(end), 1.0);
                    last = end;
                }
                _ => {
                    let (body, end) = (self.block(random), self.block(random));
                    self.edge(last, Some(body), 1.0);
                    let bottom = self.piece(random, body, depth - 1);
                    let again = 0.5 + 0.45 * random.unit();
                    self.edge(bottom, Some(body), again);
                    self.edge(bottom, Some(end), 1.0 - again);
                    last = end;
                }
            }
        }
        last
    }
}

/// The state of the processor.
struct Pipeline {
    cycle: u64,
    /// True if an instruction was issued in this cycle, and another can join it.
    paired: bool,
    memory_used: bool,
    ready: [u64; REGISTERS + 1],
    /// Instruction of the block that wrote each register.
    writer: [Option<usize>; REGISTERS + 1],
    /// Cause for which a register's value comes later than its latency.
    late: [Option<Cause>; REGISTERS + 1],
    multiplier: u64,
    /// Cause of the wait of the instruction issued last, if it did not only wait for the next
    /// cycle.
    why: Option<Cause>,
}

impl Pipeline {
    fn new() -> Self {
        Self {
            cycle: 0,
            paired: true,
            memory_used: false,
            ready: [0; REGISTERS + 1],
            writer: [None; REGISTERS + 1],
            late: [None; REGISTERS + 1],
            multiplier: 0,
            why: None,
        }
    }

    /// Stalls everything until a cycle.
    fn hold(&mut self, until: u64, cause: Cause) {
        for (ready, late) in self.ready.iter_mut().zip(&mut self.late) {
            if *ready < until {
                (*ready, *late) = (until, Some(cause));
            }
        }
    }

    /// Issues an instruction; returns its cycles at the head of the queue, and the instruction that
    /// it waited for. `extra` is the delay of its result.
    fn issue(&mut self, one: &Instruction, place: usize, extra: u64) -> (u64, Option<usize>) {
        let is_memory = matches!(one.kind, Kind::Load | Kind::Store);
        let operand = one
            .reads
            .iter()
            .max_by_key(|register| self.ready[**register]);
        let operand = operand.copied().unwrap_or(REGISTERS);
        let mut ready = self.ready[operand];
        let mut waits_for = self.writer[operand];
        let late = self.late[operand].unwrap_or(Cause::Dependency);
        self.why = (ready > self.cycle + 1).then_some(late);
        if one.kind == Kind::Multiply && self.multiplier > ready {
            self.why = (self.multiplier > self.cycle + 1).then_some(Cause::Unit);
            ready = self.multiplier;
            waits_for = None;
        }
        let before = self.cycle;
        let beside = !self.paired && ready <= self.cycle && !(is_memory && self.memory_used);
        if beside {
            self.paired = true;
        } else {
            self.cycle = ready.max(self.cycle + 1);
            self.paired = false;
            self.memory_used = false;
        }
        self.memory_used |= is_memory;
        let latency = match one.kind {
            Kind::Plain | Kind::Store => 1,
            Kind::Load => 2,
            Kind::Multiply => 8,
        };
        if one.kind == Kind::Multiply {
            self.multiplier = self.cycle + 4;
        }
        if one.writes < REGISTERS {
            self.ready[one.writes] = self.cycle + latency + extra;
            self.writer[one.writes] = Some(place);
            // An instruction that waits for a load waits for the data cache, also on a hit.
            self.late[one.writes] = (one.kind == Kind::Load).then_some(Cause::DataCache);
        }
        let waited = self.cycle - before;
        (waited, waits_for.filter(|_| waited > 1))
    }
}

/// Returns the block's schedule without misses, as if nothing came before: `M_i`.
pub fn schedule(block: &[Instruction]) -> Vec<Issue> {
    let mut pipeline = Pipeline::new();
    let issue = |(place, one)| {
        let (waited, waits_for) = pipeline.issue(one, place, 0);
        Issue {
            samples: 0.0,
            minimum: waited as f64,
            waits_for,
        }
    };
    block.iter().enumerate().map(issue).collect()
}

pub struct PipelineRun {
    /// For each block, its schedule with the samples.
    pub issues: Vec<Vec<Issue>>,
    /// Executions of each block and each edge, divided by the cycles between samples.
    pub blocks: Vec<f64>,
    pub edges: Vec<f64>,
    /// Cycles that each instruction waited beyond its schedule, by cause.
    pub stalls: Vec<Vec<[f64; CAUSES]>>,
}

/// Runs the program again and again, with a sample every `period` cycles on average.
pub fn run(program: &Program, random: &mut Random, cycles: u64, period: usize) -> PipelineRun {
    let mut issues: Vec<Vec<Issue>> = program.blocks.iter().map(|block| schedule(block)).collect();
    let mut blocks = vec![0.0; program.blocks.len()];
    let mut edges = vec![0.0; program.edges.len()];
    let mut stalls: Vec<Vec<[f64; CAUSES]>> = program
        .blocks
        .iter()
        .map(|b| vec![[0.0; CAUSES]; b.len()])
        .collect();
    let mut mispredicted = false;
    let mut pipeline = Pipeline::new();
    let mut next = period as u64;
    let mut at = None;
    while pipeline.cycle < cycles {
        let block = at.unwrap_or_else(|| {
            edges[0] += 1.0 / period as f64;
            0
        });
        blocks[block] += 1.0 / period as f64;
        pipeline.writer = [None; REGISTERS + 1];
        // A branch ends a group of instructions that are issued together.
        pipeline.paired = true;
        if random.unit() < program.fetch_miss[block] {
            let until = pipeline.cycle + FETCH;
            pipeline.hold(until, Cause::InstructionCache);
        }
        if mispredicted {
            let until = pipeline.cycle + MISPREDICT;
            pipeline.hold(until, Cause::Mispredict);
        }
        for (place, one) in program.blocks[block].iter().enumerate() {
            let missed = random.unit() < one.miss;
            let (mut extra, mut cause) = (0, Cause::DataCache);
            let before = pipeline.cycle;
            let mut own = None;
            if one.walk > 0.0 && random.unit() < one.walk {
                if one.kind == Kind::Load {
                    (extra, cause) = (WALK, Cause::DataTlb);
                } else {
                    pipeline.cycle += WALK;
                    own = Some(Cause::DataTlb);
                }
            }
            if missed && one.kind == Kind::Load {
                cause = if one.penalty > extra {
                    Cause::DataCache
                } else {
                    cause
                };
                extra += one.penalty;
            } else if missed && one.kind == Kind::Store {
                // The write buffer is full.
                pipeline.cycle += one.penalty;
                own = Some(Cause::StoreBuffer);
            }
            pipeline.issue(one, place, extra);
            if extra > 0 && one.writes < REGISTERS {
                pipeline.late[one.writes] = Some(cause);
            }
            let took = (pipeline.cycle - before) as f64;
            if let Some(cause) = own.or(pipeline.why) {
                let index = Cause::ALL.iter().position(|one| *one == cause);
                stalls[block][place][index.expect("listed")] += took - issues[block][place].minimum;
            }
            // Since the issue of the last instruction, this one was at the head of the queue.
            while next <= pipeline.cycle {
                issues[block][place].samples += 1.0;
                next += 1 + random.below(2 * period - 1) as u64;
            }
        }
        let mut chance = random.unit();
        let mut taken = None;
        for (edge, probability) in &program.out[block] {
            taken = Some(*edge);
            chance -= probability;
            if chance < 0.0 {
                break;
            }
        }
        let taken = taken.expect("an edge out");
        edges[taken] += 1.0 / period as f64;
        mispredicted = program.mispredict[block] > 0.0 && random.unit() < program.mispredict[block];
        at = program.edges[taken].1;
    }
    PipelineRun {
        issues,
        blocks,
        edges,
        stalls,
    }
}
