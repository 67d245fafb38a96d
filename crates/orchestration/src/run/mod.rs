//! `vitalfew run`: all methods on one program.
//!
//! `phases` asks one method after the other, within the time limit: `sampler::record` with stacks,
//! waits and threads apart; then, in further runs with the first one's input (`streams.rs`), traces
//! (`tracing.rs`) and experiments (`experiments.rs`). In `results`, `time_tree.rs` puts running and
//! waiting into one call tree, `time_kind.rs` says what a thread does in the kernel, and `tail_calls.rs`
//! adds functions that ended with a call. `analysis::judgement` searches the tree, weighs what each
//! method says of a place and ranks findings. `results::phrases` words them, the command prints them.

mod confinement;
mod measure;
mod memory;
mod options;
mod phases;
mod result;

pub use measure::{MeasuredRun, measure_program};
pub use options::{RunOptions, RunProgress};
pub use result::{CommandEnd, LeftProcess, RunResult, last_result_path};
