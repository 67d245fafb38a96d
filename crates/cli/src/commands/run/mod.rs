//! `vitalfew run`: applies all methods to one program, and prints the few findings that matter.
//!
//! `orchestration` measures. This module shows the progress and prints the result.

pub mod args;
mod changes;
mod progress;
mod text;

use crate::output::{write_file, write_json};
use crate::screen::{Screen, tell_user, warn_user};
use crate::wrapped::{self, Signals};
use args::RunAll;
use orchestration::{
    RunOptions, RunProgress, RunResult, last_result_path, make_tables_later, measure_program,
};
use progress::ProgressLine;
use std::io::Write;
use std::path::Path;
use std::process::ExitCode;
use std::time::Instant;

/// Maximum number of findings without --all.
const VITAL_FEW: usize = 5;

/// Runs the command.
pub fn run(args: &RunAll) -> anyhow::Result<ExitCode> {
    // An unreadable result of --against must fail before the measurement.
    let before = args.against.as_deref().map(read_result).transpose()?;
    if let Some(path) = &args.show {
        show_result(&read_result(path)?, before.as_ref(), args)?;
        return Ok(ExitCode::SUCCESS);
    }
    measure_command(args, before)
}

fn read_result(path: &Path) -> anyhow::Result<RunResult> {
    RunResult::read(&store::fetch_run(path)?)
}

fn measure_command(args: &RunAll, before: Option<RunResult>) -> anyhow::Result<ExitCode> {
    let options = RunOptions {
        budget: args.budget,
        once: args.once,
        progress: args.progress.clone(),
        pid: args.pid,
        command: args.command.clone(),
        output_to_errors: args.json,
        most_findings: if args.all { usize::MAX } else { VITAL_FEW },
    };
    let signals = Signals::catch_signals()?;
    let line = ProgressLine::begin(args.quiet, Instant::now() + args.budget);
    let measured = measure_program(&options, &signals.stop, &|progress| match progress {
        RunProgress::Note(_) if args.quiet => {}
        RunProgress::Note(text) => tell_user(text),
        RunProgress::Warning(text) => warn_user(text),
        RunProgress::Finding(known) => line.set_known(known),
        RunProgress::PhaseBegan(phase) => line.show_phase(phase),
        RunProgress::PhaseEnded => line.hide(),
    })?;
    show_result(&measured.result, before.as_ref(), args)?;
    if let Err(error) = keep_result(&measured.result) {
        warn_user(&format!(
            "`vitalfew serve` will not show this result: {error:#}"
        ));
    }
    if let Err(error) = send_result(&measured.result) {
        warn_user(&format!("the result was not sent: {error:#}"));
    }
    make_tables_later(&measured.without_tables);
    let exit = measured.exit.or_else(|| {
        signals.pass_on(measured.running.as_ref());
        wrapped::wait_for_saved_command(measured.running, &signals, args.quiet)
    });
    Ok(match exit {
        None if args.pid.is_some() => ExitCode::SUCCESS,
        exit => wrapped::exit_code(exit),
    })
}

/// Stores the result beside the recording, so that the page can show both.
fn keep_result(result: &RunResult) -> anyhow::Result<()> {
    let path = last_result_path(&store::written_database(&store::default_database()));
    write_file(&path, |out| Ok(write_json(out, result)?))
}

/// Sends the result to the database, if that is in a bucket.
fn send_result(result: &RunResult) -> anyhow::Result<()> {
    let database = store::default_database();
    if store::default_spool(&database).is_none() {
        return Ok(());
    }
    let mut json = Vec::new();
    write_json(&mut json, result)?;
    if let Some(address) = store::send_run(&database, result.start_unix_ns, json)? {
        tell_user(&format!(
            "the result is in the bucket: vitalfew run --show {address}"
        ));
    }
    Ok(())
}

/// Prints the result to standard output. If the command's output goes to a file or pipe there, text
/// goes to standard error instead. JSON always goes to standard output.
fn show_result(
    result: &RunResult,
    before: Option<&RunResult>,
    args: &RunAll,
) -> anyhow::Result<()> {
    if let Some(path) = &args.output {
        write_file(path, |out| Ok(write_json(out, result)?))?;
    }
    let mut out = Screen::beside_program(args.json, args.json || args.command.is_empty());
    if args.json {
        write_json(&mut out, result)?;
        return Ok(out.flush()?);
    }
    text::write_report(result, args.verbose, &mut out)?;
    if let Some(before) = before {
        changes::write_changes(before, result, &mut out)?;
    }
    out.flush()?;
    if let Some(path) = &args.output {
        tell_user(&format!("the result is in {}", path.display()));
    }
    Ok(())
}
