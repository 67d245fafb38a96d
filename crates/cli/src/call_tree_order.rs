//! The order in which call trees are shown.

use profile::{CallTree, NodeId};

/// Returns the children of a node that cost at least `least`, the most expensive last: the first to
/// be popped off a stack.
pub fn children_shown(tree: &CallTree, node: NodeId, least: f64) -> Vec<NodeId> {
    let children = tree.children(node);
    let mut shown: Vec<NodeId> = children
        .filter(|child| tree.cum_cost(0, *child) as f64 >= least)
        .collect();
    shown.sort_by_cached_key(|child| {
        let method = tree
            .method(*child)
            .map(|method| &tree.methods()[method.0 as usize]);
        (
            tree.cum_cost(0, *child),
            method.map(|method| (&method.name, &method.module)),
        )
    });
    shown
}
