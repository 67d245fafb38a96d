//! Work of each thread of a program.

use profile::NodeId;

/// Work of one thread, by nodes of the tree. Waits for a lock or at a barrier are not work: the
/// thread that ends them worked meanwhile.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ThreadWork {
    /// The thread's own time at each node.
    pub nodes: Vec<NodeWork>,
}

impl ThreadWork {
    /// Returns the time of all its work, in nanoseconds.
    pub(super) fn time(&self) -> f64 {
        self.nodes.iter().map(NodeWork::time).sum()
    }
}

/// Work of a thread at one node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NodeWork {
    /// The node.
    pub node: NodeId,
    /// Running time, in nanoseconds.
    pub running_ns: u64,
    /// Waiting time, in nanoseconds.
    pub waiting_ns: u64,
}

impl NodeWork {
    /// Returns its time, in nanoseconds.
    pub(super) fn time(&self) -> f64 {
        (self.running_ns + self.waiting_ns) as f64
    }
}
