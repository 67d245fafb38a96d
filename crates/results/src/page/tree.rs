//! Calling contexts as columns, and their reduction.

use serde::Serialize;

/// Nodes in preorder, without the root: column by column.
#[derive(Clone, Debug, Serialize)]
pub struct PageTree {
    /// The depth of each node; nodes without a caller are 1 deep.
    pub depth: Vec<u32>,
    /// Method of each node.
    pub method: Vec<u32>,
    /// Own cost by value. The first entry is the root's: samples without a stack.
    pub cost: Vec<Vec<i64>>,
    /// The nodes left out to keep the data small.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub left_out: Option<LeftOutNodes>,
}

/// Nodes that are not in a tree.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct LeftOutNodes {
    /// The number of nodes.
    pub nodes: usize,
    /// Part of each value that each of them was below.
    pub share: f64,
}

/// Leaves out each node that has less than `share` of every value, callees included. Its cost
/// becomes its caller's.
pub(super) fn prune_tree(tree: &mut PageTree, share: f64) {
    let len = tree.depth.len();
    // With the root at 0; the caller of each node is the last earlier one that is less deep.
    let mut caller = vec![0_usize; len + 1];
    let mut open = vec![0_usize];
    for (at, depth) in tree.depth.iter().enumerate() {
        open.truncate(*depth as usize);
        caller[at + 1] = open.last().copied().unwrap_or(0);
        open.push(at + 1);
    }
    let mut keep = vec![false; len + 1];
    keep[0] = true;
    for own in &tree.cost {
        // Absolute values, so that gains and losses below a node do not cancel out.
        let mut sum: Vec<f64> = own.iter().map(|cost| cost.unsigned_abs() as f64).collect();
        for node in (1..=len).rev() {
            sum[caller[node]] += sum[node];
        }
        let least = share * sum[0];
        for (keep, sum) in keep.iter_mut().zip(&sum) {
            *keep |= *sum >= least && *sum > 0.0;
        }
    }
    for own in &mut tree.cost {
        for node in (1..=len).rev().filter(|node| !keep[*node]) {
            own[caller[node]] += own[node];
        }
        let mut kept = keep.iter();
        own.retain(|_| kept.next().copied().unwrap_or(false));
    }
    for column in [&mut tree.depth, &mut tree.method] {
        let mut kept = keep[1..].iter();
        column.retain(|_| kept.next().copied().unwrap_or(false));
    }
    let before = tree.left_out.map_or(0, |left_out| left_out.nodes);
    let nodes = before + len - tree.depth.len();
    tree.left_out = (nodes > 0).then_some(LeftOutNodes { nodes, share });
}
