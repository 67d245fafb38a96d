//! Orchestration of several methods: it runs them on one program, and gathers their results.
//!
//! [`measure_program`] applies all methods to a program (`run`). [`gather_content`] puts all
//! results on one page (`page_content.rs`). [`ProfileKeeper`] and [`TraceKeeper`] store experiments
//! and traces while they run. [`RepeatedStreams`] lets each run of a command read the same input.
//!
//! Nothing here prints. Messages for the user go through callbacks.
#![forbid(unsafe_code)]

mod experiments;
mod hottest;
mod kept_file;
mod later_tables;
mod page_content;
mod run;
pub mod skid;
mod streams;
mod trace_limits;
#[cfg(target_arch = "x86_64")]
mod tracing;

pub use experiments::{Precision, ProfileKeeper};
pub use hottest::refuse_late_samples;
pub use kept_file::KeptFile;
pub use later_tables::{make_tables_later, making_note, table_directory};
pub use page_content::{PageContent, gather_content, latest_files};
pub use run::{
    CommandEnd, LeftProcess, MeasuredRun, RunOptions, RunProgress, RunResult, last_result_path,
    measure_program,
};
pub use streams::{RepeatedStreams, Silenced};
pub use trace_limits::{USUAL_LIMIT_MIB, USUAL_OVERHEAD, USUAL_ROOM_MIB};
#[cfg(target_arch = "x86_64")]
pub use tracing::{TraceKeeper, hot_functions, known_patterns, trace_program, usual_trace};
