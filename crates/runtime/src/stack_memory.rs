//! Words of this thread's stack.

/// Reads a word. The caller has checked that it lies between the interrupted stack pointer and the
/// end of this thread's stack.
pub fn read_word(at: u64) -> Option<u64> {
    // SAFETY: everything there is mapped.
    Some(unsafe { (at as *const u64).read_volatile() })
}
