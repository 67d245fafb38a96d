//! The loops of a procedure: their blocks, entries and rounds, and how addresses move in them.

use super::evidence::Evidence;
use super::movement::Movement;
use super::places::Unit;
use machine::{Flow, Instruction, MemoryOperand, Register};
use rustc_hash::FxHashMap;

/// Maximum depth of nested loops inside a loop whose blocks are gathered.
const HEIGHT: usize = 16;

/// Maximum number of loops around a block that are examined, from the innermost; and of loops
/// examined for the movement of an address.
pub(super) const NEST: usize = 32;
pub(super) const MOVING: usize = 4;

/// Bytes of address space for each line of the page table, and of a page.
pub(super) const TABLE_LINE: f64 = 32768.0;
const PAGE: f64 = 4096.0;

/// A loop in which the code determines how an address moves.
#[derive(Clone, Copy)]
pub(super) struct Moving {
    /// Most bytes in each round.
    pub step: f64,
    /// The rates of rounds, and of entries of the loop.
    pub rounds: f64,
    pub entered: f64,
}

impl Moving {
    /// Returns how often the address moves on to a new page or line.
    pub fn crosses(&self, unit: Unit) -> f64 {
        self.rounds * (self.step / unit.bytes()).min(1.0)
    }

    /// Returns how often the address moves on to a new line of the page table, which eight pages
    /// share.
    pub fn crosses_tables(&self) -> f64 {
        self.rounds * (self.step / TABLE_LINE).min(1.0)
    }
}

/// Returns whether other code runs before the next instruction.
pub(super) fn leaves_code(one: &Instruction) -> bool {
    one.flow.is_call() || one.kind.system_call
}

/// The loops of a procedure.
pub(super) struct Rounds<'a> {
    evidence: &'a Evidence<'a>,
    /// For each loop, the blocks that are in no deeper loop, the loops in it, and whether it or an
    /// inner loop calls something.
    blocks: Vec<Vec<usize>>,
    inner: Vec<Vec<usize>>,
    pub calls: Vec<bool>,
    /// The depth of nesting of each loop.
    height: Vec<usize>,
    /// The rate at which each loop is entered.
    pub entered: Vec<f64>,
    /// Stores to the stack by the stack pointer; and whether other code may write there, because
    /// the pointer is copied or computed with.
    stored: Vec<MemoryOperand>,
    pub shared: bool,
    movement: Movement,
    /// The constants that are added to each register, and how often.
    advances: FxHashMap<Register, Vec<(f64, f64)>>,
}

impl<'a> Rounds<'a> {
    pub fn new(evidence: &'a Evidence<'a>) -> Self {
        let (graph, loops) = (evidence.graph, evidence.loops);
        let count = loops.loops.len();
        let (mut blocks, mut inner) = (vec![Vec::new(); count], vec![Vec::new(); count]);
        let mut calls = vec![false; count];
        for (block, innermost) in loops.innermost.iter().enumerate() {
            let Some(innermost) = *innermost else {
                continue;
            };
            blocks[innermost].push(block);
            let mut all = graph.instructions_of(&graph.blocks[block]).iter();
            calls[innermost] |= all.any(leaves_code);
        }
        let mut height = vec![0; count];
        for (index, one) in loops.loops.iter().enumerate().rev() {
            if let Some(parent) = one.parent {
                inner[parent].push(index);
                calls[parent] |= calls[index];
                height[parent] = height[parent].max(height[index] + 1);
            }
        }
        let own = |index: usize| {
            let blocks: &Vec<usize> = &blocks[index];
            let all = blocks.iter().map(|block| &graph.blocks[*block]);
            all.flat_map(|block| graph.instructions_of(block)).collect()
        };
        let unknown = |index: usize| calls[index] || loops.loops[index].irreducible;
        let movement = Movement::new(count, own, &inner, unknown);
        let mut rounds = Self {
            evidence,
            blocks,
            inner,
            calls,
            height,
            entered: vec![0.0; count],
            stored: Vec::new(),
            shared: false,
            movement,
            advances: FxHashMap::default(),
        };
        rounds.scan_stack_stores();
        rounds.gather_constants();
        rounds.count_entries();
        rounds
    }

    /// Counts the entries of each loop.
    fn count_entries(&mut self) {
        let (graph, loops) = (self.evidence.graph, self.evidence.loops);
        let around = |block: Option<usize>| {
            let innermost = block.and_then(|one| loops.innermost[one]);
            loops.around(innermost).take(NEST)
        };
        for (index, edge) in graph.edges.iter().enumerate() {
            let outside = |one: &usize| !around(edge.from).any(|around| around == *one);
            for one in around(edge.to).take_while(outside) {
                self.entered[one] += self.evidence.often_taken(index);
            }
        }
    }

    /// Collects stores to the stack. A push stores a whole word.
    fn scan_stack_stores(&mut self) {
        let stack = Register::stack_pointer(self.evidence.processor.architecture);
        let mut stored = Vec::new();
        for one in &self.evidence.graph.instructions {
            let moves = one.writes.contains(stack);
            if !moves && !one.reads.contains(stack) {
                continue;
            }
            let leaves = one.flow == Flow::Return || one.flow.is_call();
            let advances = one.advances.is_some_and(|(register, _)| register == stack);
            match one.place {
                _ if leaves || advances => {}
                Some(place) if place.base == Some(stack) && place.index.is_none() => {
                    if one.kind.store && !moves {
                        self.shared |= place.bytes == 0;
                        stored.push(place);
                    }
                }
                _ => self.shared = true,
            }
        }
        stored.sort_unstable_by_key(|place| (place.displacement, place.bytes));
        stored.dedup();
        self.stored = stored;
    }

    /// Gathers the constants that are added to registers.
    fn gather_constants(&mut self) {
        let graph = self.evidence.graph;
        for (block, of) in graph.blocks.iter().enumerate() {
            let often = self.evidence.block_frequency(block);
            for one in graph.instructions_of(of) {
                if let Some((register, by)) = one.advances.filter(|_| often > 0.0) {
                    let by = by.unsigned_abs() as f64;
                    let all = self.advances.entry(register).or_default();
                    match all.iter_mut().find(|(other, _)| *other == by) {
                        Some((_, sum)) => *sum += often,
                        None => all.push((by, often)),
                    }
                }
            }
        }
    }

    /// Returns the loops around an instruction in which the code determines how its address moves.
    pub fn moving_addresses(
        &self,
        block: usize,
        index: usize,
    ) -> impl Iterator<Item = Moving> + '_ {
        let place = self.evidence.graph.instructions[index].place;
        let loops = self.evidence.loops;
        let around = loops.around(loops.innermost[block]).take(MOVING);
        around.map_while(move |one| {
            let step = self.movement.round_step(one, place.as_ref()?)?;
            Some(Moving {
                step: step as f64,
                rounds: self.evidence.block_frequency(loops.loops[one].head),
                entered: self.entered[one],
            })
        })
    }

    /// Returns whether a load from the stack may combine bytes of several stores, which takes
    /// longer: a store of the procedure writes a part of the bytes, or other code may write there.
    pub fn load_of_parts(&self, index: usize) -> bool {
        let all = &self.evidence.graph.instructions;
        let Some(load) = all[index].place else {
            return true;
        };
        if self.shared || load.index.is_some() || load.bytes == 0 {
            return true;
        }
        let end = |place: &MemoryOperand| place.displacement.saturating_add(place.bytes.into());
        self.stored.iter().any(|store| {
            let overlaps = store.displacement < end(&load) && load.displacement < end(store);
            let covers = store.displacement <= load.displacement && end(&load) <= end(store);
            overlaps && !covers
        })
    }

    /// Returns how often constants move an instruction's place to another page, line, or line of
    /// the page table, in all loops together.
    pub fn crossing_rate(&self, index: usize, bytes: f64) -> f64 {
        let graph = self.evidence.graph;
        let place = graph.instructions[index].place;
        let base = place.and_then(|place| place.base).map(|base| (base, 1));
        let registers = base.into_iter().chain(place.and_then(|place| place.index));
        let each = registers.flat_map(|(register, scale)| {
            let advances = self.advances.get(&register).into_iter().flatten();
            advances.map(move |(by, often)| often * (by * f64::from(scale) / bytes).min(1.0))
        });
        each.sum()
    }

    /// Returns all blocks of a loop, in order; `None` if it calls something, or contains very deep
    /// nests.
    pub fn all_blocks(&self, index: usize) -> Option<Vec<usize>> {
        if self.calls[index] || self.height[index] > HEIGHT {
            return None;
        }
        let (mut all, mut work) = (Vec::new(), vec![index]);
        while let Some(one) = work.pop() {
            all.extend_from_slice(&self.blocks[one]);
            work.extend_from_slice(&self.inner[one]);
        }
        all.sort_unstable();
        Some(all)
    }
}

impl Unit {
    /// Returns its size.
    pub fn bytes(self) -> f64 {
        match self {
            Self::Page => PAGE,
            Self::Line => 64.0,
        }
    }
}
