//! The command line of `vitalfew check`.

use crate::option_values::{WrappedCommand, parse_percent};
use std::path::PathBuf;

/// `vitalfew check`.
#[derive(Debug, clap::Args)]
#[command(
    group(clap::ArgGroup::new("what").required(true).multiple(true).args(["against", "output"])),
    after_help = "\
Runs the command several times, and compares wall and CPU time with those of a measurement that was kept: the ratio of the \
means, with its 95 % interval by how the runs of both differ. If it is slower than allowed, procedures that changed are named.

The interval knows how runs differ, not how days do: keep the first measurement on the same machine, shortly before.

Examples:
  vitalfew check -o base.json -- ./app input                      before the change
  vitalfew check --against base.json --fail-over 5% -- ./app input  after it

Exit codes: 0 not slower than allowed, 6 slower, 4 the interval reaches over the limit, 1 failure, 2 usage, 3 this machine refuses."
)]
pub struct CheckRun {
    /// Compare with this measurement, which -o has written
    #[arg(long, value_name = "BASELINE")]
    pub against: Option<PathBuf>,
    /// How much slower it may be, in percent
    #[arg(long, value_name = "PERCENT", default_value = "5%", value_parser = parse_percent)]
    pub fail_over: f64,
    /// How often the command is run
    #[arg(long, value_name = "N", default_value_t = 10, value_parser = clap::value_parser!(u32).range(2..=1000))]
    pub runs: u32,
    /// Keep the measurement in this file, and a recording beside it
    #[arg(short, long, value_name = "FILE")]
    pub output: Option<PathBuf>,
    /// JSON instead of text (schema: docs/check.md)
    #[arg(long)]
    pub json: bool,
    /// Say nothing but the result
    #[arg(short, long)]
    pub quiet: bool,
    /// What is run.
    #[command(flatten)]
    pub command: WrappedCommand,
}
