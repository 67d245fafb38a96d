//! The command line of `vitalfew run`.

use crate::option_values::{DatabaseArg, parse_duration, place_parser};
use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

/// `vitalfew run`.
#[derive(Debug, clap::Args)]
#[command(
    group(clap::ArgGroup::new("of").required(true).args(["pid", "command", "show"])),
    after_help = "\
The command is run once to sample what it runs and what it waits for, and, if it ends in time and more than one \
thread works, again: to see what its threads lose to each other, and for experiments that predict what a faster \
line is worth. Each run reads the same standard input; only the first one's output is shown. Files that it \
writes are written each time. A program of several threads that runs on is sampled for two fifths of the time, and then \
experimented with while it runs.

Examples:
  vitalfew run -- ./app input             what is worth changing?
  vitalfew run --for 5m -- ./server       until its time is over
  vitalfew run -p 1234                    a process that runs already
  vitalfew run --once -- ./migrate        it must not be repeated
  vitalfew run --progress function:handle_request -- ./app
  vitalfew run -o before.json -- ./app    keep it, then change the program, and
  vitalfew run --against before.json -- ./app

What the answer rests on: docs/run.md

Exit codes: those of COMMAND; 125 if vitalfew itself fails, 126 and 127 if COMMAND cannot be executed or does not \
exist, 128+n if signal n ended it. With -p: 0, 1 failure, 3 this machine refuses."
)]
pub struct RunAll {
    /// Time for all of it (60s, 5m)
    #[arg(long = "for", value_name = "TIME", default_value = "60s", value_parser = parse_duration)]
    pub budget: Duration,
    /// Run the command once only: sample it, and ask nothing else
    #[arg(long)]
    pub once: bool,
    /// Count the program's work here (as causal run does), for the experiments; can be repeated
    #[arg(short = 'P', long, value_name = "POINT")]
    pub progress: Vec<String>,
    /// A running process instead of a command, for the time, or until Ctrl-C: it runs on
    #[arg(short, long, value_name = "PID")]
    pub pid: Option<u32>,
    /// Show a result that -o has written, or that is in a bucket, and run nothing
    #[arg(long, value_name = "FILE", conflicts_with_all = ["output", "progress", "once"], value_parser = place_parser())]
    pub show: Option<PathBuf>,
    /// Say what changed since this result of -o
    #[arg(long, value_name = "FILE", conflicts_with = "json", value_parser = place_parser())]
    pub against: Option<PathBuf>,
    /// Write the result into this file, too, as JSON
    #[arg(short, long, value_name = "FILE")]
    pub output: Option<PathBuf>,
    /// Where.
    #[command(flatten)]
    pub database: DatabaseArg,
    /// JSON instead of text (docs/run.schema.json); what the command prints goes to standard error
    #[arg(long)]
    pub json: bool,
    /// All evidence of each finding
    #[arg(short, long, conflicts_with = "json")]
    pub verbose: bool,
    /// All findings, not only the first five
    #[arg(long)]
    pub all: bool,
    /// Say nothing but the result
    #[arg(short, long)]
    pub quiet: bool,
    /// The command and its arguments
    #[arg(
        value_name = "COMMAND",
        trailing_var_arg = true,
        allow_hyphen_values = true
    )]
    pub command: Vec<OsString>,
}
