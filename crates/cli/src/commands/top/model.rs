//! The state of `vitalfew top`: the screen's contents, and the effects of keys. It neither draws
//! nor measures.

use super::rows::{TopRow, TopSnapshot, TopView, ZoomedProcess, rows_of};
use ratatui::crossterm::event::{KeyCode, KeyEvent, KeyModifiers};
use std::sync::Arc;

/// Number of rows on a page.
const PAGE: usize = 15;

/// The column that rows are sorted by.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SortColumn {
    /// The first number.
    First,
    /// The second number.
    Second,
    /// The name.
    Name,
}

/// Request of a key that the model cannot handle itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TopRequest {
    /// End.
    Quit,
    /// Write the shown samples into a file.
    WriteRecording,
}

/// Content of the screen.
pub struct TopModel {
    /// The view.
    pub view: TopView,
    /// The only process shown.
    pub zoom: Option<ZoomedProcess>,
    /// Text that shown names must contain.
    pub filter: String,
    /// True while the filter is being typed.
    pub is_typing: bool,
    /// The column that rows are sorted by; call paths keep their order.
    pub sort: SortColumn,
    /// True if new samples do not change the screen.
    pub is_paused: bool,
    /// True if the list of keys is shown.
    pub shows_help: bool,
    /// The row to which keys apply.
    pub selected: usize,
    /// Message to the user.
    pub note: Option<String>,
    snapshot: Option<Arc<TopSnapshot>>,
    rows: Vec<TopRow>,
}

impl TopModel {
    /// Makes an empty model.
    pub fn new(view: TopView) -> Self {
        Self {
            view,
            zoom: None,
            filter: String::new(),
            is_typing: false,
            sort: SortColumn::First,
            is_paused: false,
            shows_help: false,
            selected: 0,
            note: None,
            snapshot: None,
            rows: Vec::new(),
        }
    }

    /// Shows newer samples, unless paused.
    pub fn take_snapshot(&mut self, snapshot: Arc<TopSnapshot>) {
        if !self.is_paused {
            self.snapshot = Some(snapshot);
            self.make_rows();
        }
    }

    /// Returns the shown snapshot.
    pub fn snapshot(&self) -> Option<&TopSnapshot> {
        self.snapshot.as_deref()
    }

    /// Returns the rows.
    pub fn rows(&self) -> &[TopRow] {
        &self.rows
    }

    /// Handles a key.
    pub fn press(&mut self, key: KeyEvent) -> Option<TopRequest> {
        self.note = None;
        let control = key.modifiers.contains(KeyModifiers::CONTROL);
        if control && key.code == KeyCode::Char('c') {
            return Some(TopRequest::Quit);
        }
        if self.shows_help {
            self.shows_help = false;
            return None;
        }
        if self.is_typing {
            self.type_filter(key.code);
            return None;
        }
        match key.code {
            KeyCode::Char('q') => return Some(TopRequest::Quit),
            KeyCode::Char('w') => return Some(TopRequest::WriteRecording),
            KeyCode::Char('?' | 'h') => self.shows_help = true,
            KeyCode::Char(' ' | 'p') => self.is_paused = !self.is_paused,
            KeyCode::Char('/') => self.is_typing = true,
            KeyCode::Char('s') => self.sort_by_next(),
            KeyCode::Char(digit @ '1'..='5') => {
                let at = digit as usize - '1' as usize;
                self.show_view(TopView::ALL[at]);
            }
            KeyCode::Tab => self.show_next_view(1),
            KeyCode::BackTab => self.show_next_view(TopView::ALL.len() - 1),
            KeyCode::Enter => self.zoom_in(),
            KeyCode::Esc => self.zoom_out(),
            code => self.move_to(code),
        }
        None
    }

    fn move_to(&mut self, code: KeyCode) {
        let last = self.rows.len().saturating_sub(1);
        let to = match code {
            KeyCode::Down | KeyCode::Char('j') => self.selected + 1,
            KeyCode::Up | KeyCode::Char('k') => self.selected.saturating_sub(1),
            KeyCode::PageDown => self.selected + PAGE,
            KeyCode::PageUp => self.selected.saturating_sub(PAGE),
            KeyCode::Home => 0,
            KeyCode::End => last,
            _ => self.selected,
        };
        self.selected = to.min(last);
    }

    fn type_filter(&mut self, code: KeyCode) {
        match code {
            KeyCode::Enter => self.is_typing = false,
            KeyCode::Esc => {
                self.is_typing = false;
                self.filter.clear();
            }
            KeyCode::Backspace => {
                self.filter.pop();
            }
            KeyCode::Char(c) => self.filter.push(c),
            _ => {}
        }
        self.make_rows();
    }

    fn sort_by_next(&mut self) {
        self.sort = match self.sort {
            SortColumn::First => SortColumn::Second,
            SortColumn::Second => SortColumn::Name,
            SortColumn::Name => SortColumn::First,
        };
        self.make_rows();
    }

    fn show_view(&mut self, view: TopView) {
        self.view = view;
        self.selected = 0;
        self.make_rows();
    }

    fn show_next_view(&mut self, steps: usize) {
        let at = TopView::ALL.iter().position(|view| *view == self.view);
        let next = (at.unwrap_or(0) + steps) % TopView::ALL.len();
        self.show_view(TopView::ALL[next]);
    }

    fn zoom_in(&mut self) {
        let process = self
            .rows
            .get(self.selected)
            .and_then(|row| row.process.clone());
        match process {
            Some(process) => {
                self.zoom = Some(process);
                self.show_view(TopView::Procedures);
            }
            None => {
                self.note = Some(
                    "Enter shows one process alone: choose it among processes, threads or waits"
                        .to_owned(),
                )
            }
        }
    }

    /// Removes the last restriction.
    fn zoom_out(&mut self) {
        if self.filter.is_empty() {
            self.zoom = None
        } else {
            self.filter.clear()
        }
        self.make_rows();
    }

    fn make_rows(&mut self) {
        let Some(snapshot) = &self.snapshot else {
            return;
        };
        let mut rows = rows_of(snapshot, self.view, self.zoom.as_ref());
        rows.retain(|row| row.name.contains(&self.filter) || row.detail.contains(&self.filter));
        let number =
            |at: usize| move |a: &TopRow, b: &TopRow| b.numbers[at].total_cmp(&a.numbers[at]);
        match self.sort {
            _ if self.view == TopView::Paths => {}
            SortColumn::First => rows.sort_by(number(0)),
            SortColumn::Second => rows.sort_by(number(1)),
            SortColumn::Name => rows.sort_by(|a, b| a.name.cmp(&b.name)),
        }
        self.selected = self.selected.min(rows.len().saturating_sub(1));
        self.rows = rows;
    }
}
