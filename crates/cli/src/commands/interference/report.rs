//! `vitalfew interference report`.

use super::args::{InterferenceReport as Args, Shown};
use super::{json, load, text};
use crate::exit::INCONCLUSIVE;
use crate::screen::{Screen, tell_user, warn_user};
use anyhow::Context;
use profile::Interference;
use serde_json::Value;
use std::io::Write;
use std::path::Path;
use std::process::ExitCode;

/// Runs the command.
pub fn run(args: &Args) -> anyhow::Result<ExitCode> {
    let latest = match &args.file {
        Some(_) => None,
        None => Some(load::latest()?),
    };
    let path = args.file.as_ref().or(latest.as_ref());
    let path = path.context("no file")?;
    let result = load::load(path)?;
    let named = args.file.as_ref().map(|file| file.display().to_string());
    let file = named.as_deref().unwrap_or_default();
    let mut screen = Screen::open_output(args.shown.json);
    print(&result, &args.shown, file, &mut screen)
}

/// Returns the content of `interference report --all --json` for one file.
pub fn result_of_file(file: &Path) -> anyhow::Result<Value> {
    let result = load::load(file)?;
    let mut json = Vec::new();
    json::write(&result, usize::MAX, &file.display().to_string(), &mut json)?;
    Ok(serde_json::from_slice(&json)?)
}

/// Shows a result, of the file `file` if it has a name for the reader.
pub fn print(
    result: &Interference,
    shown: &Shown,
    file: &str,
    out: &mut dyn Write,
) -> anyhow::Result<ExitCode> {
    let mut out = out;
    if shown.json {
        let count = if shown.all { usize::MAX } else { shown.limit };
        json::write(result, count, file, &mut out)?;
    } else {
        text::write(result, shown, file, &mut out)?;
    }
    out.flush()?;
    for warning in &result.warnings {
        warn_user(warning);
    }
    if result.functions.is_empty() {
        tell_user("no traced function was executed to its end");
        return Ok(ExitCode::from(INCONCLUSIVE));
    }
    Ok(ExitCode::SUCCESS)
}
