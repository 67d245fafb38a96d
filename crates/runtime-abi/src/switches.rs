//! Context switches of a thread, as the kernel counts them.

/// Counts of a thread's context switches, with its CPU time.
pub struct Switches {
    /// Involuntary switches: the processor was taken from the thread.
    pub preempted: u64,
    /// Voluntary switches: the thread gave the processor up, to wait for something.
    pub gave_up: u64,
    /// CPU time of the thread in nanoseconds, as of the last tick or the last loss of its
    /// processor.
    pub ran: u64,
}

impl Switches {
    /// Returns whether the thread lost its processor no further time.
    pub fn is_same(&self, other: &Self) -> bool {
        self.preempted == other.preempted && self.gave_up == other.gave_up
    }
}
