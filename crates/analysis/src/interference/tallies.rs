//! Counts of a run.

/// Totals of a run: executions, losses and errors.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Tallies {
    pub executions: u64,
    pub lost: u64,
    /// Items of blocks that are not described.
    pub unknown: u64,
    /// Items that contradict the clock: they end before they begin, or before the thread's previous execution ends.
    pub backwards: u64,
    pub retired: u64,
}
