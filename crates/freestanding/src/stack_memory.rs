//! Words of the interrupted stack. Where it ends is not known (a goroutine's, a coroutine's), so the kernel reads them, which fails where
//! nothing is mapped.

use crate::sys;

/// Reads a word; `None`: there is none.
pub fn read_word(at: u64) -> Option<u64> {
    sys::read_own_memory(at)
}
