//! Order of loading: a runtime loaded after the program's libraries stands behind them in the
//! dynamic linker's list.

use core::sync::atomic::AtomicBool;
use core::sync::atomic::Ordering::Relaxed;

static LATE: AtomicBool = AtomicBool::new(false);

/// Notes that the runtime was loaded into a running program.
pub fn note_late() {
    LATE.store(true, Relaxed);
}

/// Returns whether the runtime was loaded into a running program.
pub fn came_late() -> bool {
    LATE.load(Relaxed)
}
