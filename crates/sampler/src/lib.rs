//! Takes samples from the kernel.
//!
//! [`record`] measures a command, a running process or the whole machine and returns a
//! [`profile::Recording`]. Samples are counted in the kernel by a BPF program where that is
//! possible, by place in an image (DCPI sections 4.1 and 4.2), and come through perf ring buffers
//! where it is not, or where the user's stack has to be copied.
//!
//! The modules, from the top: `recording` uses all others; `unwinding` uses `bpf` and `processes`; these use `events`.
//! `capabilities` probes which of all that is available here, and to whom.

mod bpf;
pub mod capabilities;
mod clock;
mod error;
mod events;
mod host;
mod options;
mod processes;
mod recording;
mod unwinding;

pub use bpf::{
    Calls, CpuUser, ExternalWaits, FrameLayout, KernelCredits, LeftBehind, PendingCall, ProbedCall,
    ThreadWait, Ticks, Waits, WithheldTicks, bpf_file_system, may_count, mounted_bpf_file_system,
    remove_pins,
};
pub use clock::{children_cpu_ns, monotonic_ns, own_cpu_ns, thread_cpu_ns};
pub use error::Error;
pub use events::{
    EventKind, EventSpec, ThreadEvent, ThreadEvents, check_thread_event, signalled_sample_cost,
    skid, tracefs_directory, usual_thread_events,
};
pub use host::read_host;
pub use options::{Options, Path, Rate, Separation, TargetSpec};
pub use processes::cgroups::cgroup_of_process;
pub use processes::{
    Exit, FindNames, Launched, Named, Names, ProcessStat, Unreadable, find_names, find_program,
    has_running_threads, parse_cpu_list, process_file, thread_ids, threads_or_process, usable_cpus,
    vdso_bytes,
};
pub use recording::{
    Continuous, ContinuousOptions, Drain, DrainDue, Outcome, Progress, StackOptions, left_behind,
    name_kernel, record, sample_continuously,
};
#[doc(hidden)]
pub use recording::{RingRecord, replay};
pub use unwinding::make_tables;
