//! Stacks that were added to the tally before.

use profile::StackId;
use rustc_hash::FxHashMap;

/// Stacks by the numbers of their frames, which have one meaning in every process and drain.
#[derive(Default)]
pub(crate) struct KnownStacks {
    /// User stacks by the number of their frames.
    pub users: FxHashMap<u64, Option<StackId>>,
    /// Whole stacks by the user stack and the number of the kernel frames.
    pub whole: FxHashMap<(Option<StackId>, u64), Option<StackId>>,
}
