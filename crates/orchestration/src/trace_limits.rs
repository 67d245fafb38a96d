//! Limits of a trace where nothing is said.

/// Memory for executions that were not read yet, in MiB.
pub const USUAL_ROOM_MIB: u64 = 2048;
/// Part of the program's time that tracing may take, in percent.
pub const USUAL_OVERHEAD: f64 = 5.0;
/// Size of the largest trace that is kept, in MiB.
pub const USUAL_LIMIT_MIB: u64 = 1024;
