//! Vector registers of which some elements were loaded.

use super::decoded::Decoded;
use super::lanes::Vector;

/// A vector register of which only those elements are known that a mask had when it was loaded.
pub(super) struct Partly {
    pub register: usize,
    /// A bit for each, and how many bytes it has.
    pub elements: u64,
    pub width: usize,
    pub loaded: Vector,
}

impl Partly {
    /// Returns whether an instruction changes it.
    pub fn is_written(&self, one: &Decoded) -> bool {
        one.vector >> self.register & 1 == 1
    }
}
