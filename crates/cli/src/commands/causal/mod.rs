//! `vitalfew causal`: what would speeding code up be worth?

pub mod args;
mod json;
pub mod load;
mod report;
mod run;
mod suggest;
mod svg;
mod text;

pub use svg::{LONGEST_TITLE, escaped, tail};

use args::{Causal, CausalAction};
use std::process::ExitCode;

/// Runs the command.
pub fn run(args: &Causal) -> anyhow::Result<ExitCode> {
    match &args.action {
        CausalAction::Run(args) => run::run(args),
        CausalAction::Report(args) => report::run(args),
    }
}
