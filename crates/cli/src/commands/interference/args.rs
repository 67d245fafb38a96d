//! The command line of `vitalfew interference`.

use crate::option_values::{AttachableCommand, DatabaseArg, parse_duration, parse_percent};
use orchestration::{USUAL_LIMIT_MIB, USUAL_OVERHEAD, USUAL_ROOM_MIB};
use std::path::PathBuf;
use std::time::Duration;

/// `vitalfew interference`.
#[derive(Debug, clap::Args)]
pub struct Interference {
    /// What to do
    #[command(subcommand)]
    pub action: InterferenceAction,
}

impl Interference {
    /// Returns whether this action runs a command and passes its exit code on.
    pub fn wraps(&self) -> bool {
        matches!(self.action, InterferenceAction::Run(_))
    }

    /// Returns the process that this action attaches to.
    pub fn process_mut(&mut self) -> Option<&mut u32> {
        match &mut self.action {
            InterferenceAction::Run(run) => run.pid.as_mut(),
            _ => None,
        }
    }
}

/// Actions of `interference`.
#[derive(Debug, clap::Subcommand)]
pub enum InterferenceAction {
    /// Run a command (or look at a process that runs), and find the functions that threads slow
    /// down for each other
    Run(Box<InterferenceRunArgs>),
    /// Say which functions lose time to other threads
    Report(InterferenceReport),
}

/// `vitalfew interference run`.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  vitalfew interference run -- ./app                        functions that take time, locks, I/O
  vitalfew interference run -f 'db::*' -f pthread_mutex_lock -- ./app
  vitalfew interference run -f 'libfoo!foo_*' --for 30s -- ./server
  vitalfew interference run --every 100 -f parse -- ./app   one execution in a hundred
  vitalfew interference run -p 1234 --for 30s               a process that runs, and runs on

Nothing needs to be rebuilt. Blocks of code finer than a function are marked in the source
(include/vitalfew.h). Without -f the command is run twice: the first time is sampled. A process
that runs is sampled for 3 s.

What the numbers mean: docs/interference.md

Exit codes: those of COMMAND; 125 if vitalfew itself fails or the program cannot be traced,
126 and 127 if COMMAND cannot be executed or does not exist, 128+n if signal n ended it.")]
pub struct InterferenceRunArgs {
    /// Trace these functions of the executable, or, where it has none of that name, of its
    /// libraries; LIB!NAME of one library; * is any text; C++ and Rust names as the source has
    /// them; can be repeated (default: those that take 1 % of the time, and functions that
    /// synchronise or do I/O)
    #[arg(short, long = "function", value_name = "FUNCTION")]
    pub functions: Vec<String>,
    /// A process that runs already: it is traced for the time (30 s by default), or until Ctrl-C,
    /// and runs on
    #[arg(short, long, value_name = "PID", value_parser = clap::value_parser!(u32).range(1..))]
    pub pid: Option<u32>,
    /// Stop tracing after this time (30s, 5m); the command runs on
    #[arg(long = "for", value_name = "TIME", value_parser = parse_duration)]
    pub duration: Option<Duration>,
    /// Trace one in N executions of each function
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..1 << 20))]
    pub every: u32,
    /// Trace only one in many executions of a function where tracing would take more of the
    /// program's time than this percentage
    #[arg(long, value_name = "PERCENT", default_value_t = USUAL_OVERHEAD, value_parser = parse_percent)]
    pub overhead: f64,
    /// How the result is shown.
    #[command(flatten)]
    pub shown: Shown,
    /// Keep the trace in this file (default: a new one in the database)
    #[arg(short, long, value_name = "FILE", conflicts_with = "db")]
    pub output: Option<PathBuf>,
    /// Where.
    #[command(flatten)]
    pub database: DatabaseArg,
    /// Keep only the result
    #[arg(long)]
    pub no_trace: bool,
    /// Keep only the result of a run whose trace is larger than this, in MiB
    #[arg(long, value_name = "MIB", default_value_t = USUAL_LIMIT_MIB)]
    pub trace_limit: u64,
    /// Memory for executions that were not read yet: those that find no room are lost, and counted
    #[arg(long, value_name = "MIB", default_value_t = USUAL_ROOM_MIB, value_parser = clap::value_parser!(u64).range(1..=2048))]
    pub buffer: u64,
    /// Say nothing but errors, and no result
    #[arg(short, long)]
    pub quiet: bool,
    /// Scripts that leave events or arguments out go on to work: neither is traced any more
    #[arg(long, alias = "no-arguments", hide = true)]
    pub no_events: bool,
    /// The library to preload
    #[arg(long, value_name = "FILE", hide = true)]
    pub runtime: Option<PathBuf>,
    /// What is run.
    #[command(flatten)]
    pub command: AttachableCommand,
}

/// `vitalfew interference report`.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  vitalfew interference report                          the last run
  vitalfew interference report app.trace --all          all functions, with threads and callers

What the numbers mean: docs/interference.md

Exit codes: 0, 1 failure, 2 usage, 4 no traced function was executed.")]
pub struct InterferenceReport {
    /// A trace, or the result of a run (default: the last one in the database)
    #[arg(value_name = "FILE", conflicts_with = "db")]
    pub file: Option<PathBuf>,
    /// Where.
    #[command(flatten)]
    pub database: DatabaseArg,
    /// How it is shown.
    #[command(flatten)]
    pub shown: Shown,
}

/// Presentation of results.
#[derive(Clone, Debug, clap::Args)]
pub struct Shown {
    /// Maximum number of functions
    #[arg(long, value_name = "N", default_value_t = 5)]
    pub limit: usize,
    /// All functions, with all that is known, and why others are left out
    #[arg(long, conflicts_with = "limit")]
    pub all: bool,
    /// JSON (schema: docs/json.md)
    #[arg(long)]
    pub json: bool,
}
