//! The executions of a kind in a thread.

use super::sketch::Window;

/// The executions of a kind in a thread.
#[derive(Clone, Copy, Debug)]
pub(super) struct Cell {
    pub kind: u32,
    pub recorded: u64,
    /// All, but for those of the window that was counted last.
    pub sums: Window,
    pub lately: Window,
    /// End of the window `lately`, in ticks.
    pub until: u64,
}

impl Cell {
    pub fn new(kind: u32) -> Self {
        Self {
            kind,
            recorded: 0,
            sums: Window::default(),
            lately: Window::default(),
            until: 0,
        }
    }

    /// Adds one that is settled.
    pub fn merge(&mut self, other: &Self) {
        self.recorded += other.recorded;
        self.sums.merge(&other.sums);
    }
}
