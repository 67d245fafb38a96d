//! Default limits of a trace.

/// Memory for unread executions, in MiB.
pub const USUAL_ROOM_MIB: u64 = 2048;
/// Largest part of the program's time that tracing may take, in percent.
pub const USUAL_OVERHEAD: f64 = 5.0;
/// Maximum size of a stored trace, in MiB.
pub const USUAL_LIMIT_MIB: u64 = 1024;
