//! Annotated procedures: the frequency of each instruction, its time, and the possible reasons for
//! its waits.
//!
//! # An annotated procedure, step by step
//!
//! 1. `symbols::ImageSymbols` reads the bytes of the procedure, with its build-id checked, and
//!    `machine::FlowGraph` makes blocks of them.
//! 2. `analysis::stall` estimates how often each block ran, also from counts of other tools
//!    (`formats::counts`).
//! 3. `machine::ProcessorModel` gives the best case of each instruction, and
//!    `analysis::stall::culprits` the causes that can explain the rest.
//! 4. `profile::Accesses` sums up data addresses seen with `record --registers`. In the culprits of
//!    `analysis`, `residence.rs` bounds which of these data stay in the caches. `reuse.rs` and
//!    `rounds.rs` derive recent accesses and the accesses of loops from the code alone.

mod annotator;
mod autofdo;
mod branches;
mod claims;
mod code;
mod counts;
mod evidence;
mod hottest;
mod names;
mod procedure;
mod select;
mod setting;

pub use annotator::{Annotator, CompilerProfile, OmittedProcedure, WholeSummary};
pub use autofdo::SampleProfile;
pub use claims::stall_findings;
pub use counts::{CountedLines, UsedLines};
pub use evidence::MeasuredCounts;
pub use names::{basis_name, confidence_name, doubt_name};
pub use procedure::{AnnotatedProcedure, FrequencyBasis};
pub use select::{ChosenAmong, ChosenProcedure, NamedFunctions, SampleSelection};
pub use setting::{AnnotationOptions, AnnotationSetting};
