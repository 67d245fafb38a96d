//! `vitalfew epochs`.

use crate::args::Epochs as Args;
use crate::exit;
use crate::output::{Align, Table, clean_name, format_bytes, format_ns, group_digits};
use crate::screen::{Screen, warn_user};
use crate::source;
use serde::Serialize;
use std::io::Write;
use std::process::ExitCode;
use store::Epoch;

/// The documented JSON form.
#[derive(Serialize)]
struct Json<'a> {
    schema: &'static str,
    epochs: Vec<JsonEpoch<'a>>,
}

#[derive(Serialize)]
struct JsonEpoch<'a> {
    epoch: String,
    path: &'a std::path::Path,
    open: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    host: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    start_unix_ns: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    duration_ns: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    events: Option<&'a [String]>,
    #[serde(skip_serializing_if = "Option::is_none")]
    samples: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    lost: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    bytes: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<String>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    damaged: Vec<String>,
}

/// Runs the command.
pub fn run(args: &Args) -> anyhow::Result<ExitCode> {
    let epochs = source::choose_epochs(&args.chosen)?;
    let mut out = Screen::open_output(args.json);
    if args.json {
        serde_json::to_writer_pretty(&mut out, &json_epochs(&epochs))
            .map_err(std::io::Error::from)?;
        writeln!(out)?;
    } else {
        print_epochs(&mut out, &epochs)?;
    }
    out.flush()?;
    for epoch in &epochs {
        if let Err(error) = &epoch.summary {
            if !epoch.is_empty() {
                exit::note_left_out();
            }
            warn_user(&error.to_string());
        }
        for error in &epoch.damaged {
            exit::note_left_out();
            warn_user(&store::left_out(error));
        }
    }
    Ok(ExitCode::SUCCESS)
}

/// Returns the documented JSON form.
pub fn json_epochs(epochs: &[Epoch]) -> impl Serialize {
    Json {
        schema: "vitalfew.epochs/1",
        epochs: epochs.iter().map(json_epoch).collect(),
    }
}

fn json_epoch(epoch: &Epoch) -> JsonEpoch<'_> {
    let summary = epoch.summary.as_ref().ok();
    JsonEpoch {
        epoch: epoch.name(),
        path: &epoch.path,
        open: epoch.open,
        host: summary.map(|s| s.host.as_str()),
        start_unix_ns: summary.map(|s| s.start_unix_ns),
        duration_ns: summary.map(|s| s.duration_ns),
        events: summary.map(|s| s.events.as_slice()),
        samples: summary.map(|s| s.samples),
        lost: summary.map(|s| s.lost),
        bytes: summary.map(|s| s.bytes),
        error: epoch.summary.as_ref().err().map(ToString::to_string),
        damaged: epoch.damaged.iter().map(ToString::to_string).collect(),
    }
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
