//! Line on a terminal with the phase of a run, the time left, and the first finding so far.

use crate::output::{clean_name, shorten_middle};
use std::fs::File;
use std::io::{self, IsTerminal, Write};
use std::os::fd::AsFd;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// Period after which the line is written again.
const EVERY: Duration = Duration::from_secs(1);
/// Separator before the finding.
const SO_FAR: &str = "; so far: ";
/// Least number of columns in which a finding is readable.
const LEAST_ROOM: usize = 20;
/// Columns of a terminal that does not report its width.
const USUAL_WIDTH: usize = 80;

/// The progress line. It is hidden while others write to the terminal, such as the command in the
/// first run.
pub struct ProgressLine {
    shared: Option<Arc<SharedLine>>,
}

struct SharedLine {
    /// Standard error at the start. Runs with silenced output redirect standard error.
    terminal: File,
    end: Instant,
    content: Mutex<LineContent>,
    changed: Condvar,
}

#[derive(Default)]
struct LineContent {
    /// The phase. `None` hides the line.
    phase: Option<String>,
    /// The first finding so far.
    known: Option<String>,
    is_over: bool,
}

impl ProgressLine {
    /// Starts an empty line for a run that ends at `end`. There is no line if standard error is no
    /// terminal.
    pub fn begin(quiet: bool, end: Instant) -> Self {
        let is_shown = !quiet && io::stderr().is_terminal();
        let shared = is_shown.then(|| SharedLine::start_writing(end));
        Self {
            shared: shared.flatten(),
        }
    }

    /// Shows a phase from now on.
    pub fn show_phase(&self, phase: &str) {
        self.change(|content| content.phase = Some(phase.to_owned()));
    }

    /// Sets the first finding so far.
    pub fn set_known(&self, known: &str) {
        self.change(|content| content.known = Some(known.to_owned()));
    }

    /// Clears the line, so that others can write to the terminal.
    pub fn hide(&self) {
        self.change(|content| content.phase = None);
    }

    fn change(&self, change: impl FnOnce(&mut LineContent)) {
        if let Some(shared) = &self.shared {
            let mut content = shared.content();
            let was_shown = content.phase.is_some();
            change(&mut content);
            if was_shown && content.phase.is_none() {
                shared.write("");
            }
            shared.changed.notify_all();
        }
    }
}

impl Drop for ProgressLine {
    fn drop(&mut self) {
        self.change(|content| {
            content.phase = None;
            content.is_over = true;
        });
    }
}

impl SharedLine {
    /// Starts the thread that writes the line. Returns `None` if that fails.
    fn start_writing(end: Instant) -> Option<Arc<Self>> {
        let shared = Arc::new(Self {
            terminal: io::stderr().as_fd().try_clone_to_owned().ok()?.into(),
            end,
            content: Mutex::default(),
            changed: Condvar::new(),
        });
        let written = Arc::clone(&shared);
        let write = move || written.write_until_over();
        std::thread::Builder::new().spawn(write).ok()?;
        Some(shared)
    }

    fn content(&self) -> MutexGuard<'_, LineContent> {
        self.content.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn write_until_over(&self) {
        let mut content = self.content();
        while !content.is_over {
            if let Some(phase) = &content.phase {
                let left = self.end.saturating_duration_since(Instant::now());
                let width = terminal_size::terminal_size_of(&self.terminal);
                let width = width.map_or(USUAL_WIDTH, |(width, _)| usize::from(width.0));
                // Some terminals begin a new line after the last column.
                let width = width.saturating_sub(1);
                self.write(&line_text(phase, left, content.known.as_deref(), width));
            }
            let waited = self.changed.wait_timeout(content, EVERY);
            content = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
    }

    /// Writes to the terminal. Errors are ignored, because nobody could be told.
    fn write(&self, text: &str) {
        let _ = write!(&self.terminal, "\r\x1b[K{text}");
    }
}

/// Returns a line that fits into `width`. The middle of the finding is left out first.
fn line_text(phase: &str, left: Duration, known: Option<&str>, width: usize) -> String {
    let head = format!("vitalfew: {phase}, up to {} s left", left.as_secs());
    let room = width.saturating_sub(head.chars().count() + SO_FAR.len());
    let known = known.filter(|_| room >= LEAST_ROOM);
    let known = known.map_or(String::new(), |known| {
        format!("{SO_FAR}{}", shorten_middle(known, room))
    });
    clean_name(&shorten_middle(&format!("{head}{known}"), width))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_line_says_phase_time_and_what_is_known() {
        let left = Duration::from_millis(12_600);
        let text = |known, width| line_text("tracing", left, known, width);
        assert_eq!(
            text(Some("a\tb"), 80),
            "vitalfew: tracing, up to 12 s left; so far: a\u{fffd}b"
        );
        assert_eq!(text(None, 80), "vitalfew: tracing, up to 12 s left");
        let long = "75 % of the time in find_customer while others wait for its lock: on CPU";
        let cut = text(Some(long), 80);
        assert_eq!(cut.chars().count(), 80);
        assert!(
            cut.contains("so far: 75 %") && cut.ends_with("on CPU"),
            "{cut}"
        );
        assert_eq!(text(Some(long), 40), "vitalfew: tracing, up to 12 s left");
    }
}
