//! `vitalfew doctor`.

use crate::args::Doctor;
use std::process::ExitCode;

/// Runs the command.
pub fn run(_args: &Doctor) -> anyhow::Result<ExitCode> {
    anyhow::bail!("not yet")
}
