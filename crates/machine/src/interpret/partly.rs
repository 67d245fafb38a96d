//! Vector registers with some loaded elements.

use super::decoded::Decoded;
use super::lanes::Vector;

/// A vector register of which only the elements loaded under a mask are known.
pub(super) struct Partly {
    pub register: usize,
    /// A bit for each of these elements, and the element size in bytes.
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
