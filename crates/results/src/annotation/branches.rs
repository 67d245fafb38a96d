//! Observed branches, by the edges of a graph and its calls.

use super::evidence::ProcedureEvidence;
use analysis::stall::culprits::mispredicted_at_most;
use analysis::stall::out_of_order::EdgeEvidence;
use machine::{Edge, EdgeKind, Flow, FlowGraph};
use profile::{ImageAddress, StretchSightings};
use rustc_hash::FxHashMap;
use std::collections::BTreeMap;

/// Observed branches of a graph.
pub struct SeenBranches {
    /// For each edge, how often it was taken.
    pub edges: Vec<EdgeEvidence>,
    /// Upper bound on the misprediction rate of each edge; `None` if branch records do not bound
    /// it.
    pub mispredicted: Vec<Option<f64>>,
    /// Targets of each indirect call with their shares of its calls, by the call's position among
    /// the graph's instructions.
    pub callees: BTreeMap<usize, Vec<(ImageAddress, f64)>>,
    /// Numbers of stretches between branch records: those that follow no path of the graph, and
    /// all.
    pub contradictions: (u64, u64),
}

type Ends = (ImageAddress, ImageAddress);

/// Returns the branches that were observed in a graph.
pub fn seen_branches(given: &ProcedureEvidence<'_>, graph: &FlowGraph) -> SeenBranches {
    let address = |offset| given.code.0.address_of(offset);
    let mut counts: FxHashMap<Ends, EdgeEvidence> = FxHashMap::default();
    for one in &given.branches {
        if let Some(ends) = address(one.branch).zip(address(one.target)) {
            let of = counts.entry(ends).or_default();
            of.observed += one.observed as f64;
            of.walked += one.walked as f64;
        }
    }
    let straight = Straight::new(graph);
    let mut falls = vec![0_u64; graph.edges.len()];
    let mut contradictions = (0, 0);
    let mut judged: FxHashMap<Ends, StretchSightings> = FxHashMap::default();
    for (stretch, seen) in &given.stretches {
        contradictions.1 += seen.times;
        let Some((start, branch)) = address(stretch.start).zip(address(stretch.branch)) else {
            continue;
        };
        let within = |at: ImageAddress| graph.start <= at && at < graph.end;
        if !within(start) || !within(branch) {
            continue;
        }
        let Some(edges) = straight.straight_way(start, branch) else {
            contradictions.0 += seen.times;
            continue;
        };
        for edge in edges {
            falls[edge] += seen.times;
        }
        if let Some(target) = stretch.target.and_then(address) {
            let ends = (branch, target);
            counts.entry(ends).or_default().walked += seen.times as f64;
            judged.entry(ends).or_default().join(*seen);
        }
    }
    let ends: Vec<Option<Ends>> = graph
        .edges
        .iter()
        .map(|edge| branch_ends(graph, edge))
        .collect();
    let of = |ends: &Option<Ends>| ends.and_then(|ends| counts.get(&ends));
    let mut edges: Vec<EdgeEvidence> = ends
        .iter()
        .map(|ends| of(ends).copied().unwrap_or_default())
        .collect();
    for (edge, times) in edges.iter_mut().zip(falls) {
        edge.walked += times as f64;
    }
    let said = |ends: &Option<Ends>| {
        let seen = judged.get(&(*ends)?)?;
        mispredicted_at_most(seen.mispredicted, seen.judged)
    };
    SeenBranches {
        edges,
        mispredicted: ends.iter().map(said).collect(),
        callees: indirect_callees(graph, &counts),
        contradictions,
    }
}

/// Returns the targets of each indirect call with their shares of its calls, as in
/// [`SeenBranches::callees`].
fn indirect_callees(
    graph: &FlowGraph,
    counts: &FxHashMap<Ends, EdgeEvidence>,
) -> BTreeMap<usize, Vec<(ImageAddress, f64)>> {
    let calls = graph.instructions.iter().enumerate();
    let calls = calls.filter(|(_, one)| one.flow == Flow::IndirectCall);
    let places: FxHashMap<ImageAddress, usize> =
        calls.map(|(index, one)| (one.address, index)).collect();
    let mut found: BTreeMap<usize, Vec<(ImageAddress, f64)>> = BTreeMap::new();
    for ((call, target), seen) in counts {
        if let Some(index) = places.get(call) {
            let times = seen.observed + seen.walked;
            found.entry(*index).or_default().push((*target, times));
        }
    }
    found.values_mut().for_each(counts_to_shares);
    found
}

/// Merges equal targets, and turns the counts of calls into shares.
pub fn counts_to_shares(targets: &mut Vec<(ImageAddress, f64)>) {
    targets.sort_by_key(|(target, _)| *target);
    targets.dedup_by(|more, of| {
        let same = more.0 == of.0;
        of.1 += if same { more.1 } else { 0.0 };
        same
    });
    let all: f64 = targets.iter().map(|(_, times)| times).sum();
    for (_, times) in targets {
        *times /= all.max(f64::MIN_POSITIVE);
    }
}

/// Returns the address of an edge's branch, and its target.
fn branch_ends(graph: &FlowGraph, edge: &Edge) -> Option<Ends> {
    let block = graph.blocks.get(edge.from?)?;
    let branch = graph.instructions_of(block).last()?;
    let target = match (edge.to, branch.flow) {
        (Some(to), _) => graph.blocks.get(to)?.start,
        (None, Flow::Branch(target)) if edge.kind == EdgeKind::TailCall => target,
        _ => return None,
    };
    Some((branch.address, target))
}

/// Fall-through paths of a graph.
struct Straight {
    /// Start, last instruction and fall-through edge of each block, by address.
    blocks: Vec<(ImageAddress, ImageAddress, Option<usize>)>,
}

impl Straight {
    fn new(graph: &FlowGraph) -> Self {
        let mut falls = vec![None; graph.blocks.len()];
        for (index, edge) in graph.edges.iter().enumerate() {
            let from = edge.from.filter(|_| edge.kind == EdgeKind::Fall);
            if let Some(fall) = from.and_then(|from| falls.get_mut(from)) {
                *fall = Some(index);
            }
        }
        let blocks = graph.blocks.iter().zip(falls).filter_map(|(block, fall)| {
            let last = graph.instructions_of(block).last()?;
            Some((block.start, last.address, fall))
        });
        let mut blocks: Vec<_> = blocks.collect();
        blocks.sort_unstable();
        Self { blocks }
    }

    /// Returns the edges of the fall-through path from one instruction to another; `None` if there
    /// is none.
    fn straight_way(&self, start: ImageAddress, end: ImageAddress) -> Option<Vec<usize>> {
        let after = self.blocks.partition_point(|block| block.0 <= start);
        let mut edges = Vec::new();
        let mut expected = start;
        for (from, last, fall) in self.blocks.get(after.checked_sub(1)?..)? {
            if *last < expected || end < *from {
                return None;
            }
            if end <= *last {
                return Some(edges);
            }
            edges.push((*fall)?);
            expected = *last;
        }
        None
    }
}
