//! Orders of trees in which each node has its parent; node 0 is the root.

/// Returns the nodes in preorder. A parent has a smaller number than its children.
pub(crate) fn nodes_in_preorder(parent: &[u32]) -> Vec<u32> {
    let nodes = parent.len();
    // Subtree sizes from the last node to the first, then each node's position from the first on:
    // its parent's position plus the sizes of its elder siblings.
    let mut size = vec![1_u32; nodes];
    for node in (1..nodes).rev() {
        size[parent[node] as usize] += size[node];
    }
    let mut place = vec![0_u32; nodes];
    let mut free = vec![1_u32; nodes];
    for node in 1..nodes {
        let above = parent[node] as usize;
        place[node] = free[above];
        free[above] += size[node];
        free[node] = place[node] + 1;
    }
    inverse_permutation(&place)
}

/// Returns the inverse of a permutation.
pub(crate) fn inverse_permutation(permutation: &[u32]) -> Vec<u32> {
    let mut inverse = vec![0; permutation.len()];
    for (position, value) in permutation.iter().enumerate() {
        inverse[*value as usize] = position as u32;
    }
    inverse
}

/// Returns the end of each node's subtree if the nodes are in preorder, else `None`.
pub(crate) fn subtree_ends(parent: &[u32]) -> Option<Vec<u32>> {
    let nodes = parent.len();
    let mut end: Vec<u32> = (1..=nodes as u32).collect();
    if (1..nodes).any(|node| parent[node] as usize >= node) {
        return None;
    }
    for node in (1..nodes).rev() {
        let above = parent[node] as usize;
        end[above] = end[above].max(end[node]);
    }
    // In preorder the parent of a node is the node before it or an ancestor of that node: the node
    // lies in the subtree of its parent, and no subtree is interrupted.
    let in_order = (1..nodes).all(|node| {
        let before = node - 1;
        let above = parent[node] as usize;
        above == before || end[before] == node as u32 && is_ancestor(&end, parent, above, before)
    });
    in_order.then_some(end)
}

fn is_ancestor(end: &[u32], parent: &[u32], ancestor: usize, node: usize) -> bool {
    let mut above = node;
    while above > ancestor {
        // A subtree that continues after `node` cannot be left upwards.
        if end[above] as usize != node + 1 {
            return false;
        }
        above = parent[above] as usize;
    }
    above == ancestor
}
