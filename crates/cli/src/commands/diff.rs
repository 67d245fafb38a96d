//! `vitalfew diff`: what changed from one sample set to another.

use crate::args::{CompareBy, Diff as Args, Per};
use crate::commands::stats::{FALSE_DISCOVERIES, q_text, verdict};
use crate::exit::INCONCLUSIVE;
use crate::output::{Align, Table, printable, shortened, time};
use crate::sets::{self, Key, Sets};
use analysis::variation::{Change, Noise, benjamini_hochberg};
use profile::Unit;
use serde::Serialize;
use std::io::Write;
use std::process::ExitCode;

/// How sure the intervals are.
const CONFIDENCE: f64 = 0.95;

/// The widest name in a table, in characters.
const WIDEST: usize = 60;

/// A row of the result: amounts per share of samples, run, second or unit of work.
struct Row {
    key: Key,
    amounts: [f64; 2],
    change: Change,
    q: Option<f64>,
}

impl Row {
    fn differs(&self) -> bool {
        self.q.is_some_and(|q| q <= FALSE_DISCOVERIES)
    }
}

/// Runs the command.
pub fn run(args: &Args) -> anyhow::Result<ExitCode> {
    let mut args_by = args.compare.by;
    if args.folded {
        args_by = CompareBy::Path;
    }
    let compare = crate::args::Compare {
        by: args_by,
        ..args.compare.clone()
    };
    let sets = sets::load(&[args.a.clone(), args.b.clone()], &compare, args.per)?;
    let mut out = std::io::stdout().lock();
    let mut empty = sets.totals.contains(&0);
    if args.folded {
        folded(&mut out, &sets)?;
    } else if !empty {
        let shares = compare.work.is_empty() && args.per == Per::Samples;
        let (noise, mut rows) = judge(&sets, shares);
        empty = rows.is_empty();
        let found = rows.len();
        let different = rows.iter().filter(|row| row.differs()).count();
        let tested = rows.iter().filter(|row| row.q.is_some()).count();
        if !compare.all {
            rows.truncate(compare.limit);
        }
        if compare.json {
            let counts = [found, tested, different];
            serde_json::to_writer_pretty(&mut out, &json(args, &sets, noise, &rows, counts))
                .map_err(std::io::Error::from)?;
            writeln!(out)?;
        } else {
            writeln!(out, "{} {}\n", sets.event, measure(args))?;
            write!(out, "{}", table(args, &sets, &rows).render())?;
            if found > rows.len() {
                writeln!(out, "{} more with --all", found - rows.len())?;
            }
            writeln!(out, "\n{}", verdict(&sets, noise, tested, different))?;
        }
    }
    out.flush()?;
    for warning in &sets.warnings {
        eprintln!("vitalfew: warning: {}", printable(warning));
    }
    if empty {
        eprintln!("vitalfew: one of the sets has no sample of what was asked for");
        return Ok(ExitCode::from(INCONCLUSIVE));
    }
    Ok(ExitCode::SUCCESS)
}

/// What amounts are measured by.
fn measure(args: &Args) -> &'static str {
    match (args.compare.work.is_empty(), args.per) {
        (false, _) => "per unit of work",
        (_, Per::Run) => "per run",
        (_, Per::Samples) => "as shares of all samples",
        (_, Per::Time) => "per second",
    }
}

/// The rows that differ first, then those that could be tested, each by what the change is at
/// least.
fn judge(sets: &Sets, shares: bool) -> (Noise, Vec<Row>) {
    let sampled = sets.unit == Unit::Samples;
    let counts: Vec<Vec<u64>> = sets.rows.iter().map(|row| row.1.clone()).collect();
    let noise = Noise::fit(&counts, &sets.exposure);
    let p = |counts: &Vec<u64>| noise.p_value(counts, &sets.exposure).filter(|_| sampled);
    let q = benjamini_hochberg(&counts.iter().map(p).collect::<Vec<_>>());
    let mut rows: Vec<Row> = Vec::new();
    for ((key, counts), q) in sets.rows.iter().zip(q) {
        let (&[a, b], &[exposure_a, exposure_b]) = (counts.as_slice(), sets.exposure.as_slice())
        else {
            continue;
        };
        let amounts = [a as f64 / exposure_a, b as f64 / exposure_b];
        let estimate = amounts[1] - amounts[0];
        let change = match sampled {
            true if shares => noise.change_of_share([a, b], [exposure_a, exposure_b], CONFIDENCE),
            true => noise.change([a, b], [exposure_a, exposure_b], CONFIDENCE),
            // Measured, not sampled.
            false => Change {
                estimate,
                low: estimate,
                high: estimate,
            },
        };
        rows.push(Row {
            key: key.clone(),
            amounts,
            change,
            q,
        });
    }
    rows.sort_by(|a, b| {
        let least = |row: &Row| row.change.conservative().abs();
        let size = |row: &Row| row.change.estimate.abs();
        let order = b
            .differs()
            .cmp(&a.differs())
            .then(b.q.is_some().cmp(&a.q.is_some()));
        let order = order.then(least(b).total_cmp(&least(a)));
        let order = order.then(size(b).total_cmp(&size(a)));
        order.then_with(|| a.key.cmp(&b.key))
    });
    (noise, rows)
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

fn table(args: &Args, sets: &Sets, rows: &[Row]) -> Table {
    let name = match args.compare.by {
        CompareBy::Image => "image",
        CompareBy::Procedure => "procedure",
        CompareBy::Line => "line",
        CompareBy::Path => "path",
    };
    let images = rows.iter().any(|row| row.key.image.is_some());
    let sampled = sets.unit == Unit::Samples;
    let mut columns = vec!["A", "B", "change"];
    if sampled {
        columns.extend(["least", "most", "q"]);
    }
    let mut columns: Vec<(String, Align)> = columns
        .iter()
        .map(|n| ((*n).to_owned(), Align::Right))
        .collect();
    columns.push((name.to_owned(), Align::Left));
    if images {
        columns.push(("image".to_owned(), Align::Left));
    }
    let mut table = Table::new(columns);
    let signed = |amount: f64| {
        let sign = if amount > 0.0 { "+" } else { "" };
        format!("{sign}{}", show(args, sets, amount))
    };
    for row in rows {
        let width = if args.compare.wide {
            usize::MAX
        } else {
            WIDEST
        };
        let mut cells = vec![
            show(args, sets, row.amounts[0]),
            show(args, sets, row.amounts[1]),
            signed(row.change.estimate),
        ];
        if sampled {
            cells.push(signed(row.change.low));
            cells.push(signed(row.change.high));
            cells.push(q_text(row.q));
        }
        cells.push(shortened(&printable(&row.key.name), width));
        if images {
            cells.push(printable(row.key.image.as_deref().unwrap_or("")));
        }
        table.row(cells);
    }
    table
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

/// The documented JSON form.
#[derive(Serialize)]
struct Json<'a> {
    schema: &'static str,
    event: &'a str,
    unit: Unit,
    per: &'static str,
    totals: &'a [u64],
    noise: Option<f64>,
    noise_rows: usize,
    confidence: f64,
    false_discovery_rate: f64,
    rows_total: usize,
    rows_tested: usize,
    rows_different: usize,
    warnings: &'a [String],
    rows: Vec<JsonRow<'a>>,
}

#[derive(Serialize)]
struct JsonRow<'a> {
    name: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    image: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    detail: Option<&'a str>,
    a: f64,
    b: f64,
    change: f64,
    low: f64,
    high: f64,
    q: Option<f64>,
    differs: bool,
}

fn json<'a>(
    args: &Args,
    sets: &'a Sets,
    noise: Noise,
    rows: &'a [Row],
    counts: [usize; 3],
) -> Json<'a> {
    let row = |row: &'a Row| JsonRow {
        name: &row.key.name,
        image: row.key.image.as_deref(),
        detail: row.key.detail.as_deref(),
        a: row.amounts[0],
        b: row.amounts[1],
        change: row.change.estimate,
        low: row.change.low,
        high: row.change.high,
        q: row.q,
        differs: row.differs(),
    };
    Json {
        schema: "vitalfew.diff/1",
        event: &sets.event,
        unit: sets.unit,
        per: match (args.compare.work.is_empty(), args.per) {
            (false, _) => "work",
            (_, Per::Run) => "run",
            (_, Per::Samples) => "samples",
            (_, Per::Time) => "time",
        },
        totals: &sets.totals,
        noise: (noise.rows > 0).then_some(noise.relative),
        noise_rows: noise.rows,
        confidence: CONFIDENCE,
        false_discovery_rate: FALSE_DISCOVERIES,
        rows_total: counts[0],
        rows_tested: counts[1],
        rows_different: counts[2],
        warnings: &sets.warnings,
        rows: rows.iter().map(row).collect(),
    }
}
