//! Selection of samples, and of the key by which they are summed.

use std::path::PathBuf;

/// A selection of a recording's samples; a part that is `None` accepts all.
#[derive(Clone, Debug, Default)]
pub struct SampleFilter {
    /// Only this event.
    pub event: Option<String>,
    /// Only processes with this in their name.
    pub process: Option<String>,
    /// Only threads with this in their name.
    pub thread: Option<String>,
    /// Only this process id.
    pub pid: Option<u32>,
    /// Only control groups with this in their path or in the name of their container.
    pub cgroup: Option<String>,
    /// Only samples in images with this in their path.
    pub image: Option<String>,
    /// Only samples in procedures with this in their name.
    pub procedure: Option<String>,
}

impl SampleFilter {
    /// Returns whether samples at all places are selected, so that the threads' own counts suffice.
    pub fn is_of_all_places(&self) -> bool {
        self.image.is_none() && self.procedure.is_none()
    }

    /// Returns whether the selection depends on names of threads or processes.
    pub fn names_threads(&self) -> bool {
        self.process.is_some() || self.thread.is_some()
    }
}

/// The key of a report's rows.
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
    /// Control group, with its container
    Cgroup,
    /// Container, or Kubernetes pod with it
    Container,
    /// Go: function that the goroutine began with
    Goroutine,
    /// Go: labels of the goroutine (runtime/pprof)
    Labels,
    /// Python: coroutine or callback that the loop of asyncio called
    Coroutine,
    /// Off-CPU time: who ended the wait
    Waker,
    /// Host, of a database that several machines write to
    Host,
}

/// The part of a recording that makes a row's key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KeySource {
    /// The place of a sample: callers have rows, too.
    Place,
    /// Another property of a sample.
    Sample,
    /// The thread, so that threads' own counts have the rows.
    Thread,
}

/// The places whose names a key needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NamesNeeded {
    /// None.
    Nothing,
    /// Places of samples.
    Leaves,
    /// All frames of stacks.
    Stacks,
}

/// Data of a recording that a key needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KeyNeeds {
    /// The part that makes the key.
    pub source: KeySource,
    /// Names of procedures.
    pub names: NamesNeeded,
    /// Names of processes.
    pub processes: bool,
    /// Process and thread ids.
    pub ids: bool,
    /// Control groups.
    pub cgroups: bool,
}

impl ReportBy {
    /// Returns the needs of its key. A new key is an arm here, which answers all questions at once.
    pub fn needs(self) -> KeyNeeds {
        let of = |source, names| KeyNeeds {
            source,
            names,
            processes: false,
            ids: false,
            cgroups: false,
        };
        match self {
            Self::Image => of(KeySource::Place, NamesNeeded::Nothing),
            Self::Procedure | Self::Line | Self::Instruction => {
                of(KeySource::Place, NamesNeeded::Leaves)
            }
            Self::Process | Self::Thread => KeyNeeds {
                processes: true,
                ids: true,
                ..of(KeySource::Thread, NamesNeeded::Nothing)
            },
            Self::Cgroup | Self::Container => KeyNeeds {
                cgroups: true,
                ..of(KeySource::Thread, NamesNeeded::Nothing)
            },
            Self::Goroutine | Self::Coroutine => of(KeySource::Sample, NamesNeeded::Stacks),
            Self::Labels => of(KeySource::Sample, NamesNeeded::Leaves),
            Self::Waker => KeyNeeds {
                processes: true,
                ..of(KeySource::Sample, NamesNeeded::Stacks)
            },
            Self::Host => of(KeySource::Sample, NamesNeeded::Nothing),
        }
    }
}

/// The key of a comparison's rows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[cfg_attr(feature = "clap", derive(clap::ValueEnum))]
pub enum CompareBy {
    /// Executable, shared library, kernel
    Image,
    /// Procedure
    #[default]
    Procedure,
    /// Source line
    Line,
    /// Call path
    Path,
}

/// The measure of a compared set, where it is given.
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

/// Options of a comparison.
#[derive(Clone, Debug, Default)]
pub struct CompareOptions {
    /// The key of the rows.
    pub by: CompareBy,
    /// The work that each set did, in any unit; empty if unknown.
    pub work: Vec<f64>,
    /// The measure of a set; `None`: a run if every set comes from a command, else time.
    pub per: Option<MeasurePer>,
    /// Names of earlier sets with the names that replace them in the last one.
    pub maps: Vec<crate::matching::NameMap>,
    /// The selection of samples.
    pub filter: SampleFilter,
    /// Directories with further debug information.
    pub debug_dirs: Vec<PathBuf>,
}
