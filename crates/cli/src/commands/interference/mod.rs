//! `vitalfew interference`: where do threads slow each other down?

pub mod args;
mod json;
mod load;
pub mod report;
mod svg;
mod text;

use args::{Interference, InterferenceAction};
use std::process::ExitCode;

/// Runs the command.
pub fn run(args: &Interference) -> anyhow::Result<ExitCode> {
    match &args.action {
        InterferenceAction::Report(args) => report::run(args),
    }
}
