//! Reuse of places in memory: whether the same instruction, or another with the same operand,
//! accessed the place shortly before, on all paths through the code.
//!
//! A path that comes from such an access is *fresh* if no register of the address was written in
//! between, except by adding a constant. The frequency of stale paths to an instruction follows
//! from those of blocks and edges: on an edge it is at most the edge's own frequency, and that of
//! stale paths out of the block before. On fresh paths, other accesses in between can fill the
//! place's set and evict it.
//!
//! The number of accesses in between is the maximum over all paths, if that is small. Otherwise
//! (round a loop past a branch over the access, or through a loop that does not access the place)
//! the average is used, with a geometric distribution. That is wrong for code that mostly comes
//! back soon and now and then very late: such bursts are not seen.

use super::evidence::Evidence;
use super::places::Unit;
use super::rounds::leaves_code;
use machine::{Instruction, MemoryOperand, Register};
use rustc_hash::FxHashMap;
use std::cell::{Cell, RefCell};
use std::rc::Rc;

/// Maximum number of other accesses since the last one that are counted one by one.
const NEAR: u32 = 16;

/// Maximum number of instructions examined for one procedure, and of passes over its blocks for one
/// place.
const EFFORT: usize = 1_000_000;
const TIMES: usize = 64;

/// Relative difference that no longer matters.
const NEARLY: f64 = 1e-3;

/// The ways in which an instruction is reached.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Reuse {
    /// The rate of paths that are not fresh.
    pub stale: f64,
    /// The most accesses on a fresh path; `None` if there may be more than [`NEAR`].
    pub between: Option<u32>,
    /// Upper bound on the average number of accesses to different places in loops.
    pub average: f64,
}

impl Reuse {
    /// The state right after an access to the place.
    const FRESH: Self = Self {
        stale: 0.0,
        between: Some(0),
        average: 0.0,
    };

    /// Returns the probability that at least `ways` of the accesses in between are in one of `sets`
    /// sets.
    pub fn crowding_probability(&self, ways: u32, sets: f64) -> f64 {
        match self.between {
            Some(most) => at_least(ways, f64::from(most) / sets),
            None => {
                let each = self.average / sets;
                (each / (1.0 + each)).powi(ways as i32)
            }
        }
    }
}

/// Returns the probability of at least `count` items at one place, if items fall evenly and
/// `expected` are expected there (a Poisson distribution).
fn at_least(count: u32, expected: f64) -> f64 {
    let mut each = (-expected).exp();
    let mut fewer = 0.0;
    for one in 0..count {
        fewer += each;
        each *= expected / f64::from(one + 1);
    }
    (1.0 - fewer).clamp(0.0, 1.0)
}

/// Paths to an instruction, and their rates.
#[derive(Clone, Copy, PartialEq)]
struct Ways {
    reached: bool,
    reuse: Reuse,
}

impl Ways {
    const NONE: Self = Self {
        reached: false,
        reuse: Reuse::FRESH,
    };

    /// Returns whether another state is about the same.
    fn is_near(&self, other: &Self) -> bool {
        let near = |one: f64, other: f64| (one - other).abs() <= NEARLY * one.max(other);
        let (one, two) = (&self.reuse, &other.reuse);
        let amounts = near(one.stale, two.stale) && near(one.average, two.average);
        (self.reached, one.between) == (other.reached, two.between) && amounts
    }
}

/// Ways into each block, by place.
type Known = FxHashMap<(MemoryOperand, Unit, bool), Option<Vec<Ways>>>;

/// A place, its unit, and whether it is the page of the stack.
type Asked<'p> = (&'p MemoryOperand, Unit, bool);

/// The reuse of a procedure's places.
pub(super) struct Reuses<'a> {
    evidence: &'a Evidence<'a>,
    /// For each block, the edges that lead to it.
    entering: Rc<[Vec<usize>]>,
    /// For each loop, the average number of pages and lines that it accesses between entry and
    /// exit.
    accessed: Vec<[f64; 2]>,
    known: RefCell<Known>,
    left: Cell<usize>,
}

impl<'a> Reuses<'a> {
    pub fn new(
        evidence: &'a Evidence<'a>,
        entering: Rc<[Vec<usize>]>,
        accessed: Vec<[f64; 2]>,
    ) -> Self {
        Self {
            evidence,
            entering,
            accessed,
            known: RefCell::default(),
            left: Cell::new(EFFORT),
        }
    }

    /// Returns how an instruction of a block is reached; `None` if its place is unknown, or if the
    /// analysis takes too long. The whole stack counts as one page, because calls and returns
    /// access it too.
    pub fn of(&self, block: usize, index: usize, unit: Unit) -> Option<Reuse> {
        let mut place = self.evidence.graph.instructions[index].place?;
        let whole = unit == Unit::Page && self.is_stack(&place);
        if whole {
            place.displacement = 0;
        }
        place.bytes = 0;
        let mut known = self.known.borrow_mut();
        let into = known
            .entry((place, unit, whole))
            .or_insert_with(|| self.spread_into_blocks((&place, unit, whole)));
        let mut ways = into.as_ref()?[block];
        let start = self.evidence.graph.blocks[block].instructions.start;
        for earlier in start..index {
            self.pass_over((&place, unit, whole), block, earlier, &mut ways);
        }
        Some(ways.reuse)
    }

    fn is_stack(&self, place: &MemoryOperand) -> bool {
        let stack = Register::stack_pointer(self.evidence.processor.architecture);
        place.base == Some(stack) && place.index.is_none()
    }

    /// Advances over an instruction.
    fn pass_over(
        &self,
        (place, unit, whole): Asked<'_>,
        block: usize,
        index: usize,
        ways: &mut Ways,
    ) {
        let one = &self.evidence.graph.instructions[index];
        let stale = Reuse {
            stale: self.evidence.block_frequency(block),
            ..Reuse::FRESH
        };
        let accesses = one.kind.load || one.kind.store;
        let same = |other: &MemoryOperand| {
            let same = (other.base, other.index) == (place.base, place.index);
            let at = |place: &MemoryOperand| place.displacement.div_euclid(unit.bytes() as i64);
            let absolute = place.base.is_none() && place.index.is_none();
            let one_unit = absolute && at(other) == at(place);
            same && (whole || one_unit || other.displacement == place.displacement)
        };
        if leaves_code(one) {
            ways.reuse = if whole { Reuse::FRESH } else { stale };
        } else if accesses && !one.kind.prefetch && one.place.as_ref().is_some_and(same) {
            ways.reuse = Reuse::FRESH;
        } else if accesses {
            let between = ways.reuse.between.map(|between| between + 1);
            ways.reuse.between = between.filter(|between| *between <= NEAR);
            ways.reuse.average += 1.0;
        }
        if !whole && is_lost(place, one) {
            ways.reuse = stale;
        }
    }

    /// Returns, for each loop, whether it or an inner loop accesses a place or changes its address.
    fn loops_concerned(&self, asked: Asked<'_>) -> Vec<bool> {
        let (graph, loops) = (self.evidence.graph, self.evidence.loops);
        let mut found = vec![false; loops.loops.len()];
        for (block, of) in graph.blocks.iter().enumerate() {
            let Some(innermost) = loops.innermost[block].filter(|one| !found[*one]) else {
                continue;
            };
            let concerns = of.instructions.clone().any(|index| {
                let mut ways = Ways {
                    reached: true,
                    reuse: Reuse {
                        stale: -1.0,
                        ..Reuse::FRESH
                    },
                };
                self.pass_over(asked, block, index, &mut ways);
                ways.reuse.stale >= 0.0
            });
            found[innermost] = concerns;
        }
        for (index, one) in loops.loops.iter().enumerate().rev() {
            if one.irreducible {
                found[index] = true;
            }
            if let Some(parent) = one.parent {
                found[parent] |= found[index];
            }
        }
        found
    }

    /// Returns the paths into each block.
    fn spread_into_blocks(&self, asked: Asked<'_>) -> Option<Vec<Ways>> {
        let graph = self.evidence.graph;
        let mut into = vec![Ways::NONE; graph.blocks.len()];
        let mut out = into.clone();
        let concerned = self.loops_concerned(asked);
        for _ in 0..TIMES {
            let left = self.left.get().checked_sub(graph.instructions.len());
            self.left.set(left?);
            let mut changed = false;
            for (block, of) in graph.blocks.iter().enumerate() {
                let ways = self.join_edges(asked, &concerned, block, &out);
                into[block] = ways;
                let mut after = ways;
                // The accesses of a loop count where it is left.
                let counts = self.outermost_unconcerned(block, &concerned).is_none();
                for index in of.instructions.clone().filter(|_| counts) {
                    self.pass_over(asked, block, index, &mut after);
                }
                changed |= !out[block].is_near(&after);
                out[block] = after;
            }
            if !changed {
                return Some(into);
            }
        }
        None
    }

    /// Returns the outermost loop around a block that does not concern a place.
    fn outermost_unconcerned(&self, block: usize, concerned: &[bool]) -> Option<usize> {
        let loops = &self.evidence.loops;
        let around = loops.around(loops.innermost[block]);
        around.take_while(|one| !concerned[*one]).last()
    }

    /// Returns the paths into a block over its edges.
    fn join_edges(
        &self,
        (_, unit, whole): Asked<'_>,
        concerned: &[bool],
        block: usize,
        out: &[Ways],
    ) -> Ways {
        let (mut joined, mut fresh) = (Ways::NONE, 0.0);
        let around = self.outermost_unconcerned(block, concerned);
        for edge in &self.entering[block] {
            let often = self.evidence.often_taken(*edge);
            let from = self.evidence.graph.edges[*edge].from;
            // The caller has pushed the return address.
            let entry = Ways {
                reached: true,
                reuse: Reuse {
                    stale: if whole { 0.0 } else { often },
                    ..Reuse::FRESH
                },
            };
            let mut before = from.map_or(entry, |from| out[from]);
            let passed = from.and_then(|from| self.outermost_unconcerned(from, concerned));
            let is_head = around.is_some_and(|one| self.evidence.loops.loops[one].head == block);
            if !before.reached || passed.is_some() && passed == around && is_head {
                continue;
            }
            if let Some(left) = passed.filter(|_| passed != around) {
                before.reuse.between = None;
                before.reuse.average += self.accessed[left][unit as usize];
            }
            let stale = before.reuse.stale.min(often);
            joined.reached = true;
            joined.reuse.stale += stale;
            joined.reuse.between = joined
                .reuse
                .between
                .zip(before.reuse.between)
                .map(|(a, b)| a.max(b));
            let share = often - stale;
            if share > 0.0 {
                fresh += share;
                joined.reuse.average += share * before.reuse.average;
            }
        }
        joined.reuse.average /= if fresh > 0.0 { fresh } else { 1.0 };
        joined.reuse.stale = joined.reuse.stale.min(self.evidence.block_frequency(block));
        joined
    }
}

/// Returns whether an instruction moves a place by anything but a constant distance.
fn is_lost(place: &MemoryOperand, one: &Instruction) -> bool {
    let mut registers = place
        .base
        .into_iter()
        .chain(place.index.map(|index| index.0));
    let advanced = one.advances.map(|(register, _)| register);
    registers.any(|register| one.writes.contains(register) && advanced != Some(register))
}
