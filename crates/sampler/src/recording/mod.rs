//! Recording: a session from the target's start to its end (or drain by drain, while a daemon
//! runs), the two ways of collecting samples (counted in the kernel, or through ring buffers), and
//! how recordings are finished.

pub(crate) mod backlog;
pub(crate) mod branches;
#[cfg(target_arch = "x86_64")]
pub(crate) mod bursts;
pub(crate) mod collection;
pub(crate) mod continuous;
pub(crate) mod counted_buffer;
pub(crate) mod finish;
pub(crate) mod goroutine_labels;
pub(crate) mod jvm_names;
pub(crate) mod kernel_source;
pub(crate) mod known_stacks;
pub(crate) mod lowered_rate;
pub(crate) mod python_threads;
pub(crate) mod recording_session;
pub(crate) mod replay;
pub(crate) mod ring_source;
pub(crate) mod script_functions;
pub(crate) mod stacks;
pub(crate) mod tally;
pub(crate) mod wakers;
pub(crate) mod walked_stacks;

pub use continuous::{
    Continuous, ContinuousOptions, Drain, DrainDue, StackOptions, left_behind, sample_continuously,
};
pub use finish::name_kernel;
pub use recording_session::{Outcome, Progress, record};
#[doc(hidden)]
pub use replay::{RingRecord, replay};
