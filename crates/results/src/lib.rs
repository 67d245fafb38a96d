//! What recordings say, as data: which rows a report has, which rows of compared recordings differ, how often each instruction
//! of a procedure ran. Words, tables and pictures are made of it elsewhere: by the command line, by the page.
//!
//! [`open_recording`] finds a recording; [`symbolize`] names its places; [`make_report`] and [`call_tree`] add samples up;
//! [`load_sets`] and [`judge_rows`] compare recordings (DCPI §3.3); [`annotation`] explains procedures (DCPI §6).

pub mod annotation;
mod command;
mod comparison;
mod kept;
mod matching;
mod refusal;
mod report;
mod selection;
mod sets;
mod source;

pub use command::command_words;
pub use comparison::{
    Background, ComparedRow, FALSE_DISCOVERIES, JudgedRows, RowClaim, judge_rows,
};
pub use kept::{beside_file, in_database, keep_images};
pub use matching::{NameMap, RowKey};
pub use refusal::{Refusal, RefusalReason, inconclusive_refusal, usage_refusal};
pub use report::{
    CallNode, EventTotal, Report, ReportRow, call_tree, join_hosts, make_report, sample_amount,
};
pub use selection::{CompareBy, CompareOptions, MeasurePer, ReportBy, SampleFilter};
pub use sets::{ComparedSets, Measure, load_sets};
pub use source::{
    OpenedRecording, RecordingSource, choose_epochs, event_named, open_by_host, open_recording,
    read_epochs, symbol_gaps, symbolize,
};
