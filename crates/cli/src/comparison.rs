//! Rows of compared sets that differ by more than chance, and the output shared by `stats` and
//! `diff`.

use crate::args::Compare;
use crate::claims::JsonClaims;
use crate::exit::{INCONCLUSIVE, note_left_out};
use crate::output::{Align, Table, clean_name, shorten_middle};
use crate::screen::{tell_user, warn_user, wrap_sentence};
use analysis::variation::Change;
use profile::Unit;
use results::{
    CompareBy, ComparedRow, ComparedSets, FALSE_DISCOVERIES, JudgedRows, Measure, RowClaim,
    command_words, is_recording,
};
use serde::Serialize;
use std::io::Write;
use std::path::PathBuf;
use std::process::ExitCode;

/// Maximum width of a name in a table, in characters.
const WIDEST: usize = 60;

/// Judged rows, as both commands show them.
pub struct ComparisonTable<T> {
    /// The rows.
    pub judged: JudgedRows<T>,
}

impl<T> ComparisonTable<T> {
    /// Keeps the requested number of rows.
    pub fn limit_rows(&mut self, compare: &Compare) {
        if !compare.shown.all {
            self.judged.rows.truncate(compare.shown.limit);
        }
    }

    /// Prints the table, the number of omitted rows, and the verdict; `cells` formats the numbers
    /// of a row.
    pub fn print_comparison(
        &self,
        out: &mut impl Write,
        sets: &ComparedSets,
        compare: &Compare,
        headings: &[&str],
        cells: impl Fn(&ComparedRow<T>) -> Vec<String>,
    ) -> std::io::Result<()> {
        write!(
            out,
            "{}",
            self.comparison_table(compare, headings, cells).render()
        )?;
        if self.judged.found > self.judged.rows.len() {
            writeln!(
                out,
                "{} more with --all",
                self.judged.found - self.judged.rows.len()
            )?;
        }
        writeln!(out)?;
        let verdict = self.describe_test(sets);
        verdict
            .lines()
            .try_for_each(|line| write!(out, "{}", wrap_sentence(line)))
    }

    /// Prints the same as a comment on a pull request.
    pub fn print_markdown(
        &self,
        out: &mut impl Write,
        sets: &ComparedSets,
        headings: &[&str],
        cells: impl Fn(&ComparedRow<T>) -> Vec<String>,
    ) -> std::io::Result<()> {
        let verdict = self.describe_test(sets);
        let (found, background) = verdict.split_once('\n').unwrap_or((&verdict, ""));
        writeln!(out, "**{found}**\n")?;
        let line = |cells: Vec<String>| format!("| {} |", cells.join(" | "));
        let named = headings.iter().copied().chain(["procedure", "image"]);
        writeln!(out, "{}", line(named.map(str::to_owned).collect()))?;
        let aligned = headings.iter().map(|_| "---:").chain(["---", "---"]);
        writeln!(out, "{}", line(aligned.map(str::to_owned).collect()))?;
        for row in &self.judged.rows {
            let image = row.key.image.as_deref().unwrap_or("");
            let names = [row.key.name.as_str(), image].map(markdown_code);
            let mut cells = cells(row);
            if row.differs() {
                cells = cells
                    .into_iter()
                    .map(|cell| format!("**{cell}**"))
                    .collect();
            }
            writeln!(out, "{}", line(cells.into_iter().chain(names).collect()))?;
        }
        if self.judged.found > self.judged.rows.len() {
            writeln!(
                out,
                "\n{} more rows are not shown",
                self.judged.found - self.judged.rows.len()
            )?;
        }
        writeln!(out, "\n{background}")
    }

    fn comparison_table(
        &self,
        compare: &Compare,
        headings: &[&str],
        cells: impl Fn(&ComparedRow<T>) -> Vec<String>,
    ) -> Table {
        let name = match compare.by {
            CompareBy::Image => "image",
            CompareBy::Procedure => "procedure",
            CompareBy::Line => "line",
            CompareBy::Path => "path",
        };
        let images = self.judged.rows.iter().any(|row| row.key.image.is_some());
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
        for row in &self.judged.rows {
            let mut cells = cells(row);
            cells.push(shorten_middle(&clean_name(&row.key.name), width));
            if images {
                cells.push(clean_name(row.key.image.as_deref().unwrap_or("")));
            }
            table.add_row(cells);
        }
        table
    }

    /// Describes the test's result, and its terms.
    fn describe_test(&self, sets: &ComparedSets) -> String {
        if sets.unit == Unit::Nanoseconds {
            return format!(
                "{} is measured, not sampled: there is no sampling error to test against",
                sets.event
            );
        }
        let found = match self.judged.different {
            0 => "no difference found".to_owned(),
            1 => "1 row differs by more than chance (q ≤ 0.05)".to_owned(),
            n => format!("{n} rows differ by more than chance (q ≤ 0.05)"),
        };
        let noise = 100.0 * self.judged.background.noise;
        let rows = match self.judged.background.informative {
            1 => "1 row".to_owned(),
            rows => format!("{rows} rows"),
        };
        let by = match (
            self.judged.background.informative,
            &self.judged.background.pair,
        ) {
            (0, _) => "experience: too few rows have samples enough".to_owned(),
            (_, Some(_)) => format!("experience and {rows}"),
            (_, None) => rows,
        };
        let background = format!("noise from run to run {noise:.1}%, by {by}");
        let (tested, all) = (self.judged.tested, sets.rows.len());
        format!("{found}; {tested} of {all} rows have enough samples to tell\n{background}")
    }

    /// Writes the documented JSON form; `numbers` returns those of a row.
    pub fn print_json<'a, N: Serialize>(
        &'a self,
        out: &mut impl Write,
        sets: &'a ComparedSets,
        kind: Kind<'_>,
        numbers: impl Fn(&'a T) -> N,
        claim: impl Fn(&ComparedRow<T>) -> RowClaim,
    ) -> std::io::Result<()> {
        let row = |row: &'a ComparedRow<T>| JsonRow {
            name: &row.key.name,
            image: row.key.image.as_deref(),
            detail: row.key.detail.as_deref(),
            numbers: numbers(&row.numbers),
            q: row.q,
            differs: row.differs(),
        };
        let next = |name: &str| command_for_row(&kind, name);
        let json = Json {
            schema: kind.schema,
            event: &sets.event,
            unit: sets.unit,
            per: kind.compared.then_some(sets.measure).map(Measure::name),
            totals: &sets.totals,
            noise: Some(self.judged.background.noise),
            noise_rows: self.judged.background.informative,
            common: self
                .judged
                .background
                .pair
                .as_ref()
                .map(|pair| json_interval(pair.common)),
            total: self
                .judged
                .background
                .pair
                .as_ref()
                .map(|pair| json_interval(pair.total)),
            confidence: kind.confidence,
            false_discovery_rate: FALSE_DISCOVERIES,
            rows_total: self.judged.found,
            rows_tested: self.judged.tested,
            rows_different: self.judged.different,
            warnings: &sets.warnings,
            rows: self.judged.rows.iter().map(row).collect(),
            claims: JsonClaims::of_findings(
                self.judged.difference_findings(sets, kind.by, claim, next),
            ),
        };
        serde_json::to_writer_pretty(&mut *out, &json)?;
        writeln!(out)
    }
}

/// Formats a name that Markdown leaves unchanged, also in a table.
fn markdown_code(name: &str) -> String {
    if name.is_empty() {
        return String::new();
    }
    let name = clean_name(name).replace('|', "\\|").replace('`', "'");
    format!("`{name}`")
}

/// Formats a q-value.
pub fn q_text(q: Option<f64>) -> String {
    match q {
        None => "-".to_owned(),
        Some(q) if q < 0.001 => "<0.001".to_owned(),
        Some(q) => format!("{q:.3}"),
    }
}

/// Prints the warnings after the result; the exit code is inconclusive if there is a reason for
/// having `nothing` to report.
pub fn warn_and_conclude(sets: &ComparedSets, nothing: Option<&str>) -> ExitCode {
    warn_of_sets(sets);
    if sets.is_incomplete {
        note_left_out();
    }
    let Some(why) = nothing else {
        return ExitCode::SUCCESS;
    };
    tell_user(why);
    ExitCode::from(INCONCLUSIVE)
}

fn warn_of_sets(sets: &ComparedSets) {
    for warning in &sets.warnings {
        warn_user(warning);
    }
}

/// Differences between the JSON forms of the commands.
pub struct Kind<'a> {
    /// Name and version.
    pub schema: &'static str,
    /// True if amounts are compared, so that their measure matters.
    pub compared: bool,
    /// The confidence of the intervals, if there are any.
    pub confidence: Option<f64>,
    /// The key of the rows.
    pub by: CompareBy,
    /// Paths of the sets.
    pub sets: &'a [PathBuf],
}

/// Returns the command that shows more of a row: the instructions of a procedure in the last set,
/// the other data of that set, or, for other tools' profiles, the calling contexts.
fn command_for_row(kind: &Kind<'_>, name: &str) -> Vec<String> {
    let [first, .., last] = kind.sets else {
        return Vec::new();
    };
    let [first, file] = [first, last].map(|path| path.display().to_string());
    match (is_recording(last), kind.by) {
        (true, CompareBy::Procedure) => command_words(&["annotate", name, &file]),
        (true, _) => command_words(&["report", &file]),
        (false, _) => command_words(&["bottlenecks", &file, "--against", &first]),
    }
}

#[derive(Serialize)]
struct Json<'a, N> {
    schema: &'static str,
    event: &'a str,
    unit: Unit,
    #[serde(skip_serializing_if = "Option::is_none")]
    per: Option<&'static str>,
    totals: &'a [u64],
    /// Relative noise of one row from set to set.
    noise: Option<f64>,
    noise_rows: usize,
    /// For two sets: the common factor of all rows, and that of all samples.
    #[serde(skip_serializing_if = "Option::is_none")]
    common: Option<Interval>,
    #[serde(skip_serializing_if = "Option::is_none")]
    total: Option<Interval>,
    #[serde(skip_serializing_if = "Option::is_none")]
    confidence: Option<f64>,
    false_discovery_rate: f64,
    rows_total: usize,
    rows_tested: usize,
    rows_different: usize,
    warnings: &'a [String],
    rows: Vec<JsonRow<'a, N>>,
    claims: JsonClaims,
}

/// An estimate in the JSON form, with its interval.
#[derive(Serialize)]
pub struct Interval {
    estimate: f64,
    low: f64,
    high: f64,
}

fn json_interval(change: Change) -> Interval {
    Interval {
        estimate: change.estimate,
        low: change.low,
        high: change.high,
    }
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
