//! `vitalfew interference report`.

use super::args::{InterferenceReport as Args, Shown};
use super::text;
use crate::exit::INCONCLUSIVE;
use crate::output::write_json;
use crate::screen::{Screen, tell_user, warn_user};
use anyhow::Context;
use profile::Interference;
use results::interference::{latest_run, load_result, result_json};
use std::io::Write;
use std::process::ExitCode;

/// Runs the command.
pub fn run(args: &Args) -> anyhow::Result<ExitCode> {
    let latest = match &args.file {
        Some(_) => None,
        None => Some(latest_run()?),
    };
    let path = args.file.as_ref().or(latest.as_ref());
    let path = path.context("no file")?;
    let result = load_result(path)?;
    let named = args.file.as_ref().map(|file| file.display().to_string());
    let file = named.as_deref().unwrap_or_default();
    let mut screen = Screen::open_output(args.shown.json);
    print(&result, &args.shown, file, &mut screen)
}

/// Prints a result. `file` is its path, or empty if the user did not name one.
pub fn print(
    result: &Interference,
    shown: &Shown,
    file: &str,
    out: &mut dyn Write,
) -> anyhow::Result<ExitCode> {
    let mut out = out;
    if shown.json {
        let count = if shown.all { usize::MAX } else { shown.limit };
        write_json(&mut out, &result_json(result, count, file))?;
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
