//! Which rows of compared sets differ by more than chance, and what `stats` and `diff` alike say of
//! them.

use crate::args::{Compare, CompareBy};
use crate::claims::{JsonClaims, command_words};
use crate::exit::INCONCLUSIVE;
use crate::output::{Align, Table, printable, shortened};
use crate::screen::{sentence, tell_user, warn_user};
use crate::sets::{Key, Measure, Sets};
use analysis::variation::{
    Change, Noise, PairComparison, PairRow, PairVerdict, RowOrigin, benjamini_hochberg,
    common_factors, compare_pair,
};
use profile::{
    Claim, Finding, FindingAmount, FindingDoubt, FindingEvidence, FindingPlace, PlaceInCode, Unit,
};
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
    /// Samples, or nanoseconds, in each set.
    pub counts: Vec<u64>,
}

impl<T> Row<T> {
    /// Where it is, for a finding about it.
    fn place(&self, by: CompareBy) -> FindingPlace {
        let name = self.key.name.clone();
        let what = match by {
            CompareBy::Image => PlaceInCode::File { path: name },
            CompareBy::Procedure => PlaceInCode::Procedure { name },
            CompareBy::Line => PlaceInCode::Line {
                line: name,
                procedure: self.key.detail.clone().unwrap_or_default(),
            },
            CompareBy::Path => PlaceInCode::CallPath {
                path: name.split(';').map(str::to_owned).collect(),
            },
        };
        FindingPlace {
            image: self.key.image.clone(),
            what,
        }
    }

    /// Whether it differs by more than chance.
    pub fn differs(&self) -> bool {
        self.q.is_some_and(|q| q <= FALSE_DISCOVERIES)
    }
}

/// What differs between sets without being a change of a row.
#[derive(Clone, Debug)]
pub struct Background {
    /// Of two sets.
    pub pair: Option<PairComparison>,
    /// Relative deviation of the program's rows from run to run.
    noise: f64,
    /// How many rows it was estimated from.
    informative: usize,
}

/// The rows, judged, and how many there are of which kind.
pub struct Judged<T> {
    /// Those that differ first, then those that could be tested.
    pub rows: Vec<Row<T>>,
    /// What they were tested against.
    pub background: Background,
    found: usize,
    tested: usize,
    different: usize,
}

/// Tests the rows; `measure` gives a row's numbers (nothing: it is left out), with what is known of
/// it if there are two sets; `order` says which come first among those that the test tells no
/// difference between.
pub fn judge<T>(
    sets: &Sets,
    measure: impl Fn(&[u64], Option<&PairVerdict>, &Background) -> Option<T>,
    order: impl Fn(&T, &T) -> Ordering,
) -> Judged<T> {
    let (background, p) = test_rows(sets);
    let sampled = sets.unit == Unit::Samples;
    let p: Vec<Option<f64>> = p.into_iter().map(|p| p.filter(|_| sampled)).collect();
    let q = benjamini_hochberg(&p);
    let numbered = sets.rows.iter().zip(q).enumerate();
    let judged = numbered.filter_map(|(index, ((key, counts), q))| {
        let verdict = background
            .pair
            .as_ref()
            .and_then(|pair| pair.rows.get(index));
        let numbers = measure(counts, verdict, &background)?;
        Some(Row {
            key: key.clone(),
            numbers,
            q,
            counts: counts.clone(),
        })
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
        background,
        found: rows.len(),
        tested: rows.iter().filter(|row| row.q.is_some()).count(),
        different: rows.iter().filter(|row| row.differs()).count(),
        rows,
    }
}

/// The probability of each row by chance.
fn test_rows(sets: &Sets) -> (Background, Vec<Option<f64>>) {
    let scale = sets.measure.scale();
    if let &[exposure_a, exposure_b] = sets.exposure.as_slice() {
        let of_row = |(key, counts): &(Key, Vec<u64>)| PairRow {
            counts: [counts[0], counts[1]],
            origin: sets.origin(key),
        };
        let rows: Vec<PairRow> = sets.rows.iter().map(of_row).collect();
        let pair = compare_pair(&rows, [exposure_a, exposure_b], scale);
        let p = match &pair {
            Some(pair) => pair.rows.iter().map(|row| row.p).collect(),
            None => vec![None; rows.len()],
        };
        let background = Background {
            noise: pair.as_ref().map_or(0.0, |pair| pair.noise),
            informative: pair.as_ref().map_or(0, |pair| pair.informative),
            pair,
        };
        return (background, p);
    }
    let rows = sets
        .rows
        .iter()
        .map(|(key, counts)| (counts.clone(), sets.origin(key)));
    let rows: Vec<(Vec<u64>, RowOrigin)> = rows.collect();
    let common = common_factors(&rows, &sets.exposure, scale);
    let exposure: Vec<f64> = sets
        .exposure
        .iter()
        .zip(common)
        .map(|(e, c)| e * c)
        .collect();
    let noise = |origin: RowOrigin| Noise::fit(&rows, &exposure, origin);
    let (program, kernel) = (noise(RowOrigin::Program), noise(RowOrigin::Kernel));
    let p_value = |(counts, origin): &(Vec<u64>, RowOrigin)| match origin {
        RowOrigin::Program => program.p_value(counts, &exposure),
        RowOrigin::Kernel => kernel.p_value(counts, &exposure),
    };
    let background = Background {
        pair: None,
        noise: program.relative,
        informative: program.rows,
    };
    (background, rows.iter().map(p_value).collect())
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
        writeln!(out)?;
        let verdict = self.verdict(sets);
        verdict
            .lines()
            .try_for_each(|line| write!(out, "{}", sentence(line)))
    }

    /// The same for a comment on a pull request.
    pub fn print_markdown(
        &self,
        out: &mut impl Write,
        sets: &Sets,
        headings: &[&str],
        cells: impl Fn(&Row<T>) -> Vec<String>,
    ) -> std::io::Result<()> {
        let verdict = self.verdict(sets);
        let (found, background) = verdict.split_once('\n').unwrap_or((&verdict, ""));
        writeln!(out, "**{found}**\n")?;
        let line = |cells: Vec<String>| format!("| {} |", cells.join(" | "));
        let named = headings.iter().copied().chain(["procedure", "image"]);
        writeln!(out, "{}", line(named.map(str::to_owned).collect()))?;
        let aligned = headings.iter().map(|_| "---:").chain(["---", "---"]);
        writeln!(out, "{}", line(aligned.map(str::to_owned).collect()))?;
        for row in &self.rows {
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
        if self.found > self.rows.len() {
            writeln!(
                out,
                "\n{} more rows are not shown",
                self.found - self.rows.len()
            )?;
        }
        writeln!(out, "\n{background}")
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
        let noise = 100.0 * self.background.noise;
        let rows = match self.background.informative {
            1 => "1 row".to_owned(),
            rows => format!("{rows} rows"),
        };
        let by = match (self.background.informative, &self.background.pair) {
            (0, _) => "experience: too few rows have samples enough".to_owned(),
            (_, Some(_)) => format!("experience and {rows}"),
            (_, None) => rows,
        };
        let background = format!("noise from run to run {noise:.1}%, by {by}");
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
        claim: impl Fn(&Row<T>) -> RowClaim,
    ) -> std::io::Result<()> {
        let differing = self.rows.iter().filter(|row| row.differs());
        let finding = |row: &Row<T>| {
            let RowClaim {
                claim,
                amount,
                evidence,
            } = claim(row);
            let one_run = sets.exposure.len() == 2;
            Finding {
                claim,
                place: row.place(kind.by),
                amount,
                evidence: vec![evidence],
                doubts: one_run
                    .then_some(FindingDoubt::OneRun)
                    .into_iter()
                    .collect(),
                next: command_words(&["annotate", &row.key.name]),
            }
        };
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
            per: kind.compared.then_some(sets.measure).map(Measure::name),
            totals: &sets.totals,
            noise: Some(self.background.noise),
            noise_rows: self.background.informative,
            common: self
                .background
                .pair
                .as_ref()
                .map(|pair| interval(pair.common)),
            total: self
                .background
                .pair
                .as_ref()
                .map(|pair| interval(pair.total)),
            confidence: kind.confidence,
            false_discovery_rate: FALSE_DISCOVERIES,
            rows_total: self.found,
            rows_tested: self.tested,
            rows_different: self.different,
            warnings: &sets.warnings,
            rows: self.rows.iter().map(row).collect(),
            claims: JsonClaims::of_findings(differing.map(finding).collect()),
        };
        serde_json::to_writer_pretty(&mut *out, &json)?;
        writeln!(out)
    }
}

/// A name that Markdown leaves as it is, also in a table.
fn markdown_code(name: &str) -> String {
    if name.is_empty() {
        return String::new();
    }
    let name = printable(name).replace('|', "\\|").replace('`', "'");
    format!("`{name}`")
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
    warn_of_sets(sets);
    let Some(why) = nothing else {
        return ExitCode::SUCCESS;
    };
    tell_user(why);
    ExitCode::from(INCONCLUSIVE)
}

fn warn_of_sets(sets: &Sets) {
    for warning in &sets.warnings {
        warn_user(warning);
    }
}

/// What tells the JSON forms of the commands apart.
pub struct Kind {
    /// Name and version.
    pub schema: &'static str,
    /// Whether amounts are compared, so that it matters what they are measured by.
    pub compared: bool,
    /// How sure the intervals are, where there are any.
    pub confidence: Option<f64>,
    /// What rows are about.
    pub by: CompareBy,
}

/// What a row that differs claims.
pub struct RowClaim {
    /// What.
    pub claim: Claim,
    /// How much.
    pub amount: FindingAmount,
    /// The counts.
    pub evidence: FindingEvidence,
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
    /// Two sets: the factor that all rows have in common, and that of all samples.
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

fn interval(change: Change) -> Interval {
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
