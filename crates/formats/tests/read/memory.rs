//! Counts the memory that a thread holds, so that tests can limit a reader's.

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;

struct Counting;

#[global_allocator]
static ALLOCATOR: Counting = Counting;

thread_local! {
    /// Bytes that this thread allocated and did not free; negative if it frees others' allocations.
    static HELD: Cell<isize> = const { Cell::new(0) };
    static PEAK: Cell<isize> = const { Cell::new(0) };
}

fn count(bytes: isize) {
    // A thread that is ending no longer counts.
    let _ = HELD.try_with(|held| {
        held.set(held.get() + bytes);
        let _ = PEAK.try_with(|peak| peak.set(peak.get().max(held.get())));
    });
}

// SAFETY: the system's allocator does all the work; counting neither allocates nor panics.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        count(layout.size() as isize);
        // SAFETY: as the caller promised.
        unsafe { System.alloc(layout) }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        count(layout.size() as isize);
        // SAFETY: as the caller promised.
        unsafe { System.alloc_zeroed(layout) }
    }

    unsafe fn dealloc(&self, place: *mut u8, layout: Layout) {
        count(-(layout.size() as isize));
        // SAFETY: as the caller promised.
        unsafe { System.dealloc(place, layout) }
    }
}

/// Starts measuring the peak; returns the bytes that this thread holds now.
pub fn start() -> isize {
    PEAK.set(HELD.get());
    HELD.get()
}

/// Returns the most that this thread has held since [`start`].
pub fn peak() -> isize {
    PEAK.get()
}

#[test]
fn what_is_taken_is_counted() {
    let before = start();
    drop(std::hint::black_box(vec![1_u8; 1 << 20]));
    let peak = peak() - before;
    assert!((1 << 20..2 << 20).contains(&peak), "{peak}");
}
