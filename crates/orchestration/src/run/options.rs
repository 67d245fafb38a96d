//! Options of a run, and its progress messages.

use std::ffi::OsString;
use std::time::Duration;

/// Options of a run.
pub struct RunOptions {
    /// Time limit for all methods together.
    pub budget: Duration,
    /// True if the command is run only once. It is then sampled, and no other method is applied.
    pub once: bool,
    /// Progress points, which count the program's work for the experiments.
    pub progress: Vec<String>,
    /// A running process instead of a command.
    pub pid: Option<u32>,
    /// The command and its arguments.
    pub command: Vec<OsString>,
    /// True if the command's standard output goes to standard error.
    pub output_to_errors: bool,
    /// Maximum number of findings.
    pub most_findings: usize,
}

/// Progress of a run.
pub enum RunProgress<'a> {
    /// A sentence about the progress.
    Note(&'a str),
    /// A warning for the reader of the result, as a sentence.
    Warning(&'a str),
    /// The first finding so far, as a sentence.
    Finding(&'a str),
    /// The begin of a phase with this name, in which no other process writes to the terminal.
    PhaseBegan(&'a str),
    /// The end of such a phase.
    PhaseEnded,
}
