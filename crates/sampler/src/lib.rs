//! Takes samples from the kernel.
//!
//! [`record`] measures a command, a running process or the whole machine and returns a
//! [`profile::Recording`]. A BPF program counts samples in the kernel where that is possible, by
//! place in an image (DCPI sections 4.1 and 4.2). Otherwise, and where the user's stack has to be
//! copied, samples come through perf ring buffers.
//!
//! The modules, from the top: `recording` uses all others; `unwinding` uses `bpf` and `processes`;
//! these use `events`. `capabilities` probes which features are available to this user on this
//! machine.
//!
//! # A recording, step by step
//!
//! `vitalfew record -- make` turns its arguments into `Options` and calls [`record`]:
//!
//! 1. `recording/recording_session.rs` prepares everything up to the first sample. `capabilities`
//!    says which way of collecting is possible. `bpf/kernel.rs` loads `bpf/collect.bpf.c`;
//!    `events/rings.rs` opens the kernel's records about processes; `events/cost.rs` measures the
//!    cost of a sample, which sets the rate. `processes/launch.rs` forks a child that waits.
//! 2. The child executes the command. A timer (or the PMU) interrupts each CPU. The BPF program
//!    looks up the mapping at the program counter and counts in a table whose key is device, inode,
//!    generation, file offset, event, process name, control group and CPU. `bpf/cgroups.h` records
//!    the path of a new control group.
//! 3. Ten times a second `recording/kernel_source.rs` gives each CPU a new random period
//!    (`events/jitter.rs`) and checks how full the tables are. When they are two fifths full, or
//!    after 15 s, it flips to the second set, waits until no program can write to the first, and
//!    drains it. `taken == stored + dropped` is checked for each event.
//! 4. `processes/maps.rs` and `processes/images.rs` learn from the kernel's records which file was
//!    mapped where and when. They name images and locate the addresses that the kernel could not.
//! 5. `recording/finish.rs` makes the recording. Symbols of code that will be unreadable later
//!    (kernel, vDSO, generated code, deleted files) go into it. The command adds all other
//!    procedures' names.
//!
//! Samples also come one by one through ring buffers: with `--call-graph dwarf`, without the right
//! to use BPF, for branch records (`--branches`), or with `--collector ring`.
//! `recording/ring_source.rs` reads them, `recording/backlog.rs` queues them so that the rings do
//! not fill, and `recording/stacks.rs` unwinds their stacks.
//!
//! With `--registers` the kernel also reads memory (`bpf/snapshot.bpf.c`) by lists of loads that
//! `machine::Slice` makes. `recording/branches.rs` runs the interpreter of `machine` on the code
//! from there.
//!
//! `counting` counts executions of single places exactly, in bursts, by uprobes that the kernel
//! counts without a signal.
//!
//! # Where the sampling rate is set and lowered
//!
//! - `recording/recording_session.rs` refuses a rate above the kernel's limit (`events/perf.rs`),
//!   and sets the one that `events/cost.rs` allows before the first sample.
//! - `recording/ring_source.rs` lowers it when the rings fill; `recording/lowered_rate.rs` keeps
//!   the weights right.
//! - The daemon: `governor.rs` of the crate `daemon`, within `recording/continuous.rs`'s limit.
//! - `causal run`: `period.rs` of the crate `experiment`. `interference run` records fewer
//!   executions by `trace/trace_budget.rs` there.

mod bpf;
pub mod capabilities;
mod clock;
mod counting;
mod error;
mod events;
mod host;
mod options;
mod processes;
mod recording;
mod unwinding;

pub use bpf::{
    CpuUser, ExternalWaits, FrameLayout, Interrupts, KernelCredits, LeftBehind, PendingCall,
    ThreadWait, Ticks, Waits, WithheldTicks, bpf_file_system, may_count, mounted_bpf_file_system,
    remove_pins,
};
pub use clock::{children_cpu_ns, clock_ahead_of, monotonic_ns, own_cpu_ns, thread_cpu_ns};
pub use counting::{CountOutcome, CountRequest, ProbePlace, count_executions};
pub use error::Error;
pub use events::{EventKind, EventSpec, signalled_sample_cost, skid, tracefs_directory};
pub use host::read_host;
pub use options::{Options, Path, Rate, Separation, TargetSpec};
pub use processes::cgroups::cgroup_of_process;
pub use processes::{
    Exit, FindNames, Launched, Named, Names, ProcessStat, Unreadable, command_text, find_names,
    find_program, has_running_threads, parse_cpu_list, pass_inheritance_on, process_file,
    process_of_thread, program_text, thread_ids, threads_or_process, usable_cpus, vdso_bytes,
    was_ignored,
};
pub use recording::{
    Continuous, ContinuousOptions, Drain, DrainDue, Outcome, Progress, StackOptions, left_behind,
    name_kernel, record, sample_continuously,
};
#[doc(hidden)]
pub use recording::{RingRecord, replay};
pub use unwinding::make_tables;
