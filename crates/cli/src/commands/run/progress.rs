//! A line on a terminal with the phase of a run, the time left, and what is known so far.

use crate::output::{clean_name, shorten_middle};
use std::fs::File;
use std::io::{self, IsTerminal, Write};
use std::os::fd::AsFd;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// Time after which the line is written anew.
const EVERY: Duration = Duration::from_secs(1);
/// Columns of a terminal that does not say how many it has.
const USUAL_WIDTH: usize = 80;

/// The line. It is there only while nobody else writes to the terminal: in the first run that is the command.
pub struct ProgressLine {
    shared: Option<Arc<SharedLine>>,
}

struct SharedLine {
    /// Standard error as it was at first: runs whose output is not shown have another one.
    terminal: File,
    end: Instant,
    content: Mutex<LineContent>,
    changed: Condvar,
}

#[derive(Default)]
struct LineContent {
    /// The phase; `None`: nothing is shown.
    phase: Option<String>,
    /// The first finding so far.
    known: Option<String>,
    is_over: bool,
}

impl ProgressLine {
    /// Begins with an empty line, for a run that ends at `end`. Where standard error is no terminal there is none.
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

    /// Sets what is known so far.
    pub fn set_known(&self, known: &str) {
        self.change(|content| content.known = Some(known.to_owned()));
    }

    /// Clears the line: somebody else may write from now on.
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
    /// Starts the thread that writes; `None` if there is none to be had.
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
                let text = line_text(phase, left, content.known.as_deref());
                let width = terminal_size::terminal_size_of(&self.terminal);
                let width = width.map_or(USUAL_WIDTH, |(width, _)| usize::from(width.0));
                // In the last column some terminals begin a new line.
                self.write(&shorten_middle(&text, width.saturating_sub(1)));
            }
            let waited = self.changed.wait_timeout(content, EVERY);
            content = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
    }

    /// Nobody is there to be told that a terminal cannot be written to.
    fn write(&self, text: &str) {
        let _ = write!(&self.terminal, "\r\x1b[K{text}");
    }
}

fn line_text(phase: &str, left: Duration, known: Option<&str>) -> String {
    let known = known.map_or(String::new(), |known| format!("; so far: {known}"));
    let left = left.as_secs();
    clean_name(&format!("vitalfew: {phase}, up to {left} s left{known}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_line_says_phase_time_and_what_is_known() {
        let left = Duration::from_millis(12_600);
        assert_eq!(
            line_text("tracing", left, Some("a\tb")),
            "vitalfew: tracing, up to 12 s left; so far: a\u{fffd}b"
        );
        let nothing = line_text("tracing", left, None);
        assert_eq!(nothing, "vitalfew: tracing, up to 12 s left");
    }
}
