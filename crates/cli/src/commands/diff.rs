//! `vitalfew diff`: what changed from one sample set to another.

use crate::args::{CompareBy, Diff as Args, Per};
use crate::comparison::{self, Kind, Row, q_text};
use crate::output::{printable, time};
use crate::sets::{self, Sets};
use analysis::variation::{Change, Noise};
use profile::Unit;
use serde::Serialize;
use std::io::Write;
use std::process::ExitCode;

/// How sure the intervals are.
const CONFIDENCE: f64 = 0.95;

/// What is said of a row: amounts per share of samples, run, second or unit of work.
struct Difference {
    amounts: [f64; 2],
    change: Change,
}

/// Runs the command.
pub fn run(args: &Args) -> anyhow::Result<ExitCode> {
    let mut compare = args.compare.clone();
    if args.folded {
        compare.by = CompareBy::Path;
    }
    let sets = sets::load(&[args.a.clone(), args.b.clone()], &compare, args.per)?;
    let mut out = std::io::stdout().lock();
    let mut empty = sets.totals.contains(&0);
    if args.folded {
        folded(&mut out, &sets)?;
    } else if !empty {
        let shares = compare.work.is_empty() && args.per == Per::Samples;
        let measure = |noise: &Noise, counts: &[u64]| difference(&sets, noise, counts, shares);
        let mut judged = comparison::judge(&sets, measure, by_size);
        empty = judged.rows.is_empty();
        judged.limit(&compare);
        if compare.shown.json {
            let kind = Kind {
                schema: "vitalfew.diff/1",
                per: Some(measure_name(args)),
                confidence: Some(CONFIDENCE),
            };
            judged.print_json(&mut out, &sets, kind, numbers)?;
        } else {
            writeln!(out, "{} {}\n", sets.event, measured_by(args))?;
            let mut headings = vec!["A", "B", "change"];
            if sets.unit == Unit::Samples {
                headings.extend(["least", "most", "q"]);
            }
            let cells = |row: &Row<Difference>| cells(args, &sets, row);
            judged.print(&mut out, &sets, &compare, &headings, cells)?;
        }
    }
    out.flush()?;
    let nothing = empty.then_some("one of the sets has no sample of what was asked for");
    Ok(comparison::conclude(&sets, nothing))
}

/// What amounts are measured by.
fn measured_by(args: &Args) -> &'static str {
    match (args.compare.work.is_empty(), args.per) {
        (false, _) => "per unit of work",
        (_, Per::Run) => "per run",
        (_, Per::Samples) => "as shares of all samples",
        (_, Per::Time) => "per second",
    }
}

/// The same in the JSON form.
fn measure_name(args: &Args) -> &'static str {
    match (args.compare.work.is_empty(), args.per) {
        (false, _) => "work",
        (_, Per::Run) => "run",
        (_, Per::Samples) => "samples",
        (_, Per::Time) => "time",
    }
}

fn difference(sets: &Sets, noise: &Noise, counts: &[u64], shares: bool) -> Option<Difference> {
    let (&[a, b], &[exposure_a, exposure_b]) = (counts, sets.exposure.as_slice()) else {
        return None;
    };
    let amounts = [a as f64 / exposure_a, b as f64 / exposure_b];
    let estimate = amounts[1] - amounts[0];
    let change = match sets.unit {
        Unit::Samples if shares => {
            noise.change_of_share([a, b], [exposure_a, exposure_b], CONFIDENCE)
        }
        Unit::Samples => noise.change([a, b], [exposure_a, exposure_b], CONFIDENCE),
        // Measured, not sampled.
        Unit::Nanoseconds => Change {
            estimate,
            low: estimate,
            high: estimate,
        },
    };
    Some(Difference { amounts, change })
}

/// By what the change is at least.
fn by_size(a: &Difference, b: &Difference) -> std::cmp::Ordering {
    let least = |row: &Difference| row.change.conservative().abs();
    let size = |row: &Difference| row.change.estimate.abs();
    let by_size = || size(b).total_cmp(&size(a));
    least(b).total_cmp(&least(a)).then_with(by_size)
}

/// An amount for people.
fn show(args: &Args, sets: &Sets, amount: f64) -> String {
    let time_like = sets.clock || sets.unit == Unit::Nanoseconds;
    match (args.compare.work.is_empty(), args.per) {
        (true, Per::Samples) => format!("{:.2}%", 100.0 * amount),
        (true, Per::Time) if time_like => format!("{:.2}%", amount / 1e7),
        _ if time_like => {
            let sign = if amount < 0.0 { "-" } else { "" };
            format!("{sign}{}", time(amount.abs()))
        }
        _ => format!("{amount:.1}"),
    }
}

fn cells(args: &Args, sets: &Sets, row: &Row<Difference>) -> Vec<String> {
    let signed = |amount: f64| {
        let sign = if amount > 0.0 { "+" } else { "" };
        format!("{sign}{}", show(args, sets, amount))
    };
    let Difference { amounts, change } = &row.numbers;
    let mut cells = vec![
        show(args, sets, amounts[0]),
        show(args, sets, amounts[1]),
        signed(change.estimate),
    ];
    if sets.unit == Unit::Samples {
        cells.push(signed(change.low));
        cells.push(signed(change.high));
        cells.push(q_text(row.q));
    }
    cells
}

/// `stack A B`, as differential flame graphs are drawn from; B at the exposure of A.
fn folded(out: &mut impl Write, sets: &Sets) -> std::io::Result<()> {
    let exposure = |set: usize| sets.exposure.get(set).copied().unwrap_or(1.0);
    let scale = exposure(0) / exposure(1);
    for (key, counts) in &sets.rows {
        let (Some(a), Some(b)) = (counts.first(), counts.get(1)) else {
            continue;
        };
        let b = (*b as f64 * scale).round();
        writeln!(out, "{} {a} {b}", printable(&key.name))?;
    }
    Ok(())
}

#[derive(Serialize)]
struct Numbers {
    a: f64,
    b: f64,
    change: f64,
    low: f64,
    high: f64,
}

fn numbers(row: &Difference) -> Numbers {
    Numbers {
        a: row.amounts[0],
        b: row.amounts[1],
        change: row.change.estimate,
        low: row.change.low,
        high: row.change.high,
    }
}
