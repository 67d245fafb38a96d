//! Functions that are worth tracing: those that take time (ISPOT, section 5.2).

use crate::wrapped::Signals;
use anyhow::bail;
use experiment::FunctionPattern;
use profile::{ImageKind, Recording, UNNAMED_PROCEDURE};
use sampler::{Exit, Launched, Options, TargetSpec};
use std::collections::BTreeMap;
use std::ffi::OsString;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;
use symbols::Detail;

/// Time for which a process that runs is sampled.
const SAMPLED: Duration = Duration::from_secs(3);
/// A function takes at least this part of the time to be worth it.
const SHARE: f64 = 0.01;

/// Runs the command once, samples it, and finds the functions that take more than a hundredth of
/// its CPU time.
pub fn functions(command: &[OsString], signals: &Signals) -> anyhow::Result<Vec<FunctionPattern>> {
    let options = Options::new(TargetSpec::Command(command.to_vec()));
    let outcome = sampler::record(&options, &signals.stop, &mut |_| {})?;
    signals.pass_on(outcome.running.as_ref());
    let exit = outcome
        .exit
        .or_else(|| outcome.running.map(Launched::wait_for_end));
    // The user who ended it does not want it to be started again, and would wait for ever.
    if signals.stop.load(Relaxed) || matches!(exit, Some(Exit::Signal(_))) {
        bail!(
            "the command was told to end in its first run, so that nothing was traced; -f FUNCTION traces it in one run"
        );
    }
    Ok(hot_functions(&outcome.recording))
}

/// Samples a process that runs for a while, and finds the same.
pub fn functions_of_process(pid: u32, stop: &AtomicBool) -> anyhow::Result<Vec<FunctionPattern>> {
    let mut options = Options::new(TargetSpec::Process(pid));
    options.duration = Some(SAMPLED);
    let outcome = sampler::record(&options, stop, &mut |_| {})?;
    Ok(hot_functions(&outcome.recording))
}

/// Returns the functions that take more than a hundredth of a recording's CPU time, the hottest first.
pub fn hot_functions(recording: &Recording) -> Vec<FunctionPattern> {
    let leaves = || {
        // Waits are events of their own, in nanoseconds.
        let samples = recording.samples.iter();
        samples.filter(|sample| sample.event.0 == 0).map(|sample| {
            let location = recording.stacks.frame(sample.stack).location;
            (location, sample.weight)
        })
    };
    let locations = leaves().map(|(location, _)| location);
    let resolved = symbols::resolve(
        recording,
        locations,
        Detail::Procedures,
        &symbols::SymbolOptions::default(),
    );
    let mut all = 0;
    let mut sums: BTreeMap<(String, u64), (u64, String)> = BTreeMap::new();
    for (location, weight) in leaves() {
        all += weight;
        let Some(image) = recording.images.get(location.image.0 as usize) else {
            continue;
        };
        let known = resolved
            .table
            .get(location)
            .and_then(|known| known.procedure.as_ref());
        // A stub of the procedure linkage table is no function of the image: whom it leads to is found by itself.
        // A place in a stripped image may be a part that is jumped to.
        let is_function =
            |name: &str| !name.ends_with("@plt") && !name.starts_with(UNNAMED_PROCEDURE);
        let known = known.filter(|procedure| is_function(&procedure.name));
        if let (ImageKind::File, Some(procedure)) = (&image.kind, known) {
            let key = (image.path.to_string(), procedure.start.0);
            let sum = sums.entry(key).or_insert((0, procedure.name.to_string()));
            sum.0 += weight;
        }
    }
    let mut hot: Vec<_> = sums
        .into_iter()
        .filter(|(_, (sum, _))| *sum as f64 >= SHARE * all as f64)
        .collect();
    hot.sort_by_key(|(_, (sum, _))| std::cmp::Reverse(*sum));
    hot.into_iter()
        .map(|((image, offset), (_, name))| {
            FunctionPattern::at(&image, profile::ImageOffset(offset), &name)
        })
        .collect()
}
