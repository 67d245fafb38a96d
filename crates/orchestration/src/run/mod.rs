//! `vitalfew run`: applies all methods to one program.
//!
//! `phases` applies one method after the other within the time limit. First comes `sampler::record`
//! with stacks, waits and separate threads. Then traces (`tracing.rs`) and experiments
//! (`experiments.rs`) follow in further runs with the first run's input (`streams.rs`).
//!
//! In `results`, `time_tree.rs` merges running and waiting into one call tree, `time_kind.rs`
//! determines the activity of a thread in the kernel, and `tail_calls.rs` adds functions that ended
//! with a tail call. `analysis::judgement` searches the tree, weighs the results of all methods for
//! a place, and ranks findings. `results::phrases` words the findings, and the command prints them.

mod confinement;
mod measure;
mod memory;
mod options;
mod phases;
mod result;

pub use measure::{MeasuredRun, measure_program};
pub use options::{RunOptions, RunProgress};
pub use result::{CommandEnd, LeftProcess, RunResult, last_result_path};
