//! Text tables: aligned columns without frames, no wider than the terminal.

use crate::screen::{self, Emphasis, paint};
use unicode_width::{UnicodeWidthChar, UnicodeWidthStr};

/// The alignment of a column's cells.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Align {
    /// To the left; the last column is not padded. Cells are cut if the terminal is too narrow.
    Left,
    /// To the right.
    Right,
}

/// A table: a heading and rows of cells.
pub struct Table {
    columns: Vec<(String, Align)>,
    rows: Vec<(Vec<String>, Emphasis)>,
    optional: Vec<usize>,
}

/// Minimum width of a column of names while other columns can be left out.
const NARROWEST_NAME: usize = 24;
/// Minimum width of a cut cell.
const NARROWEST_CELL: usize = 8;
/// Blanks between columns.
const GAP: usize = 2;

impl Table {
    /// Makes a table with these columns.
    pub fn new(columns: Vec<(String, Align)>) -> Self {
        Self {
            columns,
            rows: Vec::new(),
            optional: Vec::new(),
        }
    }

    /// Sets the columns that are left out if the terminal is too narrow, in this order.
    pub fn leave_out_first(&mut self, columns: Vec<usize>) {
        self.optional = columns;
    }

    /// Adds a row with a cell for each column.
    pub fn add_row(&mut self, cells: Vec<String>) {
        self.emphasized_row(cells, Emphasis::Plain);
    }

    /// Adds a row with an emphasis.
    pub fn emphasized_row(&mut self, cells: Vec<String>, emphasis: Emphasis) {
        debug_assert_eq!(cells.len(), self.columns.len());
        self.rows.push((cells, emphasis));
    }

    /// Returns the table as text that fits the terminal, if it goes to one.
    pub fn render(&self) -> String {
        self.render_within(screen::terminal_width())
    }

    /// Returns the table as text of lines no longer than `most`.
    pub fn render_within(&self, most: Option<usize>) -> String {
        let heading: Vec<String> = self.columns.iter().map(|c| c.0.clone()).collect();
        let natural: Vec<usize> = (0..self.columns.len())
            .map(|column| {
                let cells = self.rows.iter().map(|(cells, _)| cells[column].width());
                cells.chain([heading[column].width()]).max().unwrap_or(0)
            })
            .collect();
        let widths = self.fit_widths(&natural, most);
        let mut text = self.format_line(&heading, &widths, Emphasis::Strong);
        for (cells, emphasis) in &self.rows {
            text += &self.format_line(cells, &widths, *emphasis);
        }
        text
    }

    /// Returns the width of each column; `None` for one that is left out.
    fn fit_widths(&self, natural: &[usize], most: Option<usize>) -> Vec<Option<usize>> {
        let mut widths: Vec<Option<usize>> = natural.iter().copied().map(Some).collect();
        let Some(most) = most else { return widths };
        let names: Vec<usize> = (0..natural.len())
            .filter(|column| self.columns[*column].1 == Align::Left)
            .collect();
        let room = |widths: &[Option<usize>]| {
            let shown = widths.iter().flatten().count();
            let fixed = (0..widths.len()).filter(|column| !names.contains(column));
            let fixed: usize = fixed.filter_map(|column| widths[column]).sum();
            most.saturating_sub(fixed + GAP * shown.saturating_sub(1))
        };
        let wish = |least: usize| -> usize { names.iter().map(|n| natural[*n].min(least)).sum() };
        for column in &self.optional {
            if room(&widths) >= wish(NARROWEST_NAME) {
                break;
            }
            widths[*column] = None;
        }
        let mut room = room(&widths);
        if wish(usize::MAX) <= room {
            return widths;
        }
        // Narrow columns keep their width; the others share the rest equally.
        let mut order = names;
        order.sort_by_key(|column| natural[*column]);
        for (index, column) in order.iter().enumerate() {
            let share = room / (order.len() - index);
            let width = natural[*column]
                .min(share)
                .max(NARROWEST_CELL.min(natural[*column]));
            widths[*column] = Some(width);
            room = room.saturating_sub(width);
        }
        widths
    }

    fn format_line(
        &self,
        cells: &[String],
        widths: &[Option<usize>],
        emphasis: Emphasis,
    ) -> String {
        let mut line = String::new();
        let shown = cells.iter().zip(widths).zip(&self.columns);
        for ((cell, width), (_, align)) in shown {
            let Some(width) = width else { continue };
            if !line.is_empty() {
                line.push_str(&" ".repeat(GAP));
            }
            let cell = shorten_middle(cell, *width);
            let padding = " ".repeat(width.saturating_sub(cell.width()));
            match align {
                Align::Left => line.extend([cell, padding]),
                Align::Right => line.extend([padding, cell]),
            }
        }
        let blanks = line.len() - line.trim_start().len();
        let (blank, text) = line.trim_end().split_at(blanks.min(line.trim_end().len()));
        format!("{blank}{}\n", paint(emphasis, text))
    }
}

/// Cuts a text in its middle to at most `width` columns of a terminal. Paths keep more of their
/// end, and qualified names their method.
pub fn shorten_middle(text: &str, width: usize) -> String {
    if text.width() <= width {
        return text.to_owned();
    }
    if width == 0 {
        return String::new();
    }
    if let Some(shortened) = shorten_qualified(text, width) {
        return shortened;
    }
    let tail = if text.starts_with('/') {
        (width - 1) * 3 / 4
    } else {
        width / 4
    };
    let fitting = |most: usize, text: &mut dyn Iterator<Item = char>| {
        let mut room = most;
        let mut kept = String::new();
        for c in text {
            let Some(rest) = room.checked_sub(c.width().unwrap_or(0)) else {
                break;
            };
            room = rest;
            kept.push(c);
        }
        kept
    };
    let head = fitting(width - tail - 1, &mut text.chars());
    let end = fitting(tail, &mut text.chars().rev());
    let end: String = end.chars().rev().collect();
    format!("{head}…{end}")
}

/// Shortens a name like those of Java, Python and JavaScript, `package.Class.method
/// (File.java:12)`: leaves out the packages first, then the file, the class and the line. `None`
/// for other texts, and if the method alone is too long.
fn shorten_qualified(text: &str, width: usize) -> Option<String> {
    let (name, place) = text.strip_suffix(')')?.split_once(" (")?;
    let (_, line) = place.rsplit_once(':')?;
    if name.contains(' ') || line.parse::<u32>().is_err() {
        return None;
    }
    let mut names = vec![name.to_owned()];
    let mut rest = name;
    while let Some((package, inner)) = rest.split_once('.')
        && inner.contains('.')
        && !package.starts_with(char::is_uppercase)
    {
        rest = inner;
        names.push(format!("…{inner}"));
    }
    let of_class = names.last()?.clone();
    let method = match name.rsplit_once('.') {
        Some((_, method)) => format!("…{method}"),
        None => name.to_owned(),
    };
    let whole = names.into_iter().map(|name| format!("{name} ({place})"));
    let fewer = [
        format!("{of_class} (…:{line})"),
        format!("{method} (…:{line})"),
        method,
    ];
    whole
        .chain(fewer)
        .find(|shortened| shortened.width() <= width)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn table() -> Table {
        let column = |name: &str, align| (name.to_owned(), align);
        let mut table = Table::new(vec![
            column("n", Align::Right),
            column("%", Align::Right),
            column("name", Align::Left),
            column("path", Align::Left),
        ]);
        table.add_row(vec!["12".into(), "99.00%".into(), "é".into(), "/a".into()]);
        let name = "std::map<語語語語語語語語語語, int>::insert(std::pair<long, long>)".to_owned();
        let path = "/usr/lib/x86_64-linux-gnu/libtorch_cpu.so.2.1".to_owned();
        table.add_row(vec!["3".into(), "1.00%".into(), name, path]);
        table
    }

    #[test]
    fn columns_are_aligned() {
        let mut table = Table::new(vec![
            ("n".into(), Align::Right),
            ("name".into(), Align::Left),
            ("path".into(), Align::Left),
        ]);
        table.add_row(vec!["12".into(), "é".into(), "/a".into()]);
        table.add_row(vec!["3".into(), "longer".into(), "/b".into()]);
        assert_eq!(
            table.render_within(None),
            " n  name    path\n12  é       /a\n 3  longer  /b\n"
        );
    }

    #[test]
    fn no_line_is_wider_than_the_terminal() {
        let widest = |text: &str| text.lines().map(|line| line.width()).max();
        let natural = widest(&table().render_within(None)).expect("lines");
        assert!(natural > 100);
        for most in 40..140 {
            let text = table().render_within(Some(most));
            assert!(widest(&text) <= Some(most), "{most}:\n{text}");
            assert_eq!(text.contains('…'), most < natural, "{most}:\n{text}");
            assert!(text.contains("2.1\n"), "{most}:\n{text}");
        }
    }

    #[test]
    fn columns_that_can_be_spared_go_before_names_do() {
        let mut table = table();
        table.leave_out_first(vec![1]);
        let narrow = table.render_within(Some(54));
        assert!(!narrow.contains('%'), "{narrow}");
        assert!(table.render_within(Some(80)).contains('%'));
    }

    #[test]
    fn names_are_cut_in_their_middle_and_paths_keep_their_end() {
        assert_eq!(shorten_middle("abcdefghij", 10), "abcdefghij");
        assert_eq!(shorten_middle("abcdefghijk", 8), "abcde…jk");
        assert_eq!(shorten_middle("/usr/lib/libc.so.6", 14), "/usr…libc.so.6");
        assert_eq!(shorten_middle("語語語語語", 8), "語語…語");
        assert_eq!(shorten_middle("abc", 0), "");
    }
    #[test]
    fn methods_stay_when_names_are_cut() {
        let method = "org.web.method.HandlerAdapter.invokeMethod (HandlerAdapter.java:878)";
        for (width, shortened) in [
            (68, method),
            (
                67,
                "…web.method.HandlerAdapter.invokeMethod (HandlerAdapter.java:878)",
            ),
            (60, "…HandlerAdapter.invokeMethod (HandlerAdapter.java:878)"),
            (53, "…HandlerAdapter.invokeMethod (…:878)"),
            (35, "…invokeMethod (…:878)"),
            (20, "…invokeMethod"),
            (12, "org.web.…78)"),
        ] {
            assert_eq!(shorten_middle(method, width), shortened);
        }
        for (text, width, shortened) in [
            ("sortedCopy (app.js:4)", 18, "sortedCopy (…:4)"),
            ("sortedCopy (app.js:4)", 12, "sortedCopy"),
            ("std::sort(int*, int*) (x)", 12, "std::sor…(x)"),
        ] {
            assert_eq!(shorten_middle(text, width), shortened);
        }
    }
}
