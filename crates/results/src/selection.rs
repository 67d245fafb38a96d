//! Which samples of a recording are asked for, and by what they are added up.

use std::path::PathBuf;

/// Which samples of a recording; a part that is `None` lets all pass.
#[derive(Clone, Debug, Default)]
pub struct SampleFilter {
    /// Only this event.
    pub event: Option<String>,
    /// Only processes with this in their name.
    pub process: Option<String>,
    /// Only this process id.
    pub pid: Option<u32>,
    /// Only samples in images with this in their path.
    pub image: Option<String>,
    /// Only samples in procedures with this in their name.
    pub procedure: Option<String>,
}

impl SampleFilter {
    /// Returns whether samples are wanted wherever they landed, so that the threads' own counts serve.
    pub fn is_of_all_places(&self) -> bool {
        self.image.is_none() && self.procedure.is_none()
    }
}

/// What the rows of a report are about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "clap", derive(clap::ValueEnum))]
pub enum ReportBy {
    /// Executable, shared library, kernel
    Image,
    /// Procedure
    Procedure,
    /// Source line
    Line,
    /// Instruction
    Instruction,
    /// Process
    Process,
    /// Thread
    Thread,
    /// Off-CPU time: who ended the wait
    Waker,
    /// Host, of a database that several machines write to
    Host,
}

/// What the rows of a comparison are about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "clap", derive(clap::ValueEnum))]
pub enum CompareBy {
    /// Executable, shared library, kernel
    Image,
    /// Procedure
    Procedure,
    /// Source line
    Line,
    /// Call path
    Path,
}

/// What a compared set is measured by, where that is said.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "clap", derive(clap::ValueEnum))]
pub enum MeasurePer {
    /// Each set is one run of the same work
    Run,
    /// Its samples: shares are compared
    Samples,
    /// Its length in time
    Time,
}

/// How sets are compared.
#[derive(Clone, Debug)]
pub struct CompareOptions {
    /// What rows are about.
    pub by: CompareBy,
    /// The work that each set did, in any unit; none: it is not known.
    pub work: Vec<f64>,
    /// What a set is measured by; `None`: a run where every set is a command's, else time.
    pub per: Option<MeasurePer>,
    /// What names of earlier sets are in the last one.
    pub maps: Vec<crate::matching::NameMap>,
    /// Which samples.
    pub filter: SampleFilter,
    /// Directories with further debug information.
    pub debug_dirs: Vec<PathBuf>,
}
