//! A call tree with what the search looks up in it.

use super::paths::Paths;
use profile::CallTree;
use std::cell::RefCell;
use std::sync::Arc;

/// A call tree, where each method occurs, and the metrics of each method.
#[derive(Debug)]
pub(crate) struct IndexedTree {
    tree: CallTree,
    value: usize,
    /// The nodes of method `m`, in preorder, are `nodes[start[m]..start[m + 1]]`.
    start: Vec<u32>,
    nodes: Arc<Vec<u32>>,
    scratch: RefCell<Scratch>,
}

/// The columns of a tree and one cost, on which all is computed. The cost is the tree's own or what
/// is left of it.
#[derive(Clone, Copy)]
pub(crate) struct View<'a> {
    pub method: &'a [u32],
    pub parent: &'a [u32],
    pub end: &'a [u32],
    /// Entry `n` is the sum of the costs of the nodes before `n`.
    pub prefix: &'a [i64],
    pub scratch: &'a RefCell<Scratch>,
}

/// Memory that computations leave as they found it: it says nothing between them.
#[derive(Debug)]
pub(crate) struct Scratch {
    /// By node: `epoch` plus something says that it was visited since `epoch` began.
    stamp: Vec<u32>,
    epoch: u32,
    /// By method; 0 between computations.
    pub slot: Vec<u32>,
}

impl Scratch {
    /// Starts an epoch in which a node can be stamped with `epoch..epoch + marks`; returns the stamps
    /// and `epoch`. All stamps from before are smaller.
    pub fn begin(&mut self, marks: usize) -> (&mut [u32], u32) {
        let marks = u32::try_from(marks).unwrap_or(u32::MAX - 1);
        if self.epoch > u32::MAX - 1 - marks {
            self.stamp.fill(0);
            self.epoch = 1;
        }
        let epoch = self.epoch;
        self.epoch += marks;
        (&mut self.stamp, epoch)
    }
}

impl IndexedTree {
    /// Indexes the tree for the value type at position `value`, which it has.
    pub fn new(tree: CallTree, value: usize) -> Self {
        let method = tree.columns().0;
        let mut start = vec![0_u32; tree.methods().len() + 1];
        for m in &method[1..] {
            start[*m as usize + 1] += 1;
        }
        for m in 1..start.len() {
            start[m] += start[m - 1];
        }
        let mut next = start.clone();
        let mut nodes = vec![0; method.len() - 1];
        for (node, m) in method.iter().enumerate().skip(1) {
            nodes[next[*m as usize] as usize] = node as u32;
            next[*m as usize] += 1;
        }
        let scratch = Scratch {
            stamp: vec![0; method.len()],
            epoch: 1,
            slot: vec![0; tree.methods().len()],
        };
        Self {
            tree,
            value,
            start,
            nodes: Arc::new(nodes),
            scratch: RefCell::new(scratch),
        }
    }

    pub fn tree(&self) -> &CallTree {
        &self.tree
    }

    pub fn total(&self) -> i64 {
        self.tree.total(self.value)
    }

    pub fn has_negative_cost(&self) -> bool {
        self.view().prefix.windows(2).any(|w| w[1] < w[0])
    }

    /// The sum of the costs without their signs.
    pub fn absolute(&self) -> i64 {
        self.view()
            .prefix
            .windows(2)
            .map(|w| (w[1] - w[0]).abs())
            .sum()
    }

    /// The tree with its own cost.
    pub fn view(&self) -> View<'_> {
        self.view_with(&self.tree.columns().2[self.value])
    }

    /// The tree with another cost, given as prefix sums.
    pub fn view_with<'a>(&'a self, prefix: &'a [i64]) -> View<'a> {
        let (method, parent, _) = self.tree.columns();
        View {
            method,
            parent,
            end: self.tree.ends(),
            prefix,
            scratch: &self.scratch,
        }
    }

    /// The nodes of a method, in preorder.
    pub fn occurrences(&self, method: u32) -> &[u32] {
        let m = method as usize;
        &self.nodes[self.start[m] as usize..self.start[m + 1] as usize]
    }

    /// The paths of one step.
    pub fn single(&self, method: u32) -> Paths {
        let m = method as usize;
        let range = self.start[m] as usize..self.start[m + 1] as usize;
        Paths::new(
            self.view(),
            self.nodes.clone(),
            self.nodes.clone(),
            range,
            1,
        )
    }

    /// The paths labelled with these methods.
    pub fn locate(&self, path: &[u32]) -> Paths {
        let count = |m: &u32| self.occurrences(*m).len();
        let Some(pivot) = (0..path.len()).min_by_key(|at| count(&path[*at])) else {
            return Paths::default();
        };
        let view = self.view();
        let (mut finals, mut roots) = (Vec::new(), Vec::new());
        for node in self.occurrences(path[pivot]) {
            let mut root = *node;
            let fits = path[..pivot].iter().rev().all(|m| {
                root = view.parent[root as usize];
                root != 0 && view.method[root as usize] == *m
            });
            if fits {
                finals.push(*node);
                roots.push(root);
            }
        }
        let range = 0..finals.len();
        let mut paths = Paths::new(view, Arc::new(finals), Arc::new(roots), range, pivot + 1);
        for (at, method) in path.iter().enumerate().skip(pivot + 1) {
            let extended = view.extended_bottom(&paths, at, Some(*method));
            paths = extended.into_iter().next().map(|e| e.1).unwrap_or_default();
        }
        paths
    }
}

impl View<'_> {
    pub fn cost(&self, node: u32) -> i64 {
        self.prefix[node as usize + 1] - self.prefix[node as usize]
    }

    pub fn cum_cost(&self, node: u32) -> i64 {
        self.prefix[self.end[node as usize] as usize] - self.prefix[node as usize]
    }
}
