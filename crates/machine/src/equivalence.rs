//! Classes of blocks and edges that must run equally often (the paper's §6.1.2): the cycle
//! equivalence of Johnson, Pearson and Pingali, "The program structure tree" (PLDI '94), in linear
//! time, with the extension for infinite loops.
//!
//! Two edges are cycle equivalent if every cycle through one goes through the other. With an edge
//! from the exit to the entry, every execution is a sum of cycles, so that equivalent edges are
//! taken equally often. A block is the edge from its entry to its exit. Directions do not matter as
//! long as every block is on a cycle through the entry.

use crate::FlowGraph;
use crate::adjacency::Adjacency;

/// Classes of blocks and edges that run equally often.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Equivalence {
    /// The class of each block.
    pub blocks: Vec<usize>,
    /// The class of each edge.
    pub edges: Vec<usize>,
    /// The number of classes; they are numbered from 0.
    pub classes: usize,
    /// Blocks that got an edge to the outside, because no path leads there from them.
    pub exits: Vec<usize>,
    /// Blocks that got an edge from the outside, because no path leads from there to them.
    pub entries: Vec<usize>,
}

impl Equivalence {
    /// Computes the classes of a procedure's graph. If that misses edges, each block and each edge
    /// is a class of its own.
    pub fn of(graph: &FlowGraph) -> Self {
        let edges = graph
            .edges
            .iter()
            .map(|edge| (edge.from, edge.to))
            .collect::<Vec<_>>();
        if graph.misses_edges() {
            Self::every_vertex_alone(graph.blocks.len(), &edges)
        } else {
            Self::new(graph.blocks.len(), &edges)
        }
    }

    fn every_vertex_alone(blocks: usize, edges: &[(Option<usize>, Option<usize>)]) -> Self {
        Self {
            blocks: (0..blocks).collect(),
            edges: (blocks..blocks + edges.len()).collect(),
            classes: blocks + edges.len(),
            exits: stuck_blocks(blocks, edges, |(from, to)| (from, to)),
            entries: stuck_blocks(blocks, edges, |(from, to)| (to, from)),
        }
    }

    /// Computes the classes of any flow graph. A missing end of an edge is outside; other ends are
    /// less than `blocks`.
    ///
    /// An endless loop gets an edge to the outside from its first block: the end of the program
    /// left it somewhere, at most once for each entry. So its blocks are not equivalent to the path
    /// to it.
    ///
    /// # Panics
    /// If an edge names a missing block.
    pub fn new(blocks: usize, edges: &[(Option<usize>, Option<usize>)]) -> Self {
        let outside = 2 * blocks;
        let entered = |block: Option<usize>| block.map_or(outside, |block| 2 * block);
        let left = |block: Option<usize>| block.map_or(outside, |block| 2 * block + 1);
        // First the blocks' own edges, then the given ones, then those to and from the outside.
        let mut ends: Vec<(usize, usize)> = (0..blocks)
            .map(|block| (2 * block, 2 * block + 1))
            .chain(edges.iter().map(|(from, to)| (left(*from), entered(*to))))
            .collect();
        let exits = stuck_blocks(blocks, edges, |(from, to)| (from, to));
        let entries = stuck_blocks(blocks, edges, |(from, to)| (to, from));
        ends.extend(exits.iter().map(|block| (left(Some(*block)), outside)));
        ends.extend(entries.iter().map(|block| (outside, entered(Some(*block)))));
        let all = cycle_equivalence(outside + 1, outside, &ends);
        let mut numbers = vec![None; all.iter().copied().max().map_or(0, |max| max + 1)];
        let mut classes = 0;
        let numbered: Vec<usize> = all[..blocks + edges.len()]
            .iter()
            .map(|class| {
                *numbers[*class].get_or_insert_with(|| {
                    classes += 1;
                    classes - 1
                })
            })
            .collect();
        Self {
            blocks: numbered[..blocks].to_vec(),
            edges: numbered[blocks..].to_vec(),
            classes,
            exits,
            entries,
        }
    }
}

/// Returns one block of each loop from which no path leads outside. `way` turns the edges round.
fn stuck_blocks(
    blocks: usize,
    edges: &[(Option<usize>, Option<usize>)],
    way: impl Fn((Option<usize>, Option<usize>)) -> (Option<usize>, Option<usize>) + Copy,
) -> Vec<usize> {
    // Edges from each block to its predecessors; the outside is the last vertex.
    let vertex = |block: Option<usize>| block.unwrap_or(blocks);
    let back = edges.iter().enumerate().map(|(index, edge)| {
        let (from, to) = way(*edge);
        (vertex(to), vertex(from), index)
    });
    let back = Adjacency::new(blocks + 1, back);
    let mut leaves = vec![false; blocks + 1];
    back.search(std::iter::once(blocks), &mut leaves);
    // Among the remaining blocks, the last one that a search against the edges completes is in an
    // endless loop; so is the next one, after all blocks that lead to the first are removed.
    let order = back.search(0..blocks, &mut leaves.clone()).after;
    let mut stuck = Vec::new();
    for block in order.into_iter().rev() {
        if !leaves[block] {
            stuck.push(block);
            back.search(std::iter::once(block), &mut leaves);
        }
    }
    stuck
}

/// The brackets of a subtree: edges from it to vertices above, as a list with deletion and
/// concatenation in constant time. `None` ends it.
#[derive(Clone, Copy, Default)]
struct Brackets {
    top: Option<usize>,
    bottom: Option<usize>,
    size: usize,
}

/// The edges during the computation of classes; those beyond the graph's cap other brackets.
#[derive(Default)]
struct Edges {
    /// Neighbours in the edge's list: towards the top, towards the bottom.
    links: Vec<(Option<usize>, Option<usize>)>,
    class: Vec<Option<usize>>,
    /// Size of the list when the edge was last on top of it, and the class given then.
    recent: Vec<(usize, usize)>,
    classes: usize,
}

impl Edges {
    fn new(count: usize) -> Self {
        Self {
            links: vec![(None, None); count],
            class: vec![None; count],
            recent: vec![(0, 0); count],
            classes: 0,
        }
    }

    fn new_class(&mut self) -> usize {
        self.classes += 1;
        self.classes - 1
    }

    fn add_edge(&mut self) -> usize {
        self.links.push((None, None));
        self.class.push(None);
        self.recent.push((0, 0));
        self.links.len() - 1
    }

    fn push_edge(&mut self, list: &mut Brackets, edge: usize) {
        self.links[edge] = (None, list.top);
        match list.top {
            Some(top) => self.links[top].0 = Some(edge),
            None => list.bottom = Some(edge),
        }
        list.top = Some(edge);
        list.size += 1;
    }

    fn delete_edge(&mut self, list: &mut Brackets, edge: usize) {
        let (above, below) = self.links[edge];
        match above {
            Some(above) => self.links[above].1 = below,
            None => list.top = below,
        }
        match below {
            Some(below) => self.links[below].0 = above,
            None => list.bottom = above,
        }
        list.size -= 1;
    }

    /// Puts one list on top of another.
    fn join_lists(&mut self, above: Brackets, below: Brackets) -> Brackets {
        let (Some(bottom), Some(top)) = (above.bottom, below.top) else {
            return if above.size == 0 { below } else { above };
        };
        self.links[bottom].1 = Some(top);
        self.links[top].0 = Some(bottom);
        Brackets {
            top: above.top,
            bottom: below.bottom,
            size: above.size + below.size,
        }
    }

    /// Returns the class of the tree edge above a subtree with these brackets. Equal sets of
    /// brackets have the same top and the same size, and a set with both has not changed.
    fn class_above(&mut self, list: Brackets) -> usize {
        // Without brackets it is a bridge: on no cycle, equivalent to nothing.
        let Some(top) = list.top else {
            return self.new_class();
        };
        if self.recent[top].0 != list.size {
            self.recent[top] = (list.size, self.new_class());
        }
        let class = self.recent[top].1;
        if list.size == 1 {
            self.class[top] = Some(class);
        }
        class
    }
}

/// A depth-first spanning tree of an undirected graph.
struct Tree {
    /// The vertices in the order of the search.
    order: Vec<usize>,
    /// Their positions in that order.
    place: Vec<usize>,
    /// Parent of each vertex, and the edge from it.
    parent: Vec<Option<(usize, usize)>>,
}

fn spanning_tree(adjacency: &Adjacency, root: usize) -> Tree {
    let unseen = usize::MAX;
    let mut tree = Tree {
        order: vec![root],
        place: vec![unseen; adjacency.len()],
        parent: vec![None; adjacency.len()],
    };
    tree.place[root] = 0;
    let mut stack = vec![(root, 0)];
    while let Some((vertex, next)) = stack.last_mut() {
        let Some((neighbour, edge)) = adjacency.of(*vertex).get(*next).copied() else {
            stack.pop();
            continue;
        };
        *next += 1;
        if tree.place[neighbour] == unseen {
            tree.place[neighbour] = tree.order.len();
            tree.order.push(neighbour);
            tree.parent[neighbour] = Some((*vertex, edge));
            stack.push((neighbour, 0));
        }
    }
    tree
}

/// Returns the class of each edge of an undirected connected graph.
fn cycle_equivalence(vertices: usize, root: usize, ends: &[(usize, usize)]) -> Vec<usize> {
    let pairs = ends
        .iter()
        .enumerate()
        .flat_map(|(edge, (a, b))| [(*a, *b, edge), (*b, *a, edge)]);
    let adjacency = Adjacency::new(vertices, pairs);
    let tree = spanning_tree(&adjacency, root);
    let mut edges = Edges::new(ends.len());
    let mut lists = vec![Brackets::default(); vertices];
    // The least position that the brackets of a subtree reach: of the subtree, and of its
    // first and second child.
    let nowhere = usize::MAX;
    let mut reach = vec![nowhere; vertices];
    let mut first = vec![nowhere; vertices];
    let mut second = vec![nowhere; vertices];
    let mut caps: Vec<Vec<usize>> = vec![Vec::new(); vertices];
    for vertex in tree.order.iter().rev().copied() {
        let mut list = lists[vertex];
        for cap in std::mem::take(&mut caps[vertex]) {
            edges.delete_edge(&mut list, cap);
        }
        let is_tree = |edge: usize, neighbour: usize| {
            tree.parent[vertex].is_some_and(|(_, above)| above == edge)
                || tree.parent[neighbour].is_some_and(|(_, below)| below == edge)
        };
        let mut own = nowhere;
        let place = tree.place[vertex];
        for (neighbour, edge) in adjacency.of(vertex).iter().copied() {
            if is_tree(edge, neighbour) {
                continue;
            }
            if tree.place[neighbour] > place {
                edges.delete_edge(&mut list, edge);
                if edges.class[edge].is_none() {
                    edges.class[edge] = Some(edges.new_class());
                }
            }
        }
        for (neighbour, edge) in adjacency.of(vertex).iter().copied() {
            if !is_tree(edge, neighbour) && tree.place[neighbour] < place {
                edges.push_edge(&mut list, edge);
                own = own.min(tree.place[neighbour]);
            }
        }
        // Two children have brackets that reach beyond this vertex: edges above are not equivalent
        // to those below the second child. So the list gets a new top that reaches as far as the
        // second child's brackets.
        if second[vertex] < own && second[vertex] < place {
            let cap = edges.add_edge();
            edges.push_edge(&mut list, cap);
            caps[tree.order[second[vertex]]].push(cap);
        }
        reach[vertex] = own.min(first[vertex]);
        if let Some((parent, edge)) = tree.parent[vertex] {
            edges.class[edge] = Some(edges.class_above(list));
            let reached = reach[vertex];
            second[parent] = second[parent].min(first[parent].max(reached));
            first[parent] = first[parent].min(reached);
            lists[parent] = edges.join_lists(list, lists[parent]);
        }
    }
    (0..ends.len())
        // An edge from a vertex to itself is alone on its cycle.
        .map(|edge| edges.class[edge].unwrap_or_else(|| edges.new_class()))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    type Ends = (Option<usize>, Option<usize>);

    /// Returns, by the definition itself, whether `a` is on a cycle that avoids `b`. Blocks are
    /// edges too; the outside is a vertex.
    fn has_cycle_without(ends: &[(usize, usize)], vertices: usize, a: usize, b: usize) -> bool {
        let mut seen = vec![false; vertices];
        let mut work = vec![ends[a].1];
        while let Some(vertex) = work.pop() {
            if vertex == ends[a].0 {
                return true;
            }
            if !std::mem::replace(&mut seen[vertex], true) {
                let on = ends.iter().enumerate().filter(|(edge, _)| *edge != b);
                work.extend(on.filter(|(_, end)| end.0 == vertex).map(|(_, end)| end.1));
            }
        }
        false
    }

    fn check(blocks: usize, edges: &[Ends]) -> Result<(), TestCaseError> {
        let found = Equivalence::new(blocks, edges);
        let class = |edge: usize| match edge.checked_sub(blocks) {
            None => found.blocks[edge],
            Some(edge) => found.edges[edge],
        };
        let vertex =
            |block: Option<usize>, side| block.map_or(2 * blocks, |block| 2 * block + side);
        let ends: Vec<(usize, usize)> = (0..blocks)
            .map(|block| (2 * block, 2 * block + 1))
            .chain(
                edges
                    .iter()
                    .map(|(from, to)| (vertex(*from, 1), vertex(*to, 0))),
            )
            .collect();
        let avoids = |a, b| has_cycle_without(&ends, 2 * blocks + 1, a, b);
        for a in 0..ends.len() {
            for b in 0..a {
                let equivalent = !avoids(a, b) && !avoids(b, a);
                prop_assert_eq!(
                    class(a) == class(b),
                    equivalent,
                    "{} {} in {:?}",
                    a,
                    b,
                    edges
                );
            }
        }
        prop_assert!(
            found
                .blocks
                .iter()
                .chain(&found.edges)
                .all(|class| *class < found.classes)
        );
        Ok(())
    }

    /// Generates a graph in which every block is on a path from the outside to the outside: a
    /// spine, and other edges.
    fn graphs() -> impl Strategy<Value = (usize, Vec<Ends>)> {
        (1_usize..9).prop_flat_map(|blocks| {
            let end = move || prop::option::weighted(0.9, 0..blocks);
            let edge = (end(), end()).prop_filter("inside", |(a, b)| a.is_some() || b.is_some());
            let spine = (0..blocks).map(|block| (block.checked_sub(1), Some(block)));
            let last = [(Some(blocks - 1), None)];
            let spine: Vec<Ends> = spine.chain(last).collect();
            prop::collection::vec(edge, 0..10)
                .prop_map(move |more| (blocks, spine.iter().copied().chain(more).collect()))
        })
    }

    /// Generates any graph.
    fn any_graphs() -> impl Strategy<Value = (usize, Vec<Ends>)> {
        (1_usize..9).prop_flat_map(|blocks| {
            let end = move || prop::option::weighted(0.9, 0..blocks);
            (Just(blocks), prop::collection::vec((end(), end()), 0..16))
        })
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(500))]

        #[test]
        fn agrees_with_the_definition((blocks, edges) in graphs()) {
            check(blocks, &edges)?;
        }

        /// With infinite loops and unreachable blocks: equivalent edges must be so in every flow
        /// that enters and leaves.
        #[test]
        fn claims_nothing_wrong_of_any_graph((blocks, edges) in any_graphs()) {
            let found = Equivalence::new(blocks, &edges);
            let mut joined = edges.clone();
            joined.extend(stuck_blocks(blocks, &edges, |edge| edge).iter().map(|block| (Some(*block), None)));
            joined.extend(stuck_blocks(blocks, &edges, |(from, to)| (to, from)).iter().map(|block| (None, Some(*block))));
            check(blocks, &joined)?;
            prop_assert_eq!(&Equivalence::new(blocks, &joined).blocks, &found.blocks);
        }
    }

    #[test]
    fn arms_of_a_condition_differ_and_the_join_is_the_head() {
        let edges = [
            (None, 0),
            (Some(0), 1),
            (Some(0), 2),
            (Some(1), 3),
            (Some(2), 3),
        ];
        let mut edges: Vec<Ends> = edges.map(|(from, to)| (from, Some(to))).to_vec();
        edges.push((Some(3), None));
        let found = Equivalence::new(4, &edges);
        assert_eq!(found.blocks[0], found.blocks[3]);
        assert_ne!(found.blocks[1], found.blocks[2]);
        assert_eq!(found.blocks[1], found.edges[1]);
        assert_eq!(found.classes, 3);
    }

    #[test]
    fn an_infinite_loop_is_apart_from_the_way_to_it() {
        // 0 -> 1 -> 2 -> 1
        let edges = [
            (None, Some(0)),
            (Some(0), Some(1)),
            (Some(1), Some(2)),
            (Some(2), Some(1)),
        ];
        let found = Equivalence::new(3, &edges);
        assert_eq!(found.edges[2], found.edges[3]);
        assert_eq!(found.blocks[2], found.edges[2]);
        assert_ne!(found.blocks[0], found.blocks[2]);
    }

    #[test]
    fn long_graphs_need_no_stack() {
        let blocks = 200_000_usize;
        let edges: Vec<Ends> = (0..blocks)
            .map(|block| (block.checked_sub(1), Some(block)))
            .chain((0..blocks).map(|block| (Some(block), None)))
            .collect();
        let found = Equivalence::new(blocks, &edges);
        assert_eq!(found.classes, 2 * blocks - 1);
    }
}
