//! What a run is asked for, and what it tells meanwhile.

use std::ffi::OsString;
use std::time::Duration;

/// Options of a run.
pub struct RunOptions {
    /// Time for all of it.
    pub budget: Duration,
    /// Runs the command once only: samples it, and asks nothing else.
    pub once: bool,
    /// Points that count the program's work, for the experiments.
    pub progress: Vec<String>,
    /// A running process instead of a command.
    pub pid: Option<u32>,
    /// The command and its arguments.
    pub command: Vec<OsString>,
    /// Sends what the command prints to standard error.
    pub output_to_errors: bool,
    /// Number of findings at most.
    pub most_findings: usize,
}

/// Progress of a run.
pub enum RunProgress<'a> {
    /// A sentence that says how far it is.
    Note(&'a str),
    /// A sentence that the reader of the result should know.
    Warning(&'a str),
    /// The first finding so far, in a sentence.
    Finding(&'a str),
    /// A phase with this name, during which nobody else writes to the terminal.
    PhaseBegan(&'a str),
    /// The end of such a phase.
    PhaseEnded,
}
