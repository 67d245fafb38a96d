//! The part of an instruction's latency that can show as a stall, where execution is out of order.

use super::context::{Context, without};
use super::front_end::front_end;
use machine::{EdgeKind, Instruction, Register, RegisterSet};

/// Least cycles of a result that keeps its unit busy.
pub(super) const LONG: f64 = 10.0;

/// Least cycles until an instruction retires after the window was empty.
const REFILL: f64 = 3.0;

/// Maximum number of earlier instructions examined for the exposure of a latency.
const STEPS: usize = 256;

/// Returns how many cycles of an instruction's latency can show as a stall, out of order. When the
/// instruction is the oldest, everything that it waited for has retired. The instructions that
/// retire in between, as many per cycle as are issued, hide its latency. So the latency shows only
/// if the instruction's operand came shortly before, or if the window was empty shortly before. An
/// empty window is a stall of its own, at an instruction that may have stopped the front end, and
/// happens no more often than that stall allows.
///
/// The latency does not show either if another instruction in between completes as late: one that
/// waits for the same result, or one that entered the empty window before it.
pub(super) fn exposed_latency(context: &Context<'_>, suspect: usize, stalled: usize) -> f64 {
    let evidence = context.evidence;
    let latency = evidence.expected[suspect].latency;
    let width = f64::from(evidence.processor.width);
    let blocks = &evidence.graph.blocks;
    let after = blocks.partition_point(|block| block.instructions.end <= suspect);
    let executions = context.of_block(after).unwrap_or(0.0);
    // Cycles that show because an operand came shortly before, and because the window was empty
    // then.
    let (mut by_operands, mut steps) = (0.0_f64, 0);
    // If the suspect itself came late, all of its latency is exposed. That also shows at the
    // stalled instruction, if the instructions before the suspect hid the rest.
    let own_times = match front_end(context, after, suspect) > 0.0 {
        true if evidence.cycle_trust(after).is_known() => {
            evidence.samples[stalled] / REFILL / executions.max(f64::MIN_POSITIVE)
        }
        true => 1.0,
        false => 0.0,
    };
    let mut late = vec![Lateness {
        cycles: latency,
        times: window_emptied(context, after, suspect, executions) + own_times,
    }];
    let mut work = vec![(after, suspect, Way::before(context.instruction(suspect)))];
    while let Some((block, end, mut way)) = work.pop() {
        for earlier in (blocks[block].instructions.start..end).rev() {
            steps += 1;
            way.distance += 1.0;
            if way.distance >= latency * width {
                break;
            }
            let hidden = way.pass_back_over(context, earlier);
            if let Some(hidden) = hidden {
                by_operands = by_operands.max(latency - hidden.max((way.distance / width).floor()));
            }
            if way.cover < latency {
                late.push(Lateness {
                    cycles: latency - way.cover,
                    times: window_emptied(context, block, earlier, executions),
                });
            }
        }
        let done = way.cover >= latency && way.wanted.is_empty();
        if way.distance >= latency * width || done {
            continue;
        }
        for edge in context.common_ways(block) {
            let edge = &evidence.graph.edges[edge];
            let mut unseen = evidence.graph.misses_edges();
            match edge.from {
                Some(from) if steps < STEPS => {
                    let way = way.across_edge(edge.kind);
                    work.push((from, blocks[from].instructions.end, way));
                    steps += 1;
                }
                // An operand from outside may be late, and so may the instruction.
                _ => unseen = true,
            }
            if unseen {
                late.push(Lateness {
                    cycles: latency - way.cover,
                    times: 1.0,
                });
                if !way.wanted.is_empty() {
                    by_operands = by_operands.max(latency - (way.distance / width).floor());
                }
            }
        }
    }
    by_operands.max(most_lost(late))
}

/// The case that an instruction came so late that the window was empty.
struct Lateness {
    /// Part of the latency that is not hidden, in cycles.
    cycles: f64,
    /// Times for each execution, at most.
    times: f64,
}

/// Returns the most that is lost for each execution, if each of them is late in one of the ways.
fn most_lost(mut ways: Vec<Lateness>) -> f64 {
    ways.sort_by(|one, other| other.cycles.total_cmp(&one.cycles));
    let (mut left, mut lost) = (1.0_f64, 0.0);
    for way in ways {
        let times = way.times.clamp(0.0, left);
        lost += times * way.cycles.max(0.0);
        left -= times;
    }
    lost
}

/// The path between an instruction and an earlier one.
#[derive(Clone)]
struct Way {
    /// Registers that the instruction waits for and that were not written on the path.
    wanted: RegisterSet,
    /// True if the instruction accesses memory, and so also waits for locked and serialising ones.
    accesses: bool,
    /// The longest latency of other instructions that wait for the same register.
    beside: Vec<(Register, f64)>,
    /// Number of instructions.
    distance: f64,
    /// Cycles that fetching them takes beyond issuing them.
    slower: f64,
    /// The least completion time, by latency, of the latest instruction on the path, if all entered
    /// an empty window: it hides as much of the instruction's own latency.
    cover: f64,
}

impl Way {
    fn before(instruction: &Instruction) -> Self {
        Self {
            wanted: instruction.reads,
            accesses: instruction.kind.load || instruction.kind.store,
            beside: Vec::new(),
            distance: 0.0,
            slower: 0.0,
            cover: 0.0,
        }
    }

    /// Goes back over an instruction. If the path waits for its result, returns the cycles hidden
    /// by other instructions that wait for the same result.
    fn pass_back_over(&mut self, context: &Context<'_>, index: usize) -> Option<f64> {
        let (one, expected) = (
            context.instruction(index),
            &context.evidence.expected[index],
        );
        let beside = |way: &Self, register: Register| {
            let of = way.beside.iter().filter(|(other, _)| *other == register);
            of.map(|(_, latency)| *latency).fold(0.0, f64::max)
        };
        let written = one.writes.iter().filter(|one| self.wanted.contains(*one));
        let mut hidden = written.map(|one| beside(self, one)).reduce(f64::min);
        if self.accesses && (one.kind.locked || one.kind.serialising) {
            hidden = Some(0.0);
        }
        self.wanted = without(self.wanted, one.writes);
        // Long latencies depend on the operands, and may be shorter.
        if expected.latency < LONG {
            let read = one.reads.iter().filter(|one| self.wanted.contains(*one));
            self.beside.extend(read.map(|one| (one, expected.latency)));
            self.cover = self.cover.max(expected.latency - self.slower);
        }
        let processor = context.evidence.processor;
        let issue = expected.uops / f64::from(processor.width);
        let fetch = f64::from(one.length) / f64::from(processor.fetch);
        self.slower += (fetch - issue).max(0.0);
        hidden
    }

    /// Returns the path extended into a preceding block; a taken jump costs fetching a cycle.
    fn across_edge(&self, kind: EdgeKind) -> Self {
        let mut way = self.clone();
        if kind != EdgeKind::Fall {
            way.slower += 1.0;
        }
        way
    }
}

/// Returns how many times the window can have been empty before an instruction, for each of `often`
/// executions.
fn window_emptied(context: &Context<'_>, block: usize, index: usize, often: f64) -> f64 {
    let own = context.of_block(block).unwrap_or(0.0);
    if own <= 0.0 || often <= 0.0 {
        return 1.0;
    }
    // All of its cycles, because the best case is known for the block only, and at most, because
    // few samples may be too few by chance.
    let (beyond, error) = context.evidence.cycles_beyond_best(index, own);
    let most = (beyond + context.evidence.expected[index].minimum + error).max(0.0);
    let is_known = context.evidence.cycle_trust(block).is_known();
    let most = if is_known { most } else { f64::INFINITY };
    most.min(front_end(context, block, index)) / REFILL * own / often
}
