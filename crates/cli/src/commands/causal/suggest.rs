//! `vitalfew causal run --suggest-progress`: suggests functions that stand for a unit of work.

use super::args::CausalRunArgs;
use crate::output::{Align, Table, clean_name, group_digits};
use crate::screen::{Screen, tell_user};
use experiment::{ExperimentOptions, PointKind, PointSpec};
use profile::{CausalRun, Granularity, Progress};
use results::inconclusive_refusal;
use std::io::Write;
use std::process::ExitCode;
use std::sync::atomic::AtomicBool;

/// Number of functions whose calls are counted.
const CANDIDATES: usize = 8;
/// Suitable points have at least this many visits in an experiment, and at most [`OFTEN`] a second,
/// because counting costs.
const FEW: f64 = 10.0;
const OFTEN: f64 = 5000.0;

/// A function, as a progress point.
struct Candidate {
    name: String,
    share: f64,
    /// Calls a second, and the variation of their number between intervals as long as an experiment
    /// (coefficient of variation).
    rate: f64,
    variation: f64,
}

/// Runs the command twice, without delays: first to find the functions that take time, then to
/// count their calls.
pub fn run(
    args: &CausalRunArgs,
    options: &ExperimentOptions,
    stop: &AtomicBool,
) -> anyhow::Result<ExitCode> {
    let mut options = options.clone();
    options.by = Granularity::Function;
    options.fixed_speedup = Some(0.0);
    options.points.clear();
    let first = observe_once(&options, stop)?;
    let mut functions: Vec<_> = first.fragments.iter().filter(|f| f.samples > 0).collect();
    functions.sort_by_key(|function| std::cmp::Reverse(function.samples));
    let all: u64 = functions.iter().map(|function| function.samples).sum();
    functions.truncate(CANDIDATES);
    options.points = functions
        .iter()
        .map(|function| PointSpec {
            name: function.name.clone(),
            what: PointKind::Function(function.name.clone()),
        })
        .collect();
    if options.points.is_empty() {
        // The controller reports whether the run was too short, or the program is set-uid or has no
        // names.
        let reason = first.warnings.first().cloned();
        let message = reason.unwrap_or_else(|| "nothing in scope was sampled".to_owned());
        return Err(inconclusive_refusal(message));
    }
    let second = observe_once(&options, stop)?;
    let shares = functions
        .iter()
        .map(|f| f.samples as f64 / all.max(1) as f64);
    let mut candidates: Vec<Candidate> = second
        .points
        .iter()
        .enumerate()
        .zip(shares)
        .map(|((at, point), share)| {
            let (rate, variation) = visit_rate(&second, at);
            Candidate {
                name: point.name.clone(),
                share,
                rate,
                variation,
            }
        })
        .collect();
    // Steady ones with a suitable number of visits come first.
    let fits = |c: &Candidate| c.rate * args.experiment.as_secs_f64() >= FEW && c.rate <= OFTEN;
    candidates.sort_by(|a, b| {
        fits(b)
            .cmp(&fits(a))
            .then(a.variation.total_cmp(&b.variation))
    });
    print_candidates(&candidates, fits)?;
    Ok(ExitCode::SUCCESS)
}

fn observe_once(options: &ExperimentOptions, stop: &AtomicBool) -> anyhow::Result<CausalRun> {
    let outcome = experiment::run_experiments(options, stop, &mut |_, _| {})?;
    if let Some(running) = outcome.running {
        tell_user("waiting for the command to end (Ctrl-C: leave it running)");
        running.wait_for_end();
    }
    Ok(outcome.run)
}

/// Returns the visits a second of a point in experiments without delay, and their coefficient of
/// variation.
fn visit_rate(run: &CausalRun, point: usize) -> (f64, f64) {
    let rates: Vec<f64> = run
        .experiments
        .iter()
        .filter_map(|experiment| match experiment.counts.get(point)? {
            Progress::Visits(visits) => {
                Some(*visits as f64 * 1e9 / (experiment.duration_ns as f64).max(1.0))
            }
            Progress::Latency { .. } => None,
        })
        .collect();
    if rates.is_empty() {
        return (0.0, f64::INFINITY);
    }
    let count = rates.len() as f64;
    let mean = rates.iter().sum::<f64>() / count;
    let square = rates.iter().map(|rate| (rate - mean).powi(2)).sum::<f64>() / count;
    let variation = if mean > 0.0 {
        square.sqrt() / mean
    } else {
        f64::INFINITY
    };
    (mean, variation)
}

fn print_candidates(
    candidates: &[Candidate],
    fits: impl Fn(&Candidate) -> bool,
) -> std::io::Result<()> {
    let mut table = Table::new(vec![
        ("of the time".into(), Align::Right),
        ("calls/s".into(), Align::Right),
        ("varies by".into(), Align::Right),
        ("".into(), Align::Left),
        ("progress point".into(), Align::Left),
    ]);
    for candidate in candidates {
        let varies = if candidate.variation.is_finite() {
            format!("{:.0} %", 100.0 * candidate.variation)
        } else {
            String::new()
        };
        let word = match (
            fits(candidate),
            candidate.rate > OFTEN,
            candidate.rate > 0.0,
        ) {
            (true, ..) => "good",
            (_, true, _) => "very often: slow",
            (_, _, true) => "rare",
            _ => "never in an experiment",
        };
        table.add_row(vec![
            format!("{:.0} %", 100.0 * candidate.share),
            group_digits(candidate.rate.round() as u64),
            varies,
            word.into(),
            format!("function:{}", clean_name(&candidate.name)),
        ]);
    }
    let mut out = Screen::text_output();
    write!(out, "{}", table.render())?;
    if let Some(best) = candidates.first().filter(|best| fits(best)) {
        let name = clean_name(&best.name);
        writeln!(
            out,
            "\nnext: vitalfew causal run --progress 'function:{name}' -- …"
        )?;
    } else {
        writeln!(
            out,
            "\nno function fits; mark a unit of work in the source (vitalfew.h)"
        )?;
    }
    out.flush()
}
