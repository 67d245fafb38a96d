//! `vitalfew causal`: predicts the effect of faster code.

pub mod args;
mod given;
mod plots;
mod report;
mod run;
mod shown_report;
mod suggest;
mod text;

use args::{Causal, CausalAction};
use std::process::ExitCode;

/// Runs the command.
pub fn run(args: &Causal) -> anyhow::Result<ExitCode> {
    match &args.action {
        CausalAction::Run(args) => run::run(args),
        CausalAction::Report(args) => report::run(args),
    }
}
