//! The command lines of `vitalfew html` and `vitalfew serve`.

use crate::option_values::{DatabaseArg, parse_size, place_parser};
use std::path::PathBuf;

/// `vitalfew html`.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  vitalfew html page.html                      the last recording and what run, causal run and interference run found last
  vitalfew html page.html app.vf causal.json   these together
  vitalfew html page.html cpu.pb.gz            another tool's profile

The file holds its data and works from disk; it asks nothing of the network. What it shows: docs/page.md

Exit codes: 0, 1 failure, 2 usage, 4 nothing was recorded, 5 damaged data were left out.")]
pub struct Html {
    /// The file to write
    #[arg(value_name = "OUT.html")]
    pub output: PathBuf,
    /// What to show.
    #[command(flatten)]
    pub shown: PageFiles,
    /// Leave out text of sources, then small calling contexts, until the file is no larger: 500k,
    /// 20M
    #[arg(long, value_name = "BYTES", default_value = "20M", value_parser = parse_size)]
    pub max_size: u64,
}

/// `vitalfew serve`.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  vitalfew serve                     the last recording and what run, causal run and interference run found last
  vitalfew serve app.vf              one recording; the page follows when it is recorded again
  vitalfew serve --db /var/lib/vitalfew

Only this machine reaches the server, and only with the token in the address that is printed. What it shows: docs/page.md

Exit codes: 0, 1 failure, 2 usage, 4 nothing was recorded.")]
pub struct Serve {
    /// What to show.
    #[command(flatten)]
    pub shown: PageFiles,
    /// The first port that is tried
    #[arg(long, value_name = "PORT", default_value_t = 3400, value_parser = clap::value_parser!(u16).range(1024..=65_400))]
    pub port: u16,
    /// Do not open a browser
    #[arg(long)]
    pub no_browser: bool,
}

/// Content of the page.
#[derive(Clone, Debug, clap::Args)]
pub struct PageFiles {
    /// Recordings, databases, other tools' profiles, causal profiles, results of interference run,
    /// and what commands wrote with
    /// --json (default: the last of each kind in the database)
    #[arg(value_name = "FILE", conflicts_with = "db", value_parser = place_parser())]
    pub files: Vec<PathBuf>,
    /// Where.
    #[command(flatten)]
    pub database: DatabaseArg,
    /// Directory with further debug information, laid out like /usr/lib/debug; can be repeated
    #[arg(long, value_name = "DIR")]
    pub debug_dir: Vec<PathBuf>,
}
