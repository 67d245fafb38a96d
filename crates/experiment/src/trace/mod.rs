//! Traces executions of blocks of code (ISPOT, section 3): which functions to patch and how is planned
//! here, outside of the target; the runtime in it only puts the code in place.
//!
//! [`trace`] launches a command (or goes to a process that runs, [`attached`]), plans while the runtime waits before `main`, and reads what the
//! threads write while they run. `docs/method/interference.md` describes the protocol.
//!
//! # A trace, step by step
//!
//! 1. The command (`cli/src/commands/interference/run.rs`) samples the program once to see which
//!    functions take time. `trace_session` launches it again with the runtime, which waits before `main`.
//! 2. `plan` reads the code of the mapped images; `hazards` knows images that must not be traced.
//!    `relocate` moves the first instructions of a function, `stub` makes the trampoline, and the
//!    runtime (`trace/steps.rs`) patches the function. Its `trace/frames.rs` keeps frames whose
//!    executions do not end in order.
//! 3. Threads write records into segments and `drain` reads them. `waiting` adds the waits of `sampler::Waits`; `stacks` unwinds.
//! 4. With `-p`, [`attached`] has the runtime brought in as for an experiment. `patches` puts the jumps
//!    in place and takes them back while all threads are stopped; the runtime's `attached/tracing.rs`
//!    unmaps the rest.

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

/// The time-stamp counter, which all processors of a machine agree on.
fn read_tsc() -> u64 {
    // SAFETY: reads a counter.
    unsafe { core::arch::x86_64::_rdtsc() }
}
