//! What a report shows, as text, JSON or a picture.

use super::given::TypedRun;
use analysis::causal::{Analysis, FragmentEffects};
use profile::CausalProfile;
use std::time::Duration;

/// The report of one profile.
pub struct Report<'a> {
    /// The experiments.
    pub profile: &'a CausalProfile,
    /// Their analysis.
    pub analysis: &'a Analysis,
    /// The findings that are shown.
    pub shown: &'a [FragmentEffects],
    /// The files as they would be named again on a command line.
    pub files: String,
    /// The `causal run` that this is the report of, as far as it is known.
    pub typed: &'a TypedRun,
    /// Everything was asked for.
    pub all: bool,
}

impl Report<'_> {
    /// Returns the command line for more experiments, as [`TypedRun::again`] does.
    pub fn run_again(&self, line: Option<&str>, at_least: Option<Duration>) -> Option<Vec<String>> {
        let command = &self.profile.runs.first()?.command;
        self.typed.again(line, at_least, command)
    }
}
