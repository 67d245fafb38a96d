//! `vitalfew interference`: finds the functions in which threads slow each other down.

pub mod args;
#[cfg(target_arch = "x86_64")]
mod hot;
mod report;
#[cfg(target_arch = "x86_64")]
mod run;
mod text;

use args::{Interference, InterferenceAction};
use std::process::ExitCode;

/// Runs the command.
pub fn run(args: &Interference) -> anyhow::Result<ExitCode> {
    match &args.action {
        #[cfg(target_arch = "x86_64")]
        InterferenceAction::Run(args) => run::run(args),
        #[cfg(not(target_arch = "x86_64"))]
        InterferenceAction::Run(_) => anyhow::bail!("only x86-64 programs can be traced so far"),
        InterferenceAction::Report(args) => report::run(args),
    }
}
