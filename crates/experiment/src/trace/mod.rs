//! Traces executions of blocks of code (ISPOT, section 3): which functions to patch and how is planned
//! here, outside of the target; the runtime in it only puts the code in place.
//!
//! [`trace`] launches a command (or goes to a process that runs, [`attached`]), plans while the runtime waits before `main`, and reads what the
//! threads write while they run. `docs/interference-run.md` describes the protocol.

mod attached;
mod clock;
mod code_room;
mod drain;
mod ending;
mod entry;
mod events;
mod functions;
mod hazards;
mod memory;
mod pace;
mod patches;
mod plan;
mod probes;
mod relocate;
mod select;
mod session;
mod stacks;
mod stub;
mod throttling;
mod waiting;

pub use entry::trace;
pub use relocate::TraceRefusal;
pub use select::FunctionPattern;
pub use session::{
    TraceLive, TraceOptions, Traced, call_overhead, check_traced_command, event_cost,
};

/// The time-stamp counter, which all processors of a machine agree on.
fn read_tsc() -> u64 {
    // SAFETY: reads a counter.
    unsafe { core::arch::x86_64::_rdtsc() }
}
