//! `vitalfew generate`: man pages and completions, from the definitions of the arguments; unwind
//! tables.

use crate::args::{Args, Generate, Generated};
use anyhow::Context;
use clap::CommandFactory;
use orchestration::table_directory;
use std::process::ExitCode;
use std::time::Duration;

/// The longest time for the tables of one recording.
const LONGEST_MAKING: Duration = Duration::from_secs(600);

/// Runs the command.
pub fn run(args: &Generate) -> anyhow::Result<ExitCode> {
    match &args.what {
        Generated::Man { directory } => clap_mangen::generate_to(Args::command(), directory)
            .with_context(|| format!("writing man pages into {}", directory.display()))?,
        Generated::Completions { shell } => {
            let mut command = Args::command();
            clap_complete::generate(*shell, &mut command, "vitalfew", &mut std::io::stdout());
        }
        Generated::UnwindTables { files } => {
            let directory = table_directory().context("there is no directory for caches")?;
            sampler::make_tables(&directory, files, LONGEST_MAKING);
        }
    }
    Ok(ExitCode::SUCCESS)
}
