//! What a report shows, as text, JSON or a picture.

use analysis::causal::{Analysis, FragmentEffects};
use profile::CausalProfile;

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
    /// The options of the `causal run` that this is the report of, to be typed again.
    pub options: &'a [String],
    /// Everything was asked for.
    pub all: bool,
}
