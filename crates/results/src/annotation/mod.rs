//! Annotated procedures: the frequency of each instruction, its time, and the possible reasons of
//! its waits.

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
pub use names::{basis_name, confidence_name, doubt_name};
pub use procedure::{AnnotatedProcedure, FrequencyBasis};
pub use select::{ChosenAmong, ChosenProcedure, SampleSelection};
pub use setting::{AnnotationOptions, AnnotationSetting};
