//! Selection of functions that are worth tracing: those that take time (ISPOT, section 5.2).

use crate::wrapped::Signals;
use anyhow::bail;
use orchestration::HotCode;
use sampler::{Exit, Launched, Options, TargetSpec};
use std::ffi::OsString;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

/// Time for which a running process is sampled.
const SAMPLED: Duration = Duration::from_secs(3);

/// Runs and samples the command once. Returns its hot code.
pub fn functions(command: &[OsString], signals: &Signals) -> anyhow::Result<HotCode> {
    let options = with_registers(TargetSpec::Command(command.to_vec()));
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
    Ok(HotCode::of_recording(&outcome.recording))
}

/// Samples a running process for [`SAMPLED`]. Returns its hot code.
pub fn functions_of_process(pid: u32, stop: &AtomicBool) -> anyhow::Result<HotCode> {
    let mut options = with_registers(TargetSpec::Process(pid));
    options.duration = Some(SAMPLED);
    let outcome = sampler::record(&options, stop, &mut |_| {})?;
    Ok(HotCode::of_recording(&outcome.recording))
}

/// Returns options to sample with registers, which tell the data that threads share.
fn with_registers(target: TargetSpec) -> Options {
    let mut options = Options::new(target);
    options.registers = cfg!(target_arch = "x86_64");
    options
}
