//! Loops and their nesting (Havlak, "Nesting of reducible and irreducible loops", TOPLAS 1997).

use crate::FlowGraph;
use crate::adjacency::Adjacency;

/// Limit on visits of irreducible loops' entries, for each block and edge. Only a graph with deep
/// nests of them needs more; its outer loops may then be missing.
const MOVES: usize = 32;

/// The loops of a procedure.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Loops {
    /// The loops, each after those around it.
    pub loops: Vec<Loop>,
    /// The innermost loop around each block.
    pub innermost: Vec<Option<usize>>,
}

/// A loop.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Loop {
    /// The first block on entry.
    pub head: usize,
    /// The loop around it.
    pub parent: Option<usize>,
    /// Number of loops around it.
    pub depth: usize,
    /// True if it can be entered elsewhere too; then its head is one of several.
    pub irreducible: bool,
}

impl Loops {
    /// Finds the loops of a procedure's graph.
    pub fn of(graph: &FlowGraph) -> Self {
        let edges: Vec<_> = graph
            .edges
            .iter()
            .map(|edge| (edge.from, edge.to))
            .collect();
        Self::new(graph.blocks.len(), &edges)
    }

    /// Returns a loop and those around it, from the inside.
    pub fn around(&self, innermost: Option<usize>) -> impl Iterator<Item = usize> + '_ {
        std::iter::successors(innermost, |one| self.loops[*one].parent)
    }

    /// Returns whether a block is in a loop, or in one within it.
    pub fn has_block(&self, around: usize, block: usize) -> bool {
        self.around(self.innermost[block]).any(|one| one == around)
    }

    /// Finds the loops of any flow graph; see [`crate::Equivalence::new`].
    ///
    /// # Panics
    /// If an edge names a missing block.
    pub fn new(blocks: usize, edges: &[(Option<usize>, Option<usize>)]) -> Self {
        // The outside is the last vertex, and comes before all others.
        let inside = edges
            .iter()
            .enumerate()
            .filter_map(|(index, (from, to))| Some((from.unwrap_or(blocks), (*to)?, index)));
        let after = Adjacency::new(blocks + 1, inside.clone());
        let before = Adjacency::new(
            blocks + 1,
            inside.map(|(from, to, index)| (to, from, index)),
        );
        let roots = std::iter::once(blocks).chain(0..blocks);
        let search = after.search(roots, &mut vec![false; blocks + 1]);
        let mut entered = vec![0; blocks + 1];
        for (place, vertex) in search.before.iter().enumerate() {
            entered[*vertex] = place;
        }
        let mut left = vec![0; blocks + 1];
        for (place, vertex) in search.after.iter().enumerate() {
            left[*vertex] = place;
        }
        // Whether the search reached `vertex` from `above`.
        let is_below = |vertex: usize, above: usize| {
            entered[above] <= entered[vertex] && left[vertex] <= left[above]
        };
        let mut nest = Nest {
            parent: (0..=blocks).collect(),
            head: vec![None; blocks + 1],
            entries: vec![Vec::new(); blocks + 1],
            moves: MOVES * (blocks + edges.len()),
            found: Vec::new(),
        };
        for head in search.before.iter().rev().copied() {
            nest.find_loop(head, &before, is_below);
        }
        nest.finish_loops(blocks)
    }
}

struct Nest {
    /// The loop that contains a vertex, as a forest with compressed paths.
    parent: Vec<usize>,
    /// The head of the innermost loop around a vertex (for a head: around its loop).
    head: Vec<Option<usize>>,
    /// Vertices from which other entries lead into the irreducible loop of a head.
    entries: Vec<Vec<usize>>,
    /// Number of such entries that may still be recorded.
    moves: usize,
    /// Heads, and whether their loops are irreducible; inner ones first.
    found: Vec<(usize, bool)>,
}

impl Nest {
    fn outermost_loop(&mut self, mut vertex: usize) -> usize {
        while self.parent[vertex] != vertex {
            self.parent[vertex] = self.parent[self.parent[vertex]];
            vertex = self.parent[vertex];
        }
        vertex
    }

    fn find_loop(
        &mut self,
        head: usize,
        before: &Adjacency,
        is_below: impl Fn(usize, usize) -> bool,
    ) {
        let mut body = Vec::new();
        let mut is_loop = false;
        let mut irreducible = false;
        for (from, _) in before.of(head) {
            if is_below(*from, head) {
                is_loop = true;
                self.take_into_loop(*from, head, &mut body);
            }
        }
        let mut next = 0;
        while let Some(vertex) = body.get(next).copied() {
            next += 1;
            let known = std::mem::take(&mut self.entries[vertex]);
            let before = before.of(vertex).iter().map(|(from, _)| *from);
            for from in before.chain(known) {
                if is_below(from, head) {
                    self.take_into_loop(from, head, &mut body);
                } else {
                    irreducible = true;
                    if self.moves > 0 {
                        self.moves -= 1;
                        // Loops around this one are entered there or contain it.
                        self.entries[head].push(from);
                    }
                }
            }
        }
        if is_loop {
            self.found.push((head, irreducible));
        }
    }

    /// Adds the outermost loop around a vertex to the loop of `head`.
    fn take_into_loop(&mut self, vertex: usize, head: usize, body: &mut Vec<usize>) {
        let vertex = self.outermost_loop(vertex);
        if vertex != head {
            self.parent[vertex] = head;
            self.head[vertex] = Some(head);
            body.push(vertex);
        }
    }

    fn finish_loops(self, blocks: usize) -> Loops {
        let mut number = vec![None; blocks + 1];
        let mut loops: Vec<Loop> = Vec::with_capacity(self.found.len());
        for (head, irreducible) in self.found.into_iter().rev() {
            let parent = self.head[head].and_then(|head| number[head]);
            number[head] = Some(loops.len());
            loops.push(Loop {
                head,
                parent,
                depth: parent.map_or(0, |parent: usize| loops[parent].depth + 1),
                irreducible,
            });
        }
        let innermost = (0..blocks)
            .map(|block| number[block].or_else(|| self.head[block].and_then(|head| number[head])))
            .collect();
        Loops { loops, innermost }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    type Ends = (Option<usize>, Option<usize>);

    fn edges(pairs: &[(usize, usize)]) -> Vec<Ends> {
        let inside = pairs.iter().map(|(from, to)| (Some(*from), Some(*to)));
        std::iter::once((None, Some(0))).chain(inside).collect()
    }

    #[test]
    fn nested_loops() {
        // 1 to 4 around 2 to 3, and 5 by itself.
        let found = Loops::new(
            7,
            &edges(&[
                (0, 1),
                (1, 2),
                (2, 3),
                (3, 2),
                (3, 4),
                (4, 1),
                (4, 5),
                (5, 5),
                (5, 6),
            ]),
        );
        let inner = found.innermost[2].expect("a loop");
        let outer = found.innermost[1].expect("a loop");
        assert_eq!(found.loops[inner].parent, Some(outer));
        assert_eq!((found.loops[inner].head, found.loops[inner].depth), (2, 1));
        assert_eq!(found.innermost[3], Some(inner));
        assert_eq!(found.innermost[4], Some(outer));
        assert_eq!(found.loops[found.innermost[5].expect("a loop")].depth, 0);
        assert_eq!((found.innermost[0], found.innermost[6]), (None, None));
        assert!(found.loops.iter().all(|one| !one.irreducible));
    }

    #[test]
    fn a_loop_with_two_entries_is_irreducible() {
        let found = Loops::new(3, &edges(&[(0, 1), (0, 2), (1, 2), (2, 1)]));
        assert_eq!(found.loops.len(), 1);
        assert!(found.loops[0].irreducible);
    }

    proptest! {
        /// A block is in a loop exactly if it can be reached from itself.
        #[test]
        fn blocks_on_cycles_are_in_loops(pairs in prop::collection::vec((0_usize..8, 0_usize..8), 0..20)) {
            let found = Loops::new(8, &edges(&pairs));
            for block in 0..8 {
                let mut seen = [false; 8];
                let mut work = vec![block];
                let mut cycle = false;
                while let Some(at) = work.pop() {
                    for (_, to) in pairs.iter().filter(|(from, _)| *from == at) {
                        cycle |= *to == block;
                        if !std::mem::replace(&mut seen[*to], true) {
                            work.push(*to);
                        }
                    }
                }
                prop_assert_eq!(found.innermost[block].is_some(), cycle, "block {}", block);
            }
            for (index, one) in found.loops.iter().enumerate() {
                prop_assert!(one.parent.is_none_or(|parent| parent < index));
            }
        }
    }

    #[test]
    fn deep_nests_need_no_stack() {
        let blocks = 100_000;
        let pairs = (1..blocks)
            .map(|block| (block - 1, block))
            .chain((0..blocks).map(|block| (blocks - 1, block)));
        let found = Loops::new(blocks, &edges(&pairs.collect::<Vec<_>>()));
        assert_eq!(found.loops.len(), blocks);
        assert_eq!(found.loops.last().map(|one| one.depth), Some(blocks - 1));
    }
}
