//! The time of day.

use std::time::{SystemTime, UNIX_EPOCH};

/// Returns the time, in nanoseconds since 1970.
pub(crate) fn unix_ns() -> u64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH);
    now.unwrap_or_default().as_nanos() as u64
}
