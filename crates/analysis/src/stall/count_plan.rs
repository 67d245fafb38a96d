//! The choice of places whose exact count tells most about a procedure.
//!
//! Two kinds of counts cost little. A register that a loop advances by a constant counts the loop's
//! rounds. And a block that runs rarely can be counted itself, by a breakpoint. Which blocks are worth
//! one, the estimator says: a count is assumed at each candidate, and the one that leaves the least
//! variance is chosen.
//!
//! A breakpoint slows what shares its cache line, even if it is never reached: on Zen 3, a loop of
//! five cycles took fifteen. So each stands in a line without code that runs far more often.

use super::Ends;
use super::out_of_order::{Counted, Evidence, Options, log_variances};
use machine::{Architecture, Equivalence, FlowGraph, Loops, StepCounter, step_counters};
use profile::ImageAddress;

/// The processor has four breakpoints.
const PLACES: usize = 4;

/// Classes of blocks that are tried as places.
const CANDIDATES: usize = 24;

/// Assumed standard deviation of the logarithm of a count.
const ASSUMED: f64 = 0.02;

/// Cycles between samples that are assumed with it: so many that chance plays no part.
const MANY: f64 = 1e6;

/// Bytes of a cache line, and how much more often than a counted block others in its line may run. A
/// pass through a line with a breakpoint takes some ten cycles longer, a hit some ten thousand.
const LINE: u64 = 64;
const BESIDE: f64 = 8.0;

/// Least cycles between executions of a block that is worth a breakpoint.
const LEAST_APART: f64 = 500.0;

/// Relative error of the correction for the cost of a hit, and that cost in cycles.
const CORRECTION: f64 = 0.03;
const HIT_CYCLES: f64 = 10_000.0;

/// What is counted in a procedure.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct CountPlan {
    /// The places that get a breakpoint.
    pub places: Vec<CountPlace>,
    /// Registers that count.
    pub counters: Vec<StepCounter>,
}

/// An instruction whose executions are counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CountPlace {
    /// Its block.
    pub block: usize,
    /// Its address.
    pub address: ImageAddress,
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
        };
        let edges: Vec<Ends> = graph.edges.iter().map(|one| (one.from, one.to)).collect();
        let Some((flow, _)) = log_variances(&edges, classes, evidence, options) else {
            return plan;
        };
        plan.add_best_places(graph, &edges, &flow, classes, evidence, options);
        plan
    }

    /// Adds the blocks whose counts leave the least variance.
    fn add_best_places(
        &mut self,
        graph: &FlowGraph,
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
        while self.places.len() < PLACES {
            let tried: Vec<usize> = self
                .places
                .iter()
                .map(|one| classes.blocks[one.block])
                .collect();
            let mut candidates: Vec<CountPlace> = Vec::new();
            let mut order: Vec<usize> = (0..graph.blocks.len()).collect();
            order.sort_by(|a, b| flow[*a].total_cmp(&flow[*b]));
            for block in order {
                let class = classes.blocks[block];
                let is_new = !tried.contains(&class)
                    && !candidates
                        .iter()
                        .any(|one| classes.blocks[one.block] == class);
                let is_rare = LEAST_APART * flow[block] < total;
                if is_new && is_rare && flow[block] > 0.0 && evidence.blocks[block].samples > 0.0 {
                    candidates.extend(place_in(graph, block, flow));
                }
            }
            candidates.truncate(CANDIDATES);
            let score = |block: usize| {
                let mut with = assumed.clone();
                with.counted.push(count(block));
                let (_, variance) = log_variances(edges, classes, &with, options)?;
                let left = variance.iter().zip(&evidence.blocks);
                let left: f64 = left.map(|(one, block)| one.min(1.0) * block.samples).sum();
                let slowed = CORRECTION * HIT_CYCLES * flow[block] / total.max(1.0);
                Some(left / total.max(1.0) + slowed * slowed)
            };
            let scored = candidates
                .into_iter()
                .filter_map(|one| Some((one, score(one.block)?)));
            let Some((best, _)) = scored.min_by(|a, b| a.1.total_cmp(&b.1)) else {
                return;
            };
            self.places.push(best);
            assumed.counted.push(count(best.block));
        }
    }
}

/// Returns whether a block is in a loop, or in one within it.
pub(super) fn is_in_loop(loops: &Loops, block: usize, around: usize) -> bool {
    loops
        .around(loops.innermost[block])
        .any(|one| one == around)
}

/// Returns an instruction of a block at which a breakpoint slows nothing that runs far more often.
fn place_in(graph: &FlowGraph, block: usize, flow: &[f64]) -> Option<CountPlace> {
    let is_calm = |address: ImageAddress| {
        let line = address.0 / LINE;
        let beside = graph.blocks.iter().zip(flow).filter(|(other, _)| {
            other.start.0 / LINE <= line && line <= other.end.0.saturating_sub(1) / LINE
        });
        beside
            .into_iter()
            .all(|(_, often)| *often <= BESIDE * flow[block])
    };
    let instructions = graph.instructions_of(&graph.blocks[block]).iter();
    let mut addresses = instructions.map(|one| one.address);
    let address = addresses.find(|address| is_calm(*address))?;
    Some(CountPlace { block, address })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::stall::out_of_order::{BlockEvidence, EdgeEvidence};
    use machine::NoImage;

    /// +0: mov ecx,300000000  +5: mov eax,7  +a: nop dword [rax+0]  +e: imul rax,rsi
    /// +12: sub rcx,1  +16: jne e  +18: ret
    const ROUNDS: [u8; 25] = [
        0xb9, 0x00, 0xa3, 0xe1, 0x11, 0xb8, 0x07, 0, 0, 0, 0x0f, 0x1f, 0x40, 0, 0x48, 0x0f, 0xaf,
        0xc6, 0x48, 0x83, 0xe9, 0x01, 0x75, 0xf6, 0xc3,
    ];

    /// Returns the plan for the loop in code at an address, with all samples in it.
    fn plan_at(start: u64) -> CountPlan {
        let x86 = Architecture::X86_64;
        let graph = FlowGraph::new(x86, ImageAddress(start), &ROUNDS, &NoImage).expect("code");
        let evidence = Evidence {
            blocks: (graph.blocks.iter().enumerate())
                .map(|(index, block)| BlockEvidence {
                    samples: if index == 1 { 2000.0 } else { 0.0 },
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
        CountPlan::new(
            x86,
            &graph,
            &loops,
            &classes,
            &evidence,
            &Options::default(),
        )
    }

    #[test]
    fn no_breakpoint_stands_in_the_cache_line_of_a_loop() {
        // The loop begins a line: the entry is before it, and never sampled.
        for start in [0x1172, 0x1180, 0x11a8] {
            let plan = plan_at(start);
            let lines: Vec<u64> = plan.places.iter().map(|one| one.address.0 / LINE).collect();
            assert!(!lines.contains(&((start + 0xe) / LINE)), "{plan:?}");
            assert_eq!(plan.counters.len(), 1, "{plan:?}");
        }
    }
}
