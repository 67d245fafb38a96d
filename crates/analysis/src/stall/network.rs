//! The flow graph of a procedure as a network with one variable for each equivalence class.
//!
//! Each block is an arc from its entry to its exit, each edge an arc between blocks, and everything
//! outside is one node; the flow into a node equals the flow out of it. One arc of each class
//! stays. The ends of the class's other arcs are merged, which loses nothing, because all carry the
//! same flow.

use super::Ends;
use machine::Equivalence;

/// The network. Variables are first the classes, then the edges added to infinite loops.
pub(super) struct Network {
    pub variables: usize,
    /// For each variable, its nodes from and to; the same node if it is unconstrained.
    pub arcs: Vec<(usize, usize)>,
    pub nodes: usize,
    /// The node that stands for the outside; its balance follows from the others.
    pub outside: usize,
    /// All arcs before the merge, with their variable.
    all: Vec<(usize, usize, usize)>,
    all_nodes: usize,
}

impl Network {
    pub fn new(edges: &[Ends], classes: &Equivalence) -> Self {
        let blocks = classes.blocks.len();
        let all_nodes = 2 * blocks + 1;
        let outside = 2 * blocks;
        let entered = |block: Option<usize>| block.map_or(outside, |block| 2 * block);
        let left = |block: Option<usize>| block.map_or(outside, |block| 2 * block + 1);
        let own = classes.blocks.iter().enumerate();
        let mut all: Vec<(usize, usize, usize)> = own
            .map(|(block, class)| (2 * block, 2 * block + 1, *class))
            .collect();
        for ((from, to), class) in edges.iter().zip(&classes.edges) {
            all.push((left(*from), entered(*to), *class));
        }
        let mut variables = classes.classes;
        for exit in &classes.exits {
            all.push((left(Some(*exit)), outside, variables));
            variables += 1;
        }
        for entry in &classes.entries {
            all.push((outside, entered(Some(*entry)), variables));
            variables += 1;
        }
        let mut kept = vec![None; variables];
        let mut sets = Sets((0..all_nodes).collect());
        for (arc, (from, to, variable)) in all.iter().enumerate() {
            match kept[*variable] {
                None => kept[*variable] = Some(arc),
                Some(_) => sets.join_sets(*from, *to),
            }
        }
        let mut numbers = vec![None; all_nodes];
        let mut nodes = 0;
        let mut number = |node: usize| {
            let root = sets.find_root(node);
            *numbers[root].get_or_insert_with(|| {
                nodes += 1;
                nodes - 1
            })
        };
        let outer = number(outside);
        let arcs = kept
            .iter()
            .map(|arc| match arc.and_then(|arc| all.get(arc)) {
                Some((from, to, _)) => (number(*from), number(*to)),
                None => (outer, outer),
            })
            .collect();
        Self {
            variables,
            arcs,
            nodes,
            outside: outer,
            all,
            all_nodes,
        }
    }

    /// Returns a flow that is positive everywhere: each arc gets the flow `weights` of its
    /// variable, along one path from the outside through it and back.
    pub fn positive_flow(&self, weights: &[f64]) -> Vec<f64> {
        let mut flow = vec![0.0; self.all.len()];
        for (arc, (_, _, variable)) in self.all.iter().enumerate() {
            flow[arc] += weights[*variable];
        }
        let forwards = |(from, to, _): &(usize, usize, usize)| (*from, *to);
        let backwards = |(from, to, _): &(usize, usize, usize)| (*to, *from);
        self.route_imports(&mut flow, weights, forwards);
        self.route_imports(&mut flow, weights, backwards);
        let mut of = vec![0.0; self.variables];
        for (arc, (_, _, variable)) in self.all.iter().enumerate() {
            of[*variable] = flow[arc];
        }
        of
    }

    /// Changes the arcs of a tree so that a change of a flow leaves every node balanced. The tree
    /// consists of the largest flows: each of its arcs carries more than any other arc of its cut.
    /// So relative changes are small, and the balance of a rarely executed corner does not depend
    /// on the rounding of the most frequent code.
    pub fn balance_change(&self, flow: &[f64], change: &mut [f64]) {
        let mut largest: Vec<usize> = (0..self.variables)
            .filter(|arc| self.arcs[*arc].0 != self.arcs[*arc].1)
            .collect();
        largest.sort_by(|one, other| flow[*other].total_cmp(&flow[*one]));
        let mut sets = Sets((0..self.nodes).collect());
        let mut tree: Vec<Vec<usize>> = vec![Vec::new(); self.nodes];
        // Sums with their rounding errors, because large arcs cancel out in the flow of a small
        // one.
        let mut need = vec![(0.0, 0.0); self.nodes];
        for arc in largest {
            let (from, to) = self.arcs[arc];
            if sets.find_root(from) == sets.find_root(to) {
                need[from] = add_exactly(need[from], change[arc]);
                need[to] = add_exactly(need[to], -change[arc]);
            } else {
                sets.join_sets(from, to);
                tree[from].push(arc);
                tree[to].push(arc);
            }
        }
        let mut parent = vec![None; self.nodes];
        let mut order = Vec::with_capacity(self.nodes);
        for root in 0..self.nodes {
            if sets.find_root(root) == root {
                order.push(root);
            }
        }
        let mut next = 0;
        while let Some(node) = order.get(next).copied() {
            next += 1;
            for arc in &tree[node] {
                if parent[node] != Some(*arc) {
                    let (from, to) = self.arcs[*arc];
                    let child = if from == node { to } else { from };
                    parent[child] = Some(*arc);
                    order.push(child);
                }
            }
        }
        for node in order.into_iter().rev() {
            if let Some(arc) = parent[node] {
                let (from, to) = self.arcs[arc];
                let (sum, lost) = need[node];
                let carried = sum + lost;
                change[arc] = if to == node { carried } else { -carried };
                let above = if to == node { from } else { to };
                need[above] = add_exactly(add_exactly(need[above], sum), lost);
            }
        }
    }

    /// Adds the flow that must come from the outside to the tail of each arc, along a tree of
    /// shortest paths.
    fn route_imports(
        &self,
        flow: &mut [f64],
        weights: &[f64],
        way: impl Fn(&(usize, usize, usize)) -> (usize, usize),
    ) {
        let root = self.all_nodes - 1;
        let mut out: Vec<Vec<usize>> = vec![Vec::new(); self.all_nodes];
        let mut need = vec![0.0; self.all_nodes];
        for (arc, one) in self.all.iter().enumerate() {
            out[way(one).0].push(arc);
            need[way(one).0] += weights[one.2];
        }
        let mut parent = vec![None; self.all_nodes];
        let mut order = vec![root];
        let mut next = 0;
        while let Some(node) = order.get(next).copied() {
            next += 1;
            for arc in &out[node] {
                let (_, to) = way(&self.all[*arc]);
                if to != root && parent[to].is_none() {
                    parent[to] = Some(*arc);
                    order.push(to);
                }
            }
        }
        for node in order.into_iter().rev() {
            if let Some(arc) = parent[node] {
                flow[arc] += need[node];
                need[way(&self.all[arc]).0] += need[node];
            }
        }
    }
}

/// Adds to a sum that keeps its rounding error (Knuth's TwoSum).
fn add_exactly((sum, lost): (f64, f64), more: f64) -> (f64, f64) {
    let new = sum + more;
    // Keep this order: simplified by algebra, the error would be 0.
    let taken = new - sum;
    (new, lost + ((sum - (new - taken)) + (more - taken)))
}

/// Disjoint sets.
struct Sets(Vec<usize>);

impl Sets {
    fn find_root(&mut self, mut node: usize) -> usize {
        while self.0[node] != node {
            // Path compression: each lookup shortens the path for the next one.
            self.0[node] = self.0[self.0[node]];
            node = self.0[node];
        }
        node
    }

    fn join_sets(&mut self, one: usize, other: usize) {
        let (one, other) = (self.find_root(one), self.find_root(other));
        self.0[one] = other;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The flow into each node equals the flow out of it, and classes agree.
    #[test]
    fn the_first_flow_is_one() {
        // A loop with a condition in it, and a loop without an end.
        let edges = [
            (None, Some(0)),
            (Some(0), Some(1)),
            (Some(1), Some(2)),
            (Some(1), Some(3)),
            (Some(2), Some(3)),
            (Some(3), Some(1)),
            (Some(3), None),
            (Some(0), Some(4)),
            (Some(4), Some(4)),
        ];
        let classes = Equivalence::new(5, &edges);
        let network = Network::new(&edges, &classes);
        assert_eq!(network.variables, classes.classes + 1);
        let weights: Vec<f64> = (0..network.variables).map(|i| 1.0 + i as f64).collect();
        let flow = network.positive_flow(&weights);
        let mut balance = vec![0.0; network.nodes];
        for ((from, to), flow) in network.arcs.iter().zip(&flow) {
            assert!(*flow > 0.0);
            balance[*from] -= flow;
            balance[*to] += flow;
        }
        assert!(balance.iter().all(|rest| rest.abs() < 1e-9), "{balance:?}");
    }
}
