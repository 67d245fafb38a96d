//! Parameters of each tool's calls. Agents read the comments here.

use rmcp::schemars::{self, JsonSchema};
use serde::Deserialize;

/// `run`.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct RunParameters {
    /// The program and its arguments, each a string; no shell reads them. The program must be one that the server allows.
    pub command: Vec<String>,
    /// Time for all of it in seconds. More time means narrower intervals. Default: 60.
    pub seconds: Option<f64>,
    /// Where the program's work is counted, as function:NAME, FILE:LINE or syscall:NAME. Default: chosen.
    pub progress: Option<String>,
    /// The command must not be run more than once. Without it, it is run again and again.
    #[serde(default)]
    pub once: bool,
    /// Largest answer in bytes. Default: 4000.
    pub max_bytes: Option<usize>,
}

/// `record`.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Record {
    /// The program and its arguments, each a string; no shell reads them. The program must be one that the server allows.
    pub command: Vec<String>,
    /// For how many seconds it is sampled. Default: until the command ends.
    pub seconds: Option<f64>,
    /// Largest answer in bytes. Default: 4000.
    pub max_bytes: Option<usize>,
}

/// `findings`.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct OfResult {
    /// A name that another tool gave, or the path of a recording, a result or another tool's profile.
    pub result: String,
    /// Largest answer in bytes. Default: 4000.
    pub max_bytes: Option<usize>,
}

/// `why`.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct OfFinding {
    /// A name that another tool gave, or a path.
    pub result: String,
    /// The finding's number in the answer of findings, run or what_if: 1 is the first.
    pub finding: usize,
    /// Largest answer in bytes. Default: 4000.
    pub max_bytes: Option<usize>,
}

/// `report`.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ReportParameters {
    /// A name that record gave, or the path of a recording or profile.
    pub result: String,
    /// What the rows are. Default: procedure.
    pub by: Option<RowsBy>,
    /// How many rows. Default: 10.
    pub rows: Option<u32>,
    /// Largest answer in bytes. Default: 4000.
    pub max_bytes: Option<usize>,
}

/// The rows of a report.
#[derive(Clone, Copy, Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum RowsBy {
    /// Procedures.
    Procedure,
    /// Source lines.
    Line,
    /// Executables and libraries.
    Image,
    /// Processes.
    Process,
    /// Threads.
    Thread,
}

impl RowsBy {
    /// Returns the value of `--by`.
    pub fn word(self) -> &'static str {
        match self {
            Self::Procedure => "procedure",
            Self::Line => "line",
            Self::Image => "image",
            Self::Process => "process",
            Self::Thread => "thread",
        }
    }
}

/// `search`.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Search {
    /// A name that record gave, or the path of a recording or profile with call stacks.
    pub result: String,
    /// Only calls of functions whose name has a match of this regular expression, with what they call.
    pub focus: Option<String>,
    /// How much of the cost the call paths should cover, in percent. Less makes them more specific. Default: 90.
    pub coverage: Option<f64>,
    /// Largest answer in bytes. Default: 4000.
    pub max_bytes: Option<usize>,
}

/// `annotate`.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Annotate {
    /// A name that record gave, or the path of a recording.
    pub result: String,
    /// The procedure's name, or a part of it.
    pub procedure: String,
    /// Largest answer in bytes. Default: 4000.
    pub max_bytes: Option<usize>,
}

/// `compare`.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Compare {
    /// The recording before the change: a name that record gave, or a path (a directory with several runs tells change from chance better).
    pub before: String,
    /// The recording after it.
    pub after: String,
    /// Largest answer in bytes. Default: 4000.
    pub max_bytes: Option<usize>,
}

/// `what_if`.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct WhatIf {
    /// The program and its arguments, each a string. The program must be one that the server allows.
    pub command: Vec<String>,
    /// The place that is to be faster: FILE:LINE, or a function's name.
    pub place: String,
    /// By how much of its time it is to be faster, in percent, 5 to 100. Default: 50.
    pub percent: Option<u32>,
    /// Time for the experiments in seconds. Default: 30. Four times the time makes the interval half as wide.
    pub seconds: Option<f64>,
    /// Where the program's work is counted, as function:NAME, FILE:LINE or syscall:NAME. Default: chosen.
    pub progress: Option<String>,
    /// Largest answer in bytes. Default: 4000.
    pub max_bytes: Option<usize>,
}

/// `doctor`.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Nothing {}
