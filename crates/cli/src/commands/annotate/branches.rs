//! Branches that were seen, by the edges of a graph.

use super::procedure::Given;
use analysis::stall::out_of_order::EdgeEvidence;
use machine::{Edge, EdgeKind, Flow, Graph};
use profile::ImageAddress;
use rustc_hash::FxHashMap;

/// What was seen, for each edge; and how many of the stretches between branch records go ways that
/// the graph does not have.
pub fn seen(given: &Given<'_>, graph: &Graph) -> (Vec<EdgeEvidence>, u64) {
    let address = |offset| given.code.0.address_of(offset);
    let mut counts: FxHashMap<(ImageAddress, ImageAddress), EdgeEvidence> = FxHashMap::default();
    for one in &given.branches {
        if let Some(ends) = address(one.branch).zip(address(one.target)) {
            let of = counts.entry(ends).or_default();
            of.observed += one.observed as f64;
            of.walked += one.walked as f64;
        }
    }
    let straight = Straight::new(graph);
    let mut falls = vec![0_u64; graph.edges.len()];
    let mut contradictions = 0;
    for (stretch, times) in &given.stretches {
        let Some((start, branch)) = address(stretch.start).zip(address(stretch.branch)) else {
            continue;
        };
        let within = |at: ImageAddress| graph.start <= at && at < graph.end;
        if !within(start) || !within(branch) {
            continue;
        }
        let Some(edges) = straight.way(start, branch) else {
            contradictions += times;
            continue;
        };
        for edge in edges {
            falls[edge] += times;
        }
        if let Some(target) = stretch.target.and_then(address) {
            counts.entry((branch, target)).or_default().walked += *times as f64;
        }
    }
    let mut seen: Vec<EdgeEvidence> = graph
        .edges
        .iter()
        .map(|edge| {
            let ends = ends(graph, edge);
            ends.and_then(|ends| counts.get(&ends))
                .copied()
                .unwrap_or_default()
        })
        .collect();
    for (edge, times) in seen.iter_mut().zip(falls) {
        edge.walked += times as f64;
    }
    (seen, contradictions)
}

/// The branch of an edge, and where it leads.
fn ends(graph: &Graph, edge: &Edge) -> Option<(ImageAddress, ImageAddress)> {
    let block = graph.blocks.get(edge.from?)?;
    let branch = graph.instructions_of(block).last()?;
    let target = match (edge.to, branch.flow) {
        (Some(to), _) => graph.blocks.get(to)?.start,
        (None, Flow::Branch(target)) if edge.kind == EdgeKind::TailCall => target,
        _ => return None,
    };
    Some((branch.address, target))
}

/// Where execution goes if no branch is taken.
struct Straight {
    /// For each block where it starts, its last instruction, and the edge that falls through; by
    /// address.
    blocks: Vec<(ImageAddress, ImageAddress, Option<usize>)>,
}

impl Straight {
    fn new(graph: &Graph) -> Self {
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

    /// The edges on the way straight on from one instruction to another; `None` if there is no
    /// such way.
    fn way(&self, start: ImageAddress, end: ImageAddress) -> Option<Vec<usize>> {
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
