//! The result of every reader.

use super::time_axis::TimeAxis;
use profile::CallTree;

/// A profile as a call tree, with notes for its reader.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TreeProfile {
    /// The tree; it has at least one value type.
    pub tree: CallTree,
    /// The format's name: `folded stacks`, `pprof`.
    pub format: &'static str,
    /// The index of the value type that the profile itself would show first.
    pub default_value: usize,
    /// Times of its samples, if [`GroupBy::Slice`](super::GroupBy::Slice) was requested and the
    /// profile has times.
    pub time: Option<TimeAxis>,
    /// Notes for the user about approximated, missing or suspicious data, one sentence each.
    pub notes: Vec<String>,
}
