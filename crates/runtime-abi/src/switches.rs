//! Switches of a thread between processor and queue, as the kernel counts them.

/// Counts of a thread's switches, with its CPU time.
pub struct Switches {
    /// Involuntary switches: the processor was taken from the thread.
    pub preempted: u64,
    /// Voluntary switches: the thread gave the processor up, to wait for something.
    pub gave_up: u64,
    /// Its CPU time, in nanoseconds, as the kernel has last counted it: at the last tick, or when it lost the processor.
    pub ran: u64,
}

impl Switches {
    /// Returns whether the thread lost its processor no more often.
    pub fn is_same(&self, other: &Self) -> bool {
        self.preempted == other.preempted && self.gave_up == other.gave_up
    }
}
