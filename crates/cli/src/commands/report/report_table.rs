//! The table of `vitalfew report`, column by column.

use crate::output::{Align, Table, clean_name, format_ns, group_digits, shorten_middle};
use crate::screen::Emphasis;
use profile::Unit;
use results::{EventTotal, ReportBy, ReportRow, SampleReport};

/// Share of the first event above which rows are coloured; below the next one they are faint.
const HOT: f64 = 0.1;
const FAINT: f64 = 0.005;

/// Maximum width of a name in a table, in characters.
const WIDEST: usize = 72;

/// A column: its heading, and the function that formats its cells.
struct ReportColumn<'a> {
    heading: String,
    align: Align,
    /// Order in which narrow terminals leave columns out, the smallest number first.
    spared: Option<usize>,
    cell: Box<dyn Fn(&TableRow<'_>) -> String + 'a>,
}

/// A row, with the sum of the rows above it.
struct TableRow<'a> {
    row: &'a ReportRow,
    /// Amount of the first event in this row and those above it.
    cumulative: f64,
}

impl<'a> ReportColumn<'a> {
    fn new(
        heading: &str,
        align: Align,
        cell: impl Fn(&TableRow<'_>) -> String + 'a,
    ) -> ReportColumn<'a> {
        Self {
            heading: heading.to_owned(),
            align,
            spared: None,
            cell: Box::new(cell),
        }
    }

    fn left_out_at(self, order: usize) -> Self {
        Self {
            spared: Some(order),
            ..self
        }
    }
}

/// Returns the table's columns, from left to right. A new column is an entry here.
fn columns(by: ReportBy, report: &SampleReport, wide: bool) -> Vec<ReportColumn<'_>> {
    use ReportColumn as Column;
    let mut columns = Vec::new();
    for (index, event) in report.events.iter().enumerate() {
        columns.extend(event_columns(report, index, event));
    }
    let width = if wide { usize::MAX } else { WIDEST };
    let cell = move |text: &str| shorten_middle(&clean_name(text), width);
    let (name, detail) = headings(by);
    columns.push(Column::new(name, Align::Left, move |shown| {
        cell(&shown.row.name)
    }));
    if let Some(detail) = detail
        && report.rows.iter().any(|row| row.detail.is_some())
    {
        columns.push(Column::new(detail, Align::Left, move |shown| {
            cell(shown.row.detail.as_deref().unwrap_or(""))
        }));
    }
    if report.rows.iter().any(|row| row.image.is_some()) {
        columns.push(Column::new("image", Align::Left, |shown| {
            clean_name(shown.row.image.as_deref().unwrap_or(""))
        }));
    }
    columns
}

/// Returns the columns of one event: amount and share; for the first event also the inclusive
/// share, or the cumulative share of all rows so far.
fn event_columns<'a>(
    report: &SampleReport,
    index: usize,
    event: &'a EventTotal,
) -> Vec<ReportColumn<'a>> {
    let inclusive = report.rows.iter().any(|row| row.inclusive.is_some());
    let amount = ReportColumn::new(&event.name, Align::Right, move |shown| {
        amount_text(event, shown.row.amounts[index])
    });
    let heading = if index == 0 && inclusive {
        "self%"
    } else {
        "%"
    };
    let share = ReportColumn::new(heading, Align::Right, move |shown| {
        percent_text(shown.row.amounts[index], event.total)
    });
    match (index, inclusive) {
        (0, true) => {
            let total = ReportColumn::new("total%", Align::Right, move |shown| {
                percent_text(shown.row.inclusive.unwrap_or(0.0), event.total)
            });
            vec![amount, share, total]
        }
        (0, false) => {
            let so_far = ReportColumn::new("cum%", Align::Right, move |shown| {
                percent_text(shown.cumulative, event.total)
            });
            vec![amount, share, so_far.left_out_at(usize::MAX)]
        }
        _ => vec![amount, share.left_out_at(report.events.len() - index)],
    }
}

/// Returns the headings of a row's name, and of its detail if it has one.
fn headings(by: ReportBy) -> (&'static str, Option<&'static str>) {
    match by {
        ReportBy::Image => ("image", None),
        ReportBy::Procedure => ("procedure", None),
        ReportBy::Line => ("line", Some("function")),
        ReportBy::Instruction => ("offset", Some("procedure")),
        ReportBy::Process => ("process", Some("id")),
        ReportBy::Thread => ("thread", Some("ids")),
        ReportBy::Cgroup => ("control group", Some("container")),
        ReportBy::Container => ("container", None),
        ReportBy::Goroutine => ("goroutine", None),
        ReportBy::Coroutine => ("coroutine", None),
        ReportBy::Labels => ("labels", None),
        ReportBy::Waker => ("waker", Some("procedure")),
        ReportBy::Host => ("host", None),
    }
}

/// Returns the table; `wide` leaves names uncut.
pub fn report_table(by: ReportBy, report: &SampleReport, wide: bool) -> Table {
    let columns = columns(by, report, wide);
    let headings = columns
        .iter()
        .map(|column| (column.heading.clone(), column.align));
    let mut table = Table::new(headings.collect());
    let mut spared: Vec<(usize, usize)> = columns
        .iter()
        .enumerate()
        .filter_map(|(at, column)| Some((column.spared?, at)))
        .collect();
    spared.sort_unstable();
    table.leave_out_first(spared.into_iter().map(|(_, at)| at).collect());
    let mut cumulative = 0.0;
    for row in &report.rows {
        cumulative += row.amounts[0];
        let shown = TableRow { row, cumulative };
        let cells = columns.iter().map(|column| (column.cell)(&shown));
        let share = row.amounts[0] / report.events[0].total.max(f64::MIN_POSITIVE);
        let emphasis = match share {
            s if s >= HOT => Emphasis::Hot,
            s if s < FAINT => Emphasis::Faint,
            _ => Emphasis::Plain,
        };
        table.emphasized_row(cells.collect(), emphasis);
    }
    table
}

/// Formats an amount of an event, in its unit.
pub fn amount_text(event: &EventTotal, amount: f64) -> String {
    match event.unit {
        Unit::Samples => group_digits(amount.round() as u64),
        Unit::Nanoseconds => format_ns(amount),
    }
}

/// Formats a part of a total as a percentage.
pub fn percent_text(part: f64, total: f64) -> String {
    if total > 0.0 {
        format!("{:.2}%", 100.0 * part / total)
    } else {
        "-".to_owned()
    }
}
