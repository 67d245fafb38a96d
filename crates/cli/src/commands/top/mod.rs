//! `vitalfew top`: what runs now, live in the terminal.

pub mod args;
mod draw;
mod known_names;
mod model;
mod rows;
mod source;
#[cfg(test)]
mod tests;

use crate::commands::wrapped::Signals;
use crate::output::{Align, Table};
use crate::screen::{Screen, terminal_width};
use anyhow::Context;
use args::Top;
use draw::{draw_top, texts_of};
use known_names::KnownNames;
use model::{TopModel, TopRequest};
use ratatui::DefaultTerminal;
use ratatui::crossterm::event::{self, Event, KeyEventKind};
use rows::TopSnapshot;
use source::{send_snapshots, take_snapshot};
use std::io::{IsTerminal, Write};
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::sync::mpsc::{Receiver, TryRecvError};
use std::time::{Duration, SystemTime};

/// How long keys are waited for before newer samples are looked for.
const TICK: Duration = Duration::from_millis(100);
/// Columns of a name where the output is no terminal.
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
    let mut names = KnownNames::default();
    let mut snapshot = take_snapshot(args, &signals.stop, &mut names, None)?;
    if args.db.is_some() {
        // What a daemon has counted is told by two answers.
        std::thread::sleep(args.every);
        snapshot = take_snapshot(args, &signals.stop, &mut names, Some(&snapshot))?;
    }
    let mut model = TopModel::new(args.by);
    model.take_snapshot(snapshot);
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
    Ok(out.flush()?)
}

fn show_live(args: &Top, signals: &Signals) -> anyhow::Result<()> {
    let (send, receive) = std::sync::mpsc::channel();
    std::thread::scope(|scope| {
        scope.spawn(|| send_snapshots(args, &signals.stop, &send));
        // A panic restores the terminal, too: ratatui's hook does it.
        let mut terminal = ratatui::try_init().context("drawing on the terminal")?;
        let shown = show_until_quit(args, signals, &receive, &mut terminal);
        ratatui::restore();
        signals.stop.store(true, Ordering::Relaxed);
        shown
    })
}

fn show_until_quit(
    args: &Top,
    signals: &Signals,
    receive: &Receiver<anyhow::Result<Arc<TopSnapshot>>>,
    terminal: &mut DefaultTerminal,
) -> anyhow::Result<()> {
    let mut model = TopModel::new(args.by);
    while !signals.stop.load(Ordering::Relaxed) {
        match receive.try_recv() {
            Ok(snapshot) => model.take_snapshot(snapshot?),
            Err(TryRecvError::Empty) => {}
            Err(TryRecvError::Disconnected) => anyhow::bail!("sampling has ended"),
        }
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
            Some(TopRequest::WriteRecording) => model.note = Some(write_shown(&model)),
            None => {}
        }
    }
    Ok(())
}

/// Writes what is shown beside the user's other files, and says where or why not.
fn write_shown(model: &TopModel) -> String {
    let Some(snapshot) = model.snapshot() else {
        return "nothing was sampled yet".to_owned();
    };
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
    let seconds = now.map_or(0, |now| now.as_secs());
    let path = PathBuf::from(format!("top-{seconds}.vf"));
    let mut recording = snapshot.recording.clone();
    symbols::embed_procedures(&mut recording, &symbols::SymbolOptions::default());
    match store::write_file(&recording, &path) {
        Ok(_) => format!("written: {} (vitalfew report {0})", path.display()),
        Err(error) => format!("not written: {error}"),
    }
}
