//! Sets of code that are sped up together instead of one fragment: a call sequence, or all critical
//! sections of a lock.
//!
//! Samples in the set belong to the fragment [`SELECTED`], all others to [`REST`].

use core::sync::atomic::{
    AtomicU32, AtomicU64,
    Ordering::{Acquire, Relaxed, Release},
};

/// The fragment of samples in the set.
pub const SELECTED: u32 = 0;
/// The fragment of all other samples.
pub const REST: u32 = 1;
/// The longest call sequence, in functions.
pub const LONGEST_SEQUENCE: usize = 15;

const NONE: u32 = 0;
const SEQUENCE: u32 = 1;
const LOCK: u32 = 2;

/// A set of code.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CodeSet {
    /// Samples whose stack contains a sequence of functions. The value is the length of the
    /// sequence: its functions take [`Steps`] from 0 to this number.
    Sequence(u8),
    /// Samples of a thread while it holds a lock.
    Lock,
}

/// The set that is sped up, if experiments are about a set; controller.
#[repr(C)]
#[derive(Default)]
pub struct Selection {
    kind: AtomicU32,
    /// Number of functions in the sequence.
    length: AtomicU32,
    /// Start of the addresses of the lock, or of several locks that count as one.
    lock_start: AtomicU64,
    lock_end: AtomicU64,
}

impl Selection {
    /// Selects samples whose stack contains a sequence of `length` functions.
    pub fn select_sequence(&self, length: u8) {
        self.length.store(length.into(), Relaxed);
        self.kind.store(SEQUENCE, Release);
    }

    /// Sets the addresses of the locks whose holds are counted from now on.
    pub fn watch_locks(&self, start: u64, end: u64) {
        self.lock_start.store(start, Relaxed);
        self.lock_end.store(end, Release);
    }

    /// Selects the code that runs while a watched lock is held.
    pub fn select_lock(&self) {
        self.kind.store(LOCK, Release);
    }

    /// Returns the selected set; `None`: experiments are about fragments.
    pub fn selected_set(&self) -> Option<CodeSet> {
        match self.kind.load(Acquire) {
            SEQUENCE => Some(CodeSet::Sequence(self.length.load(Relaxed) as u8)),
            LOCK => Some(CodeSet::Lock),
            NONE.. => None,
        }
    }

    /// Returns whether a lock is one of those whose holds are counted.
    pub fn has_lock(&self, address: u64) -> bool {
        address < self.lock_end.load(Acquire) && address >= self.lock_start.load(Relaxed)
    }
}

/// Transition table of one place of code, for an automaton that searches a stack for a call
/// sequence, innermost function first. It holds the next state for each of 16 states.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Steps(pub u64);

impl Steps {
    /// Builds the table from the next state of each state.
    pub fn of_states(next: impl Fn(u8) -> u8) -> Self {
        let word = (0..16).fold(0, |word, state| {
            word | u64::from(next(state) & 15) << (4 * state)
        });
        Self(word)
    }

    /// Returns the state that follows `state` at this place.
    pub fn next_state(self, state: u8) -> u8 {
        (self.0 >> (4 * (state & 15))) as u8 & 15
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn steps_are_kept_for_each_state() {
        let steps = Steps::of_states(|state| 15 - state);
        for state in 0..16 {
            assert_eq!(steps.next_state(state), 15 - state);
        }
    }

    #[test]
    fn a_lock_is_one_of_those_between_two_addresses() {
        let selection = Selection::default();
        assert!(!selection.has_lock(0));
        selection.watch_locks(0x1000, 0x1028);
        assert!(selection.has_lock(0x1000) && selection.has_lock(0x1027));
        assert!(!selection.has_lock(0x1028) && !selection.has_lock(0xfff));
        assert_eq!(selection.selected_set(), None);
        selection.select_lock();
        assert_eq!(selection.selected_set(), Some(CodeSet::Lock));
        selection.select_sequence(3);
        assert_eq!(selection.selected_set(), Some(CodeSet::Sequence(3)));
    }
}
