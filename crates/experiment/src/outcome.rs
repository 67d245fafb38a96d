//! Reports of a run, while it lasts and at its end.

use crate::progress_choice::ProgressChoice;
use profile::CausalRun;
use sampler::{Exit, Launched};
use std::time::Duration;

/// Progress of a run.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct LiveProgress {
    /// Time since the start.
    pub elapsed: Duration,
    /// Experiments done.
    pub experiments: usize,
    /// Samples of all threads.
    pub samples: u64,
    /// Fragments in scope that had samples.
    pub fragments: usize,
    /// Progress points with their visits so far.
    pub points: Vec<(String, u64)>,
    /// The measure of progress, once it is chosen ([`crate::ExperimentOptions::choose_point`]).
    pub choice: Option<ProgressChoice>,
    /// Sentences for the user about how the program is measured.
    pub notices: Vec<String>,
}

/// The result of a run.
pub struct CausalOutcome {
    /// The measurements.
    pub run: CausalRun,
    /// The end of the command; `None`: it still runs.
    pub exit: Option<Exit>,
    /// The command, to wait for.
    pub running: Option<Launched>,
    /// The measure of progress, if one was to be chosen and was.
    pub choice: Option<ProgressChoice>,
    /// A process of the program continues in the background: another run would start one more.
    pub in_background: bool,
    /// Fraction of samples that count for nothing, because their places were not known yet.
    pub unknown_part: f64,
}

/// Callback for the progress of a run. The second argument returns the measurements so far.
pub type Talk<'a> = &'a mut dyn FnMut(&LiveProgress, &mut dyn FnMut() -> CausalRun);
