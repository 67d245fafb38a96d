//! The candidates for a stall, each with how it is ruled out or bounded.

use super::context::{Context, MEMORY};
use super::exposure::exposed;
use super::{Cause, Culprit};
use machine::{Architecture, EdgeKind, Flow, Instruction, Register};

/// Bytes of a cache line, and of a page.
const LINE: u64 = 64;
const PAGE: u64 = 4096;

/// The stack is always near: in the second level, if not in the first; where the code is not known to say its
/// addresses, its pages in the first. A value that was stored there just before, as
/// other bytes than are loaded, takes as long.
const FORWARDING: f64 = 20.0;

/// Results that take longer keep their unit busy.
pub(super) const LONG: f64 = 10.0;

/// Micro-operations from which on microcode is likely.
const MANY: f64 = 5.0;

/// An access that can have less than this share of what another can have is not named beside it.
const LEAST_OF: f64 = 0.05;

struct Candidates<'a, 'b> {
    context: &'a Context<'b>,
    block: usize,
    index: usize,
    /// What can be executed right before.
    before: Vec<usize>,
    found: Vec<Culprit>,
}

/// All that cannot be ruled out, the likeliest first.
pub(super) fn candidates(
    context: &Context<'_>,
    block: usize,
    index: usize,
    cycles: f64,
) -> Vec<Culprit> {
    let mut all = Candidates::new(context, block, index);
    all.data(cycles);
    all.units();
    all.dependency();
    all.stores();
    all.synchronisation();
    all.mispredict();
    all.fetch();
    all.page_fault();
    all.microcode();
    all.found
}

/// The most cycles for each execution that what stops the front end can have cost before an
/// instruction.
pub(super) fn front_end(context: &Context<'_>, block: usize, index: usize) -> f64 {
    let mut all = Candidates::new(context, block, index);
    all.stores();
    all.synchronisation();
    all.mispredict();
    all.fetch();
    all.found.iter().map(|one| one.most).sum()
}

impl<'a, 'b> Candidates<'a, 'b> {
    /// None yet.
    fn new(context: &'a Context<'b>, block: usize, index: usize) -> Self {
        Self {
            before: context.before(block, index),
            context,
            block,
            index,
            found: Vec::new(),
        }
    }

    fn guilty(&mut self, cause: Cause, at: Vec<usize>, most: f64) {
        if most > 0.0 {
            self.found.push(Culprit { cause, at, most });
        }
    }

    fn own(&self) -> &Instruction {
        self.context.instruction(self.index)
    }

    fn in_order(&self) -> bool {
        self.context.evidence.processor.in_order
    }

    fn latency(&self, index: usize) -> f64 {
        self.context.evidence.expected[index].latency
    }

    /// Whose execution the stall can be: in order its own, out of order those before.
    fn suspects(&self) -> Vec<usize> {
        if self.in_order() {
            vec![self.index]
        } else {
            self.before.clone()
        }
    }

    fn uses_stack(&self, index: usize) -> bool {
        let architecture = self.context.evidence.processor.architecture;
        let instruction = self.context.instruction(index);
        instruction
            .reads
            .contains(Register::stack_pointer(architecture))
    }

    /// Data cache and DTLB. In order: not if no operand comes from a load, or from the caller. Out of order: not if
    /// none of those before loads. What the code and data addresses say bounds them
    /// ([`Residence::bound`](super::residence::Residence::bound)); the stack is in the second level at least.
    fn data(&mut self, cycles: f64) {
        let context = self.context;
        let is_load = |index: &usize| {
            let kind = context.instruction(*index).kind;
            kind.load && !kind.prefetch
        };
        let mut caller = false;
        let mut loads: Vec<usize> = if self.in_order() {
            let touched = self.own().reads.union(self.own().writes);
            let (writers, outside) = context.writers(self.block, self.index, touched);
            caller = outside;
            writers.into_iter().map(|(writer, _)| writer).collect()
        } else {
            self.before.clone()
        };
        loads.retain(is_load);
        let mut translated = loads.clone();
        let own = if caller { MEMORY } else { 0.0 };
        self.missed(Cause::DataCache, loads, own, cycles);
        // A store waits for its translation too.
        let stores = |index: &usize| context.instruction(*index).kind.store;
        translated.extend(self.suspects().into_iter().filter(stores));
        translated.sort_unstable();
        translated.dedup();
        self.missed(Cause::DataTlb, translated, own, cycles);
    }

    /// Misses of any of some accesses, each within its bound.
    fn missed(&mut self, cause: Cause, mut at: Vec<usize>, least: f64, cycles: f64) {
        let context = self.context;
        let blocks = &context.evidence.graph.blocks;
        let bound = |index: &usize| {
            let block = blocks.partition_point(|block| block.instructions.end <= *index);
            // Samples at the instruction show addresses of the one before, if that is the only one.
            let alone = !self.in_order() && context.evidence.late == 0 && block == self.block;
            let after = (alone && index + 1 == self.index).then_some(cycles);
            let bound = context.residence.bound(cause, block, *index, after);
            if !self.uses_stack(*index) {
                return bound;
            }
            if cause == Cause::DataTlb && context.instruction(*index).place.is_none() {
                return 0.0;
            }
            if cause == Cause::DataCache && context.residence.is_taken(*index) {
                return bound;
            }
            let forwarded = cause == Cause::DataCache && context.residence.rounds.forwards(*index);
            if forwarded {
                FORWARDING
            } else {
                bound.min(FORWARDING)
            }
        };
        let bounds: Vec<f64> = at.iter().map(bound).collect();
        let most = bounds.iter().copied().fold(least, f64::max);
        let mut bounds = bounds.into_iter();
        at.retain(|_| bounds.next().is_some_and(|bound| bound >= LEAST_OF * most));
        self.guilty(cause, at, most);
    }

    /// Divider and other long units. In order: not if it does not need a unit that another may keep
    /// busy; at most as long as that keeps it. Out of order: not if the suspect is no long operation; at
    /// most one and a half times its latency, for one before.
    fn units(&mut self) {
        let context = self.context;
        let expected = |index: usize| &context.evidence.expected[index];
        if self.in_order() {
            let kind = self.own().kind;
            let busy = expected(self.index).busy;
            if kind.multiply || kind.divide || busy > 1.0 {
                self.guilty(Cause::Unit, vec![self.index], busy);
            }
            return;
        }
        let mut long = self.suspects();
        long.retain(|index| {
            let kind = context.instruction(*index).kind;
            kind.divide || expected(*index).latency >= LONG && !kind.load && !kind.store
        });
        let latencies = long.iter().map(|index| expected(*index).latency);
        let most = latencies.fold(0.0, f64::max);
        self.guilty(Cause::Unit, long, 1.5 * most);
    }

    /// Results that are waited for. In order: the schedule knows of those within the block, but not
    /// how they shift when something else stalls or does not; at most what is left of their latency
    /// (that of loads is the data cache's). Out of order: as much of the suspect's latency as
    /// may be exposed; a long operation's is its own.
    fn dependency(&mut self) {
        let context = self.context;
        if self.in_order() {
            let (writers, caller) = context.writers(self.block, self.index, self.own().reads);
            let width = f64::from(context.evidence.processor.width);
            let (mut at, mut most) = (Vec::new(), if caller { LONG } else { 0.0 });
            for (writer, distance) in writers {
                // The instructions in between take some of it.
                let left = self.latency(writer) - (distance as f64 / width).floor();
                let is_load = context.instruction(writer).kind.load;
                if left > 0.0 && self.latency(writer) > 1.0 && !is_load {
                    most = most.max(left);
                    at.push(writer);
                }
            }
            self.guilty(Cause::Dependency, at, most);
            return;
        }
        let (mut at, mut most) = (Vec::new(), 0.0_f64);
        for suspect in self.suspects() {
            let own = self.latency(suspect);
            let waits = own < LONG && !context.instruction(suspect).kind.locked;
            let exposed = if waits {
                exposed(context, suspect, self.index)
            } else {
                0.0
            };
            if exposed > 0.0 {
                most = most.max(exposed);
                at.push(suspect);
            }
        }
        self.guilty(Cause::Dependency, at, most);
    }

    /// Store buffer. In order: not if it is no store. Out of order: not if neither it nor one before
    /// is, for the store itself finds no room, and all before it go on; what a locked one before waits for is its own. What
    /// fills the buffer is that stores miss, one after the other: where calls leave none behind, at most what those of
    /// the procedure can miss ([`Residence::stores`](super::residence::Residence::stores)). What is only pushed
    /// on the stack does not fill it.
    fn stores(&mut self) {
        let context = self.context;
        let mut at = vec![self.index];
        if !self.in_order() {
            let locked = |index: &&usize| context.instruction(**index).kind.locked;
            at.extend(self.before.iter().filter(|index| !locked(index)));
        }
        at.retain(|index| context.instruction(*index).kind.store);
        if self.in_order() {
            at.retain(|index| !self.uses_stack(*index));
        }
        at.sort_unstable();
        at.dedup();
        if at.is_empty() {
            return;
        }
        let own = context.of_block(self.block).unwrap_or(0.0);
        let missed = context.residence.stores() / own.max(f64::MIN_POSITIVE);
        let left =
            at.iter().any(|index| !self.uses_stack(*index)) && context.residence.left(self.block);
        let most = if left { MEMORY } else { missed.min(MEMORY) };
        self.guilty(Cause::StoreBuffer, at, most);
    }

    /// Locked and serialising instructions. In order: not if it is none. Out of order: not if none
    /// before is; a serialising one itself may not be let in before all else is done.
    fn synchronisation(&mut self) {
        let context = self.context;
        let mut at = self.suspects();
        at.retain(|index| context.instruction(*index).kind.locked);
        let serialises = |index: &usize| context.instruction(*index).kind.serialising;
        let mut more = self.suspects();
        more.push(self.index);
        at.extend(more.into_iter().filter(serialises));
        at.sort_unstable();
        at.dedup();
        if !at.is_empty() {
            self.guilty(Cause::Synchronisation, at, MEMORY);
        }
    }

    /// Branches that were not predicted: not if it does not follow a branch with several ways, a
    /// call or a return. A predictor that always says the same errs as often as the rarer way is
    /// taken, and a good one not much more; branch records say it of the ways that are taken.
    fn mispredict(&mut self) {
        let graph = self.context.evidence.graph;
        let penalty = f64::from(self.context.evidence.processor.mispredict);
        let start = graph.blocks[self.block].instructions.start;
        // Out of order the second instruction may be the one that is seen.
        let near = start + usize::from(!self.in_order());
        let returned = (start..self.index)
            .next_back()
            .filter(|before| self.context.instruction(*before).flow.is_call());
        if let Some(call) = returned {
            return self.guilty(Cause::Mispredict, vec![call], penalty);
        }
        if self.index > near {
            return;
        }
        let mut at = self.context.unresolved.clone();
        let (mut most, mut entered) = (0.0, graph.misses_edges());
        for edge in self.context.ways(self.block) {
            let Some(from) = graph.edges[edge].from else {
                entered = true;
                continue;
            };
            let kind = graph.edges[edge].kind;
            let branches = matches!(kind, EdgeKind::Taken | EdgeKind::Fall | EdgeKind::Table);
            let last = graph.blocks[from].instructions.end.saturating_sub(1);
            let ways = self.context.instruction(last).flow;
            if !branches || !matches!(ways, Flow::Branch(_) | Flow::IndirectJump) {
                continue;
            }
            at.push(last);
            most += penalty * self.mispredicted(edge, from);
        }
        if entered {
            // Called, perhaps by way of a pointer.
            most = penalty;
        }
        self.guilty(Cause::Mispredict, at, most);
    }

    /// Returns how many mispredictions that end in this edge there are at most for each execution of the
    /// block that it leads to.
    fn mispredicted(&self, edge: usize, from: usize) -> f64 {
        let often = self.context.of_edge(edge);
        let (Some(taken), Some(all)) = (often, self.context.of_block(from)) else {
            return 1.0;
        };
        let here = self.context.of_block(self.block).unwrap_or(taken);
        let rarer = taken.min((all - taken).max(0.0));
        let said = self.context.evidence.mispredicted.get(edge);
        let missed = match said.copied().flatten() {
            Some(share) => share * taken,
            None => (2.0 * rarer).min(taken),
        };
        missed / here.max(f64::MIN_POSITIVE)
    }

    /// Instruction cache and ITLB: not if it is in the same line (page) as all that can be executed
    /// right before; and a loop that stays in the cache misses once each time it is entered. Out of
    /// order, the second instruction of a line may be the one that is seen.
    fn fetch(&mut self) {
        let start = self.context.evidence.graph.blocks[self.block]
            .instructions
            .start;
        let second = !self.in_order() && self.index == start + 1;
        let first_of_line = |before: &usize| {
            let before = self.context.instruction(*before);
            before.end().0.saturating_sub(1) % LINE < u64::from(before.length)
        };
        let also = second && self.crosses(start, LINE)
            || !self.in_order() && self.before.iter().any(first_of_line);
        let times = self.context.repetition[self.block].unwrap_or(1.0).max(1.0);
        if also || self.crosses(self.index, LINE) {
            self.guilty(Cause::InstructionCache, Vec::new(), MEMORY / times);
        }
        if self.crosses(self.index, PAGE) {
            self.guilty(Cause::InstructionTlb, Vec::new(), MEMORY / times);
        }
    }

    /// Returns whether an instruction of the block may be in another line (page) than what is executed right
    /// before it.
    fn crosses(&self, index: usize, size: u64) -> bool {
        let graph = self.context.evidence.graph;
        let entered = |edge: usize| graph.edges[edge].from.is_none();
        let is_head = index == graph.blocks[self.block].instructions.start;
        let part = |one: &Instruction| one.end().0.saturating_sub(1) / size;
        let own = part(self.context.instruction(index));
        let differs = |before: &usize| {
            let before = self.context.instruction(*before);
            before.flow.is_call() || part(before) != own
        };
        let entered_anyhow = graph.misses_edges() || self.context.ways(self.block).any(entered);
        is_head && entered_anyhow || self.context.before(self.block, index).iter().any(differs)
    }

    /// Page faults: the instruction that faults is executed again, so that the time shows at it;
    /// not if it does not access memory. (The kernel's own time is not the procedure's.)
    fn page_fault(&mut self) {
        let kind = self.own().kind;
        if (kind.load || kind.store) && !kind.prefetch && !self.uses_stack(self.index) {
            self.guilty(Cause::PageFault, vec![self.index], 100.0 * MEMORY);
        }
    }

    /// Microcode: not if the tables know it to be a few micro-operations, and it is not repeated; what
    /// a locked instruction takes is its synchronisation, and what a division takes its unit.
    fn microcode(&mut self) {
        let context = self.context;
        if context.evidence.processor.architecture != Architecture::X86_64 {
            return;
        }
        let uops = |index: &usize| context.evidence.expected[*index].uops;
        let mut at = self.suspects();
        at.retain(|index| {
            let kind = context.instruction(*index).kind;
            kind.repeated || !kind.locked && !kind.divide && uops(index) >= MANY
        });
        let repeated = at
            .iter()
            .any(|index| context.instruction(*index).kind.repeated);
        let most = at.iter().map(uops).fold(0.0, f64::max);
        self.guilty(
            Cause::Microcode,
            at,
            if repeated { f64::INFINITY } else { 4.0 * most },
        );
    }
}
