//! Whether we came after the program's libraries, and stand behind them in the dynamic linker's list.

use core::sync::atomic::AtomicBool;
use core::sync::atomic::Ordering::Relaxed;

static LATE: AtomicBool = AtomicBool::new(false);

/// We come now, into a program that runs.
pub fn note_late() {
    LATE.store(true, Relaxed);
}

/// Returns whether we came so.
pub fn came_late() -> bool {
    LATE.load(Relaxed)
}
