//! The choice of places whose exact count tells most about a procedure.
//!
//! Two kinds of counts cost little. A register that a loop advances by a constant counts the loop's
//! rounds, if it is known that the loop was not entered again meanwhile: a breakpoint on a block
//! that every entry passes (the loop's *gate*) tells. And a block that runs rarely can be counted
//! itself. Which of them is worth most, the estimator says: a count is assumed at each candidate, and
//! the one that leaves the least variance is chosen.

use super::Ends;
use super::out_of_order::{Counted, Evidence, Options, log_variances};
use machine::{Architecture, Equivalence, FlowGraph, Loops, StepCounter, step_counters};

/// The processor has four breakpoints.
const PLACES: usize = 4;

/// Gates of loops that get breakpoints, beside the procedure's entry.
const GATES: usize = 2;

/// Classes of blocks that are tried as places.
const CANDIDATES: usize = 24;

/// Assumed standard deviation of the logarithm of a count.
const ASSUMED: f64 = 0.02;

/// Cycles between samples that are assumed with it: so many that chance plays no part.
const MANY: f64 = 1e6;

/// Relative error of the correction for the cost of a hit, and that cost in cycles.
const CORRECTION: f64 = 0.03;
const HIT_CYCLES: f64 = 10_000.0;

/// What is counted in a procedure.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct CountPlan {
    /// The blocks whose first instruction gets a breakpoint.
    pub places: Vec<usize>,
    /// Registers that count, each with the place that tells entries of its loop.
    pub counters: Vec<(StepCounter, usize)>,
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
        let mut plan = Self::default();
        let entry = graph.edges.iter().find(|edge| edge.from.is_none());
        let Some(entry) = entry.and_then(|edge| edge.to) else {
            return plan;
        };
        plan.places.push(entry);
        let mut counters = step_counters(architecture, graph, loops);
        let own = |one: &StepCounter| samples_around(graph, loops, evidence, one.around);
        counters.sort_by(|a, b| own(b).total_cmp(&own(a)));
        for counter in counters {
            let Some(gate) = gate_of(graph, loops, counter.around, entry) else {
                continue;
            };
            let known = plan.places.iter().position(|place| *place == gate);
            let place = match known {
                Some(place) => place,
                None if plan.places.len() <= GATES => {
                    plan.places.push(gate);
                    plan.places.len() - 1
                }
                None => continue,
            };
            plan.counters.push((counter, place));
        }
        plan.add_best_places(graph, classes, evidence, options);
        plan
    }

    /// Adds the blocks whose counts leave the least variance.
    fn add_best_places(
        &mut self,
        graph: &FlowGraph,
        classes: &Equivalence,
        evidence: &Evidence,
        options: &Options,
    ) {
        let edges: Vec<Ends> = graph.edges.iter().map(|one| (one.from, one.to)).collect();
        let total: f64 = evidence.blocks.iter().map(|block| block.samples).sum();
        let Some((flow, _)) = log_variances(&edges, classes, evidence, options) else {
            return;
        };
        let mut assumed = evidence.clone();
        assumed.instructions = None;
        let count = |block: usize| Counted {
            block,
            executions: MANY * flow[block],
            period: MANY,
            deviation: Some(ASSUMED),
        };
        assumed.counted = self.places.iter().map(|block| count(*block)).collect();
        while self.places.len() < PLACES {
            let tried: Vec<usize> = self.places.iter().map(|one| classes.blocks[*one]).collect();
            let mut candidates: Vec<usize> = Vec::new();
            let mut order: Vec<usize> = (0..graph.blocks.len()).collect();
            order.sort_by(|a, b| flow[*a].total_cmp(&flow[*b]));
            for block in order {
                let class = classes.blocks[block];
                let is_new = !tried.contains(&class)
                    && !candidates.iter().any(|one| classes.blocks[*one] == class);
                if is_new && flow[block] > 0.0 && evidence.blocks[block].samples > 0.0 {
                    candidates.push(block);
                }
            }
            candidates.truncate(CANDIDATES);
            let score = |block: usize| {
                let mut with = assumed.clone();
                with.counted.push(count(block));
                let (_, variance) = log_variances(&edges, classes, &with, options)?;
                let left = variance.iter().zip(&evidence.blocks);
                let left: f64 = left.map(|(one, block)| one.min(1.0) * block.samples).sum();
                let slowed = CORRECTION * HIT_CYCLES * flow[block] / total.max(1.0);
                Some(left / total.max(1.0) + slowed * slowed)
            };
            let scored = candidates
                .into_iter()
                .filter_map(|one| Some((one, score(one)?)));
            let Some((best, _)) = scored.min_by(|a, b| a.1.total_cmp(&b.1)) else {
                return;
            };
            self.places.push(best);
            assumed.counted.push(count(best));
        }
    }
}

/// Returns the samples of a loop's blocks.
fn samples_around(graph: &FlowGraph, loops: &Loops, evidence: &Evidence, around: usize) -> f64 {
    let blocks = (0..graph.blocks.len()).filter(|block| is_in_loop(loops, *block, around));
    blocks.map(|block| evidence.blocks[block].samples).sum()
}

/// Returns whether a block is in a loop, or in one within it.
pub(super) fn is_in_loop(loops: &Loops, block: usize, around: usize) -> bool {
    loops
        .around(loops.innermost[block])
        .any(|one| one == around)
}

/// Returns a block that is passed between two rounds of a loop that was left meanwhile: on every way
/// into it, or on every way out. For a loop that is in no other, the procedure's entry is one.
fn gate_of(graph: &FlowGraph, loops: &Loops, around: usize, entry: usize) -> Option<usize> {
    let is_inside = |block: usize| is_in_loop(loops, block, around);
    if loops.loops[around].parent.is_none() && !is_inside(entry) {
        return Some(entry);
    }
    let entering = graph
        .edges
        .iter()
        .filter(|edge| edge.to.is_some_and(is_inside) && !edge.from.is_some_and(is_inside));
    let leaving = graph
        .edges
        .iter()
        .filter(|edge| edge.from.is_some_and(is_inside) && !edge.to.is_some_and(is_inside));
    only_block(entering.map(|edge| edge.from)).or_else(|| only_block(leaving.map(|edge| edge.to)))
}

/// Returns the block that all of these are.
fn only_block(mut ends: impl Iterator<Item = Option<usize>>) -> Option<usize> {
    let first = ends.next()??;
    ends.all(|one| one == Some(first)).then_some(first)
}
