//! The possible causes of a stall, each with the rule that excludes or bounds it.

use super::cause::{Cause, Culprit};
use super::context::Context;
use super::exposure::{LONG, exposed_latency};
use super::front_end::Candidates;
use super::places::MEMORY;
use machine::Architecture;

/// Most cycles of a stack access: the stack is always in the second level, if not in the first, and
/// its pages are in the first even if its addresses are unknown. A load of bytes that were stored
/// just before in other pieces takes as long.
const FORWARDING: f64 = 20.0;

/// Micro-operations above which microcode is likely.
const MANY: f64 = 5.0;

/// Least ratio of an access's bound to the largest bound with which the access is named.
const LEAST_OF: f64 = 0.05;

/// Returns all causes that cannot be ruled out, the likeliest first.
pub(super) fn candidates(
    context: &Context<'_>,
    block: usize,
    index: usize,
    cycles: f64,
) -> Vec<Culprit> {
    let mut all = Candidates::new(context, block, index);
    all.add_data_misses(cycles);
    all.add_busy_units();
    all.add_dependency();
    all.add_stores();
    all.add_synchronisation();
    all.add_mispredictions();
    all.add_fetch();
    all.page_fault();
    all.add_microcode();
    all.unbound_repetitions();
    all.found
}

impl Candidates<'_, '_> {
    fn least_latency(&self, index: usize) -> f64 {
        self.context.evidence.expected[index].latency
    }

    /// Adds data cache and DTLB. In order, they are ruled out unless an operand comes from a load,
    /// or from the caller. Out of order, they are ruled out unless an instruction before loads.
    /// Code and data addresses bound them
    /// ([`Residence::miss_bound`](super::residence::Residence::miss_bound)); the stack is in the
    /// second level at least.
    fn add_data_misses(&mut self, cycles: f64) {
        let context = self.context;
        let is_load = |index: &usize| {
            let kind = context.instruction(*index).kind;
            kind.load && !kind.prefetch
        };
        let mut caller = false;
        let mut loads: Vec<usize> = if self.in_order() {
            let touched = self
                .own_instruction()
                .reads
                .union(self.own_instruction().writes);
            let (writers, outside) = context.last_writers(self.block, self.index, touched);
            caller = outside;
            writers.into_iter().map(|(writer, _)| writer).collect()
        } else {
            self.before.clone()
        };
        loads.extend(self.own_repetitions());
        loads.retain(is_load);
        let mut translated = loads.clone();
        let own = if caller { MEMORY } else { 0.0 };
        self.add_misses(Cause::DataCache, loads, own, cycles);
        // A store waits for its address translation too.
        let stores = |index: &usize| context.instruction(*index).kind.store;
        let suspects = self.possible_suspects().into_iter();
        translated.extend(suspects.chain(self.own_repetitions()).filter(stores));
        translated.sort_unstable();
        translated.dedup();
        self.add_misses(Cause::DataTlb, translated, own, cycles);
    }

    /// Adds misses of some accesses, each within its bound.
    fn add_misses(&mut self, cause: Cause, mut at: Vec<usize>, least: f64, cycles: f64) {
        let context = self.context;
        let blocks = &context.evidence.graph.blocks;
        let bound = |index: &usize| {
            let block = blocks.partition_point(|block| block.instructions.end <= *index);
            // Samples at the instruction show addresses of the one before, if that is the only
            // suspect.
            let alone = !self.in_order() && context.evidence.late == 0 && block == self.block;
            let after = (alone && index + 1 == self.index).then_some(cycles);
            let bound = context.residence.miss_bound(cause, block, *index, after);
            // Each repetition accesses another place than the register shows before the first.
            if context.instruction(*index).kind.repeated {
                return MEMORY;
            }
            if !self.uses_stack(*index) {
                return bound;
            }
            if cause == Cause::DataTlb && context.instruction(*index).place.is_none() {
                return 0.0;
            }
            if cause == Cause::DataCache && context.residence.is_taken(*index) {
                return bound;
            }
            let forwarded =
                cause == Cause::DataCache && context.residence.rounds.load_of_parts(*index);
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
        self.add_culprit(cause, at, most);
    }

    /// Adds the divider and other long units. In order, they are ruled out unless another
    /// instruction can keep the needed unit busy, and bounded by the time that it does. Out of
    /// order, they are ruled out unless a suspect is a long operation, and bounded by one and a
    /// half times its latency, because one may precede it.
    fn add_busy_units(&mut self) {
        let context = self.context;
        let expected = |index: usize| &context.evidence.expected[index];
        if self.in_order() {
            let kind = self.own_instruction().kind;
            let busy = expected(self.index).busy;
            if kind.multiply || kind.divide || busy > 1.0 {
                self.add_culprit(Cause::Unit, vec![self.index], busy);
            }
            return;
        }
        let mut long = self.possible_suspects();
        long.retain(|index| {
            let kind = context.instruction(*index).kind;
            kind.divide || expected(*index).latency >= LONG && !kind.load && !kind.store
        });
        let latencies = long.iter().map(|index| expected(*index).latency);
        let most = latencies.fold(0.0, f64::max);
        self.add_culprit(Cause::Unit, long, 1.5 * most);
    }

    /// Adds dependencies. In order, the schedule covers those within the block, but not their
    /// shifts when other stalls come or go: the bound is the rest of the latency (that of loads
    /// belongs to the data cache). Out of order, the bound is the part of the suspect's latency
    /// that may be exposed; a long operation's latency belongs to its unit.
    fn add_dependency(&mut self) {
        let context = self.context;
        if self.in_order() {
            let (writers, caller) =
                context.last_writers(self.block, self.index, self.own_instruction().reads);
            let width = f64::from(context.evidence.processor.width);
            let (mut at, mut most) = (Vec::new(), if caller { LONG } else { 0.0 });
            for (writer, distance) in writers {
                // The instructions in between hide a part of the latency.
                let left = self.least_latency(writer) - (distance as f64 / width).floor();
                let is_load = context.instruction(writer).kind.load;
                if left > 0.0 && self.least_latency(writer) > 1.0 && !is_load {
                    most = most.max(left);
                    at.push(writer);
                }
            }
            self.add_culprit(Cause::Dependency, at, most);
            return;
        }
        let (mut at, mut most) = (Vec::new(), 0.0_f64);
        for suspect in self.possible_suspects() {
            let own = self.least_latency(suspect);
            let waits = own < LONG && !context.instruction(suspect).kind.locked;
            let exposed = if waits {
                exposed_latency(context, suspect, self.index)
            } else {
                0.0
            };
            if exposed > 0.0 {
                most = most.max(exposed);
                at.push(suspect);
            }
        }
        self.add_culprit(Cause::Dependency, at, most);
    }

    /// Adds page faults. The faulting instruction executes again, so that the time shows at itself.
    /// They are ruled out unless it accesses memory. (The kernel's own time is not the
    /// procedure's.)
    fn page_fault(&mut self) {
        let kind = self.own_instruction().kind;
        if (kind.load || kind.store) && !kind.prefetch && !self.uses_stack(self.index) {
            self.add_culprit(Cause::PageFault, vec![self.index], 100.0 * MEMORY);
        }
    }

    /// Adds microcode. It is ruled out if the tables list few micro-operations and the instruction
    /// is not repeated. The time of a locked instruction belongs to its synchronisation, that of a
    /// division to its unit.
    fn add_microcode(&mut self) {
        let context = self.context;
        if context.evidence.processor.architecture != Architecture::X86_64 {
            return;
        }
        let uops = |index: &usize| context.evidence.expected[*index].uops;
        let mut at = self.possible_suspects();
        at.extend(self.own_repetitions());
        at.retain(|index| {
            let kind = context.instruction(*index).kind;
            kind.repeated || !kind.locked && !kind.divide && uops(index) >= MANY
        });
        let most = at.iter().map(uops).fold(0.0, f64::max);
        self.add_culprit(Cause::Microcode, at, 4.0 * most);
    }

    /// Lifts the bounds of repeated instructions, because each repetition may cost as much.
    fn unbound_repetitions(&mut self) {
        let context = self.context;
        for culprit in &mut self.found {
            let mut at = culprit.at.iter();
            if at.any(|index| context.instruction(*index).kind.repeated) {
                culprit.most = f64::INFINITY;
            }
        }
    }
}
