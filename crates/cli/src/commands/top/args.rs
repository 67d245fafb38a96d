//! The command line of `vitalfew top`.

use super::rows::TopView;
use crate::option_values::{parse_duration, place_parser};
use std::path::PathBuf;
use std::time::Duration;

/// `vitalfew top`.
#[derive(Clone, Debug, clap::Args)]
#[command(after_help = "\
Keys: 1 to 5 or Tab choose a view, Enter shows one process alone, / filters by name, s sorts, Space pauses, \
w writes a recording of what is shown, ? lists all keys, q quits.

Examples:
  vitalfew top                       the whole machine, sampled by itself
  vitalfew top -p 1234 --by waits    what one process waits for
  vitalfew top --db DIR              what the running daemon of a database counts
  vitalfew top --once                one table, as for a file or a pipe

How to read it: docs/top.md

Exit codes: 0, 1 failure, 2 usage, 3 this machine refuses.")]
pub struct Top {
    /// One process instead of the whole machine
    #[arg(short, long, value_name = "PID", conflicts_with = "db")]
    pub pid: Option<u32>,
    /// Show what the running daemon of this database counts, instead of sampling
    #[arg(long, value_name = "DIR", value_parser = place_parser())]
    pub db: Option<PathBuf>,
    /// What rows are
    #[arg(long, value_enum, value_name = "VIEW", default_value_t = TopView::Procedures)]
    pub by: TopView,
    /// Time between two tables (2s, 500ms)
    #[arg(long, value_name = "TIME", default_value = "2s", value_parser = parse_duration)]
    pub every: Duration,
    /// Print one table and end
    #[arg(long)]
    pub once: bool,
    /// Rows of that table
    #[arg(long, value_name = "N", default_value_t = 20)]
    pub limit: usize,
}
