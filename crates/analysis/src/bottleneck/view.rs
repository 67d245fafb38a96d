//! The nodes of a call tree with one cost, the input of all computations.

use super::spans::{Measured, Spans};
use std::cell::{Cell, RefCell};

/// A node with all the data of a walk in one place. Walks jump about in trees larger than the
/// caches, so they mostly wait for memory.
#[derive(Clone, Debug)]
pub(crate) struct Node {
    pub method: u32,
    pub parent: u32,
    /// The first node after it that is no descendant.
    pub end: u32,
    /// The sum of the costs of the nodes before it.
    pub before: i64,
    /// See [`View::begin`].
    pub stamp: Cell<u32>,
}

/// The nodes of a tree and one cost, the input of all computations. The cost is the tree's own, or
/// the part that is left.
#[derive(Clone, Copy)]
pub(crate) struct View<'a> {
    pub nodes: &'a [Node],
    /// The sums of the costs before each node, if they are not the tree's own.
    pub left: Option<&'a [i64]>,
    pub scratch: &'a Scratch,
}

/// Memory that every computation leaves as it found it.
#[derive(Debug)]
pub(crate) struct Scratch {
    pub epoch: Cell<u32>,
    /// Entry for each method; 0 between computations.
    pub slot: RefCell<Vec<u32>>,
}

impl<'a> View<'a> {
    /// Returns the sum of the costs of the nodes before `node`.
    fn cost_before(&self, node: u32) -> i64 {
        match self.left {
            None => self.nodes[node as usize].before,
            Some(left) => left[node as usize],
        }
    }

    pub fn cost(&self, node: u32) -> i64 {
        self.cost_before(node + 1) - self.cost_before(node)
    }

    pub fn cum_cost(&self, node: u32) -> i64 {
        self.cost_before(self.nodes[node as usize].end) - self.cost_before(node)
    }

    /// Returns base and cum of each method's one-step sequence, in one pass over the tree.
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

    /// Returns the cost of these nodes.
    pub fn cost_of(&self, nodes: &Spans) -> i64 {
        nodes.cost(|node| self.cost_before(node))
    }

    /// Returns the set with its costs.
    pub fn measured(&self, nodes: &Spans) -> Measured {
        Measured::new(nodes, |node| self.cost_before(node))
    }

    /// Returns the costs without those of these nodes, for
    /// [`IndexedTree::view_with`](super::tree::IndexedTree::view_with).
    pub fn costs_left(&self, nodes: &Spans) -> Vec<i64> {
        nodes.costs_left(self.nodes.len(), |node| self.cost_before(node))
    }

    /// Returns the node, its caller, and so on: `count` nodes, which must exist.
    pub fn callers(&self, node: u32, count: usize) -> impl Iterator<Item = u32> + use<'a> {
        let nodes = self.nodes;
        std::iter::successors(Some(node), |n| Some(nodes[*n as usize].parent)).take(count)
    }

    /// Returns the nodes that `node` calls.
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

    /// Starts an epoch in which a node can be stamped with `epoch..epoch + marks`; returns `epoch`.
    /// All earlier stamps are smaller.
    pub fn begin_epoch(&self, marks: usize) -> u32 {
        let marks = u32::try_from(marks).unwrap_or(u32::MAX - 1);
        let epoch = &self.scratch.epoch;
        if epoch.get() > u32::MAX - 1 - marks {
            self.nodes.iter().for_each(|node| node.stamp.set(0));
            epoch.set(1);
        }
        epoch.replace(epoch.get() + marks)
    }
}
