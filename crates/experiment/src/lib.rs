//! Acts on a running program: performance experiments (Coz, sections 2 and 3).
//!
//! [`run_experiments`] launches a command with the runtime preloaded, or loads the runtime into a
//! running process (`attach`). It virtually speeds up one fragment after the other and counts the
//! visits of progress points meanwhile. `docs/method/causal.md` describes the protocol between the
//! two.
//!
//! # An experiment, step by step
//!
//! 1. `launch.rs` starts the command with the runtime preloaded. The runtime (`start.rs`) maps the
//!    shared page and waits before `main`, until `points.rs` has opened the progress points and
//!    `sampler::Ticks` the processors' timers.
//! 2. A sample is a signal in the thread (`sample.rs` of the runtime), which looks its address up
//!    in the page. `code.rs` resolves addresses that are not there yet.
//! 3. `experiments.rs` picks a fragment (`allocation.rs`) and a speedup (`choose.rs`) and writes
//!    them into the page.
//! 4. The runtime's `delay.rs` keeps the accounts and makes threads pay; its hooks call it too. Its
//!    `cpu.rs` keeps the accounts of processors that threads share.
//! 5. `causal_session.rs` is the loop around this. `controller.rs` begins and ends it for commands
//!    and processes, with hooks and without; `outcome.rs` is the result.
//! 6. `repeated.rs` runs short commands again, with the progress point that `progress_choice.rs`
//!    found.
//!
//! `attach` replaces the launch for processes and for programs without hooks; `trace` has the
//! path of `interference run`.
// Attaching to processes and tracing functions exist for x86-64 only; other targets leave much
// unused.
#![cfg_attr(
    not(target_arch = "x86_64"),
    allow(dead_code, unused_imports, unused_variables)
)]

mod allocation;
mod attach;
mod causal_session;
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
mod spinning;
mod targets;
#[cfg(target_arch = "x86_64")]
mod trace;
mod trials;
mod wait_watch;

pub use code_set::{CallSequence, SpeedupSet};
pub use controller::run_experiments;
pub use error::Error;
pub use host::MachineUsage;
pub use launch::find_runtime;
pub use options::{ExperimentOptions, Hint, PointKind, PointSpec};
pub use outcome::{CausalOutcome, LiveProgress, Talk};
pub use progress_choice::ProgressChoice;
pub use repeated::{CausalListener, Repeated, Repeats, run_repeatedly};
#[cfg(target_arch = "x86_64")]
pub use trace::{
    FunctionPattern, TraceLive, TraceOptions, TraceRefusal, Traced, check_traced_command, trace,
};
