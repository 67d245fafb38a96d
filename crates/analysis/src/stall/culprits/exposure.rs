//! How much of an instruction's latency can be seen as a stall, where execution is out of order.

use super::causes::{LONG, front_end};
use super::context::{Context, without};
use machine::{EdgeKind, Instruction, Register, RegisterSet};

/// Cycles that an empty window costs at least until something retires again.
const REFILL: f64 = 3.0;

/// Instructions that are looked back at for what exposes a latency.
const STEPS: usize = 256;

/// Out of order: how many cycles of an instruction's latency can be seen at most. When it is the
/// oldest, all that it waited for has retired; and what retires in between, as many a cycle as are
/// issued, hides its latency. So either what it waits for was shortly before, or the window was
/// empty shortly before: then that shows as a stall of its own, at something that may have stopped
/// the front end, and not more often than that stall allows.
///
/// Nor is it seen where another instruction in between is done as late: one that waits for the
/// same result, or one that came into the empty window before it.
pub(super) fn exposed(context: &Context<'_>, suspect: usize, stalled: usize) -> f64 {
    let evidence = context.evidence;
    let most = evidence.expected[suspect].latency;
    let width = f64::from(evidence.processor.width);
    let blocks = &evidence.graph.blocks;
    let after = blocks.partition_point(|block| block.instructions.end <= suspect);
    let often = context.of_block(after).unwrap_or(0.0);
    let (mut waited, mut steps) = (0.0_f64, 0);
    // If the suspect itself came late, it waits for all of its latency. That it did shows at the stalled one too, if what
    // was before it hid the rest.
    let shown = match front_end(context, after, suspect) > 0.0 {
        true if evidence.trust(after).is_known() => {
            evidence.samples[stalled] / REFILL / often.max(f64::MIN_POSITIVE)
        }
        true => 1.0,
        false => 0.0,
    };
    let mut late = vec![(most, emptying(context, after, suspect, often) + shown)];
    let mut work = vec![(after, suspect, Way::before(context.instruction(suspect)))];
    while let Some((block, end, mut way)) = work.pop() {
        for earlier in (blocks[block].instructions.start..end).rev() {
            steps += 1;
            way.distance += 1.0;
            if way.distance >= most * width {
                break;
            }
            let hidden = way.pass(context, earlier);
            if let Some(hidden) = hidden {
                waited = waited.max(most - hidden.max((way.distance / width).floor()));
            }
            if way.cover < most {
                late.push((most - way.cover, emptying(context, block, earlier, often)));
            }
        }
        let done = way.cover >= most && way.wanted.is_empty();
        if way.distance >= most * width || done {
            continue;
        }
        for edge in context.ways(block) {
            let edge = &evidence.graph.edges[edge];
            let mut unseen = evidence.graph.misses_edges();
            match edge.from {
                Some(from) if steps < STEPS => {
                    let way = way.across(edge.kind);
                    work.push((from, blocks[from].instructions.end, way));
                    steps += 1;
                }
                // What comes from out of sight may be late, and so may the instruction.
                _ => unseen = true,
            }
            if unseen {
                late.push((most - way.cover, 1.0));
                if !way.wanted.is_empty() {
                    waited = waited.max(most - (way.distance / width).floor());
                }
            }
        }
    }
    waited.max(lost(late))
}

/// The most that is lost for each execution by one of several ways, each of which costs so many cycles
/// and happens so often.
fn lost(mut ways: Vec<(f64, f64)>) -> f64 {
    ways.sort_by(|one, other| other.0.total_cmp(&one.0));
    let (mut left, mut lost) = (1.0_f64, 0.0);
    for (cycles, often) in ways {
        let often = often.clamp(0.0, left);
        lost += often * cycles.max(0.0);
        left -= often;
    }
    lost
}

/// What lies between an instruction and an earlier one.
#[derive(Clone)]
struct Way {
    /// What the instruction waits for and was not written on the way.
    wanted: RegisterSet,
    /// True if it accesses memory, and so waits for locked and serialising ones too.
    accesses: bool,
    /// The longest latency of those that wait for the same.
    beside: Vec<(Register, f64)>,
    /// Instructions.
    distance: f64,
    /// Cycles that fetching them takes beyond issuing them.
    slower: f64,
    /// How late the latest of those on the way is at least, by its latency, if all came into an
    /// empty window: as much of the instruction's own is hidden.
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

    /// Goes back over an instruction. If what is wanted is its result: how much others that want
    /// it hide.
    fn pass(&mut self, context: &Context<'_>, index: usize) -> Option<f64> {
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
        // Long latencies depend on the operands: they may be less.
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

    /// The same at the end of a block before; a jump that is taken costs fetching a cycle.
    fn across(&self, kind: EdgeKind) -> Self {
        let mut way = self.clone();
        if kind != EdgeKind::Fall {
            way.slower += 1.0;
        }
        way
    }
}

/// Returns how many times for each of so many executions the window can have been empty before an
/// instruction.
fn emptying(context: &Context<'_>, block: usize, index: usize, often: f64) -> f64 {
    let own = context.of_block(block).unwrap_or(0.0);
    if own <= 0.0 || often <= 0.0 {
        return 1.0;
    }
    // All cycles that it took: what is its best case is not known alone, but for the block. At most: of few samples some
    // may be missing by chance.
    let (beyond, error) = context.evidence.beyond(index, own);
    let most = (beyond + context.evidence.expected[index].minimum + error).max(0.0);
    let is_known = context.evidence.trust(block).is_known();
    let most = if is_known { most } else { f64::INFINITY };
    most.min(front_end(context, block, index)) / REFILL * own / often
}
