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
    /// The position of the value type that the profile itself would show first.
    pub default_value: usize,
    /// Times of its samples, if [`GroupBy::Slice`](super::GroupBy::Slice) was asked for and the profile has times.
    pub time: Option<TimeAxis>,
    /// Notes about data that were approximated, left out or look wrong, each a sentence. They go to
    /// the user.
    pub notes: Vec<String>,
}
