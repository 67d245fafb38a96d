//! `vitalfew top` on the terminal.

use super::model::{SortColumn, TopModel};
use super::rows::{TopRow, TopView};
use crate::output::{clean_name, format_ns, shorten_middle};
use crate::screen::is_output_colored;
use ratatui::Frame;
use ratatui::layout::{Constraint, Layout, Rect};
use ratatui::style::{Modifier, Style, Stylize};
use ratatui::text::{Line, Span};
use ratatui::widgets::{Block, Cell, Clear, Paragraph, Row, Table, TableState};

/// Width of each number.
const NUMBER_WIDTH: u16 = 8;
/// Maximum width of the detail.
const DETAIL_WIDTH: u16 = 20;
/// Share of a CPU, in percent, from which on a row is red.
const HOT: f64 = 10.0;

const HELP: &[(&str, &str)] = &[
    (
        "1 2 3 4 5, Tab",
        "procedures, call paths, processes, threads, waits",
    ),
    ("↑ ↓ PgUp PgDn", "choose a row"),
    ("Enter", "show its process alone"),
    ("Esc", "clear the filter, then show all processes"),
    ("/", "filter by name"),
    ("s", "sort by the next column"),
    ("Space", "pause, go on"),
    ("w", "write a recording of what is shown"),
    ("? h", "this list"),
    ("q Ctrl-C", "quit"),
];

/// Draws the screen.
pub fn draw_top(model: &TopModel, frame: &mut Frame<'_>) {
    let rows = Layout::vertical([
        Constraint::Length(2),
        Constraint::Min(1),
        Constraint::Length(1),
    ]);
    let [head, body, foot] = rows.areas(frame.area());
    frame.render_widget(
        Paragraph::new(vec![views_line(model), state_line(model)]),
        head,
    );
    draw_table(model, frame, body);
    frame.render_widget(foot_line(model), foot);
    if model.shows_help {
        draw_help(frame);
    }
}

fn views_line(model: &TopModel) -> Line<'static> {
    let mut spans = vec![Span::raw("vitalfew top").bold()];
    for (number, view) in (1..).zip(TopView::ALL) {
        let text = format!("  {number} {}", view.name());
        spans.push(if view == model.view {
            Span::raw(text).reversed()
        } else {
            Span::raw(text)
        });
    }
    Line::from(spans)
}

fn state_line(model: &TopModel) -> Line<'static> {
    let mut text = match model.snapshot() {
        None => "sampling …".to_owned(),
        Some(shown) => format!("the last {}", format_ns(1e9 * shown.seconds())),
    };
    if let Some(zoom) = &model.zoom {
        let pid = zoom.pid.map_or(String::new(), |pid| format!(" ({pid})"));
        text += &format!(", {}{pid} alone", clean_name(&zoom.name));
    }
    if !model.filter.is_empty() || model.is_typing {
        text += &format!(", names with '{}'", clean_name(&model.filter));
    }
    if model.is_paused {
        text += ", paused";
    }
    if model.snapshot().is_some_and(|shown| !shown.is_named) {
        text += "; more names are being read";
    }
    Line::raw(text)
}

fn foot_line(model: &TopModel) -> Line<'static> {
    let text = match (&model.note, model.is_typing) {
        (Some(note), _) => clean_name(note),
        (None, true) => "type a part of a name, Enter keeps it, Esc drops it".to_owned(),
        (None, false) => {
            "? keys  / filter  s sort  Enter one process  Space pause  w write  q quit".to_owned()
        }
    };
    Line::raw(text).dim()
}

fn draw_table(model: &TopModel, frame: &mut Frame<'_>, area: Rect) {
    let [first, second, detail] = model.view.headings();
    let detail_width = if detail.is_empty() {
        0
    } else {
        DETAIL_WIDTH.min(area.width / 4)
    };
    let name_width = area
        .width
        .saturating_sub(2 * NUMBER_WIDTH + detail_width + 3);
    let heading = |text: &str, column: SortColumn| {
        let style = Style::new().add_modifier(Modifier::BOLD);
        let sorted = model.sort == column && model.view != TopView::Paths;
        Cell::from(text.to_owned()).style(if sorted {
            style.add_modifier(Modifier::UNDERLINED)
        } else {
            style
        })
    };
    let pad = |text: &str| format!("{text:>width$}", width = NUMBER_WIDTH as usize);
    let header = Row::new([
        heading(&pad(first), SortColumn::First),
        heading(&pad(second), SortColumn::Second),
        heading("NAME", SortColumn::Name),
        Cell::from(detail).bold(),
    ]);
    let is_colored = is_output_colored();
    let rows = model.rows().iter().map(|row| {
        let [name, detail] = texts_of(row, name_width.into(), detail_width.into());
        let numbers = row.numbers.map(|number| pad(&format!("{number:.1}")));
        let [first, second] = numbers.map(Cell::from);
        let hot = is_colored && row.numbers[0] >= HOT && model.view != TopView::Waits;
        let first = if hot { first.red() } else { first };
        Row::new([first, second, Cell::from(name), Cell::from(detail)])
    });
    let widths = [NUMBER_WIDTH, NUMBER_WIDTH, name_width, detail_width];
    let table = Table::new(rows, widths.map(Constraint::Length));
    let table = table
        .header(header)
        .row_highlight_style(Style::new().reversed());
    let selected = (!model.rows().is_empty()).then_some(model.selected);
    let mut state = TableState::default().with_selected(selected);
    frame.render_stateful_widget(table, area, &mut state);
}

/// Returns a row's name below its callers, in `name_width` columns, and its detail in
/// `detail_width`.
pub fn texts_of(row: &TopRow, name_width: usize, detail_width: usize) -> [String; 2] {
    // Half of the columns stay for the name.
    let indent = row.depth.min(name_width / 2);
    let name = shorten_middle(
        &clean_name(&row.name),
        name_width.saturating_sub(indent).max(1),
    );
    let detail = shorten_middle(&clean_name(&row.detail), detail_width.max(1));
    [format!("{}{name}", " ".repeat(indent)), detail]
}

fn draw_help(frame: &mut Frame<'_>) {
    let lines = HELP
        .iter()
        .map(|(keys, what)| Line::raw(format!(" {keys:<16}{what}")));
    let lines: Vec<Line<'_>> = lines.collect();
    let whole = frame.area();
    let width = 70.min(whole.width);
    let height = (lines.len() as u16 + 2).min(whole.height);
    let area = Rect {
        x: (whole.width - width) / 2,
        y: (whole.height - height) / 2,
        width,
        height,
    };
    frame.render_widget(Clear, area);
    let block = Block::bordered().title(" keys ");
    frame.render_widget(Paragraph::new(lines).block(block), area);
}
