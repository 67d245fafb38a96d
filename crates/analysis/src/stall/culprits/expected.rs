//! Best-case cycles of each instruction, from the model of the processor.

use super::cause::Static;
use crate::stall::Frequencies;
use machine::{Block, FlowGraph, Held, InstructionCost, Limit, ProcessorModel};

/// The best case of an instruction.
#[derive(Clone, Debug, PartialEq)]
pub struct Expected {
    /// Cycles without dynamic stalls. In order: `M_i`. Out of order, only the block's cycles are
    /// known; they are spread over its instructions as evenly as the samples allow.
    pub minimum: f64,
    /// Part of the minimum that is a static stall.
    pub stall: Option<(Static, f64)>,
    /// Cycles until its result can be used.
    pub latency: f64,
    /// Cycles from the start of the block to its result if it only waits for results; in a loop of
    /// one block, including results of the round before.
    pub chain: f64,
    /// Cycles for which it keeps a unit busy, so that the next one of its kind waits.
    pub busy: f64,
    /// Micro-operations.
    pub uops: f64,
}

/// Returns the best case of the graph's instructions.
///
/// # Panics
/// If samples and frequencies are not of this graph.
pub fn expectations(
    graph: &FlowGraph,
    model: &ProcessorModel,
    samples: &[f64],
    frequencies: &Frequencies,
) -> Vec<Expected> {
    assert_eq!(samples.len(), graph.instructions.len());
    let mut expected: Vec<Expected> = graph
        .instructions
        .iter()
        .map(|instruction| {
            let cost = model.cost(instruction);
            Expected {
                minimum: 0.0,
                stall: None,
                latency: f64::from(cost.latency),
                chain: 0.0,
                busy: busy_cycles(model, &cost),
                uops: f64::from(cost.uops),
            }
        })
        .collect();
    let mut repeats = vec![false; graph.blocks.len()];
    for edge in graph.edges.iter().filter(|edge| edge.from == edge.to) {
        if let Some(block) = edge.from {
            repeats[block] = true;
        }
    }
    for (index, block) in graph.blocks.iter().enumerate() {
        let range = block.instructions.clone();
        result_chains(graph, block, repeats[index], &mut expected);
        if model.processor().in_order {
            for (one, scheduled) in expected[range]
                .iter_mut()
                .zip(model.schedule(graph.instructions_of(block)))
            {
                one.minimum = f64::from(scheduled.minimum);
                let reason = match scheduled.held {
                    Held::Not => continue,
                    Held::Slotting => Static::Slotting,
                    Held::Operand(_) => Static::Operand,
                    Held::Unit(_) => Static::Unit,
                };
                one.stall = Some((reason, f64::from(scheduled.stall)));
            }
            continue;
        }
        let frequency = frequencies.blocks[index].map_or(0.0, |one| one.frequency);
        spread_cycles(
            graph,
            model,
            block,
            &samples[range],
            frequency,
            &mut expected,
        );
    }
    expected
}

fn busy_cycles(model: &ProcessorModel, cost: &InstructionCost<'_>) -> f64 {
    let single = cost.units.iter().filter(|(resource, _)| {
        let resource = model.resources().get(usize::from(*resource));
        resource.is_some_and(|resource| resource.units == 1)
    });
    single
        .map(|(_, cycles)| f64::from(*cycles))
        .fold(0.0, f64::max)
}

/// Spreads the cycles of the block over its instructions.
fn spread_cycles(
    graph: &FlowGraph,
    model: &ProcessorModel,
    block: &Block,
    samples: &[f64],
    frequency: f64,
    expected: &mut [Expected],
) {
    let bounds = model.bounds(graph.instructions_of(block));
    let cycles = bounds.cycles();
    let seen = samples.iter().map(|samples| {
        if frequency > 0.0 {
            samples / frequency
        } else {
            0.0
        }
    });
    let level = cut_level(seen.clone().collect(), cycles);
    let total: f64 = seen.clone().map(|seen| seen.min(level)).sum();
    // The cycles that the samples do not reach are missing everywhere alike.
    let missing = (cycles - total).max(0.0) / samples.len().max(1) as f64;
    let beyond_issue = 1.0 - bounds.issue / cycles.max(f64::MIN_POSITIVE);
    let reason = match bounds.limit() {
        Limit::Issue => None,
        Limit::FrontEnd => Some(Static::FrontEnd),
        Limit::Ports => Some(Static::Ports),
    };
    for (seen, one) in seen.zip(&mut expected[block.instructions.clone()]) {
        one.minimum = seen.min(level) + missing;
        one.stall = reason.map(|reason| (reason, one.minimum * beyond_issue));
    }
}

/// Returns the level at which amounts must be cut for their sum; infinite if they do not reach it.
fn cut_level(mut amounts: Vec<f64>, sum: f64) -> f64 {
    amounts.sort_by(f64::total_cmp);
    let (mut left, mut count) = (sum, amounts.len());
    for amount in amounts {
        if amount * count as f64 >= left {
            return left / count as f64;
        }
        left -= amount;
        count -= 1;
    }
    f64::INFINITY
}

/// Computes the chains of results that end in each instruction. If a block is a loop, the growth of
/// a chain from one round to the next counts if it is more.
fn result_chains(graph: &FlowGraph, block: &Block, repeats: bool, expected: &mut [Expected]) {
    let mut ready = [0.0_f64; 128];
    for again in [false, true].into_iter().take(1 + usize::from(repeats)) {
        for place in block.instructions.clone() {
            let instruction = &graph.instructions[place];
            let reads = instruction.reads.iter();
            let start = reads
                .map(|one| ready[usize::from(one.number())])
                .fold(0.0, f64::max);
            let one = &mut expected[place];
            let end = start + one.latency;
            one.chain = if again {
                one.chain.max(end - one.chain)
            } else {
                end
            };
            for register in instruction.writes.iter() {
                ready[usize::from(register.number())] = end;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_level_gives_the_sum() {
        assert_eq!(cut_level(vec![1.0, 10.0, 2.0], 5.0), 2.0);
        assert_eq!(cut_level(vec![1.0, 10.0, 2.0], 3.0), 1.0);
        assert_eq!(cut_level(vec![1.0, 2.0], 9.0), f64::INFINITY);
        assert_eq!(cut_level(vec![], 1.0), f64::INFINITY);
    }
}
