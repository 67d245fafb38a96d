//! Counts of a run.

/// What went wrong, or was seen, in all.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Tallies {
    pub executions: u64,
    pub lost: u64,
    /// Of blocks that nobody described.
    pub unknown: u64,
    /// That were left before they were entered, or before what the thread did earlier.
    pub backwards: u64,
    pub retired: u64,
}
