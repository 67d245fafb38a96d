//! Counting a procedure's executions for `--count`: in a running process, or in one more run of the
//! command.

use crate::args::Annotate as Args;
use crate::screen::{tell_user, warn_user};
use crate::wrapped::Signals;
use profile::Recording;
use results::annotation::{AnnotatedProcedure, Annotator, ChosenProcedure, MeasuredCounts};
use results::inconclusive_refusal;
use sampler::{CountRequest, Options, ProbePlace, TargetSpec, count_executions};
use std::time::Duration;
use symbols::ImageSymbols;

/// Time for which a running process is measured, unless `--for` gives it.
const DEFAULT_DURATION: Duration = Duration::from_secs(5);

/// Percent of the command's time in which its paths are followed.
const PATH_BURSTS: f64 = 3.0;

/// Returns whether a recording is given.
pub fn is_recorded(args: &Args) -> bool {
    args.source.path.is_some() || args.source.database.db.is_some()
}

/// Records the target, for the comparison of its blocks.
pub fn record_target(args: &Args, signals: &Signals) -> anyhow::Result<Recording> {
    let mut options = Options::new(target(args));
    options.duration = duration(args);
    options.rate = sampler::Rate::Overhead(args.overhead);
    if cfg!(target_arch = "x86_64") {
        options.registers = true;
        options.path_bursts = (!args.command.is_empty()).then_some(PATH_BURSTS);
    }
    tell_user("recording how blocks compare");
    let outcome = sampler::record(&options, &signals.stop, &mut |_| {})?;
    if let Some(running) = outcome.running {
        signals.pass_on(Some(&running));
        return Err(inconclusive_refusal(
            "stopped before the executions were counted".to_owned(),
        ));
    }
    Ok(outcome.recording)
}

/// Counts executions of a procedure in the target. Returns why uprobes were refused, too.
pub fn count_procedure(
    args: &Args,
    signals: &Signals,
    annotator: &Annotator<'_>,
    chosen: &ChosenProcedure,
    code: &ImageSymbols,
) -> anyhow::Result<(MeasuredCounts, Option<std::io::Error>)> {
    let (plan, places) = annotator.plan_count(chosen, code)?;
    let places: Vec<ProbePlace> = (places.into_iter().zip(&plan.places))
        .map(|(offset, one)| ProbePlace {
            offset,
            kind: one.kind,
        })
        .collect();
    let end = profile::ImageOffset(chosen.start.0.saturating_add(chosen.size));
    let request = CountRequest {
        target: target(args),
        image: annotator.recording.image(chosen.image),
        procedure: chosen.start..end,
        places: &places,
        overhead: args.overhead,
        duration: duration(args),
    };
    tell_user(&format!("counting executions of {}", chosen.name));
    let outcome = count_executions(&request, &signals.stop)?;
    signals.pass_on(outcome.running.as_ref());
    let measured = MeasuredCounts {
        image: chosen.image,
        start: chosen.start,
        plan,
        counts: outcome.counts,
    };
    Ok((measured, outcome.refused))
}

/// Warns of a count that gives no scale, with the reason.
pub fn warn_without_rates(
    measured: &MeasuredCounts,
    analysed: &AnnotatedProcedure,
    refused: Option<&std::io::Error>,
) {
    if !analysed.rates.is_empty() {
        return;
    }
    let windows = || measured.counts.threads.iter().flatten();
    let was_executed = windows().any(|window| {
        window.hits.iter().flatten().any(|hits| hits.count > 0)
            || window.samples.iter().any(|sample| sample.into.is_some())
    });
    if windows().next().is_none() {
        warn_user("the count saw no thread of the program: it ended too early; give it more work");
    } else if !was_executed {
        warn_user("the procedure was not executed while its executions were counted");
    } else if let Some(refused) = refused {
        warn_user(&format!(
            "the count gives no scale: no loop counts in a register for longer than a tenth of a millisecond, and blocks \
             cannot be counted one by one, as the kernel sets no uprobe (CAP_PERFMON): {refused}"
        ));
    } else {
        warn_user(
            "the count gives no scale: the blocks run too often to be counted one by one, and no loop counts its rounds \
             in a register for longer than a tenth of a millisecond; --counts of callgrind gives cycles",
        );
    }
}

fn target(args: &Args) -> TargetSpec {
    match args.pid {
        Some(pid) => TargetSpec::Process(pid),
        None => TargetSpec::Command(args.command.clone()),
    }
}

fn duration(args: &Args) -> Option<Duration> {
    args.pid.map(|_| args.duration.unwrap_or(DEFAULT_DURATION))
}
