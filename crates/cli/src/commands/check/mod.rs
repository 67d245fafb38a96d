//! `vitalfew check`: tests whether a program is slower than allowed.
//!
//! It compares repeated runs with kept ones, and uses `diff` to find the changed procedures.

pub mod args;
mod measurement;

use crate::exit::{INCONCLUSIVE, WORSE};
use crate::output::{clean_name, format_ns, write_json};
use crate::screen::{Screen, tell_user};
use analysis::ranks::{shift_of_pairs, shift_of_runs};
use args::CheckRun;
use measurement::{CheckMeasurement, RunTimes, recording_beside};
use profile::Recording;
use results::{ChangedProcedures, JsonClaims, MostChanged, changed_procedures, error_chain};
use serde::Serialize;
use std::io::Write;
use std::path::PathBuf;
use std::process::ExitCode;

const WAITED: &str = "it waited longer for CPUs, which other programs may have had: measure again on a quiet machine";
const DRIFT: &str = "the base was measured before: a machine that became slower since counts as change, which check --base CMD does not let happen";
/// Default number of runs of a command.
const RUNS: u32 = 10;
/// Maximum number of named procedures.
const NAMED: usize = 5;

/// Change of a time: a factor, with its 95 % interval.
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
enum CheckVerdict {
    /// No time exceeds the limit, even at the upper ends of the intervals.
    Allowed,
    /// An interval contains the limit.
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
    verdict: CheckVerdict,
    /// True if other programs may be the cause.
    waited_for_cpus: bool,
    by_turns: bool,
    most_changed: Option<&'a MostChanged>,
    claims: JsonClaims,
}

/// Runs the command.
pub fn run(args: &CheckRun) -> anyhow::Result<ExitCode> {
    // First, because incomparable programs need not be measured.
    let kept = args.against.as_deref().map(CheckMeasurement::read);
    let kept = kept.transpose()?;
    let command = &args.command.words;
    let runs = args.runs.unwrap_or(RUNS);
    if !args.quiet {
        tell_user(&match (&args.base, args.runs) {
            (Some(_), None) => "both commands are run by turns for half a minute or 12 times, and their output not shown".to_owned(),
            (Some(_), Some(runs)) => format!("both commands are run {runs} times by turns, and their output not shown"),
            (None, _) => format!("the command is run {runs} times, and its output not shown"),
        });
    }
    let (before, (after, recording)) = match (&args.base, kept, &args.against) {
        (Some(base), ..) => {
            let [before, after] = CheckMeasurement::measure_turns([&base.0, command], args.runs)?;
            (
                Some((before.0, BaseRecording::Recorded(Box::new(before.1)))),
                after,
            )
        }
        (None, Some(kept), Some(path)) => {
            let after = CheckMeasurement::measure_runs(command, runs)?;
            let beside = BaseRecording::Kept(recording_beside(path));
            (Some((kept, beside)), after)
        }
        _ => (None, CheckMeasurement::measure_runs(command, runs)?),
    };
    if let Some(path) = &args.output {
        after.keep(path, &recording)?;
    }
    let Some((before, base)) = before else {
        return Ok(ExitCode::SUCCESS);
    };
    let by_turns = args.base.is_some();
    if !by_turns && before.command != after.command {
        tell_user("the measurement that is compared with is of another command line");
    }
    let times = time_changes(&before.runs, &after.runs, by_turns);
    let limit = 1.0 + args.fail_over / 100.0;
    let waited_for_cpus = is_wait_for_cpus(&times, [&before.runs, &after.runs], limit);
    let verdict = match verdict(&times, limit) {
        CheckVerdict::Slower if waited_for_cpus => CheckVerdict::Unclear,
        verdict => verdict,
    };
    let changed = match verdict {
        CheckVerdict::Allowed => ChangedProcedures::default(),
        _ => changed_since(&base, &recording, [&before, &after]).unwrap_or_else(|error| {
            tell_user(&format!("where is not known: {}", error_chain(&error)));
            ChangedProcedures::default()
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
            by_turns,
            most_changed: changed.most.as_ref(),
            claims: JsonClaims::of_findings(changed.findings),
        };
        write_json(&mut out, &json)?;
    } else {
        let runs = [before.runs.len(), after.runs.len()];
        write_text(&mut out, runs, &times, verdict, args.fail_over, &changed)?;
        if waited_for_cpus {
            writeln!(out, "  {WAITED}")?;
        }
        if !by_turns && verdict != CheckVerdict::Allowed {
            writeln!(out, "  {DRIFT}")?;
        }
    }
    out.flush()?;
    Ok(match verdict {
        CheckVerdict::Allowed => ExitCode::SUCCESS,
        CheckVerdict::Unclear => ExitCode::from(INCONCLUSIVE),
        CheckVerdict::Slower => ExitCode::from(WORSE),
    })
}

/// Returns the changes of wall and CPU time: the typical ratio of runs, or of the runs of each
/// turn.
fn time_changes(before: &[RunTimes], after: &[RunTimes], by_turns: bool) -> Vec<TimeChange> {
    let change = |what: &'static str, time_of: fn(&RunTimes) -> u64| {
        let logarithms = |runs: &[RunTimes]| -> Vec<f64> {
            let times = runs.iter().map(|run| time_of(run).max(1) as f64);
            times.map(f64::ln).collect()
        };
        let (old, new) = (logarithms(before), logarithms(after));
        let ratio = if by_turns {
            let turns: Vec<f64> = new.iter().zip(&old).map(|(new, old)| new - old).collect();
            shift_of_pairs(&turns)?
        } else {
            shift_of_runs(&new, &old)?
        };
        Some(TimeChange {
            what,
            before_ns: median(before.iter().map(time_of)),
            after_ns: median(after.iter().map(time_of)),
            factor: ratio.estimate.exp(),
            low: ratio.low.exp(),
            high: ratio.high.exp(),
        })
    };
    let wall = change("wall", |run| run.wall_ns);
    let cpu = change("CPU", |run| run.cpu_ns);
    wall.into_iter().chain(cpu).collect()
}

fn median(times: impl Iterator<Item = u64>) -> f64 {
    let mut times: Vec<u64> = times.collect();
    times.sort_unstable();
    let middle = [(times.len().max(1) - 1) / 2, times.len() / 2];
    let times = middle.map(|at| times.get(at).copied().unwrap_or(0) as f64);
    times.iter().sum::<f64>() / 2.0
}

fn verdict(times: &[TimeChange], limit: f64) -> CheckVerdict {
    if times.iter().any(|time| time.low > limit) {
        return CheckVerdict::Slower;
    }
    if times.iter().any(|time| time.high > limit) {
        CheckVerdict::Unclear
    } else {
        CheckVerdict::Allowed
    }
}

/// Returns whether only the wall time is longer than allowed, and would not be with the former
/// waits for CPUs: then another program may be the cause.
fn is_wait_for_cpus(times: &[TimeChange], runs: [&[RunTimes]; 2], limit: f64) -> bool {
    let is_slower = |what| {
        times
            .iter()
            .any(|time| time.what == what && time.low > limit)
    };
    let typical = |runs: &[RunTimes], time_of: fn(&RunTimes) -> Option<u64>| {
        let times: Vec<u64> = runs.iter().filter_map(time_of).collect();
        (2 * times.len() > runs.len()).then(|| median(times.into_iter()))
    };
    let wall = runs.map(|runs| typical(runs, |run| Some(run.wall_ns)));
    let waited = runs.map(|runs| typical(runs, |run| run.waiting_ns));
    let cpu = typical(runs[1], |run| Some(run.cpu_ns));
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

/// The recording to compare with.
enum BaseRecording {
    Recorded(Box<Recording>),
    Kept(PathBuf),
}

/// Returns the procedures that changed.
fn changed_since(
    before: &BaseRecording,
    after: &Recording,
    measured: [&CheckMeasurement; 2],
) -> anyhow::Result<ChangedProcedures> {
    let directory = tempfile::tempdir()?;
    let path = directory.path().join("after.recording");
    store::write_file(after, &path)?;
    let base = match before {
        BaseRecording::Kept(path) => path.clone(),
        BaseRecording::Recorded(recording) => {
            let path = directory.path().join("before.recording");
            store::write_file(recording, &path)?;
            path
        }
    };
    let runs = measured.map(|side| f64::from(side.recorded_runs));
    changed_procedures([&base, &path], runs)
}

fn write_text(
    out: &mut dyn Write,
    runs: [usize; 2],
    times: &[TimeChange],
    verdict: CheckVerdict,
    fail_over: f64,
    changed: &ChangedProcedures,
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
        CheckVerdict::Allowed => "not slower than allowed",
        CheckVerdict::Unclear => "not known whether it is slower than allowed: more --runs tell",
        CheckVerdict::Slower => "slower than allowed",
    };
    writeln!(out, "{said} ({fail_over} %)")?;
    for finding in changed.findings.iter().take(NAMED) {
        writeln!(
            out,
            "  {}",
            clean_name(&results::phrases::claim_sentence(finding))
        )?;
    }
    if changed.findings.is_empty() && verdict != CheckVerdict::Allowed {
        writeln!(out, "  no procedure has changed by more than chance")?;
        if let Some(most) = &changed.most {
            let (name, before, after) = (clean_name(&most.name), most.before_ns, most.after_ns);
            let (before, after) = (format_ns(before), format_ns(after));
            writeln!(
                out,
                "  the largest increase is in {name}: {before} -> {after} a run"
            )?;
        }
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
        let of = |after: &[u64]| verdict(&time_changes(&before, &runs(after), false), 1.05);
        assert_eq!(of(&[100, 102, 101, 100, 101]), CheckVerdict::Allowed);
        assert_eq!(of(&[120, 121, 122, 120, 121]), CheckVerdict::Slower);
        assert_eq!(of(&[90, 130, 100, 125, 95]), CheckVerdict::Unclear);
        // Faster is allowed.
        assert_eq!(of(&[50, 51, 52, 50, 51]), CheckVerdict::Allowed);
    }

    /// A busy machine makes no program slower; waiting for anything else does.
    #[test]
    fn waits_for_cpus_are_told_from_a_slower_program() {
        let before = runs(&[100, 101, 102, 101, 100]);
        let longer = |waiting_ns| {
            let mut after = before.clone();
            for run in &mut after {
                run.wall_ns += 30_000_000;
                run.waiting_ns = waiting_ns;
            }
            is_wait_for_cpus(
                &time_changes(&before, &after, false),
                [&before, &after],
                1.05,
            )
        };
        assert!(longer(Some(40_000_000)));
        assert!(!longer(Some(10_000_000)));
        assert!(!longer(None));
    }

    #[test]
    fn the_interval_has_the_truth() {
        let (before, after) = (runs(&[100, 102, 98, 100]), runs(&[110, 112, 108, 110]));
        let change = time_changes(&before, &after, false)[0];
        assert!(change.low < 1.1 && 1.1 < change.high, "{change:?}");
        assert!((change.factor - 1.1).abs() < 0.01, "{change:?}");
    }

    /// In the machine's slow hour the runs of both commands are slower.
    #[test]
    fn a_machine_that_becomes_slower_is_no_change_by_turns() {
        let drift: Vec<u64> = (0..10).map(|turn| 100 + 10 * turn).collect();
        let slower: Vec<u64> = drift.iter().map(|ms| ms * 110 / 100).collect();
        let times = time_changes(&runs(&drift), &runs(&slower), true);
        assert_eq!(verdict(&times, 1.05), CheckVerdict::Slower, "{times:?}");
        let same = time_changes(&runs(&drift), &runs(&drift), true);
        assert_eq!(verdict(&same, 1.05), CheckVerdict::Allowed, "{same:?}");
    }
}
