//! Results of recordings, as data: the rows of a report, the rows of compared recordings that
//! differ, the execution frequency of each instruction of a procedure. The command line and the
//! page turn them into words, tables and pictures.
//!
//! [`open_recording`] finds a recording; [`name_locations`] names its places; [`make_report`],
//! [`call_tree`] and [`callers_tree`] add samples up; [`tree_of_recording`] makes a call tree of a
//! recording, [`page`] the data of the page; [`phrases`] turns findings into sentences;
//! [`load_sets`] and [`judge_rows`] compare recordings (DCPI §3.3); [`annotation`] explains
//! procedures (DCPI §6). [`causal`] and [`interference`] read the results of experiments and
//! traces. [`JsonClaims`] are the findings in the JSON of every method.
//!
//! # A report, step by step
//!
//! `source.rs` opens the recording through `store`. `symbols::resolve` names the locations, one
//! image a thread. [`make_report`] adds samples up as in DCPI's Figure 1 (`report.rs`),
//! `event_tree.rs` into trees; `wanted.rs` selects samples. The command makes a table of the
//! result.

pub mod annotation;
pub mod causal;
mod claims;
mod command;
mod comparison;
mod comparison_json;
mod difference;
mod epochs_json;
mod event_tree;
mod image_names;
pub mod interference;
mod kept;
mod matching;
pub mod page;
pub mod phrases;
mod place_names;
mod refusal;
mod report;
mod result_kind;
mod selection;
mod sets;
mod source;
mod swapping;
mod tail_calls;
mod time_kind;
mod time_tree;
mod tree;
mod wanted;

pub use claims::{JsonClaim, JsonClaims};
pub use command::command_words;
pub use comparison::{
    Background, ComparedRow, FALSE_DISCOVERIES, JudgedRows, RowClaim, judge_rows,
};
pub use comparison_json::{ComparisonForm, ComparisonJson};
pub use difference::{
    ChangedProcedures, Difference, MostChanged, NOTHING_TO_COMPARE, changed_procedures,
    difference_of_files, has_common_factor, judge_differences,
};
pub use epochs_json::epochs_json;
pub use event_tree::{amount_of_cost, call_tree, callers_tree};
pub use kept::{beside_file, in_database, keep_images};
pub use matching::{NameMap, RowKey};
pub use refusal::{
    Refusal, RefusalReason, error_chain, failure_refusal, inconclusive_refusal, usage_refusal,
};
pub use report::{
    EventTotal, ReportRow, SampleReport, complete_stacks, join_hosts, make_report, sample_amount,
};
pub use result_kind::{ResultKind, is_recording};
pub use selection::{
    CompareBy, CompareOptions, KeyNeeds, KeySource, MeasurePer, NamesNeeded, ReportBy, SampleFilter,
};
pub use sets::{ComparedSets, Measure, load_sets};
pub use source::{
    OpenedRecording, RecordingSource, choose_epochs, create_database, drained_epochs, event_named,
    name_locations, open_by_host, open_latest_epochs, open_recording, read_epochs, symbol_gaps,
    undrained_advice, why_nothing_recorded,
};
pub use tail_calls::insert_tail_callers;
pub use time_kind::{SystemCallName, answering_call, waits_for_typing};
pub use time_tree::{IdleKind, TimeTree, each_sample, make_time_tree};
pub use tree::{resolve_all, tree_of_recording};
pub use wanted::{WantedSamples, keep_cgroup};
