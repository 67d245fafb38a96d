//! `vitalfew stats`: variation across sample sets, as in DCPI's Figure 3.

use crate::args::{CompareBy, Stats as Args};
use crate::exit::INCONCLUSIVE;
use crate::output::{Align, Table, grouped, printable, shortened};
use crate::sets::{self, Key, Sets};
use analysis::variation::{Description, Noise, benjamini_hochberg, describe};
use profile::Unit;
use serde::Serialize;
use std::io::Write;
use std::process::ExitCode;

/// The rate of false discoveries that is allowed among the rows that are called different.
pub const FALSE_DISCOVERIES: f64 = 0.05;

/// The widest name in a table, in characters.
const WIDEST: usize = 60;

/// A row of the result.
struct Row {
    key: Key,
    statistics: Description,
    /// q-value; `None` where it was not tested.
    q: Option<f64>,
}

impl Row {
    fn differs(&self) -> bool {
        self.q.is_some_and(|q| q <= FALSE_DISCOVERIES)
    }
}

/// Runs the command.
pub fn run(args: &Args) -> anyhow::Result<ExitCode> {
    let sets = sets::load(&args.sets, &args.compare, args.per)?;
    let (noise, mut rows) = judge(&sets);
    let found = rows.len();
    let different = rows.iter().filter(|row| row.differs()).count();
    let tested = rows.iter().filter(|row| row.q.is_some()).count();
    if !args.compare.all {
        rows.truncate(args.compare.limit);
    }
    let mut out = std::io::stdout().lock();
    if args.compare.json {
        let counts = [found, tested, different];
        serde_json::to_writer_pretty(&mut out, &json(&sets, noise, &rows, counts))
            .map_err(std::io::Error::from)?;
        writeln!(out)?;
    } else {
        print_heading(&mut out, &sets)?;
        write!(out, "{}", table(args, &sets, &rows).render())?;
        if found > rows.len() {
            writeln!(out, "{} more with --all", found - rows.len())?;
        }
        writeln!(out, "\n{}", verdict(&sets, noise, tested, different))?;
    }
    out.flush()?;
    for warning in &sets.warnings {
        eprintln!("vitalfew: warning: {}", printable(warning));
    }
    if rows.is_empty() {
        eprintln!("vitalfew: no sample is of what was asked for");
        return Ok(ExitCode::from(INCONCLUSIVE));
    }
    Ok(ExitCode::SUCCESS)
}

/// The rows that differ first, then those that could be tested, each by normalised range.
fn judge(sets: &Sets) -> (Noise, Vec<Row>) {
    let counts: Vec<Vec<u64>> = sets.rows.iter().map(|row| row.1.clone()).collect();
    let sampled = sets.unit == Unit::Samples;
    let noise = Noise::fit(&counts, &sets.exposure);
    let p = |counts: &Vec<u64>| noise.p_value(counts, &sets.exposure).filter(|_| sampled);
    let q = benjamini_hochberg(&counts.iter().map(p).collect::<Vec<_>>());
    let mean = sets.exposure.iter().sum::<f64>() / sets.exposure.len() as f64;
    let mut rows: Vec<Row> = sets
        .rows
        .iter()
        .zip(q)
        .map(|((key, counts), q)| {
            // Counts as they would be, had all sets the same exposure.
            let scaled = counts.iter().zip(&sets.exposure);
            let amounts: Vec<f64> = scaled.map(|(c, e)| *c as f64 * (mean / e)).collect();
            let key = key.clone();
            let statistics = describe(&amounts);
            Row { key, statistics, q }
        })
        .collect();
    rows.sort_by(|a, b| {
        let by_range = b.statistics.range.total_cmp(&a.statistics.range);
        let by_sum = b.statistics.sum.total_cmp(&a.statistics.sum);
        let order = b
            .differs()
            .cmp(&a.differs())
            .then(b.q.is_some().cmp(&a.q.is_some()));
        let order = order.then(by_range).then(by_sum);
        order.then_with(|| a.key.cmp(&b.key))
    });
    (noise, rows)
}

fn print_heading(out: &mut impl Write, sets: &Sets) -> std::io::Result<()> {
    let unit = match sets.unit {
        Unit::Samples => "samples",
        Unit::Nanoseconds => "nanoseconds",
    };
    writeln!(out, "Number of {unit} of type {}", sets.event)?;
    let numbered = sets.totals.iter().enumerate();
    let totals: Vec<String> = numbered
        .map(|(number, total)| format!("set {} = {}", number + 1, grouped(*total)))
        .collect();
    for line in totals.chunks(4) {
        writeln!(out, "{}", line.join("  "))?;
    }
    writeln!(out, "TOTAL {}\n", grouped(sets.totals.iter().sum()))
}

fn table(args: &Args, sets: &Sets, rows: &[Row]) -> Table {
    let name = match args.compare.by {
        CompareBy::Image => "image",
        CompareBy::Procedure => "procedure",
        CompareBy::Line => "line",
        CompareBy::Path => "path",
    };
    let images = rows.iter().any(|row| row.key.image.is_some());
    let right = [
        "range%", "sum", "sum%", "N", "mean", "std-dev", "min", "max", "q",
    ];
    let mut columns: Vec<(String, Align)> = right
        .iter()
        .map(|n| ((*n).to_owned(), Align::Right))
        .collect();
    columns.push((name.to_owned(), Align::Left));
    if images {
        columns.push(("image".to_owned(), Align::Left));
    }
    let mean = sets.exposure.iter().sum::<f64>() / sets.exposure.len() as f64;
    let scaled = sets.totals.iter().zip(&sets.exposure);
    let total: f64 = scaled.map(|(total, e)| *total as f64 * (mean / e)).sum();
    let mut table = Table::new(columns);
    for row in rows {
        let s = &row.statistics;
        let width = if args.compare.wide {
            usize::MAX
        } else {
            WIDEST
        };
        let mut cells = vec![
            format!("{:.2}%", 100.0 * s.range),
            format!("{:.2}", s.sum),
            format!("{:.2}%", 100.0 * s.sum / total),
            s.sets.to_string(),
            format!("{:.2}", s.mean),
            format!("{:.2}", s.std_dev),
            format!("{:.2}", s.min),
            format!("{:.2}", s.max),
            q_text(row.q),
            shortened(&printable(&row.key.name), width),
        ];
        if images {
            cells.push(printable(row.key.image.as_deref().unwrap_or("")));
        }
        table.row(cells);
    }
    table
}

/// A q-value for people.
pub fn q_text(q: Option<f64>) -> String {
    match q {
        None => "-".to_owned(),
        Some(q) if q < 0.001 => "<0.001".to_owned(),
        Some(q) => format!("{q:.3}"),
    }
}

/// What the test found, and on which terms.
pub fn verdict(sets: &Sets, noise: Noise, tested: usize, different: usize) -> String {
    if sets.unit == Unit::Nanoseconds {
        return format!(
            "{} is measured, not sampled: there is no sampling error to test against",
            sets.event
        );
    }
    let found = match different {
        0 => "no difference found".to_owned(),
        1 => "1 row differs by more than chance (q ≤ 0.05)".to_owned(),
        n => format!("{n} rows differ by more than chance (q ≤ 0.05)"),
    };
    let background = match noise.rows {
        0 => "too few rows with samples to estimate the noise from run to run: only sampling is allowed for".to_owned(),
        rows => format!(
            "noise from run to run {:.1}%, by {rows} rows",
            100.0 * noise.relative
        ),
    };
    format!(
        "{found}; {tested} of {} rows have enough samples to tell\n{background}",
        sets.rows.len()
    )
}

/// The documented JSON form.
#[derive(Serialize)]
struct Json<'a> {
    schema: &'static str,
    event: &'a str,
    unit: Unit,
    totals: &'a [u64],
    /// Relative, of one row from set to set.
    noise: Option<f64>,
    noise_rows: usize,
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
    range: f64,
    sum: f64,
    sets: usize,
    mean: f64,
    std_dev: f64,
    min: f64,
    max: f64,
    q: Option<f64>,
    differs: bool,
}

fn json<'a>(sets: &'a Sets, noise: Noise, rows: &'a [Row], counts: [usize; 3]) -> Json<'a> {
    let row = |row: &'a Row| JsonRow {
        name: &row.key.name,
        image: row.key.image.as_deref(),
        detail: row.key.detail.as_deref(),
        range: row.statistics.range,
        sum: row.statistics.sum,
        sets: row.statistics.sets,
        mean: row.statistics.mean,
        std_dev: row.statistics.std_dev,
        min: row.statistics.min,
        max: row.statistics.max,
        q: row.q,
        differs: row.differs(),
    };
    Json {
        schema: "vitalfew.stats/1",
        event: &sets.event,
        unit: sets.unit,
        totals: &sets.totals,
        noise: (noise.rows > 0).then_some(noise.relative),
        noise_rows: noise.rows,
        false_discovery_rate: FALSE_DISCOVERIES,
        rows_total: counts[0],
        rows_tested: counts[1],
        rows_different: counts[2],
        warnings: &sets.warnings,
        rows: rows.iter().map(row).collect(),
    }
}
