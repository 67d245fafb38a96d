//! A call tree with what the search looks up in it.

use super::paths::{Found, Paths};
use super::spans::{Measured, Spans};
use profile::{CallTree, CallTreeColumns};
use std::cell::{Cell, RefCell};
use std::sync::Arc;

/// A call tree, where each method occurs, and the metrics of each method.
#[derive(Debug)]
pub(crate) struct IndexedTree {
    /// One more than there are nodes: after the last one there is a cost before it, too.
    nodes: Vec<Node>,
    /// By value type that is not the cost: entry `n` is the sum of the costs of the nodes before `n`.
    others: Vec<Vec<i64>>,
    /// The nodes of method `m`, in preorder, are the finals at `start[m]..start[m + 1]`.
    start: Vec<u32>,
    occurrences: Arc<Found>,
    scratch: Scratch,
}

/// A node with all that a walk asks of it in one place: walks jump about in trees that are larger than the
/// caches, and what they wait for is memory.
#[derive(Clone, Debug)]
pub(crate) struct Node {
    pub method: u32,
    pub parent: u32,
    /// The first node after it that is no descendant.
    pub end: u32,
    /// The sum of the costs of the nodes before it.
    before: i64,
    /// See [`View::begin`].
    pub stamp: Cell<u32>,
}

/// The nodes of a tree and one cost, on which all is computed. The cost is the tree's own or what
/// is left of it.
#[derive(Clone, Copy)]
pub(crate) struct View<'a> {
    pub nodes: &'a [Node],
    /// The sums of the costs before each node, if they are not the tree's own.
    left: Option<&'a [i64]>,
    pub scratch: &'a Scratch,
}

/// Memory that computations leave as they found it: it says nothing between them.
#[derive(Debug)]
pub(crate) struct Scratch {
    epoch: Cell<u32>,
    /// By method; 0 between computations.
    pub slot: RefCell<Vec<u32>>,
}

/// The work of following a node's callees, where that of following its callers is 1.
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

    /// The number of nodes, with the root.
    pub fn len(&self) -> usize {
        self.nodes.len() - 1
    }

    pub fn total(&self) -> i64 {
        self.view().cum_cost(0)
    }

    pub fn has_negative_cost(&self) -> bool {
        self.nodes.windows(2).any(|w| w[1].before < w[0].before)
    }

    /// The sum of the costs without their signs.
    pub fn absolute(&self) -> i64 {
        let pairs = self.nodes.windows(2);
        pairs.map(|w| (w[1].before - w[0].before).abs()).sum()
    }

    /// The tree with its own cost.
    pub fn view(&self) -> View<'_> {
        View {
            nodes: &self.nodes,
            left: None,
            scratch: &self.scratch,
        }
    }

    /// The tree with what [`View::left`] gave.
    pub fn view_with<'a>(&'a self, left: &'a [i64]) -> View<'a> {
        View {
            left: Some(left),
            ..self.view()
        }
    }

    /// The cost of these nodes by one of the other value types, in their order.
    pub fn other_cost(&self, other: usize, nodes: &Spans) -> i64 {
        let before = &self.others[other];
        nodes.cost(|node| before[node as usize])
    }

    /// The nodes of a method, in preorder.
    pub fn occurrences(&self, method: u32) -> &[u32] {
        let m = method as usize;
        &self.occurrences.finals()[self.start[m] as usize..self.start[m + 1] as usize]
    }

    /// By method: the paths of that one step.
    pub fn singles(&self) -> Vec<Paths> {
        let ranges = self.start.windows(2).map(|w| w[0] as usize..w[1] as usize);
        let metrics = self.view().metrics_of_methods();
        let paths = |(range, metrics)| Paths::measured(self.occurrences.clone(), range, metrics);
        ranges.zip(metrics).map(paths).collect()
    }

    /// The paths labelled with these methods.
    pub fn locate(&self, path: &[u32]) -> Paths {
        // From the method that is rarest; but to look for callees is more work than to look for callers.
        let work = |at: &usize| {
            let each = if at + 1 < path.len() { CALLEES } else { 1 };
            each * self.occurrences(path[*at]).len()
        };
        let Some(pivot) = (0..path.len()).min_by_key(work) else {
            return Paths::default();
        };
        let view = self.view();
        let mut found = Found::default();
        for node in self.occurrences(path[pivot]) {
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
            found = view.callees(&found, *method);
        }
        Paths::of_all(view, found, path.len())
    }
}

impl<'a> View<'a> {
    /// The sum of the costs of the nodes before `node`.
    fn before(&self, node: u32) -> i64 {
        match self.left {
            None => self.nodes[node as usize].before,
            Some(left) => left[node as usize],
        }
    }

    pub fn cost(&self, node: u32) -> i64 {
        self.before(node + 1) - self.before(node)
    }

    pub fn cum_cost(&self, node: u32) -> i64 {
        self.before(self.nodes[node as usize].end) - self.before(node)
    }

    /// By method: base and cum of that one step. All in one pass over the tree.
    pub fn metrics_of_methods(&self) -> Vec<(i64, i64)> {
        let methods = self.scratch.slot.borrow().len();
        let mut metrics = vec![(0, 0); methods];
        let mut ends = vec![0; methods];
        let count = self.nodes.len() as u32 - 1;
        for (number, node) in (0..count).zip(self.nodes).skip(1) {
            let at = node.method as usize;
            metrics[at].0 += self.cost(number);
            if number >= ends[at] {
                metrics[at].1 += self.cum_cost(number);
                ends[at] = node.end;
            }
        }
        metrics
    }

    /// The cost of these nodes.
    pub fn cost_of(&self, nodes: &Spans) -> i64 {
        nodes.cost(|node| self.before(node))
    }

    /// The set with its costs.
    pub fn measured(&self, nodes: &Spans) -> Measured {
        Measured::new(nodes, |node| self.before(node))
    }

    /// The costs without those of these nodes, for [`IndexedTree::view_with`].
    pub fn left(&self, nodes: &Spans) -> Vec<i64> {
        nodes.left(self.nodes.len(), |node| self.before(node))
    }

    /// The node, its caller, and so on: `count` of them, which there are.
    pub fn callers(&self, node: u32, count: usize) -> impl Iterator<Item = u32> + use<'a> {
        let nodes = self.nodes;
        std::iter::successors(Some(node), |n| Some(nodes[*n as usize].parent)).take(count)
    }

    /// The nodes that `node` calls.
    pub fn children(&self, node: u32) -> impl Iterator<Item = u32> + use<'a> {
        let nodes = self.nodes;
        let end = nodes[node as usize].end;
        let mut next = node + 1;
        std::iter::from_fn(move || {
            let child = next;
            (child < end).then(|| {
                next = nodes[child as usize].end;
                child
            })
        })
    }

    /// Starts an epoch in which a node can be stamped with `epoch..epoch + marks`; returns `epoch`. All
    /// stamps from before are smaller.
    pub fn begin(&self, marks: usize) -> u32 {
        let marks = u32::try_from(marks).unwrap_or(u32::MAX - 1);
        let epoch = &self.scratch.epoch;
        if epoch.get() > u32::MAX - 1 - marks {
            self.nodes.iter().for_each(|node| node.stamp.set(0));
            epoch.set(1);
        }
        epoch.replace(epoch.get() + marks)
    }
}
