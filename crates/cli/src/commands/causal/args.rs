//! The command line of `vitalfew causal`.

use crate::option_values::{AttachableCommand, DatabaseArg, parse_duration};
use clap::ValueEnum;
use std::path::PathBuf;
use std::time::Duration;

/// `vitalfew causal`.
#[derive(Debug, clap::Args)]
pub struct Causal {
    /// What to do
    #[command(subcommand)]
    pub action: CausalAction,
}

impl Causal {
    /// Returns whether it runs a command and passes its exit code on.
    pub fn runs_command(&self) -> bool {
        matches!(self.action, CausalAction::Run(_))
    }

    /// Returns the process to attach to.
    pub fn process_mut(&mut self) -> Option<&mut u32> {
        match &mut self.action {
            CausalAction::Run(run) => run.pid.as_mut(),
            _ => None,
        }
    }
}

/// Actions of `causal`.
#[derive(Debug, clap::Subcommand)]
pub enum CausalAction {
    /// Run a command and find out what speeding its lines up would be worth
    Run(Box<CausalRunArgs>),
    /// Say what speeding code up would be worth, by experiments that were carried out
    Report(CausalReport),
}

/// `vitalfew causal report`.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  vitalfew causal report                         the last causal profile
  vitalfew causal report monday.json friday.json the experiments of both
  vitalfew causal report --svg causal.svg --all
  vitalfew causal report profile.coz             a profile of Coz

What the numbers mean: docs/causal.md

Exit codes: 0, 1 failure, 2 usage, 4 the experiments do not tell what any code is worth.")]
pub struct CausalReport {
    /// Causal profiles of one program, ours or Coz's, which are put together (default: the last
    /// one)
    #[arg(value_name = "FILE", conflicts_with = "db")]
    pub files: Vec<PathBuf>,
    /// Where.
    #[command(flatten)]
    pub database: DatabaseArg,
    /// Only this progress point
    #[arg(long, value_name = "NAME")]
    pub point: Option<String>,
    /// Report lines with at least N different speedups, 0 among them
    #[arg(long, value_name = "N", default_value_t = 5, value_parser = clap::value_parser!(u16).range(2..=101))]
    pub min_speedups: u16,
    /// All lines, not only the first five, and why others are left out
    #[arg(long)]
    pub all: bool,
    /// JSON (schema: docs/json.md)
    #[arg(long)]
    pub json: bool,
    /// Draw the same lines into this file
    #[arg(long, value_name = "FILE")]
    pub svg: Option<PathBuf>,
}

/// `vitalfew causal run`.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Progress points are marked in the source (include/vitalfew.h, or coz.h), or named by --progress:
  FILE:LINE              executions of a line        function:NAME       calls of a function
  usdt:PROVIDER:NAME     a probe for tracers         syscall:NAME        system calls
  samples:FILE:LINE      samples in a line stand for its visits

Examples:
  vitalfew causal run -- ./app                             to its end
  vitalfew causal run --for 60s --progress server.c:120 -- ./server
  vitalfew causal run --latency function:accept_job function:job_done -- ./server
  vitalfew causal run --runs 20 --end-to-end -- ./tool input
  vitalfew causal run -p 1234 --progress function:serve    a process that runs already
  vitalfew causal run --suggest-progress -- ./app          where could progress points be?

Exit codes: those of COMMAND; 125 if vitalfew itself fails or the program cannot be measured,
126 and 127 if COMMAND cannot be executed or does not exist, 128+n if signal n ended it.")]
pub struct CausalRunArgs {
    /// Stop experimenting after this time (30s, 5m), which reading symbols is part of; the command
    /// runs on. A command that ends before is run again, for 60s in all where nothing is said
    #[arg(long = "for", value_name = "TIME", value_parser = parse_duration)]
    pub duration: Option<Duration>,
    /// Run the command exactly N times (default: again as long as time and doubt are left)
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    pub runs: Option<u32>,
    /// Images and sources whose code may be sped up: a part of the path, or a pattern with *; can
    /// be repeated (default: the executable, without the sources of libraries)
    #[arg(long, value_name = "PATTERN")]
    pub scope: Vec<String>,
    /// A process that runs already: it is measured for the time, or until Ctrl-C, and runs on
    #[arg(short, long, value_name = "PID", value_parser = clap::value_parser!(u32).range(1..),
        conflicts_with_all = ["runs", "end_to_end", "suggest_progress"])]
    pub pid: Option<u32>,
    /// Count visits here; can be repeated
    #[arg(long, value_name = "POINT")]
    pub progress: Vec<String>,
    /// Count what begins at one point and ends at another, and ask for its latency; can be repeated
    #[arg(long, num_args = 2, value_names = ["BEGIN", "END"])]
    pub latency: Vec<String>,
    /// The whole run is one experiment, its end the progress point (with --runs)
    #[arg(long)]
    pub end_to_end: bool,
    /// Speed up this line only (or, with --by function, this function)
    #[arg(long, value_name = "FILE:LINE")]
    pub fixed_line: Option<String>,
    /// Speed up a call sequence that `vitalfew bottlenecks` has found, wherever it occurs: 'parse >
    /// lookup > hash'; … stands for any functions between
    #[arg(long, value_name = "A > B > C", conflicts_with_all = ["fixed_line", "by", "suggest_progress"])]
    pub sequence: Option<String>,
    /// Speed up what threads do while they hold this lock, a variable of the program (all of it, if
    /// it has several)
    #[arg(long, value_name = "VARIABLE", conflicts_with_all = ["fixed_line", "by", "sequence", "suggest_progress"])]
    pub lock: Option<String>,
    /// Speed up by this percentage only; 0: sample, and delay nothing
    #[arg(long, value_name = "PERCENT", value_parser = parse_speedup)]
    pub fixed_speedup: Option<f64>,
    /// What to speed up (default: lines, or functions where the program has no debug information)
    #[arg(long, value_enum)]
    pub by: Option<CausalBy>,
    /// Shortest experiment
    #[arg(long, value_name = "TIME", default_value = "500ms", value_parser = parse_duration)]
    pub experiment: Duration,
    /// Let delays take this part of the time at most: more of the experiments are without, and more
    /// time is needed
    #[arg(long, value_name = "PERCENT", value_parser = crate::option_values::parse_percent)]
    pub max_delay: Option<f64>,
    /// Let the program read the real clocks: by default they stand still for it while it is
    /// delayed, so that it does not catch up with delays
    #[arg(long)]
    pub real_clocks: bool,
    /// Speed up running in user mode only, not running in the kernel, nor waits for what is outside
    /// of the program (disks, timers, other processes)
    #[arg(long)]
    pub no_waits: bool,
    /// Put no functions in front of the program's: the kernel says how its threads meet, as in
    /// static programs
    #[arg(long)]
    pub no_hooks: bool,
    /// Run the command twice without experiments, and propose functions whose calls could be
    /// counted
    #[arg(long, conflicts_with_all = ["end_to_end", "fixed_line", "fixed_speedup"])]
    pub suggest_progress: bool,
    /// Add the runs to this profile (default: a new one in the database)
    #[arg(short, long, value_name = "FILE", conflicts_with = "db")]
    pub output: Option<PathBuf>,
    /// Where.
    #[command(flatten)]
    pub database: DatabaseArg,
    /// JSON instead of text (schema: docs/json.md)
    #[arg(long)]
    pub json: bool,
    /// Say nothing but errors, and no result
    #[arg(short, long)]
    pub quiet: bool,
    /// Start of the random choices
    #[arg(long, value_name = "N", hide = true)]
    pub seed: Option<u64>,
    /// The library to preload
    #[arg(long, value_name = "FILE", hide = true)]
    pub runtime: Option<PathBuf>,
    /// What is run.
    #[command(flatten)]
    pub command: AttachableCommand,
}

fn parse_speedup(text: &str) -> Result<f64, String> {
    match text {
        "0" | "0%" => Ok(0.0),
        text => crate::option_values::parse_percent(text),
    }
}

/// `--by` of `causal run`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum CausalBy {
    /// Source lines
    Line,
    /// Functions
    Function,
}
