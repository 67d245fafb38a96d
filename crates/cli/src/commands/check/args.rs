//! The command line of `vitalfew check`.

use crate::option_values::{CommandLine, WrappedCommand, parse_command, parse_percent};
use clap::builder::{OsStringValueParser, TypedValueParser};
use std::path::PathBuf;

/// `vitalfew check`.
#[derive(Debug, clap::Args)]
#[command(
    group(clap::ArgGroup::new("what").required(true).multiple(true).args(["base", "against", "output"])),
    after_help = "\
Runs the command several times, and compares wall and CPU time with those of another command (--base), whose runs take turns with \
its own, or of a measurement that was kept: the typical ratio of runs, with its 95 % interval by ranks, which single odd runs do \
not move. If it is slower than allowed, procedures that changed are named.

Of a kept measurement the interval knows how runs differ, not how days do: prefer --base, which leaves no time between both.

Examples:
  vitalfew check --base './app.old input' -- ./app input
  vitalfew check -o base.json -- ./app input                      before the change
  vitalfew check --against base.json --fail-over 5% -- ./app input  after it

Exit codes: 0 not slower than allowed, 6 slower, 4 the interval reaches over the limit, 1 failure, 2 usage, 3 this machine refuses."
)]
pub struct CheckRun {
    /// Compare with this command, quoted as for a shell; its runs and those of COMMAND take turns
    #[arg(long, value_name = "CMD", value_parser = OsStringValueParser::new().try_map(|text| parse_command(&text)), conflicts_with = "against")]
    pub base: Option<CommandLine>,
    /// Compare with this measurement, which -o has written
    #[arg(long, value_name = "BASELINE")]
    pub against: Option<PathBuf>,
    /// How much slower it may be, in percent
    #[arg(long, value_name = "PERCENT", default_value = "5%", value_parser = parse_percent)]
    pub fail_over: f64,
    /// How often each command is run (default: 10; with --base as often as fits into 25 s, 12 to 60
    /// times)
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(2..=1000))]
    pub runs: Option<u32>,
    /// Keep the measurement in this file, and a recording beside it
    #[arg(short, long, value_name = "FILE")]
    pub output: Option<PathBuf>,
    /// JSON instead of text (schema: docs/json.md)
    #[arg(long)]
    pub json: bool,
    /// Say nothing but the result
    #[arg(short, long)]
    pub quiet: bool,
    /// What is run.
    #[command(flatten)]
    pub command: WrappedCommand,
}
