//! Lines of functions that an interpreter runs.

use super::listing::SourceFiles;
use crate::args::Annotate as Args;
use crate::output::{Align, Table, clean_name};
use crate::screen::{Screen, wrap_sentence};
use profile::{EventId, Recording};
use results::{
    RecordingSource, ReportBy, SampleFilter, inconclusive_refusal, make_report, name_locations,
};
use std::io::Write;
use symbols::Detail;

/// Prints the samples of each line of these functions.
///
/// # Errors
/// If machine code was asked for, or the result cannot be printed.
pub fn show_lines(
    args: &Args,
    recording: &Recording,
    event: EventId,
    functions: &[String],
    source: &RecordingSource,
) -> anyhow::Result<()> {
    let why = format!(
        "{} has no machine code in a file: a language runtime executes it",
        functions.join(", ")
    );
    if args.json || args.summary || args.cfg.is_some() {
        return Err(inconclusive_refusal(format!(
            "{why}; vitalfew report --by line shows its lines, with --json too"
        )));
    }
    let mut recording = recording.clone();
    profile::fold_interpreter_frames(&mut recording);
    let frames = recording.stacks.frames().iter();
    let places: Vec<_> = frames.map(|frame| frame.location).collect();
    let resolved = name_locations(&recording, places, Detail::Lines, source);
    let filter = SampleFilter::default();
    let report = make_report(&recording, &resolved.table, ReportBy::Line, &filter, event);
    let columns = [
        ("self", Align::Right),
        ("self%", Align::Right),
        ("total%", Align::Right),
        ("line", Align::Left),
        ("source", Align::Left),
    ];
    let mut table = Table::new(columns.map(|(name, align)| (name.to_owned(), align)).into());
    let mut files = SourceFiles::default();
    let mut rows = report.rows;
    rows.retain(|row| {
        row.detail
            .as_ref()
            .is_some_and(|name| functions.contains(name))
    });
    let percent = |amount: f64| format!("{:.2}%", 100.0 * amount / report.events[0].total);
    for row in rows {
        let place = row.name.rsplit_once(':');
        let place = place.and_then(|(file, line)| Some((file, line.parse().ok()?)));
        let text = place.and_then(|(file, line)| files.line_text(file, line));
        table.add_row(vec![
            format!("{:.0}", row.amounts[0]),
            percent(row.amounts[0]),
            row.inclusive.map_or_else(|| "-".to_owned(), percent),
            clean_name(&row.name),
            text.unwrap_or_default(),
        ]);
    }
    let mut out = Screen::open_output(false);
    let head = format!("{why}. Its lines, by samples of {}:", report.events[0].name);
    writeln!(out, "{}", wrap_sentence(&clean_name(&head)))?;
    write!(out, "{}", table.render())?;
    Ok(out.flush()?)
}
