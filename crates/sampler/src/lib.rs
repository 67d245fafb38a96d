//! From the kernel to samples.
//!
//! [`record`] measures a command, a running process or the whole machine and returns a
//! [`profile::Recording`]. Samples are counted in the kernel by a BPF program where that is
//! possible, by place in an image (DCPI sections 4.1 and 4.2), and come through perf ring buffers
//! where it is not, or where the user's stack has to be copied.

mod advice;
mod branches;
#[cfg(target_arch = "x86_64")]
mod breakpoint;
#[cfg(target_arch = "x86_64")]
mod bursts;
mod calls;
pub mod capabilities;
mod clock;
mod collection;
mod continuous;
mod cost;
mod error;
mod event;
mod events;
mod finish;
mod followed;
mod images;
mod jitter;
mod kernel;
mod kernel_source;
mod launch;
mod maps;
mod options;
mod perf;
mod pins;
mod records;
mod replay;
mod ring_source;
mod rings;
mod session;
pub mod skid;
mod snapshots;
mod stacks;
mod tables;
mod tally;
mod task_accounts;
mod thread_events;
mod ticks;
#[cfg(target_arch = "x86_64")]
mod tracee;
mod unreadable;
mod vdso;
mod waits;
mod wakers;

pub use calls::{Calls, ProbedCall};
pub use clock::{children_cpu_ns, monotonic_ns, own_cpu_ns, thread_cpu_ns};
pub use continuous::{
    Continuous, ContinuousOptions, Drain, DrainDue, left_behind, sample_continuously,
};
pub use error::Error;
pub use event::{EventKind, EventSpec, tracefs};
pub use finish::name_kernel;
pub use launch::{Exit, Launched};
pub use options::{Options, Path, Rate, Separation, TargetSpec};
pub use pins::{LeftBehind, bpf_file_system, may_count, mounted_bpf_file_system, unpin};
#[doc(hidden)]
pub use replay::{RingRecord, replay};
pub use session::{Outcome, Progress, host, record};
pub use thread_events::{ThreadEvent, ThreadEvents, check_thread_event, usual_thread_events};
pub use ticks::Ticks;
pub use unreadable::{FindNames, Named, Names, Unreadable, find_names};
pub use vdso::bytes as vdso_bytes;
pub use waits::{FrameLayout, ThreadWait, Waits};
