//! Selection of functions that are worth tracing: those that take time (ISPOT, section 5.2).

use crate::wrapped::Signals;
use anyhow::bail;
use experiment::FunctionPattern;
use orchestration::hot_functions;
use sampler::{Exit, Launched, Options, TargetSpec};
use std::ffi::OsString;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

/// Time for which a running process is sampled.
const SAMPLED: Duration = Duration::from_secs(3);

/// Runs and samples the command once. Returns the functions that take at least a hundredth of its
/// CPU time.
pub fn functions(command: &[OsString], signals: &Signals) -> anyhow::Result<Vec<FunctionPattern>> {
    let options = Options::new(TargetSpec::Command(command.to_vec()));
    let outcome = sampler::record(&options, &signals.stop, &mut |_| {})?;
    signals.pass_on(outcome.running.as_ref());
    let exit = outcome
        .exit
        .or_else(|| outcome.running.map(Launched::wait_for_end));
    // A user who ended the command does not want it to be started again.
    if signals.stop.load(Relaxed) || matches!(exit, Some(Exit::Signal(_))) {
        bail!(
            "the command was told to end in its first run, so that nothing was traced; -f FUNCTION traces it in one run"
        );
    }
    Ok(hot_functions(&outcome.recording))
}

/// Samples a running process for [`SAMPLED`]. Returns the functions that take at least a hundredth
/// of its CPU time.
pub fn functions_of_process(pid: u32, stop: &AtomicBool) -> anyhow::Result<Vec<FunctionPattern>> {
    let mut options = Options::new(TargetSpec::Process(pid));
    options.duration = Some(SAMPLED);
    let outcome = sampler::record(&options, stop, &mut |_| {})?;
    Ok(hot_functions(&outcome.recording))
}
