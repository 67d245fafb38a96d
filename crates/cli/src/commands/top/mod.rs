//! `vitalfew top`: the current load, live in the terminal.
//!
//! `source` samples in a separate thread, one recording for each table, or makes the daemon store
//! its counts and opens those. `rows` makes the rows of a view. `model` holds the screen's contents
//! and handles keys, and `draw` draws them; neither measures.

pub mod args;
mod draw;
mod known_names;
mod model;
mod rows;
mod source;
#[cfg(test)]
mod tests;

use crate::output::{Align, Table, format_ns};
use crate::screen::{Screen, tell_user, terminal_width};
use crate::wrapped::Signals;
use anyhow::Context;
use args::Top;
use draw::{draw_top, texts_of};
use model::{TopModel, TopRequest};
use profile::Recording;
use ratatui::DefaultTerminal;
use ratatui::crossterm::event::{self, Event, KeyEventKind};
use rows::TopSnapshot;
use signal_hook::consts::SIGHUP;
use source::{send_samples, send_snapshots, take_snapshot};
use std::io::{IsTerminal, Write};
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, TryRecvError};
use std::thread::JoinHandle;
use std::time::{Duration, SystemTime};

/// Longest wait for a key before newer samples are checked for.
const TICK: Duration = Duration::from_millis(100);
/// Maximum time that ending takes.
const STUCK: Duration = Duration::from_secs(2);
/// Width of a name if the output is no terminal.
const NAME_WIDTH: usize = 60;

/// Runs the command.
pub fn run(args: &Top) -> anyhow::Result<ExitCode> {
    let signals = Signals::catch_signals()?;
    let is_terminal = std::io::stdout().is_terminal() && std::io::stdin().is_terminal();
    if args.once || !is_terminal {
        print_once(args, &signals)?;
    } else {
        show_live(args, &signals)?;
    }
    Ok(ExitCode::SUCCESS)
}

fn print_once(args: &Top, signals: &Signals) -> anyhow::Result<()> {
    let snapshot = Arc::new(take_snapshot(args, &signals.stop)?);
    let mut model = TopModel::new(args.by);
    model.take_snapshot(Arc::clone(&snapshot));
    let [first, second, detail] = args.by.headings();
    let columns = [
        (first, Align::Right),
        (second, Align::Right),
        ("NAME", Align::Left),
        (detail, Align::Left),
    ];
    let columns = columns.map(|(heading, align)| (heading.to_owned(), align));
    let mut table = Table::new(columns.to_vec());
    let width = terminal_width().map_or(NAME_WIDTH, |columns| columns.saturating_sub(44).max(20));
    for row in model.rows().iter().take(args.limit) {
        let [name, detail] = texts_of(row, width, 20);
        let [first, second] = row.numbers.map(|number| format!("{number:.1}"));
        table.add_row(vec![first, second, name, detail]);
    }
    let mut out = Screen::open_output(false);
    write!(out, "{}", table.render())?;
    out.flush()?;
    if let Some(limits) = snapshot.recording.limited_rights() {
        tell_user(limits);
    }
    if model.rows().is_empty() {
        let lasted = format_ns(1e9 * snapshot.seconds());
        tell_user(&format!(
            "nothing ran or waited in the {lasted} of this table: --every DURATION makes it longer"
        ));
    }
    Ok(())
}

fn show_live(args: &Top, signals: &Signals) -> anyhow::Result<()> {
    let (send_sampled, sampled) = std::sync::mpsc::channel();
    let (send, receive) = std::sync::mpsc::channel();
    // These threads are not joined: quitting does not wait until a table is sampled, or a file
    // read.
    let (sampling, stop) = (args.clone(), Arc::clone(&signals.stop));
    std::thread::spawn(move || send_samples(&sampling, &stop, &send_sampled));
    std::thread::spawn(move || send_snapshots(&sampled, &send));
    let stop = Arc::clone(&signals.stop);
    std::thread::spawn(move || exit_if_stuck(&stop));
    // ratatui's hook restores the terminal after a panic, too.
    let mut terminal = ratatui::try_init().context("drawing on the terminal")?;
    let mut writing = Writing::default();
    let mut limits = None;
    let shown = show_until_quit(
        args,
        signals,
        &receive,
        &mut terminal,
        &mut writing,
        &mut limits,
    );
    // A closed terminal needs no restoring, and shows no error.
    let restored = ratatui::try_restore();
    let notes = [writing.finish(), limits];
    notes.iter().flatten().for_each(|note| tell_user(note));
    if signals.stop.swap(true, Ordering::Relaxed) {
        Ok(())
    } else {
        shown.and(restored.context("restoring the terminal"))
    }
}

/// Ends this process some time after it was to stop. If its terminal is closed, crossterm reads
/// from it endlessly.
fn exit_if_stuck(stop: &AtomicBool) {
    while !stop.load(Ordering::Relaxed) {
        std::thread::sleep(TICK);
    }
    std::thread::sleep(STUCK);
    std::process::exit(128 + SIGHUP);
}

fn show_until_quit(
    args: &Top,
    signals: &Signals,
    receive: &Receiver<anyhow::Result<Arc<TopSnapshot>>>,
    terminal: &mut DefaultTerminal,
    writing: &mut Writing,
    limits: &mut Option<String>,
) -> anyhow::Result<()> {
    let mut model = TopModel::new(args.by);
    while !signals.stop.load(Ordering::Relaxed) {
        // Only the newest: the same samples come again with more names.
        let mut newest = None;
        let ended = loop {
            match receive.try_recv() {
                Ok(snapshot) => newest = Some(snapshot?),
                Err(error) => break error == TryRecvError::Disconnected,
            }
        };
        if let Some(snapshot) = newest {
            if limits.is_none() {
                *limits = snapshot.recording.limited_rights().cloned();
                model.note.clone_from(limits);
            }
            model.take_snapshot(snapshot);
        } else if ended {
            anyhow::bail!("sampling has ended");
        }
        model.note = writing.take_note().or(model.note);
        terminal.draw(|frame| draw_top(&model, frame))?;
        if !event::poll(TICK)? {
            continue;
        }
        let Event::Key(key) = event::read()? else {
            continue;
        };
        if key.kind != KeyEventKind::Press {
            continue;
        }
        match model.press(key) {
            Some(TopRequest::Quit) => return Ok(()),
            Some(TopRequest::WriteRecording) => model.note = Some(writing.begin(&model)),
            None => {}
        }
    }
    Ok(())
}

/// A recording written in the background: reading names for it may take long.
#[derive(Default)]
struct Writing(Option<JoinHandle<String>>);

impl Writing {
    /// Begins to write the shown recording beside the user's other files; returns a note.
    fn begin(&mut self, model: &TopModel) -> String {
        let Some(snapshot) = model.snapshot() else {
            return "nothing was sampled yet".to_owned();
        };
        if self.0.is_some() {
            return "the last recording is still being written".to_owned();
        }
        let recording = Arc::clone(&snapshot.recording);
        self.0 = Some(std::thread::spawn(move || write_recording(&recording)));
        "writing what is shown …".to_owned()
    }

    /// Returns where it was written, or the error, once that is over.
    fn take_note(&mut self) -> Option<String> {
        let is_over = self.0.as_ref().is_some_and(JoinHandle::is_finished);
        if is_over { self.finish() } else { None }
    }

    /// Waits until it is written.
    fn finish(&mut self) -> Option<String> {
        let note = self.0.take()?.join();
        Some(note.unwrap_or_else(|_| "not written".to_owned()))
    }
}

fn write_recording(recording: &Recording) -> String {
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
    let seconds = now.map_or(0, |now| now.as_secs());
    let path = PathBuf::from(format!("top-{seconds}.vf"));
    let mut recording = recording.clone();
    symbols::embed_procedures(&mut recording, &symbols::SymbolOptions::default());
    match store::write_file(&recording, &path) {
        Ok(_) => format!("written: {} (vitalfew report {0})", path.display()),
        Err(error) => format!("not written: {error}"),
    }
}
