//! A call tree with the indexes of the search.

use super::paths::{Found, Paths};
use super::spans::Spans;
use super::view::{Node, Scratch, View};
use profile::{CallTree, CallTreeColumns};
use std::cell::{Cell, RefCell};
use std::sync::Arc;

/// A call tree, indexed by method, with the metrics of each method.
#[derive(Debug)]
pub(crate) struct IndexedTree {
    /// One more than the tree has nodes: there is a sum of costs after the last node, too.
    nodes: Vec<Node>,
    /// For each value type that is not the cost, prefix sums: entry `n` is the sum of the costs of
    /// the nodes before `n`.
    others: Vec<Vec<i64>>,
    /// The nodes of method `m`, in preorder, are the finals at `start[m]..start[m + 1]`.
    start: Vec<u32>,
    occurrences: Arc<Found>,
    scratch: Scratch,
}

/// The cost of following a node's callees, relative to following its callers.
const CALLEES: usize = 4;

impl IndexedTree {
    /// Indexes the tree for the value type at position `value`, which it has.
    pub fn new(tree: CallTree, value: usize) -> Self {
        let CallTreeColumns {
            methods,
            method,
            parent,
            end,
            prefix: mut others,
            ..
        } = tree.into_columns();
        let prefix = others.remove(value);
        let count = method.len();
        let node = |n: usize| Node {
            method: method.get(n).copied().unwrap_or(u32::MAX),
            parent: parent.get(n).copied().unwrap_or(0),
            end: end.get(n).copied().unwrap_or(0),
            stamp: Cell::new(0),
            before: prefix[n],
        };
        let nodes: Vec<Node> = (0..=count).map(node).collect();
        drop((parent, end, prefix));
        let mut start = vec![0_u32; methods.len() + 1];
        for m in &method[1..] {
            start[*m as usize + 1] += 1;
        }
        for m in 1..start.len() {
            start[m] += start[m - 1];
        }
        let mut next = start.clone();
        let mut finals = vec![0; count - 1];
        for (node, m) in method.iter().enumerate().skip(1) {
            finals[next[*m as usize] as usize] = node as u32;
            next[*m as usize] += 1;
        }
        Self {
            nodes,
            others,
            start,
            occurrences: Arc::new(Found::single_nodes(finals)),
            scratch: Scratch {
                epoch: Cell::new(1),
                slot: RefCell::new(vec![0; methods.len()]),
            },
        }
    }

    /// Returns the number of nodes, with the root.
    pub fn len(&self) -> usize {
        self.nodes.len() - 1
    }

    pub fn total(&self) -> i64 {
        self.view().cum_cost(0)
    }

    pub fn has_negative_cost(&self) -> bool {
        self.nodes.windows(2).any(|w| w[1].before < w[0].before)
    }

    /// Returns the sum of the costs without their signs.
    pub fn absolute_cost(&self) -> i64 {
        let pairs = self.nodes.windows(2);
        pairs.map(|w| (w[1].before - w[0].before).abs()).sum()
    }

    /// Returns the tree with its own cost.
    pub fn view(&self) -> View<'_> {
        View {
            nodes: &self.nodes,
            left: None,
            scratch: &self.scratch,
        }
    }

    /// Returns the tree with the costs that [`View::left`] gave.
    pub fn view_with<'a>(&'a self, left: &'a [i64]) -> View<'a> {
        View {
            left: Some(left),
            ..self.view()
        }
    }

    /// Returns the cost of these nodes by one of the other value types, in their order.
    pub fn other_cost(&self, other: usize, nodes: &Spans) -> i64 {
        let before = &self.others[other];
        nodes.cost(|node| before[node as usize])
    }

    /// Returns the nodes of a method, in preorder.
    pub fn method_nodes(&self, method: u32) -> &[u32] {
        let m = method as usize;
        &self.occurrences.finals()[self.start[m] as usize..self.start[m + 1] as usize]
    }

    /// Returns, for each method, its paths of one step.
    pub fn single_paths(&self) -> Vec<Paths> {
        let ranges = self.start.windows(2).map(|w| w[0] as usize..w[1] as usize);
        let metrics = self.view().metrics_of_methods();
        let paths = |(range, metrics)| Paths::measured(self.occurrences.clone(), range, metrics);
        ranges.zip(metrics).map(paths).collect()
    }

    /// Returns the paths labelled with these methods.
    pub fn locate_path(&self, path: &[u32]) -> Paths {
        // Starts from the rarest method; looking for callees costs more than looking for callers.
        let work = |at: &usize| {
            let each = if at + 1 < path.len() { CALLEES } else { 1 };
            each * self.method_nodes(path[*at]).len()
        };
        let Some(pivot) = (0..path.len()).min_by_key(work) else {
            return Paths::default();
        };
        let view = self.view();
        let mut found = Found::default();
        for node in self.method_nodes(path[pivot]) {
            let mut root = *node;
            let fits = path[..pivot].iter().rev().all(|m| {
                root = view.nodes[root as usize].parent;
                root != 0 && view.nodes[root as usize].method == *m
            });
            if fits {
                let above = view.callers(*node, pivot + 1).skip(1);
                found.push(*node, root, above.map(|n| view.cost(n)).sum());
            }
        }
        for method in &path[pivot + 1..] {
            found = view.extend_by_callee(&found, *method);
        }
        Paths::of_all(view, found, path.len())
    }
}
