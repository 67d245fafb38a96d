//! Surroundings of an instruction: the instructions executed before it, the loops around it.

use super::cause::{Cause, Culprit};
use super::evidence::Evidence;
use super::places::MEMORY;
use super::residence::Residence;
use super::rounds::NEST;
use machine::{Instruction, RegisterSet};
use rustc_hash::FxHashMap;
use std::collections::VecDeque;
use std::rc::Rc;

/// Maximum number of instructions to look back, along each path and over all paths: anything
/// started earlier is complete.
const DISTANCE: usize = 200;
const REACH: usize = 16_384;

/// Share of a block's executions below which an edge does not explain the block: a miss each time
/// would cost about a cycle.
const RARE: f64 = 0.002;

pub(super) struct Context<'a> {
    pub evidence: &'a Evidence<'a>,
    /// For each block, the edges that lead to it.
    entering: Rc<[Vec<usize>]>,
    /// For each block, its executions divided by the entries of the largest surrounding loop that
    /// stays in the instruction cache; `None` if there is none.
    pub repetition: Vec<Option<f64>>,
    /// Data that stay in the caches.
    pub residence: Residence<'a>,
    /// The jumps that may lead to any block.
    pub unresolved: Vec<usize>,
}

impl<'a> Context<'a> {
    pub fn new(evidence: &'a Evidence<'a>) -> Self {
        let mut entering = vec![Vec::new(); evidence.graph.blocks.len()];
        for (index, edge) in evidence.graph.edges.iter().enumerate() {
            if let Some(to) = edge.to {
                entering[to].push(index);
            }
        }
        let entering: Rc<[_]> = entering.into();
        let graph = evidence.graph;
        let places = graph.instructions.iter().enumerate();
        let unresolved = places.filter(|(_, one)| graph.unresolved.contains(&one.address));
        let unresolved = unresolved.map(|(index, _)| index).collect();
        let mut context = Self {
            evidence,
            residence: Residence::new(evidence, Rc::clone(&entering)),
            entering,
            repetition: Vec::new(),
            unresolved,
        };
        context.repetition = context.block_repetitions();
        context
    }

    pub fn instruction(&self, index: usize) -> &'a Instruction {
        &self.evidence.graph.instructions[index]
    }

    pub fn of_block(&self, block: usize) -> Option<f64> {
        self.evidence.frequencies.blocks[block].map(|estimate| estimate.frequency)
    }

    pub fn of_edge(&self, edge: usize) -> Option<f64> {
        self.evidence.frequencies.edges[edge].map(|estimate| estimate.frequency)
    }

    /// Returns the edges that lead to a block, without rare ones.
    pub fn common_ways(&self, block: usize) -> impl Iterator<Item = usize> + '_ {
        // If edges are missing, no edge is known to be rare.
        let rare = if self.evidence.graph.misses_edges() {
            0.0
        } else {
            RARE
        };
        let least = rare * self.of_block(block).unwrap_or(0.0);
        let matters = move |edge: &usize| self.of_edge(*edge).is_none_or(|often| often >= least);
        self.entering[block].iter().copied().filter(matters)
    }

    /// Returns the procedure's instructions that can be executed right before one. If samples come
    /// late, adds as many instructions before it in its block as `Evidence::late` says. A
    /// conditional branch may execute fused with the instruction that sets its flags: both count.
    pub fn executed_before(&self, block: usize, index: usize) -> Vec<usize> {
        let graph = self.evidence.graph;
        let range = &graph.blocks[block].instructions;
        let mut found = Vec::new();
        if index == range.start {
            found.extend(&self.unresolved);
        }
        let mut add = |last: usize, first: usize| {
            found.push(last);
            let fuses = |index: usize| graph.instructions[index].kind;
            if fuses(last).fusible_branch && last > first && fuses(last - 1).fusible_flags {
                found.push(last - 1);
            }
        };
        if index > range.start {
            add(index - 1, range.start);
            let late = self.evidence.late;
            found.extend(range.start.max(index.saturating_sub(1 + late))..index - 1);
            found.sort_unstable();
            found.dedup();
            return found;
        }
        for edge in self.common_ways(block) {
            if let Some(from) = graph.edges[edge].from {
                let range = &graph.blocks[from].instructions;
                if !range.is_empty() {
                    add(range.end - 1, range.start);
                }
            }
        }
        found
    }

    /// Returns the instructions that last wrote these registers before an instruction that waits
    /// for them. Each comes with the number of instructions in between, in this block and earlier
    /// ones. Also returns whether the caller can be a writer. A value that was read in between was
    /// available then, and nothing waits for it.
    pub fn last_writers(
        &self,
        block: usize,
        index: usize,
        registers: RegisterSet,
    ) -> (Vec<(usize, usize)>, bool) {
        let graph = self.evidence.graph;
        let mut found = Vec::new();
        // Breadth first, and each block once for a register.
        let mut work = VecDeque::from([(block, index, registers, 0)]);
        let mut asked: FxHashMap<usize, RegisterSet> = FxHashMap::default();
        let (mut steps, mut outside) = (0, false);
        while let Some((block, end, mut wanted, mut distance)) = work.pop_front() {
            for earlier in (graph.blocks[block].instructions.start..end).rev() {
                steps += 1;
                distance += 1;
                let one = self.instruction(earlier);
                if one.writes.intersects(wanted) {
                    found.push((earlier, distance));
                }
                wanted = without(wanted, one.writes.union(one.reads));
                if wanted.is_empty() || distance >= DISTANCE {
                    break;
                }
            }
            if wanted.is_empty() || distance >= DISTANCE || steps >= REACH {
                continue;
            }
            steps += 1;
            outside |= graph.misses_edges();
            for edge in self.common_ways(block) {
                outside |= graph.edges[edge].from.is_none();
                if let Some(from) = graph.edges[edge].from {
                    let before = asked.entry(from).or_default();
                    let new = without(wanted, *before);
                    *before = before.union(new);
                    if !new.is_empty() {
                        work.push_back((from, graph.blocks[from].instructions.end, new, distance));
                    }
                }
            }
        }
        found.sort_unstable();
        found.dedup_by_key(|(index, _)| *index);
        (found, outside)
    }

    /// Returns how often each block runs for each time that its code is loaded into the cache. A
    /// loop stays there if it fits in half of the cache and calls nothing.
    fn block_repetitions(&self) -> Vec<Option<f64>> {
        let (graph, loops) = (self.evidence.graph, self.evidence.loops);
        if graph.misses_edges() {
            return vec![None; graph.blocks.len()];
        }
        let room = u64::from(self.evidence.processor.instruction_cache / 2);
        let rounds = &self.residence.rounds;
        let mut bytes = vec![0_u64; loops.loops.len()];
        for (block, innermost) in graph.blocks.iter().zip(&loops.innermost) {
            for one in loops.around(*innermost).take(NEST) {
                bytes[one] += block.end.0.saturating_sub(block.start.0);
            }
        }
        let of = |(block, innermost): (usize, &Option<usize>)| {
            let stays = |one: &usize| bytes[*one] <= room && !rounds.calls[*one];
            let kept = loops.around(*innermost).take(NEST).take_while(stays);
            let often = self.of_block(block)?;
            let times = kept.map(|one| often / rounds.entered[one].max(f64::MIN_POSITIVE));
            times.reduce(f64::max)
        };
        loops.innermost.iter().enumerate().map(of).collect()
    }

    /// Lowers bounds to the numbers of sampled events, each at the cost of a full memory access
    /// (section 6.3). Events skid, so those of neighbouring instructions count too.
    pub fn tighten_bounds(&self, index: usize, frequency: f64, all: &mut [Culprit]) {
        const SKID: usize = 8;
        if let Some(kernel) = self.evidence.kernel {
            let faults = all.iter_mut().filter(|one| one.cause == Cause::PageFault);
            faults.for_each(|fault| fault.most = fault.most.min(kernel / frequency));
        }
        let Some(period) = self.evidence.period else {
            return;
        };
        for event in self.evidence.events {
            let around = index.saturating_sub(SKID)..(index + SKID).min(event.counts.len());
            let counts = event.counts.get(around).unwrap_or_default();
            let each = match event.cause {
                Cause::PageFault => 100.0 * MEMORY,
                Cause::Mispredict => f64::from(self.evidence.processor.mispredict),
                _ => MEMORY,
            };
            // One more, because none seen does not mean none.
            let most = (counts.iter().sum::<f64>() + 1.0) * each / (frequency * period);
            for culprit in all.iter_mut().filter(|one| one.cause == event.cause) {
                culprit.most = culprit.most.min(most);
            }
        }
    }
}

pub(super) fn without(registers: RegisterSet, others: RegisterSet) -> RegisterSet {
    registers
        .iter()
        .filter(|one| !others.contains(*one))
        .collect()
}
