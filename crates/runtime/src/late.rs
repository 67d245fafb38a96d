//! Order of loading: the runtime may come after the program's libraries, and stands behind them in the dynamic linker's
//! list then.

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
