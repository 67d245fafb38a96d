//! The choice of places whose exact count tells most about a procedure.
//!
//! Three kinds of counts cost little. A register that a loop advances by a constant counts the
//! loop's rounds. A block that runs rarely can be counted itself, by a uprobe. And a uprobe before
//! a loop that ends by its counter reads how many rounds it will make. Which places are worth a
//! uprobe, the estimator says: a count is assumed at each candidate, and the one that leaves the
//! least variance is chosen.

use super::Ends;
use super::out_of_order::{Counted, Evidence, Options, log_variances};
use machine::{
    Architecture, CountedLoop, Equivalence, Flow, FlowGraph, Instruction, Loops, Register,
    StepCounter, counted_loops, step_counters,
};
use profile::{ImageAddress, ProbedKind};
use std::ops::Range;

/// Most places: each takes its part of what counting may cost.
const PLACES: usize = 4;

/// Classes of blocks that are tried as places.
const CANDIDATES: usize = 24;

/// Assumed standard deviation of the logarithm of a count.
const ASSUMED: f64 = 0.02;

/// Cycles between samples that are assumed with it, and the least executions of a place in the
/// recording, by the estimate.
const MANY: f64 = 1e6;
const LEAST_HITS: f64 = 100.0;

/// Least cycles between executions of a block that is worth a uprobe.
const LEAST_APART: f64 = 500.0;

/// Relative error of the cost of a hit: between other code, a uprobe took 1.2 to 1.8 µs that took
/// 1.3 in a row.
pub(super) const CORRECTION: f64 = 0.2;

/// Cost of a hit in cycles.
const HIT_CYCLES: f64 = 4000.0;

/// What is counted in a procedure.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct CountPlan {
    /// The places that get a uprobe.
    pub places: Vec<CountPlace>,
    /// Registers that count.
    pub counters: Vec<StepCounter>,
    /// The place, among those, whose every execution enters the procedure anew. While it is not
    /// executed, no loop that is in no other one is entered again.
    pub entry: Option<usize>,
}

/// An instruction at which executions of a block are counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CountPlace {
    /// The counted block.
    pub block: usize,
    /// The instruction's address.
    pub address: ImageAddress,
    /// The loop of the block, if it is counted where its loop is entered.
    pub entered: Option<CountedLoop>,
    /// What its uprobe costs.
    pub kind: ProbedKind,
}

impl CountPlace {
    /// Returns the counted block, and the one before the loop that is entered.
    pub fn counted_blocks(&self) -> impl Iterator<Item = usize> {
        let before = self.entered.map(|one| one.before);
        std::iter::once(self.block).chain(before)
    }
}

impl CountPlan {
    /// Plans the count of a procedure with this evidence.
    pub fn new(
        architecture: Architecture,
        graph: &FlowGraph,
        loops: &Loops,
        classes: &Equivalence,
        evidence: &Evidence,
        options: &Options,
    ) -> Self {
        let mut plan = Self {
            places: Vec::new(),
            counters: step_counters(architecture, graph, loops),
            entry: None,
        };
        let edges: Vec<Ends> = graph.edges.iter().map(|one| (one.from, one.to)).collect();
        let Some((flow, _)) = log_variances(&edges, classes, evidence, options) else {
            return plan;
        };
        let candidates = candidate_places(architecture, graph, loops, classes);
        let total: f64 = evidence.blocks.iter().map(|block| block.samples).sum();
        if plan.has_outer_counter(loops) && LEAST_APART * flow[0] < total {
            let is_entry = |block: usize| classes.blocks[block] == classes.blocks[0];
            let before = candidates
                .iter()
                .find(|one| one.entered.is_some_and(|it| is_entry(it.before)));
            let first = candidates.iter().find(|one| one.block == 0);
            plan.places.extend(before.or(first));
            plan.entry = (!plan.places.is_empty()).then_some(0);
        }
        plan.add_best_places(candidates, &edges, &flow, classes, evidence, options);
        plan
    }

    /// Returns whether a register counts in a loop that is in no other one, and not entered where
    /// the procedure is.
    fn has_outer_counter(&self, loops: &Loops) -> bool {
        let mut outer = self.counters.iter().map(|one| one.around);
        loops.innermost.first() == Some(&None) && outer.any(|one| loops.loops[one].parent.is_none())
    }

    /// Adds the blocks whose counts leave the least variance.
    fn add_best_places(
        &mut self,
        mut all: Vec<CountPlace>,
        edges: &[Ends],
        flow: &[f64],
        classes: &Equivalence,
        evidence: &Evidence,
        options: &Options,
    ) {
        let total: f64 = evidence.blocks.iter().map(|block| block.samples).sum();
        let mut assumed = evidence.clone();
        assumed.instructions = None;
        let count = |block: usize| Counted {
            block,
            executions: MANY * flow[block],
            period: MANY,
            deviation: Some(ASSUMED),
        };
        assumed.counted.clear();
        let known = self.places.iter().flat_map(CountPlace::counted_blocks);
        assumed.counted.extend(known.map(count));
        let often = |place: &CountPlace| flow[place.entered.map_or(place.block, |one| one.before)];
        all.retain(|place| {
            LEAST_APART * often(place) < total
                && often(place) * MANY > LEAST_HITS
                && flow[place.block] > 0.0
                && evidence.blocks[place.block].samples > 0.0
        });
        all.sort_by(|a, b| often(a).total_cmp(&often(b)));
        while self.places.len() < PLACES {
            let class = |block: usize| classes.blocks[block];
            let counts = |place: &CountPlace, block: usize| {
                place.counted_blocks().any(|one| class(one) == class(block))
            };
            let mut candidates: Vec<CountPlace> = Vec::new();
            for place in &all {
                let is_counted = self.places.iter().any(|one| counts(one, place.block));
                let mut like = candidates.iter();
                if !is_counted && !like.any(|one| class(one.block) == class(place.block)) {
                    candidates.push(*place);
                }
            }
            candidates.truncate(CANDIDATES);
            let score = |place: &CountPlace| {
                let mut with = assumed.clone();
                with.counted.extend(place.counted_blocks().map(count));
                let (_, variance) = log_variances(edges, classes, &with, options)?;
                let left = variance.iter().zip(&evidence.blocks);
                let left: f64 = left.map(|(one, block)| one.min(1.0) * block.samples).sum();
                let slowed = CORRECTION * HIT_CYCLES * often(place) / total.max(1.0);
                Some(left / total.max(1.0) + slowed * slowed)
            };
            let scored = candidates
                .into_iter()
                .filter_map(|one| Some((one, score(&one)?)));
            let Some((best, _)) = scored.min_by(|a, b| a.1.total_cmp(&b.1)) else {
                return;
            };
            self.places.push(best);
            assumed.counted.extend(best.counted_blocks().map(count));
        }
    }
}

/// Returns a place for each block, and one before each loop that ends by its counter.
fn candidate_places(
    architecture: Architecture,
    graph: &FlowGraph,
    loops: &Loops,
    classes: &Equivalence,
) -> Vec<CountPlace> {
    let blocks = graph
        .blocks
        .iter()
        .enumerate()
        .filter_map(|(index, block)| cheapest_place(graph, block.instructions.clone(), index));
    let counted = counted_loops(architecture, graph, loops, classes);
    let before = counted.into_iter().filter_map(|one| {
        let end = graph.blocks[one.before].instructions.end;
        let place = cheapest_place(graph, one.settled..end, one.counter.block)?;
        Some(CountPlace {
            entered: Some(one),
            ..place
        })
    });
    blocks.chain(before).collect()
}

/// Returns the instruction of a range whose uprobe costs least, for the count of a block.
fn cheapest_place(graph: &FlowGraph, range: Range<usize>, block: usize) -> Option<CountPlace> {
    let cheapest = graph.instructions[range]
        .iter()
        .min_by_key(|one| probed_kind(one))?;
    Some(CountPlace {
        block,
        address: cheapest.address,
        entered: None,
        kind: probed_kind(cheapest),
    })
}

/// Returns what a uprobe at an instruction costs (x86-64). Of conditional jumps, the kernel
/// emulates those that test the flags, and of instructions that do nothing, those of at most eight
/// bytes.
fn probed_kind(instruction: &Instruction) -> ProbedKind {
    let is_nop = || {
        let name = instruction.form.name(Architecture::X86_64);
        name.starts_with("Nop") && instruction.length <= 8
    };
    match instruction.flow {
        Flow::Jump(_) | Flow::Call(_) => ProbedKind::Jump,
        Flow::Branch(_) if instruction.reads.contains(Register::FLAGS) => ProbedKind::Jump,
        Flow::Next if instruction.writes.is_empty() && is_nop() => ProbedKind::Nop,
        _ => ProbedKind::Other,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::stall::out_of_order::{BlockEvidence, EdgeEvidence};
    use machine::NoImage;

    /// 0: mov ecx,300000000  5: mov eax,7  a: nop dword [rax+0]  e: imul rax,rsi
    /// 12: sub rcx,1  16: jne e  18: ret
    const ROUNDS: [u8; 25] = [
        0xb9, 0x00, 0xa3, 0xe1, 0x11, 0xb8, 0x07, 0, 0, 0, 0x0f, 0x1f, 0x40, 0, 0x48, 0x0f, 0xaf,
        0xc6, 0x48, 0x83, 0xe9, 0x01, 0x75, 0xf6, 0xc3,
    ];

    #[test]
    fn a_loop_is_counted_by_its_register_and_where_it_is_entered() {
        let x86 = Architecture::X86_64;
        let graph = FlowGraph::new(x86, ImageAddress(0), &ROUNDS, &NoImage).expect("code");
        let samples = [1.0, 2000.0, 1.0];
        let evidence = Evidence {
            blocks: (graph.blocks.iter().zip(samples))
                .map(|(block, samples)| BlockEvidence {
                    samples,
                    instructions: block.instructions.len() as f64,
                    cost: 1.0,
                    at_most: f64::INFINITY,
                })
                .collect(),
            edges: vec![EdgeEvidence::default(); graph.edges.len()],
            counted: Vec::new(),
            instructions: None,
            complete: true,
        };
        let (loops, classes) = (Loops::of(&graph), Equivalence::of(&graph));
        let options = Options::default();
        let plan = CountPlan::new(x86, &graph, &loops, &classes, &evidence, &options);
        assert_eq!(plan.counters.len(), 1, "{plan:?}");
        let before = &plan.places[0];
        assert_eq!((before.block, before.address.0), (1, 0xa), "{plan:?}");
        assert!(before.entered.is_some(), "{plan:?}");
    }

    #[test]
    fn uprobes_stand_where_they_cost_least() {
        let x86 = Architecture::X86_64;
        let graph = FlowGraph::new(x86, ImageAddress(0), &ROUNDS, &NoImage).expect("code");
        let place = |block: usize| {
            let range = graph.blocks[block].instructions.clone();
            cheapest_place(&graph, range, block).map(|one| (one.address.0, one.kind))
        };
        assert_eq!(place(0), Some((0xa, ProbedKind::Nop)));
        assert_eq!(place(1), Some((0x16, ProbedKind::Jump)));
    }
}
