//! `vitalfew generate`: man pages and completions, from the definitions of the arguments.

use crate::args::{Args, Generate, Generated};
use anyhow::Context;
use clap::CommandFactory;
use std::process::ExitCode;

/// Runs the command.
pub fn run(args: &Generate) -> anyhow::Result<ExitCode> {
    match &args.what {
        Generated::Man { directory } => clap_mangen::generate_to(Args::command(), directory)
            .with_context(|| format!("writing man pages into {}", directory.display()))?,
        Generated::Completions { shell } => {
            let mut command = Args::command();
            clap_complete::generate(*shell, &mut command, "vitalfew", &mut std::io::stdout());
        }
    }
    Ok(ExitCode::SUCCESS)
}
