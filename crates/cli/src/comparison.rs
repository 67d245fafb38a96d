//! Which rows of compared sets differ by more than chance, and what `stats` and `diff` alike say of
//! them.

use crate::args::{Compare, CompareBy};
use crate::exit::INCONCLUSIVE;
use crate::output::{Align, Table, printable, shortened};
use crate::sets::{Key, Sets};
use analysis::variation::{Noise, benjamini_hochberg};
use profile::Unit;
use serde::Serialize;
use std::cmp::Ordering;
use std::io::Write;
use std::process::ExitCode;

/// The rate of false discoveries that is allowed among the rows that are called different.
const FALSE_DISCOVERIES: f64 = 0.05;

/// The widest name in a table, in characters.
const WIDEST: usize = 60;

/// A row of the result, with what the command says of it.
pub struct Row<T> {
    /// What it is about.
    pub key: Key,
    /// The command's numbers.
    pub numbers: T,
    /// q-value; `None` where it was not tested.
    pub q: Option<f64>,
}

impl<T> Row<T> {
    fn differs(&self) -> bool {
        self.q.is_some_and(|q| q <= FALSE_DISCOVERIES)
    }
}

/// The rows, judged, and how many there are of which kind.
pub struct Judged<T> {
    /// Those that differ first, then those that could be tested.
    pub rows: Vec<Row<T>>,
    noise: Noise,
    found: usize,
    tested: usize,
    different: usize,
}

/// Tests the rows; `measure` gives a row's numbers (nothing: it is left out), `order` says which
/// come first among those that the test tells no difference between.
pub fn judge<T>(
    sets: &Sets,
    measure: impl Fn(&Noise, &[u64]) -> Option<T>,
    order: impl Fn(&T, &T) -> Ordering,
) -> Judged<T> {
    let sampled = sets.unit == Unit::Samples;
    let counts: Vec<Vec<u64>> = sets.rows.iter().map(|row| row.1.clone()).collect();
    let noise = Noise::fit(&counts, &sets.exposure);
    let p = |counts: &Vec<u64>| noise.p_value(counts, &sets.exposure).filter(|_| sampled);
    let q = benjamini_hochberg(&counts.iter().map(p).collect::<Vec<_>>());
    let judged = sets.rows.iter().zip(q).filter_map(|((key, counts), q)| {
        let numbers = measure(&noise, counts)?;
        let key = key.clone();
        Some(Row { key, numbers, q })
    });
    let mut rows: Vec<Row<T>> = judged.collect();
    rows.sort_by(|a, b| {
        b.differs()
            .cmp(&a.differs())
            .then(b.q.is_some().cmp(&a.q.is_some()))
            .then_with(|| order(&a.numbers, &b.numbers))
            .then_with(|| a.key.cmp(&b.key))
    });
    Judged {
        noise,
        found: rows.len(),
        tested: rows.iter().filter(|row| row.q.is_some()).count(),
        different: rows.iter().filter(|row| row.differs()).count(),
        rows,
    }
}

impl<T> Judged<T> {
    /// Keeps as many rows as were asked for.
    pub fn limit(&mut self, compare: &Compare) {
        if !compare.shown.all {
            self.rows.truncate(compare.shown.limit);
        }
    }

    /// The table, how many rows it has not, and the verdict; `cells` gives the numbers of a row.
    pub fn print(
        &self,
        out: &mut impl Write,
        sets: &Sets,
        compare: &Compare,
        headings: &[&str],
        cells: impl Fn(&Row<T>) -> Vec<String>,
    ) -> std::io::Result<()> {
        write!(out, "{}", self.table(compare, headings, cells).render())?;
        if self.found > self.rows.len() {
            writeln!(out, "{} more with --all", self.found - self.rows.len())?;
        }
        writeln!(out, "\n{}", self.verdict(sets))
    }

    fn table(
        &self,
        compare: &Compare,
        headings: &[&str],
        cells: impl Fn(&Row<T>) -> Vec<String>,
    ) -> Table {
        let name = match compare.by {
            CompareBy::Image => "image",
            CompareBy::Procedure => "procedure",
            CompareBy::Line => "line",
            CompareBy::Path => "path",
        };
        let images = self.rows.iter().any(|row| row.key.image.is_some());
        let numbers = headings.iter().map(|n| ((*n).to_owned(), Align::Right));
        let mut columns: Vec<(String, Align)> = numbers.collect();
        columns.push((name.to_owned(), Align::Left));
        if images {
            columns.push(("image".to_owned(), Align::Left));
        }
        let width = if compare.shown.wide {
            usize::MAX
        } else {
            WIDEST
        };
        let mut table = Table::new(columns);
        for row in &self.rows {
            let mut cells = cells(row);
            cells.push(shortened(&printable(&row.key.name), width));
            if images {
                cells.push(printable(row.key.image.as_deref().unwrap_or("")));
            }
            table.row(cells);
        }
        table
    }

    /// What the test found, and on which terms.
    fn verdict(&self, sets: &Sets) -> String {
        if sets.unit == Unit::Nanoseconds {
            return format!(
                "{} is measured, not sampled: there is no sampling error to test against",
                sets.event
            );
        }
        let found = match self.different {
            0 => "no difference found".to_owned(),
            1 => "1 row differs by more than chance (q ≤ 0.05)".to_owned(),
            n => format!("{n} rows differ by more than chance (q ≤ 0.05)"),
        };
        let background = match self.noise.rows {
            0 => "too few rows with samples to estimate the noise from run to run: only sampling is allowed for".to_owned(),
            rows => format!(
                "noise from run to run {:.1}%, by {rows} rows",
                100.0 * self.noise.relative
            ),
        };
        let (tested, all) = (self.tested, sets.rows.len());
        format!("{found}; {tested} of {all} rows have enough samples to tell\n{background}")
    }

    /// Writes the documented JSON form; `numbers` gives those of a row.
    pub fn print_json<'a, N: Serialize>(
        &'a self,
        out: &mut impl Write,
        sets: &'a Sets,
        kind: Kind,
        numbers: impl Fn(&'a T) -> N,
    ) -> std::io::Result<()> {
        let row = |row: &'a Row<T>| JsonRow {
            name: &row.key.name,
            image: row.key.image.as_deref(),
            detail: row.key.detail.as_deref(),
            numbers: numbers(&row.numbers),
            q: row.q,
            differs: row.differs(),
        };
        let json = Json {
            schema: kind.schema,
            event: &sets.event,
            unit: sets.unit,
            per: kind.per,
            totals: &sets.totals,
            noise: (self.noise.rows > 0).then_some(self.noise.relative),
            noise_rows: self.noise.rows,
            confidence: kind.confidence,
            false_discovery_rate: FALSE_DISCOVERIES,
            rows_total: self.found,
            rows_tested: self.tested,
            rows_different: self.different,
            warnings: &sets.warnings,
            rows: self.rows.iter().map(row).collect(),
        };
        serde_json::to_writer_pretty(&mut *out, &json)?;
        writeln!(out)
    }
}

/// A q-value for people.
pub fn q_text(q: Option<f64>) -> String {
    match q {
        None => "-".to_owned(),
        Some(q) if q < 0.001 => "<0.001".to_owned(),
        Some(q) => format!("{q:.3}"),
    }
}

/// The warnings, after the result; the exit code says if there was `nothing` to say, and why.
pub fn conclude(sets: &Sets, nothing: Option<&str>) -> ExitCode {
    for warning in &sets.warnings {
        eprintln!("vitalfew: warning: {}", printable(warning));
    }
    let Some(why) = nothing else {
        return ExitCode::SUCCESS;
    };
    eprintln!("vitalfew: {why}");
    ExitCode::from(INCONCLUSIVE)
}

/// What tells the JSON forms of the commands apart.
pub struct Kind {
    /// Name and version.
    pub schema: &'static str,
    /// What amounts are measured by, where they are compared.
    pub per: Option<&'static str>,
    /// How sure the intervals are, where there are any.
    pub confidence: Option<f64>,
}

#[derive(Serialize)]
struct Json<'a, N> {
    schema: &'static str,
    event: &'a str,
    unit: Unit,
    #[serde(skip_serializing_if = "Option::is_none")]
    per: Option<&'static str>,
    totals: &'a [u64],
    /// Relative, of one row from set to set.
    noise: Option<f64>,
    noise_rows: usize,
    #[serde(skip_serializing_if = "Option::is_none")]
    confidence: Option<f64>,
    false_discovery_rate: f64,
    rows_total: usize,
    rows_tested: usize,
    rows_different: usize,
    warnings: &'a [String],
    rows: Vec<JsonRow<'a, N>>,
}

#[derive(Serialize)]
struct JsonRow<'a, N> {
    name: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    image: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    detail: Option<&'a str>,
    #[serde(flatten)]
    numbers: N,
    q: Option<f64>,
    differs: bool,
}
