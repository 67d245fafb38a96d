//! `vitalfew causal`.

pub mod args;
mod run;

use args::{Causal, CausalCommand};
use std::process::ExitCode;

/// Runs the command.
pub fn run(args: &Causal) -> anyhow::Result<ExitCode> {
    match &args.command {
        CausalCommand::Run(args) => run::run(args),
    }
}
