//! Acts on a running program: performance experiments (Coz, sections 2 and 3).
//!
//! [`run`] launches a command with the runtime preloaded, or brings it into a process that runs ([`attach`]), tells the runtime whose code is whose,
//! speeds one fragment after the other up virtually and counts the visits of progress points
//! meanwhile. `docs/causal-method.md` describes the protocol between the two.
// What attaches to processes and traces functions is made for x86-64, and uses much that nothing else does.
#![cfg_attr(
    not(target_arch = "x86_64"),
    allow(dead_code, unused_imports, unused_variables)
)]

mod allocation;
mod attach;
mod choose;
mod code;
mod code_set;
mod controller;
mod error;
mod experiments;
mod fragments;
mod handover;
mod host;
mod launch;
mod maps;
mod memory;
mod options;
mod outcome;
mod own_filter;
mod period;
mod points;
mod probes;
mod progress_choice;
mod repeated;
mod scope;
mod search;
mod session;
mod spinning;
mod targets;
#[cfg(target_arch = "x86_64")]
mod trace;
mod trials;
mod waits;

pub use code_set::{CallSequence, SpeedupSet};
pub use controller::run_experiments;
pub use error::Error;
pub use host::MachineUsage;
pub use launch::{check_runtime, runtime_library};
pub use options::{ExperimentOptions, Hint, PointKind, PointSpec};
pub use outcome::{CausalOutcome, LiveProgress, Talk};
pub use progress_choice::ProgressChoice;
pub use repeated::{CausalListener, Repeated, Repeats, run_repeatedly};
#[cfg(target_arch = "x86_64")]
pub use trace::{
    FunctionPattern, TraceLive, TraceOptions, TraceRefusal, Traced, call_overhead,
    check_traced_command, event_cost, trace,
};
