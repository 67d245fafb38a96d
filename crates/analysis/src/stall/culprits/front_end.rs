//! Causes that stop the front end, with the rules that exclude or bound each.

use super::cause::{Cause, Culprit};
use super::context::Context;
use super::places::MEMORY;
use machine::{EdgeKind, Flow, Instruction, Register};

/// Bytes of a cache line, and of a page.
const LINE: u64 = 64;
const PAGE: u64 = 4096;

/// The culprits of one stall that were not ruled out.
pub(super) struct Candidates<'a, 'b> {
    pub context: &'a Context<'b>,
    pub block: usize,
    pub index: usize,
    /// Instructions that can execute right before it.
    pub before: Vec<usize>,
    pub found: Vec<Culprit>,
}

/// Returns the most cycles per execution by which a stopped front end can have delayed an
/// instruction.
pub(super) fn front_end(context: &Context<'_>, block: usize, index: usize) -> f64 {
    let mut all = Candidates::new(context, block, index);
    all.add_stores();
    all.add_synchronisation();
    all.add_mispredictions();
    all.add_fetch();
    all.found.iter().map(|one| one.most).sum()
}

impl<'a, 'b> Candidates<'a, 'b> {
    /// Starts without culprits.
    pub fn new(context: &'a Context<'b>, block: usize, index: usize) -> Self {
        Self {
            before: context.executed_before(block, index),
            context,
            block,
            index,
            found: Vec::new(),
        }
    }

    pub fn add_culprit(&mut self, cause: Cause, at: Vec<usize>, most: f64) {
        if most > 0.0 {
            self.found.push(Culprit { cause, at, most });
        }
    }

    pub fn own_instruction(&self) -> &Instruction {
        self.context.instruction(self.index)
    }

    pub fn in_order(&self) -> bool {
        self.context.evidence.processor.in_order
    }

    /// Returns the instructions whose execution can have caused the stall: in order itself, out of
    /// order those before.
    pub fn possible_suspects(&self) -> Vec<usize> {
        if self.in_order() {
            vec![self.index]
        } else {
            self.before.clone()
        }
    }

    /// Returns the stalled instruction, if the processor repeats it. Out of order, interrupts can
    /// come between two repetitions, so that the repetitions' own waits show at the instruction
    /// itself.
    pub fn own_repetitions(&self) -> Option<usize> {
        let repeats = !self.in_order() && self.own_instruction().kind.repeated;
        repeats.then_some(self.index)
    }

    pub fn uses_stack(&self, index: usize) -> bool {
        let architecture = self.context.evidence.processor.architecture;
        let instruction = self.context.instruction(index);
        instruction
            .reads
            .contains(Register::stack_pointer(architecture))
    }

    /// Adds the store buffer. In order, it is ruled out unless the instruction is a store. Out of
    /// order, it is ruled out unless the instruction or one before it is a store: the store itself
    /// finds no room, and all before it go on. Waits before a locked instruction are the locked
    /// instruction's own. The buffer fills when successive stores miss. If calls leave no stores
    /// behind, the procedure's own stores bound the cost by their misses
    /// ([`store_miss_cycles`](super::residence::Residence::store_miss_cycles)). Pushes on the stack
    /// do not fill it.
    pub fn add_stores(&mut self) {
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
        let missed = context.residence.store_miss_cycles() / own.max(f64::MIN_POSITIVE);
        let left = at.iter().any(|index| !self.uses_stack(*index))
            && context.residence.stores_left_over(self.block);
        let most = if left { MEMORY } else { missed.min(MEMORY) };
        self.add_culprit(Cause::StoreBuffer, at, most);
    }

    /// Adds locked and serialising instructions. In order, they are ruled out unless the
    /// instruction is one. Out of order, they are ruled out unless one is before it; a serialising
    /// instruction itself may also wait until all others are done.
    pub fn add_synchronisation(&mut self) {
        let context = self.context;
        let mut at = self.possible_suspects();
        at.retain(|index| context.instruction(*index).kind.locked);
        let serialises = |index: &usize| context.instruction(*index).kind.serialising;
        let mut more = self.possible_suspects();
        more.push(self.index);
        at.extend(more.into_iter().filter(serialises));
        at.sort_unstable();
        at.dedup();
        if !at.is_empty() {
            self.add_culprit(Cause::Synchronisation, at, MEMORY);
        }
    }

    /// Adds mispredicted branches. They are ruled out unless the instruction follows a branch with
    /// several targets, a call or a return. A predictor that always says the same errs as often as
    /// the rarer way is taken, and a good one hardly more often; branch records bound the ways that
    /// are taken.
    pub fn add_mispredictions(&mut self) {
        let graph = self.context.evidence.graph;
        let penalty = f64::from(self.context.evidence.processor.mispredict);
        let start = graph.blocks[self.block].instructions.start;
        // Out of order, the second instruction may be the one with the samples.
        let near = start + usize::from(!self.in_order());
        let returned = (start..self.index)
            .next_back()
            .filter(|before| self.context.instruction(*before).flow.is_call());
        if let Some(call) = returned {
            return self.add_culprit(Cause::Mispredict, vec![call], penalty);
        }
        if self.index > near {
            return;
        }
        let mut at = self.context.unresolved.clone();
        let (mut most, mut entered) = (0.0, graph.misses_edges());
        for edge in self.context.common_ways(self.block) {
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
            most += penalty * self.most_mispredicted(edge, from);
        }
        if entered {
            // The block is called, perhaps through a pointer.
            most = penalty;
        }
        self.add_culprit(Cause::Mispredict, at, most);
    }

    /// Returns the most mispredictions that can end in this edge, for each execution of the block
    /// that it leads to.
    fn most_mispredicted(&self, edge: usize, from: usize) -> f64 {
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

    /// Adds instruction cache and ITLB. They are ruled out if everything that can execute right
    /// before is in the same line (page). A loop that stays in the cache misses once each time it
    /// is entered. Out of order, the second instruction of a line may be the one with the samples.
    pub fn add_fetch(&mut self) {
        let start = self.context.evidence.graph.blocks[self.block]
            .instructions
            .start;
        let second = !self.in_order() && self.index == start + 1;
        let first_of_line = |before: &usize| {
            let before = self.context.instruction(*before);
            before.end().0.saturating_sub(1) % LINE < u64::from(before.length)
        };
        let also = second && self.crosses_line(start, LINE)
            || !self.in_order() && self.before.iter().any(first_of_line);
        let times = self.context.repetition[self.block].unwrap_or(1.0).max(1.0);
        if also || self.crosses_line(self.index, LINE) {
            self.add_culprit(Cause::InstructionCache, Vec::new(), MEMORY / times);
        }
        if self.crosses_line(self.index, PAGE) {
            self.add_culprit(Cause::InstructionTlb, Vec::new(), MEMORY / times);
        }
    }

    /// Returns whether an instruction of the block may be in another line (page) than the
    /// instruction executed before it.
    fn crosses_line(&self, index: usize, size: u64) -> bool {
        let graph = self.context.evidence.graph;
        let entered = |edge: usize| graph.edges[edge].from.is_none();
        let is_head = index == graph.blocks[self.block].instructions.start;
        let part = |one: &Instruction| one.end().0.saturating_sub(1) / size;
        let own = part(self.context.instruction(index));
        let differs = |before: &usize| {
            let before = self.context.instruction(*before);
            before.flow.is_call() || part(before) != own
        };
        let entered_anyhow =
            graph.misses_edges() || self.context.common_ways(self.block).any(entered);
        is_head && entered_anyhow
            || self
                .context
                .executed_before(self.block, index)
                .iter()
                .any(differs)
    }
}
