//! Rows of compared sets that differ by more than chance, and the output shared by `stats` and
//! `diff`.

use crate::args::Compare;
use crate::exit::{INCONCLUSIVE, note_left_out};
use crate::output::{Align, Table, clean_name, shorten_middle};
use crate::screen::{tell_user, warn_user, wrap_sentence};
use profile::Unit;
use results::{CompareBy, ComparedRow, ComparedSets, JudgedRows};
use std::io::Write;
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

    /// Prints the table, the number of omitted rows, and closing lines; `cells` formats the numbers
    /// of a row.
    pub fn print_comparison(
        &self,
        out: &mut impl Write,
        closing: &[String],
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
        if !closing.is_empty() {
            writeln!(out)?;
        }
        let mut lines = closing.iter();
        lines.try_for_each(|line| write!(out, "{}", wrap_sentence(line)))
    }

    /// Prints the same as a comment on a pull request.
    pub fn print_markdown(
        &self,
        out: &mut impl Write,
        headings: &[&str],
        cells: impl Fn(&ComparedRow<T>) -> Vec<String>,
    ) -> std::io::Result<()> {
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
        Ok(())
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

    /// Describes the test's result.
    pub fn describe_result(&self, sets: &ComparedSets) -> String {
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
        let (tested, all) = (self.judged.tested, sets.rows.len());
        format!("{found}; {tested} of {all} rows have enough samples to tell")
    }

    /// Describes the noise that the test allows for; nothing of what was measured, not sampled.
    pub fn describe_noise(&self, sets: &ComparedSets) -> Option<String> {
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
        let is_sampled = sets.unit == Unit::Samples;
        is_sampled.then(|| format!("noise from run to run {noise:.1}%, by {by}"))
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
