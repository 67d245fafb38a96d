//! `vitalfew epochs`.

use crate::args::Epochs as Args;
use crate::exit;
use crate::output::{Align, Table, clean_name, format_bytes, format_ns, group_digits, write_json};
use crate::screen::{Screen, warn_user};
use crate::source;
use std::io::Write;
use std::process::ExitCode;
use store::Epoch;

/// Runs the command.
pub fn run(args: &Args) -> anyhow::Result<ExitCode> {
    let epochs = source::choose_epochs(&args.chosen)?;
    let mut out = Screen::open_output(args.json);
    if args.json {
        write_json(&mut out, &results::epochs_json(&epochs))?;
    } else {
        print_epochs(&mut out, &epochs)?;
    }
    out.flush()?;
    for epoch in &epochs {
        match &epoch.summary {
            Err(_) if epoch.is_empty() => {
                let advice = results::undrained_advice(&store::default_database());
                warn_user(&format!("{}: {advice}", epoch.path.display()));
            }
            Err(error) => {
                exit::note_left_out();
                warn_user(&error.to_string());
            }
            Ok(_) => {}
        }
        for error in &epoch.damaged {
            exit::note_left_out();
            warn_user(&store::left_out(error));
        }
    }
    Ok(ExitCode::SUCCESS)
}

fn print_epochs(out: &mut impl Write, epochs: &[Epoch]) -> std::io::Result<()> {
    let columns = [
        ("epoch", Align::Left),
        ("length", Align::Right),
        ("samples", Align::Right),
        ("size", Align::Right),
        ("host", Align::Left),
        ("state", Align::Left),
        ("events", Align::Left),
    ];
    let mut table = Table::new(columns.map(|(name, align)| (name.to_owned(), align)).into());
    let (mut samples, mut size) = (0u64, 0u64);
    for epoch in epochs {
        let state = match (epoch.open, &epoch.summary) {
            (_, Err(_)) => "unreadable",
            (true, _) => "open",
            (false, _) => "closed",
        };
        let state = match epoch.damaged.len() {
            0 => state.to_owned(),
            pieces => format!("{state}, {pieces} damaged"),
        };
        let mut cells = vec![epoch.name()];
        match &epoch.summary {
            Ok(summary) => {
                samples = samples.saturating_add(summary.samples);
                size = size.saturating_add(summary.bytes);
                cells.extend([
                    format_ns(summary.duration_ns as f64),
                    group_digits(summary.samples),
                    format_bytes(summary.bytes),
                    clean_name(&summary.host),
                    state,
                    clean_name(&summary.events.join(", ")),
                ]);
            }
            Err(_) => {
                let dash = || "-".to_owned();
                cells.extend([dash(), dash(), dash(), dash(), state, dash()]);
            }
        }
        table.add_row(cells);
    }
    write!(out, "{}", table.render())?;
    let what = if epochs.len() == 1 { "epoch" } else { "epochs" };
    let (samples, size) = (group_digits(samples), format_bytes(size));
    writeln!(out, "\n{} {what}, {samples} samples, {size}", epochs.len())
}
