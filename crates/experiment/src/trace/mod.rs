//! Tracer of the executions of blocks of code (ISPOT, section 3). The controller plans the patches
//! outside of the target. The runtime in the target only applies them.
//!
//! [`trace`] launches a command, or attaches to a running process ([`attached`]). It plans while
//! the runtime waits before `main`, and reads the threads' records while they run.
//! `docs/method/interference.md` describes the protocol.
//!
//! # A trace, step by step
//!
//! 1. The command (`cli/src/commands/interference/run.rs`) samples the program once to find the
//!    functions that take time. `trace_session` launches it again with the runtime, which waits
//!    before `main`.
//! 2. `plan` reads the code of the mapped images. `hazards` detects images that must not be traced.
//!    `relocate` moves a function's first instructions, and `stub` generates its trampoline. The
//!    runtime (`trace/steps.rs`) patches the function. The runtime's `trace/frames.rs` keeps frames
//!    whose executions do not end in order.
//! 3. Threads write records into segments, and `drain` reads them. `waiting` adds the waits that
//!    `sampler::Waits` sees. `stacks` unwinds call stacks.
//! 4. With `-p`, [`attached`] loads the runtime as an experiment does. `patches` writes and reverts
//!    the jumps while all threads are stopped. The runtime's `attached/tracing.rs` unmaps the rest.

mod attached;
mod clock;
mod code_room;
mod drain;
mod ending;
mod entry;
mod functions;
mod hazards;
mod memory;
mod patches;
mod plan;
mod relocate;
mod select;
mod solo;
mod stacks;
mod stub;
mod throttling;
mod trace_budget;
mod trace_session;
mod waiting;

pub use entry::trace;
pub use relocate::TraceRefusal;
pub use select::FunctionPattern;
pub use trace_session::{TraceLive, TraceOptions, Traced, check_traced_command};

/// Returns the time-stamp counter, on which all processors of a machine agree.
fn read_tsc() -> u64 {
    // SAFETY: reads a counter.
    unsafe { core::arch::x86_64::_rdtsc() }
}
