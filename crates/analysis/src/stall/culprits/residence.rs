//! Data that stay in the caches and tables of translations: bounds on how often an access misses,
//! from the code's address computations and from the addresses in registers at samples (`record
//! --registers`).
//!
//! A cache or table of `C` places with least-recently-used replacement misses a place again only if
//! `C` others were accessed in between. The number of different places accessed in a time follows
//! from each instruction's frequency, its number of places, and its rate of moving to a new one. If
//! `N` misses of one place fall into a time `T`, all code has accessed `C` different places in `T /
//! N` on average. So each place is missed at most once in any time in which the code accesses no
//! more than `C` places. The bounds use half of the capacity, because sets fill unevenly.
//!
//! Page tables are ordinary memory, and their lines stay in the caches by the same argument: eight
//! pages share a line, so that a walk for the next page mostly finds it in the second-level cache.

use super::cause::Cause;
use super::evidence::Evidence;
use super::places::{Access, MEMORY, Places, Unit, at_most};
use super::reuse::Reuses;
use super::rounds::{MOVING, Moving, Rounds, TABLE_LINE};
use machine::Register;
use profile::Accesses;
use std::cell::OnceCell;
use std::rc::Rc;

/// Most cycles of a miss that the second level serves: of a translation, of data.
const SECOND: [f64; 2] = [10.0, 20.0];

/// Cycles of a walk of the page table whose line is in the second-level cache.
const WALK: f64 = 40.0;

/// Fewest places of each set of a first-level cache or table.
const WAYS: u32 = 4;

/// Most new pages and lines for each cycle spent elsewhere.
const ELSEWHERE: [f64; 2] = [0.25, 1.0];

/// Code that is executed together.
struct Scope {
    /// Pages and lines.
    places: [Places; 2],
    /// Cycles spent elsewhere, divided by the cycles between samples.
    elsewhere: f64,
    /// The rate at which the scope is entered after other code that is not in `elsewhere`.
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

    /// Returns the largest number of different places accessed in a time. Each page may need a line
    /// of the page table.
    fn places_touched(&self, unit: Unit, time: f64) -> f64 {
        let elsewhere = self.elsewhere * time * ELSEWHERE[unit as usize];
        let own = self.places[unit as usize].touched_within(time) + elsewhere;
        match unit {
            Unit::Page => own,
            Unit::Line => own + self.places_touched(Unit::Page, time),
        }
    }

    /// Returns the shortest time for which an accessed place stays among the last `capacity`
    /// different places.
    fn shortest_stay(&self, unit: Unit, capacity: f64) -> f64 {
        const FOREVER: f64 = 1e15;
        let (mut least, mut most) = (0.0, 1e-9);
        while self.places_touched(unit, most) <= capacity {
            (least, most) = (most, 4.0 * most);
            if most > FOREVER {
                return FOREVER;
            }
        }
        for _ in 0..24 {
            let middle = 0.5 * (least + most);
            let fits = self.places_touched(unit, middle) <= capacity;
            (least, most) = if fits {
                (middle, most)
            } else {
                (least, middle)
            };
        }
        least
    }
}

/// The scopes of a procedure, made on demand.
pub(super) struct Residence<'a> {
    evidence: &'a Evidence<'a>,
    pub rounds: Rounds<'a>,
    reuses: Reuses<'a>,
    loops: Vec<OnceCell<Timed>>,
    whole: OnceCell<Timed>,
    stores: OnceCell<f64>,
}

/// A scope, and for how long both levels keep an accessed place: pages, then lines.
struct Timed(Scope, [[f64; 2]; 2]);

impl<'a> Residence<'a> {
    pub fn new(evidence: &'a Evidence<'a>, entering: Rc<[Vec<usize>]>) -> Self {
        let count = evidence.loops.loops.len();
        let rounds = Rounds::new(evidence);
        let accessed = (0..count).map(|one| loop_footprint(evidence, &rounds, one));
        let accessed = accessed.collect();
        Self {
            evidence,
            rounds,
            reuses: Reuses::new(evidence, entering, accessed),
            loops: (0..count).map(|_| OnceCell::new()).collect(),
            whole: OnceCell::new(),
            stores: OnceCell::new(),
        }
    }

    /// Returns the most cycles that the misses of all stores can have cost, except those on the
    /// stack: cycles each time multiplied by frequency.
    pub fn store_miss_cycles(&self) -> f64 {
        *self.stores.get_or_init(|| {
            let graph = self.evidence.graph;
            let stack = Register::stack_pointer(self.evidence.processor.architecture);
            let blocks = graph.blocks.iter().enumerate();
            let all = blocks
                .flat_map(|(block, of)| of.instructions.clone().map(move |index| (block, index)));
            let missed = all.map(|(block, index)| {
                let one = &graph.instructions[index];
                let often = self.evidence.block_frequency(block);
                if !one.kind.store || one.reads.contains(stack) || often <= 0.0 {
                    return 0.0;
                }
                often * self.miss_bound(Cause::DataCache, block, index, None)
            });
            missed.sum()
        })
    }

    /// Returns whether other code's stores may be in the buffer when a block executes: the block is
    /// in no loop, or in one that calls something, and other code ran.
    pub fn stores_left_over(&self, block: usize) -> bool {
        let elsewhere = self.evidence.elsewhere != Some(0.0);
        let loops = &self.evidence.loops;
        let alone = |one: usize| !self.rounds.calls[one] && !self.evidence.graph.misses_edges();
        elsewhere && !loops.innermost[block].is_some_and(alone)
    }

    /// Returns the most cycles that cache or DTLB misses of an instruction can have cost each time.
    /// If the time samples right after it stand for some cycles each time, the addresses at these
    /// count too.
    pub fn miss_bound(&self, cause: Cause, block: usize, index: usize, after: Option<f64>) -> f64 {
        let access = self.access(block, index);
        if !access.rate.is_finite() || access.rate <= 0.0 {
            return MEMORY;
        }
        // If edges are missing, earlier accesses are unknown.
        if self.evidence.graph.misses_edges() || cause == Cause::DataCache && self.is_taken(index) {
            return MEMORY;
        }
        let unit = match cause {
            Cause::DataTlb => Unit::Page,
            _ => Unit::Line,
        };
        let moving: Vec<Moving> = self.rounds.moving_addresses(block, index).collect();
        let by_code = self.by_code(unit, block, &access, &moving);
        let by_code = by_code.min(self.by_reuse(unit, block, index, &access));
        by_code.min(self.by_addresses(unit, block, &access, after))
    }

    /// Returns whether other processors may take the line away that an instruction accesses, by
    /// writing to it: other threads run, and the instruction accesses memory outside of the stack,
    /// or the code hands out addresses of its stack.
    pub fn is_taken(&self, index: usize) -> bool {
        let stack = Register::stack_pointer(self.evidence.processor.architecture);
        let one = &self.evidence.graph.instructions[index];
        self.evidence.shared && (!one.reads.contains(stack) || self.rounds.shared)
    }

    /// Returns the bound from the observed addresses.
    fn by_addresses(
        &self,
        unit: Unit,
        block: usize,
        access: &Access<'_>,
        after: Option<f64>,
    ) -> f64 {
        let Some(seen) = access.seen.filter(|_| !access.fixed) else {
            return MEMORY;
        };
        let mut best = MEMORY * access.share_moving(unit);
        if let Some(cycles) = after {
            best = best.min(strided_cycles(seen, unit, cycles));
        }
        let beyond = access.cycles_unseen(unit, after);
        for Timed(scope, stays) in self.scopes_around(block) {
            let [first, behind] = stays[unit as usize];
            let [near, far] = [first, behind].map(|time| access.share_missing(unit, time));
            let cold = (scope.entered * access.most_places(unit) / access.rate).min(1.0);
            let missed = SECOND[unit as usize] * near + MEMORY * (far.min(near) + cold);
            best = best.min(missed + beyond);
        }
        best
    }

    /// Returns the bound from the code's address computation. A place that is constant, in some
    /// loop or everywhere, is missed when others took its space. An address that moves on by a
    /// constant also misses when it reaches a new place. Both miss when the loop is entered.
    fn by_code(&self, unit: Unit, block: usize, access: &Access<'_>, moving: &[Moving]) -> f64 {
        let mut best = MEMORY;
        for Timed(scope, stays) in self.scopes_around(block) {
            let [first, behind] = stays[unit as usize].map(|time| 1.0 / time);
            let [_, [_, tables]] = stays;
            let mut add = |entered: f64, crosses: f64, crosses_tables: f64| {
                let misses = [first, behind.min(first)];
                let [near, far] = misses.map(|one| (one + crosses).min(access.rate));
                let late = match unit {
                    // The table's line is that of the page before.
                    Unit::Page if crosses <= 0.0 || 1.0 / crosses <= *tables => {
                        let lost = misses[1].min(1.0 / tables.max(f64::MIN_POSITIVE));
                        WALK * far + MEMORY * (crosses_tables + lost).min(far)
                    }
                    _ => MEMORY * far,
                };
                let all = SECOND[unit as usize] * near + late + MEMORY * entered;
                best = best.min(all / access.rate);
            };
            if access.fixed {
                add(scope.entered, 0.0, 0.0);
            }
            for one in moving {
                let entered = one.entered.max(scope.entered);
                add(entered, one.crosses(unit), one.crosses_tables());
            }
        }
        best
    }

    /// Returns the bound from earlier accesses ([`Reuses`]): a place accessed shortly before is
    /// still there, unless others fill its set.
    fn by_reuse(&self, unit: Unit, block: usize, index: usize, access: &Access<'_>) -> f64 {
        let is_page = unit == Unit::Page;
        let Some(reuse) = self.reuses.of(block, index, unit) else {
            return MEMORY;
        };
        // Each page may need a line of the page table.
        let each = if is_page { 1.0 } else { 2.0 };
        let crowded = self.level_capacities(unit).map(|places| {
            let sets = f64::from(places.max(1)) / f64::from(WAYS);
            reuse.crowding_probability(WAYS, sets / each)
        });
        let stale = (reuse.stale / access.rate).min(1.0);
        let crosses = (self.rounds.crossing_rate(index, unit.bytes()) / access.rate).min(1.0);
        let [near, far] = crowded.map(|share| (share + crosses).min(1.0));
        let late = if is_page && crosses < 1.0 {
            let tables = self.rounds.crossing_rate(index, TABLE_LINE) / access.rate;
            WALK * far + MEMORY * tables.min(1.0)
        } else {
            MEMORY * far
        };
        SECOND[unit as usize] * near + late + MEMORY * stale
    }

    fn access(&self, block: usize, index: usize) -> Access<'a> {
        access(self.evidence, &self.rounds, block, index)
    }

    /// Returns the code around a block: loops that call nothing, and the procedure, if the time in
    /// other code is known.
    fn scopes_around(&self, block: usize) -> impl Iterator<Item = &Timed> {
        let evidence = self.evidence;
        let around = evidence.loops.around(evidence.loops.innermost[block]);
        let around = around.take(MOVING).map_while(|one| self.of_loop(one));
        let whole = evidence.elsewhere.map(|elsewhere| {
            self.whole.get_or_init(|| {
                let all = 0..evidence.graph.blocks.len();
                let accesses: Vec<_> = block_accesses(evidence, &self.rounds, all).collect();
                self.timed_scope(Scope::new(&accesses, elsewhere, 0.0))
            })
        });
        around.chain(whole)
    }

    fn of_loop(&self, index: usize) -> Option<&Timed> {
        if let Some(made) = self.loops[index].get() {
            return Some(made);
        }
        let all = self.rounds.all_blocks(index)?;
        let accesses: Vec<_> = block_accesses(self.evidence, &self.rounds, all).collect();
        let scope = Scope::new(&accesses, 0.0, self.rounds.entered[index]);
        Some(self.loops[index].get_or_init(|| self.timed_scope(scope)))
    }

    fn timed_scope(&self, scope: Scope) -> Timed {
        let stays = [Unit::Page, Unit::Line].map(|unit| {
            let places = self.level_capacities(unit);
            places.map(|places| scope.shortest_stay(unit, f64::from(places) / 2.0))
        });
        Timed(scope, stays)
    }

    /// Returns the number of places of both levels.
    fn level_capacities(&self, unit: Unit) -> [u32; 2] {
        let processor = self.evidence.processor;
        match unit {
            Unit::Page => processor.data_tlbs,
            Unit::Line => processor.data_caches.map(|bytes| bytes / 64),
        }
    }
}

/// Returns how many of the cycles sampled right after an instruction it can have waited for a new
/// line or page: by its stride, and by the accesses that left the stride.
fn strided_cycles(seen: &Accesses, unit: Unit, cycles: f64) -> f64 {
    let new = match unit {
        Unit::Page => seen.waited_page,
        Unit::Line => seen.waited_line,
    };
    let other = seen.origins.saturating_sub(seen.strided);
    let unsteady = at_most(other as f64, seen.origins as f64);
    cycles * at_most(new as f64, seen.waited as f64) + MEMORY * unsteady
}

/// Returns an instruction's accesses.
fn access<'a>(
    evidence: &Evidence<'a>,
    rounds: &Rounds<'_>,
    block: usize,
    index: usize,
) -> Access<'a> {
    let instruction = &evidence.graph.instructions[index];
    let stack = Register::stack_pointer(evidence.processor.architecture);
    let rate = evidence.block_frequency(block);
    let fixed = instruction.kind.fixed_address || instruction.reads.contains(stack);
    let new = [Unit::Page, Unit::Line].map(|unit| {
        let moving = rounds.moving_addresses(block, index);
        let each = moving.map(|one| one.entered + one.crosses(unit));
        let least = each.fold(rate, f64::min);
        if fixed { 0.0 } else { least }
    });
    Access {
        rate,
        fixed,
        new,
        seen: evidence.accesses.get(index).copied().flatten(),
    }
}

/// Returns the accesses of some blocks, without code that does not run.
fn block_accesses<'a>(
    evidence: &Evidence<'a>,
    rounds: &Rounds<'_>,
    blocks: impl IntoIterator<Item = usize>,
) -> impl Iterator<Item = Access<'a>> {
    let graph = evidence.graph;
    let of = move |block: usize| {
        let all = graph.blocks[block].instructions.clone();
        let accesses = all.filter(|index| {
            let kind = graph.instructions[*index].kind;
            kind.load || kind.store || kind.prefetch
        });
        accesses.map(move |index| access(evidence, rounds, block, index))
    };
    let all = blocks.into_iter().flat_map(of);
    all.filter(|one| one.rate > 0.0)
}

/// Returns the largest average number of pages and lines that a loop accesses between entry and
/// exit.
fn loop_footprint(evidence: &Evidence<'_>, rounds: &Rounds<'_>, index: usize) -> [f64; 2] {
    let Some(blocks) = rounds.all_blocks(index) else {
        return [f64::INFINITY; 2];
    };
    let (mut pages, mut lines) = (0.0, 0.0);
    let entered = rounds.entered[index].max(f64::MIN_POSITIVE);
    for one in block_accesses(evidence, rounds, blocks) {
        let each = |new: f64| (one.rate / entered).min(1.0 + new / entered);
        pages += each(one.new[0]);
        lines += each(one.new[1]);
    }
    [pages, lines + pages]
}
