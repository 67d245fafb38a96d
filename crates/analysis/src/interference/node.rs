//! The items of a thread, as nesting and pairs see them.

/// An item, or several joined. As small as can be: there is one for each execution.
#[derive(Clone, Copy, Debug)]
pub(super) struct Node {
    /// The first one's beginning.
    pub enter: u64,
    /// The last one's end.
    pub leave: u64,
    /// The kinds of an execution, for the sequences of what contains it and for pairs of siblings.
    pub exact: u64,
    pub collapsed: u64,
    /// Executions in it.
    pub count: u64,
    /// Duration of the executions, without the overhead of tracing; 0 for a wait.
    pub net: u64,
    /// Its block, if it is one execution that pairs count; else [`NO_BLOCK`] or [`TRANSPARENT`].
    pub block: u32,
    /// True if there is a [`More`](super::nesting::More) for it.
    pub more: bool,
    /// True if it is several items: it cannot be divided any more.
    pub joined: bool,
}

impl Node {
    /// Returns a node that is not a single execution, or not one that is followed.
    pub fn other(enter: u64, leave: u64, block: u32, count: u64) -> Self {
        Self {
            enter,
            leave,
            exact: 0,
            collapsed: 0,
            count,
            net: 0,
            block,
            more: true,
            joined: false,
        }
    }
}

/// Marks a node that is not a followed execution: its predecessor and its successor are not neighbours.
pub(super) const NO_BLOCK: u32 = u32::MAX - 1;
/// Marks a node that is only waiting: its predecessor and its successor are neighbours.
pub(super) const TRANSPARENT: u32 = u32::MAX;
