//! The command line of `vitalfew causal`.

use std::path::PathBuf;

/// `vitalfew causal`.
#[derive(Debug, clap::Args)]
pub struct Causal {
    /// What to do
    #[command(subcommand)]
    pub action: CausalAction,
}

/// What `causal` does.
#[derive(Debug, clap::Subcommand)]
pub enum CausalAction {
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

What the numbers mean: docs/causal-profile.md

Exit codes: 0, 1 failure, 2 usage, 4 the experiments do not tell what any code is worth.")]
pub struct CausalReport {
    /// What to read.
    #[command(flatten)]
    pub source: CausalSource,
    /// Only this progress point
    #[arg(long, value_name = "NAME")]
    pub point: Option<String>,
    /// Report lines with at least so many different speedups, 0 among them
    #[arg(long, value_name = "N", default_value_t = 5, value_parser = clap::value_parser!(u16).range(2..=101))]
    pub min_speedups: u16,
    /// All lines, not only the first five, and why others are left out
    #[arg(long)]
    pub all: bool,
    /// JSON (schema: docs/causal-profile.md)
    #[arg(long)]
    pub json: bool,
    /// Draw the same lines into this file
    #[arg(long, value_name = "FILE")]
    pub svg: Option<PathBuf>,
}

/// Where causal profiles are.
#[derive(Clone, Debug, Default, clap::Args)]
pub struct CausalSource {
    /// Causal profiles of one program, ours or Coz's, which are put together (default: the last one)
    #[arg(value_name = "FILE")]
    pub files: Vec<PathBuf>,
}
