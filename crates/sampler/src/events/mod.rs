//! Events of `perf_event_open(2)`: their names, opening, the cost and the skid of their samples,
//! and their ring buffers.

pub(crate) mod advice;
#[cfg(target_arch = "x86_64")]
pub(crate) mod breakpoint;
pub(crate) mod cost;
pub(crate) mod jitter;
pub(crate) mod names;
pub(crate) mod perf;
pub(crate) mod records;
pub(crate) mod rings;
pub mod skid;
pub(crate) mod spec;

pub use cost::signalled_sample_cost;
pub use names::tracefs_directory;
pub use spec::{EventKind, EventSpec};
