//! The command line of `vitalfew mcp`.

use crate::option_values::{parse_duration, parse_size};
use std::path::PathBuf;
use std::time::Duration;

/// `vitalfew mcp`.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  vitalfew mcp --allow ./app                    an agent may measure ./app, with any arguments
  vitalfew mcp --allow ./app --allow make       and make
  vitalfew mcp --folder /srv/app                it may only read profiles below this directory

An agent's program starts this and speaks the Model Context Protocol with it, by standard input and
output. It starts nothing but what --allow names and vitalfew itself. Its tools: docs/mcp.md

Exit codes: 0, 1 failure, 2 usage.")]
pub struct Mcp {
    /// A program that may be run, with any arguments: a path, or a name that is looked up in PATH;
    /// can be repeated (default: none, so that only kept results can be read)
    #[arg(long = "allow", value_name = "PROGRAM")]
    pub allowed: Vec<PathBuf>,
    /// Commands run in this directory, and files outside of it are not read
    #[arg(long, value_name = "DIR", default_value = ".")]
    pub folder: PathBuf,
    /// Keep results here (default: in a directory that is removed at the end)
    #[arg(long, value_name = "DIR")]
    pub keep: Option<PathBuf>,
    /// The longest measurement that may be asked for
    #[arg(long, value_name = "TIME", default_value = "10m", value_parser = parse_duration)]
    pub longest: Duration,
    /// The largest answer, unless a call asks for another size
    #[arg(long, value_name = "BYTES", default_value = "4k", value_parser = parse_size)]
    pub answer: u64,
}
