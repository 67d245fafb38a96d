//! Content of a report that is shown as text, JSON or a picture.

use analysis::causal::{Analysis, FragmentEffects};
use profile::CausalProfile;
use results::causal::run_again;
use std::time::Duration;

/// The report of one profile.
pub struct ShownEffects<'a> {
    /// The experiments.
    pub profile: &'a CausalProfile,
    /// Their analysis.
    pub analysis: &'a Analysis,
    /// The findings that are shown.
    pub shown: &'a [FragmentEffects],
    /// The files as they are named on a command line.
    pub files: String,
    /// True if all details were requested.
    pub all: bool,
}

impl ShownEffects<'_> {
    /// Returns the command line for more experiments like those of the last run, as [`run_again`]
    /// does.
    pub fn run_again(&self, line: Option<&str>, at_least: Option<Duration>) -> Option<Vec<String>> {
        run_again(self.profile.runs.last()?, line, at_least)
    }
}
