//! `vitalfew check`: is a program slower than allowed?

pub mod args;
mod measurement;

use crate::commands::diff::changed_procedures;
use crate::exit::{INCONCLUSIVE, WORSE, error_chain};
use crate::output::{clean_name, format_ns};
use crate::screen::{Screen, tell_user};
use analysis::statistics::interval_of_runs;
use args::CheckRun;
use measurement::{CheckMeasurement, RunTimes, recording_beside};
use profile::{Finding, Recording};
use serde::Serialize;
use std::io::Write;
use std::path::Path;
use std::process::ExitCode;

const WAITED: &str = "it waited longer for CPUs, which other programs may have had: measure again on a quiet machine";
/// Procedures that are named.
const NAMED: usize = 5;

/// By how much a time has changed: a factor, with its 95 % interval.
#[derive(Clone, Copy, Debug, Serialize)]
struct TimeChange {
    what: &'static str,
    before_ns: f64,
    after_ns: f64,
    factor: f64,
    low: f64,
    high: f64,
}

/// Verdict on whether a program is slower than allowed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
enum Verdict {
    /// No time exceeds the limit, even at the upper ends of the intervals.
    Allowed,
    /// An interval reaches over the limit.
    Unclear,
    /// A time exceeds the limit, even at the lower end of its interval.
    Slower,
}

#[derive(Serialize)]
struct Json<'a> {
    schema: &'static str,
    command: &'a [String],
    fail_over: f64,
    runs: [usize; 2],
    times: &'a [TimeChange],
    verdict: Verdict,
    /// Other programs may be why.
    waited_for_cpus: bool,
    claims: crate::claims::JsonClaims,
}

/// Runs the command.
pub fn run(args: &CheckRun) -> anyhow::Result<ExitCode> {
    // First: what cannot be compared need not be measured.
    let before = args.against.as_deref().map(CheckMeasurement::read);
    let before = before.transpose()?;
    if !args.quiet {
        tell_user(&format!(
            "the command is run {} times, and its output not shown",
            args.runs
        ));
    }
    let (after, recording) = CheckMeasurement::measure_runs(&args.command.words, args.runs)?;
    if let Some(path) = &args.output {
        after.keep(path, &recording)?;
    }
    let (Some(before), Some(path)) = (before, &args.against) else {
        return Ok(ExitCode::SUCCESS);
    };
    if before.command != after.command {
        tell_user("the measurement that is compared with is of another command line");
    }
    let times = time_changes(&before.runs, &after.runs);
    let limit = 1.0 + args.fail_over / 100.0;
    let waited_for_cpus = is_wait_for_cpus(&times, [&before.runs, &after.runs], limit);
    let verdict = match verdict(&times, limit) {
        Verdict::Slower if waited_for_cpus => Verdict::Unclear,
        verdict => verdict,
    };
    let changed = match verdict {
        Verdict::Allowed => Vec::new(),
        _ => changed_since(path, &recording, [&before, &after]).unwrap_or_else(|error| {
            tell_user(&format!("where is not known: {}", error_chain(&error)));
            Vec::new()
        }),
    };
    let mut out = Screen::open_output(args.json);
    if args.json {
        let json = Json {
            schema: "vitalfew.check-result/1",
            command: &after.command,
            fail_over: args.fail_over,
            runs: [before.runs.len(), after.runs.len()],
            times: &times,
            verdict,
            waited_for_cpus,
            claims: crate::claims::JsonClaims::of_findings(changed),
        };
        serde_json::to_writer_pretty(&mut out, &json)?;
        writeln!(out)?;
    } else {
        let runs = [before.runs.len(), after.runs.len()];
        write_text(&mut out, runs, &times, verdict, args.fail_over, &changed)?;
        if waited_for_cpus {
            writeln!(out, "  {WAITED}")?;
        }
    }
    out.flush()?;
    Ok(match verdict {
        Verdict::Allowed => ExitCode::SUCCESS,
        Verdict::Unclear => ExitCode::from(INCONCLUSIVE),
        Verdict::Slower => ExitCode::from(WORSE),
    })
}

/// Returns by how much wall and CPU time have changed: the ratio of geometric means, by Welch's interval of the logarithms.
fn time_changes(before: &[RunTimes], after: &[RunTimes]) -> Vec<TimeChange> {
    let change = |what: &'static str, time_of: fn(&RunTimes) -> u64| {
        let logarithms = |runs: &[RunTimes]| -> Vec<f64> {
            let times = runs.iter().map(|run| time_of(run).max(1) as f64);
            times.map(f64::ln).collect()
        };
        let (old, new) = (logarithms(before), logarithms(after));
        let mean = |values: &[f64]| (values.iter().sum::<f64>() / values.len() as f64).exp();
        let ratio = interval_of_runs(&new, &old)?;
        Some(TimeChange {
            what,
            before_ns: mean(&old),
            after_ns: mean(&new),
            factor: ratio.estimate.exp(),
            low: ratio.low.exp(),
            high: ratio.high.exp(),
        })
    };
    let wall = change("wall", |run| run.wall_ns);
    let cpu = change("CPU", |run| run.cpu_ns);
    wall.into_iter().chain(cpu).collect()
}

fn verdict(times: &[TimeChange], limit: f64) -> Verdict {
    if times.iter().any(|time| time.low > limit) {
        return Verdict::Slower;
    }
    match times.iter().any(|time| time.high > limit) {
        true => Verdict::Unclear,
        false => Verdict::Allowed,
    }
}

/// Returns whether the wall time alone is longer than allowed, and would not be if the program had waited for CPUs as before: then another program may be why.
fn is_wait_for_cpus(times: &[TimeChange], runs: [&[RunTimes]; 2], limit: f64) -> bool {
    let is_slower = |what| {
        times
            .iter()
            .any(|time| time.what == what && time.low > limit)
    };
    let mean = |runs: &[RunTimes], time_of: fn(&RunTimes) -> Option<u64>| {
        let times: Option<Vec<u64>> = runs.iter().map(time_of).collect();
        times.map(|times| times.iter().sum::<u64>() as f64 / times.len().max(1) as f64)
    };
    let wall = runs.map(|runs| mean(runs, |run| Some(run.wall_ns)));
    let waited = runs.map(|runs| mean(runs, |run| run.waiting_ns));
    let cpu = mean(runs[1], |run| Some(run.cpu_ns));
    let ([Some(wall_before), Some(wall)], [Some(before), Some(after)], Some(cpu)) =
        (wall, waited, cpu)
    else {
        return false;
    };
    // Threads wait at the same time.
    let at_once = ((cpu + after) / wall).max(1.0);
    let rest = wall - (after - before) / at_once;
    is_slower("wall") && !is_slower("CPU") && rest <= limit * wall_before
}

/// Returns the procedures that changed by more than chance.
fn changed_since(
    before: &Path,
    after: &Recording,
    measured: [&CheckMeasurement; 2],
) -> anyhow::Result<Vec<Finding>> {
    let directory = tempfile::tempdir()?;
    let path = directory.path().join("after.recording");
    store::write_file(after, &path)?;
    let runs = measured.map(|side| f64::from(side.recorded_runs));
    changed_procedures([&recording_beside(before), &path], runs)
}

fn write_text(
    out: &mut dyn Write,
    runs: [usize; 2],
    times: &[TimeChange],
    verdict: Verdict,
    fail_over: f64,
    changed: &[Finding],
) -> std::io::Result<()> {
    writeln!(out, "{} runs before, {} now", runs[0], runs[1])?;
    for change in times {
        let percent = |factor: f64| 100.0 * (factor - 1.0);
        writeln!(
            out,
            "{:4} {} -> {}: {:+.1} % [{:+.1}, {:+.1}]",
            change.what,
            format_ns(change.before_ns),
            format_ns(change.after_ns),
            percent(change.factor),
            percent(change.low),
            percent(change.high)
        )?;
    }
    let said = match verdict {
        Verdict::Allowed => "not slower than allowed",
        Verdict::Unclear => "not known whether it is slower than allowed: more --runs tell",
        Verdict::Slower => "slower than allowed",
    };
    writeln!(out, "{said} ({fail_over} %)")?;
    for finding in changed.iter().take(NAMED) {
        writeln!(out, "  {}", clean_name(&finding.sentence()))?;
    }
    if changed.is_empty() && verdict != Verdict::Allowed {
        writeln!(out, "  no procedure has changed by more than chance")?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn runs(times: &[u64]) -> Vec<RunTimes> {
        let run = |ms: &u64| RunTimes {
            wall_ns: ms * 1_000_000,
            cpu_ns: ms * 900_000,
            waiting_ns: Some(ms * 100_000),
        };
        times.iter().map(run).collect()
    }

    #[test]
    fn the_verdict_goes_by_the_ends_of_the_interval() {
        let before = runs(&[100, 101, 102, 101, 100]);
        let of = |after: &[u64]| verdict(&time_changes(&before, &runs(after)), 1.05);
        assert_eq!(of(&[100, 102, 101, 100, 101]), Verdict::Allowed);
        assert_eq!(of(&[120, 121, 122, 120, 121]), Verdict::Slower);
        assert_eq!(of(&[90, 130, 100, 125, 95]), Verdict::Unclear);
        // Faster is no fault.
        assert_eq!(of(&[50, 51, 52, 50, 51]), Verdict::Allowed);
    }

    /// A machine that others use makes no program slower; a program that waits for something else is slower.
    #[test]
    fn waits_for_cpus_are_told_from_a_slower_program() {
        let before = runs(&[100, 101, 102, 101, 100]);
        let longer = |waiting_ns| {
            let mut after = before.clone();
            for run in &mut after {
                run.wall_ns += 30_000_000;
                run.waiting_ns = waiting_ns;
            }
            is_wait_for_cpus(&time_changes(&before, &after), [&before, &after], 1.05)
        };
        assert!(longer(Some(40_000_000)));
        assert!(!longer(Some(10_000_000)));
        assert!(!longer(None));
    }

    #[test]
    fn the_interval_has_the_truth() {
        let change = time_changes(&runs(&[100, 102, 98, 100]), &runs(&[110, 112, 108, 110]))[0];
        assert!(change.low < 1.1 && 1.1 < change.high, "{change:?}");
        assert!((change.factor - 1.1).abs() < 0.01, "{change:?}");
    }
}
