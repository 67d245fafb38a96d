//! Several trees as one, for the automatic search.
//!
//! The paper compares a sequence's costs in two trees, at all of its places in each. If it occurs
//! in one of them only, the costs along its path count in full, though the other tree has the same
//! costs on another path: a call that is new below an expensive old method seems to cost as much as
//! that method. An analyst sees that, but a search that maximises would look for it. So the search
//! compares context by context: one tree with a node for each calling context of any of the
//! profiles, and at each node the weighted sum of its costs.
//!
//! **Where two profiles part.** A call that only one side makes is the cause of all that is below
//! it, and the methods below it may be anybody's. So such a call gets the costs of its callees, and
//! their nodes are left out. In sampled profiles many rare contexts are on one side by chance, on
//! either side equally often; so this is done only for methods whose calls are mostly on one side.
//! It is not done if it would take most of a side, because then the two profiles have hardly
//! anything in common.

use super::forest::{Forest, ForestError, ProfiledRun};
use super::interface::{Profile, Step};
use crate::statistics::{self, Interval};
use profile::{CallTree, CallTreeBuilder, CallTreeError, DraftNode, NodeId, ValueType};

/// A forest as one tree.
#[derive(Debug)]
pub(crate) struct United {
    /// One tree. Its first value type is the weighted sum of costs, times `scale`; then follows the
    /// cost in each profile. Its steps are those of the forest.
    pub forest: Forest,
    scale: f64,
}

impl United {
    /// Unites the profiles of a forest.
    ///
    /// # Errors
    /// If there are too many contexts, or the differences are all 0.
    pub fn new(forest: &Forest) -> Result<Self, UniteError> {
        let absolute: f64 = forest
            .indexes()
            .map(|(i, w)| w.abs() * i.absolute_cost() as f64)
            .sum();
        // Fixed point, with a scale at which the sum of all costs still fits.
        let scale = 2f64.powi((2f64.powi(58) / absolute.max(1.0)).log2().floor() as i32);
        let value = |name: String| ValueType {
            name,
            unit: String::new(),
        };
        let mut values = vec![value("difference".into())];
        values.extend((0..forest.members().len()).map(|at| value(at.to_string())));
        let mut builder = CallTreeBuilder::new(values);
        let mut methods = Vec::new();
        for method in forest.methods() {
            methods.push(builder.method(&method.name, &method.module)?);
        }
        for (at, (index, weight)) in forest.indexes().enumerate() {
            let view = index.view();
            let mut place = vec![DraftNode::ROOT; index.len()];
            for node in 0..index.len() as u32 {
                if node > 0 {
                    let old = &view.nodes[node as usize];
                    let Step(step) = forest.step_of(at, old.method);
                    let above = place[old.parent as usize];
                    place[node as usize] = builder.child(above, methods[step as usize])?;
                }
                let (cost, here) = (view.cost(node), place[node as usize]);
                if cost != 0 {
                    builder.add(0, here, (weight * scale * cost as f64).round() as i64);
                    builder.add(at + 1, here, cost);
                }
            }
        }
        let sides: Vec<bool> = forest.members().iter().map(|m| m.first_side).collect();
        let run = ProfiledRun {
            name: String::new(),
            tree: without_parted(builder.finish()?, &sides)?,
            value: 0,
            work: None,
        };
        let forest = Forest::with_whole(run, forest.whole() * scale, forest.whole_kind())?;
        Ok(Self { forest, scale })
    }

    /// Converts a cost of the united forest to one of the original.
    pub fn original_cost(&self, cost: f64) -> f64 {
        cost / self.scale
    }

    /// Returns the confidence interval of the cost of a path's contexts, over the runs of
    /// `original`.
    pub fn cost_interval(&self, original: &Forest, path: &[Step]) -> Option<Interval> {
        let sequence = self.forest.summary_of(path)?;
        let cover = self.forest.cover(&[&sequence]);
        let nodes = cover.covered_spans().first()?;
        let (index, _) = self.forest.indexes().next()?;
        let (mut a, mut b) = (Vec::new(), Vec::new());
        for (at, member) in original.members().into_iter().enumerate() {
            let cost = member.factor * index.other_cost(at, nodes) as f64;
            if member.first_side {
                a.push(cost)
            } else {
                b.push(cost)
            }
        }
        statistics::interval_of_runs(&a, &b)
    }
}

/// Minimum imbalance between the sides' parted calls of a method, as a part of their sum. Below
/// that, calls may be on one side by chance.
const ONE_SIDED: f64 = 0.5;
/// The largest share of its side that a parted call may have.
const MOST_OF_SIDE: f64 = 0.5;

/// Returns the tree without the nodes below calls that only one side makes; their costs are added
/// to the calls. Value types after the first are those of the members. `sides` is true for members
/// of the first side.
fn without_parted(tree: CallTree, sides: &[bool]) -> Result<CallTree, CallTreeError> {
    let parted = parted_calls(&tree, sides);
    if parted.is_empty() {
        return Ok(tree);
    }
    let mut builder = CallTreeBuilder::new(tree.value_types().to_vec());
    for method in tree.methods() {
        builder.method(&method.name, &method.module)?;
    }
    let mut place = vec![DraftNode::ROOT; tree.len()];
    let mut parted = parted.into_iter().peekable();
    let mut node = NodeId::ROOT;
    while (node.0 as usize) < tree.len() {
        let here = match (tree.parent(node), tree.method(node)) {
            (Some(parent), Some(method)) => builder.child(place[parent.0 as usize], method)?,
            _ => DraftNode::ROOT,
        };
        place[node.0 as usize] = here;
        let is_parted = parted.next_if_eq(&node).is_some();
        for value in 0..tree.value_types().len() {
            let cost = if is_parted {
                tree.cum_cost(value, node)
            } else {
                tree.cost(value, node)
            };
            if cost != 0 {
                builder.add(value, here, cost);
            }
        }
        node = if is_parted {
            tree.end(node)
        } else {
            NodeId(node.0 + 1)
        };
    }
    builder.finish()
}

/// Returns the outermost calls that only one side makes, in preorder; see the module.
fn parted_calls(tree: &CallTree, sides: &[bool]) -> Vec<NodeId> {
    // The cost of each side. Sums over both sides do not show presence, because they are
    // differences.
    let side_cost = |node: NodeId, first: bool| -> i64 {
        let members = sides.iter().enumerate().filter(|(_, side)| **side == first);
        members.map(|(at, _)| tree.cum_cost(at + 1, node)).sum()
    };
    let totals = [false, true].map(|first| side_cost(NodeId::ROOT, first).abs() as f64);
    let mut calls: Vec<NodeId> = Vec::new();
    let mut by_method = vec![[0.0; 2]; tree.methods().len()];
    let mut node = NodeId(1);
    while (node.0 as usize) < tree.len() {
        let costs = [false, true].map(|first| side_cost(node, first));
        let side = match costs {
            [0, first] if first != 0 => Some(true),
            [second, 0] if second != 0 => Some(false),
            _ => None,
        };
        let next = NodeId(node.0 + 1);
        let Some(side) = side else {
            node = next;
            continue;
        };
        let cost = costs[usize::from(side)].abs() as f64;
        if cost > MOST_OF_SIDE * totals[usize::from(side)] {
            node = next;
            continue;
        }
        if let Some(method) = tree.method(node) {
            by_method[method.0 as usize][usize::from(side)] += cost;
        }
        calls.push(node);
        node = tree.end(node);
    }
    let is_one_sided = |node: NodeId| {
        let [second, first] = tree
            .method(node)
            .map_or([0.0; 2], |m| by_method[m.0 as usize]);
        (first - second).abs() >= ONE_SIDED * (first + second)
    };
    calls.retain(|node| is_one_sided(*node));
    calls
}

/// Reason that trees could not be united.
#[derive(Debug, thiserror::Error)]
pub enum UniteError {
    /// An error of the tree.
    #[error(transparent)]
    Tree(#[from] CallTreeError),
    /// An error of the forest.
    #[error(transparent)]
    Forest(#[from] ForestError),
}
