//! What each thread of a program did.

use profile::NodeId;

/// What one thread did, by nodes of the tree. Waits for a lock or at a barrier are no work: whoever ends them did that meanwhile.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ThreadWork {
    /// Each with the time of the thread at the node itself.
    pub nodes: Vec<NodeWork>,
}

impl ThreadWork {
    /// Returns the time of all it did, in nanoseconds.
    pub(super) fn time(&self) -> f64 {
        self.nodes.iter().map(NodeWork::time).sum()
    }
}

/// What a thread did at one node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NodeWork {
    /// The node.
    pub node: NodeId,
    /// It ran, in nanoseconds.
    pub running_ns: u64,
    /// It waited, in nanoseconds.
    pub waiting_ns: u64,
}

impl NodeWork {
    /// Returns its time, in nanoseconds.
    pub(super) fn time(&self) -> f64 {
        (self.running_ns + self.waiting_ns) as f64
    }
}
