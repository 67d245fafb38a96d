//! Which data stay in the caches and tables of translations: bounds on how often an access misses them,
//! from the data addresses that registers at samples show (`record --registers`).
//!
//! A cache or table of `C` places that gives up the least recently used one misses a place again only if `C`
//! others were accessed in between. How many different ones are accessed in a time follows from how
//! often each instruction runs, how many places it accesses, and how often it goes to a new one. If `N`
//! misses of one place fall into a time `T`, all code has accessed `C` different places in `T / N` on
//! average: so where it accesses no more than that in a time, each place is missed once in it at most. Half of
//! the capacity is believed in, for sets fill unevenly.

use super::context::MEMORY;
use super::places::{Access, Places, Unit, at_most};
use super::{Cause, Evidence};
use machine::{Flow, Instruction, Register};
use profile::Accesses;
use std::cell::OnceCell;

/// Cycles that a miss costs at most, if the second level has it: of a translation, of data.
const SECOND_TLB: f64 = 10.0;
const SECOND_CACHE: f64 = 20.0;

/// New pages and lines for each cycle that is spent elsewhere, at most.
const ELSEWHERE: [f64; 2] = [0.25, 1.0];

/// Loops around an instruction that are looked at, from the innermost.
const NEST: usize = 4;

/// Code that is executed together.
struct Scope {
    /// Pages and lines.
    places: [Places; 2],
    /// Cycles elsewhere, by the cycles between samples.
    elsewhere: f64,
    /// How often it is entered after anything else, where that is not in `elsewhere`.
    entered: f64,
}

impl Scope {
    fn new(accesses: &[Access<'_>], elsewhere: f64, entered: f64) -> Self {
        let places = [Unit::Page, Unit::Line].map(|unit| Places::new(accesses, unit));
        Self {
            places,
            elsewhere,
            entered,
        }
    }

    /// How many different places are accessed in a time, at most.
    fn touched(&self, unit: Unit, time: f64) -> f64 {
        self.places[unit as usize].touched(time) + self.elsewhere * time * ELSEWHERE[unit as usize]
    }

    /// For how long what was accessed stays among the last so many different places, at least.
    fn stays(&self, unit: Unit, capacity: f64) -> f64 {
        const FOREVER: f64 = 1e15;
        let (mut least, mut most) = (0.0, 1e-9);
        while self.touched(unit, most) <= capacity {
            (least, most) = (most, 4.0 * most);
            if most > FOREVER {
                return FOREVER;
            }
        }
        for _ in 0..24 {
            let middle = 0.5 * (least + most);
            let fits = self.touched(unit, middle) <= capacity;
            (least, most) = if fits {
                (middle, most)
            } else {
                (least, middle)
            };
        }
        least
    }
}

/// The scopes of a procedure, made when they are asked for.
pub(super) struct Residence<'a> {
    evidence: &'a Evidence<'a>,
    /// For each loop the blocks of which it is the innermost, the loops in it, and whether it calls
    /// something, itself or one in it.
    blocks: Vec<Vec<usize>>,
    inner: Vec<Vec<usize>>,
    calls: Vec<bool>,
    loops: Vec<OnceCell<Timed>>,
    whole: OnceCell<Timed>,
}

/// A scope, and for how long both levels keep what was accessed: pages, then lines.
struct Timed(Scope, [[f64; 2]; 2]);

impl<'a> Residence<'a> {
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
            let leaves = |one: &Instruction| {
                matches!(one.flow, Flow::Call(_) | Flow::IndirectCall) || one.kind.system_call
            };
            calls[innermost] |= graph
                .instructions_of(&graph.blocks[block])
                .iter()
                .any(leaves);
        }
        for (index, one) in loops.loops.iter().enumerate() {
            if let Some(parent) = one.parent {
                inner[parent].push(index);
            }
        }
        Self {
            evidence,
            blocks,
            inner,
            calls,
            loops: (0..count).map(|_| OnceCell::new()).collect(),
            whole: OnceCell::new(),
        }
    }

    /// The most cycles that cache or DTLB misses of an instruction can have cost each time. If the
    /// time samples of some cycles each time are those right after it, by the addresses at these too.
    pub fn bound(&self, cause: Cause, block: usize, index: usize, after: Option<f64>) -> f64 {
        let access = self.access(block, index);
        let usable = access.rate.is_finite() && access.rate > 0.0;
        if !usable || access.seen.is_none() && !access.fixed {
            return MEMORY;
        }
        let (unit, second) = match cause {
            Cause::DataTlb => (Unit::Page, SECOND_TLB),
            _ => (Unit::Line, SECOND_CACHE),
        };
        // Others may take the place of what is always the same.
        let mut best = if access.fixed {
            MEMORY
        } else {
            MEMORY * access.moves(unit)
        };
        if let Some((cycles, seen)) = after.zip(access.seen) {
            best = best.min(strided(seen, unit, cycles));
        }
        let beyond = access.beyond(unit, after);
        for Timed(scope, stays) in self.scopes(block) {
            let [first, behind] = stays[unit as usize];
            let [near, far] = [first, behind].map(|time| access.misses(unit, time));
            let places = access.places(unit);
            let cold = (scope.entered * places / access.rate).min(1.0);
            best = best.min(second * near + MEMORY * (far.min(near) + cold) + beyond);
        }
        best
    }

    fn access(&self, block: usize, index: usize) -> Access<'a> {
        let instruction = &self.evidence.graph.instructions[index];
        let stack = Register::stack_pointer(self.evidence.processor.architecture);
        let estimate = self.evidence.frequencies.blocks[block];
        Access {
            // What is not known to run seldom may run all the time.
            rate: estimate.map_or(f64::INFINITY, |one| one.frequency),
            fixed: instruction.kind.fixed_address || instruction.reads.contains(stack),
            seen: self.evidence.accesses.get(index).copied().flatten(),
        }
    }

    /// The code around a block: loops that call nothing, and the procedure, if it is known what else
    /// ran.
    fn scopes(&self, block: usize) -> impl Iterator<Item = &Timed> {
        let (loops, evidence) = (&self.evidence.loops.loops, self.evidence);
        let innermost = evidence.loops.innermost[block];
        let around = std::iter::successors(innermost, |one| loops[*one].parent).take(NEST);
        let around = around.map_while(|one| self.of_loop(one));
        let whole = evidence.elsewhere.map(|elsewhere| {
            self.whole.get_or_init(|| {
                let all = 0..evidence.graph.blocks.len();
                self.timed(Scope::new(&self.accesses(all), elsewhere, 0.0))
            })
        });
        around.chain(whole)
    }

    fn of_loop(&self, index: usize) -> Option<&Timed> {
        let (mut all, mut work) = (Vec::new(), vec![index]);
        if let Some(made) = self.loops[index].get() {
            return Some(made);
        }
        while let Some(one) = work.pop() {
            if self.calls[one] {
                return None;
            }
            all.extend_from_slice(&self.blocks[one]);
            work.extend_from_slice(&self.inner[one]);
        }
        all.sort_unstable();
        let inside =
            |block: Option<usize>| block.is_some_and(|one| all.binary_search(&one).is_ok());
        let evidence = self.evidence;
        let edges = evidence.graph.edges.iter().zip(&evidence.frequencies.edges);
        let entering = edges.filter(|(edge, _)| inside(edge.to) && !inside(edge.from));
        let entered = entering.map(|(_, often)| often.map_or(f64::INFINITY, |one| one.frequency));
        let entered = entered.sum();
        let scope = Scope::new(&self.accesses(all.iter().copied()), 0.0, entered);
        Some(self.loops[index].get_or_init(|| self.timed(scope)))
    }

    fn accesses(&self, blocks: impl Iterator<Item = usize>) -> Vec<Access<'a>> {
        let graph = self.evidence.graph;
        let of = |block: usize| {
            let all = graph.blocks[block].instructions.clone();
            let accesses = all.filter(|index| {
                let kind = graph.instructions[*index].kind;
                kind.load || kind.store || kind.prefetch
            });
            accesses.map(move |index| self.access(block, index))
        };
        blocks.flat_map(of).filter(|one| one.rate > 0.0).collect()
    }

    fn timed(&self, scope: Scope) -> Timed {
        let processor = self.evidence.processor;
        let lines = processor.data_caches.map(|bytes| bytes / 64);
        let both = |unit, places: [u32; 2]| {
            places.map(|places| scope.stays(unit, f64::from(places) / 2.0))
        };
        let stays = [
            both(Unit::Page, processor.data_tlbs),
            both(Unit::Line, lines),
        ];
        Timed(scope, stays)
    }
}

/// The most cycles of those at samples right after an instruction in which it can have waited for a
/// line or page that is another than the time before, by its stride; and when it did not keep to that.
fn strided(seen: &Accesses, unit: Unit, cycles: f64) -> f64 {
    let new = match unit {
        Unit::Page => seen.waited_page,
        Unit::Line => seen.waited_line,
    };
    let other = seen.origins.saturating_sub(seen.strided);
    let unsteady = at_most(other as f64, seen.origins as f64);
    cycles * at_most(new as f64, seen.waited as f64) + MEMORY * unsteady
}
