//! Content of a report that is shown as text, JSON or a picture.

use profile::{BlockScore, Interference};

/// Content of a report.
pub struct ShownBlocks<'a> {
    /// Everything.
    pub result: &'a Interference,
    /// The findings that are shown.
    pub shown: &'a [BlockScore],
    /// The file as it would be named again on a command line.
    pub file: String,
    /// Everything was asked for.
    pub all: bool,
    /// Also by thread.
    pub thread: bool,
}
