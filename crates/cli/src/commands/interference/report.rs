//! `vitalfew interference report`.

use super::args::{InterferenceReport as Args, Regroup, Shown};
use super::shown_report::ShownBlocks;
use super::{json, load, plots, text};
use crate::exit::INCONCLUSIVE;
use crate::output::write_file;
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
    let result = load::load(path, &args.regroup)?;
    let named = args.file.as_ref().map(|file| file.display().to_string());
    let file = named.as_deref().unwrap_or_default();
    print(
        &result,
        &args.shown,
        file,
        &mut Screen::open_output(args.shown.json),
    )
}

/// Returns the content of `interference report --all --json` for one file.
pub fn result_of_file(file: &Path) -> anyhow::Result<Value> {
    let result = load::load(file, &Regroup::default())?;
    let report = ShownBlocks {
        shown: &result.findings,
        result: &result,
        file: file.display().to_string(),
        all: true,
        thread: false,
    };
    let mut json = Vec::new();
    json::write(&report, &mut json)?;
    Ok(serde_json::from_slice(&json)?)
}

/// Shows a result, of the file `file` if it has a name for the reader.
pub fn print(
    result: &Interference,
    shown: &Shown,
    file: &str,
    out: &mut dyn Write,
) -> anyhow::Result<ExitCode> {
    let count = if shown.all { usize::MAX } else { shown.limit };
    let count = count.min(result.findings.len());
    let report = ShownBlocks {
        result,
        shown: result.findings.get(..count).unwrap_or_default(),
        file: file.to_owned(),
        all: shown.all,
        thread: shown.thread,
    };
    if let Some(path) = &shown.curves {
        curves(&report, path)?;
    }
    let mut out = out;
    match shown.json {
        true => json::write(&report, &mut out)?,
        false => text::write(&report, &mut out)?,
    }
    out.flush()?;
    for warning in &result.warnings {
        warn_user(warning);
    }
    if result.findings.is_empty() {
        tell_user("no traced function was executed to its end");
        return Ok(ExitCode::from(INCONCLUSIVE));
    }
    Ok(ExitCode::SUCCESS)
}

/// Into one file, or each into its own in a directory.
fn curves(report: &ShownBlocks<'_>, path: &Path) -> anyhow::Result<()> {
    if path.extension().is_some_and(|e| e == "svg") {
        return write_file(path, |out| Ok(plots::write_plots(report.shown, out)?));
    }
    std::fs::create_dir_all(path).with_context(|| format!("writing {}", path.display()))?;
    for (number, finding) in report.shown.iter().enumerate() {
        let plain = |c: char| if c.is_ascii_alphanumeric() { c } else { '_' };
        let name: String = finding.name.chars().map(plain).take(60).collect();
        let file = path.join(format!("{:02}-{name}.svg", number + 1));
        write_file(&file, |out| {
            Ok(plots::write_plots(std::slice::from_ref(finding), out)?)
        })?;
    }
    Ok(())
}
