//! Words of the interrupted stack. The end of the stack is unknown (it may be a goroutine's or a
//! coroutine's), so the kernel reads the words: its read fails where nothing is mapped.

use crate::sys;

/// Reads a word; `None`: nothing is mapped there.
pub fn read_word(at: u64) -> Option<u64> {
    sys::read_own_memory(at)
}
