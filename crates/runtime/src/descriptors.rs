//! Internal descriptors, which connect the program with itself: pipes, event descriptors and socket
//! pairs that it made. Data that comes through them was sent by one of its threads.

use crate::operations::Operation;
use crate::thread;
use core::sync::atomic::{AtomicU64, Ordering::Relaxed};

const KNOWN: usize = 65_536;
static INTERNAL: [AtomicU64; KNOWN / 64] = [const { AtomicU64::new(0) }; KNOWN / 64];

/// Returns whether a descriptor is internal.
pub fn is_internal(descriptor: i32) -> bool {
    let word = INTERNAL.get(descriptor as usize / 64);
    word.is_some_and(|word| word.load(Relaxed) >> (descriptor as usize % 64) & 1 != 0)
}

/// Marks a descriptor as internal, or not.
pub fn mark_internal(descriptor: i32, internal: bool) {
    let Some(word) = INTERNAL.get(descriptor as usize / 64) else {
        return;
    };
    let bit = 1 << (descriptor as usize % 64);
    if internal {
        word.fetch_or(bit, Relaxed);
    } else if word.load(Relaxed) & bit != 0 {
        word.fetch_and(!bit, Relaxed);
    }
}

/// Pays before data is sent through a descriptor.
pub fn before_sending(descriptor: i32, operation: Operation) {
    if let Some(thread) = thread::current_thread() {
        crate::operations::settle_before(thread, operation);
        if is_internal(descriptor)
            && let Some(page) = thread::shared_page()
        {
            page.internal_writes.fetch_add(1, Relaxed);
        }
    }
}

/// Returns the number of sends through internal descriptors.
pub fn sent_count() -> u64 {
    thread::shared_page().map_or(0, |page| page.internal_writes.load(Relaxed))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn descriptors_are_known_until_they_are_closed() {
        for descriptor in [0, 63, 64, KNOWN as i32 - 1] {
            mark_internal(descriptor, true);
            assert!(is_internal(descriptor) && !is_internal(descriptor + 1));
            mark_internal(descriptor, false);
            assert!(!is_internal(descriptor));
        }
        for unknown in [-1, KNOWN as i32] {
            mark_internal(unknown, true);
            assert!(!is_internal(unknown));
        }
    }
}
