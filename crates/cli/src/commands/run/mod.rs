//! `vitalfew run`: all methods on one program, and the few findings that matter.
//!
//! `phases` asks one method after the other, within the time limit: `sampler::record` with stacks,
//! waits and threads apart; then, in further runs with the first one's input (`streams.rs`),
//! `interference::trace_recorded` and `causal::experiment_quietly`, which are those commands without
//! their words. In `results`, `time_tree.rs` puts running and waiting into one call tree,
//! `time_kind.rs` says what a thread does in the kernel, and `tail_calls.rs` adds functions that ended
//! with a call. `analysis::judgement` searches the tree, weighs what each method says of a place and
//! ranks findings. `results::phrases` words them, `text` prints them.

pub mod args;
mod changes;
mod confinement;
mod memory;
mod phases;
mod progress;
mod result;
mod text;

use crate::output::write_file;
use crate::screen::{Screen, tell_user, warn_user};
use crate::wrapped;
use analysis::judgement::{Measured, judge_measured};
use anyhow::Context;
use args::RunAll;
use phases::{Phases, Sampled};
use profile::{CallTree, Recording};
use result::{CommandEnd, LeftProcess, RunResult};
use results::{JsonClaim, JsonClaims, RecordingSource, TimeTree};
use std::io::{IsTerminal, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use symbols::Resolved;

/// The number of findings without --all.
const VITAL_FEW: usize = 5;

/// Runs the command.
pub fn run(args: &RunAll) -> anyhow::Result<ExitCode> {
    // First: what cannot be compared need not be measured.
    let before = args.against.as_deref().map(RunResult::read).transpose()?;
    if let Some(path) = &args.show {
        show_result(&RunResult::read(path)?, before.as_ref(), args)?;
        return Ok(ExitCode::SUCCESS);
    }
    measure_command(args, before)
}

fn measure_command(args: &RunAll, before: Option<RunResult>) -> anyhow::Result<ExitCode> {
    let mut phases = Phases::begin(args)?;
    let mut sampled = phases.sample_runs()?;
    // Before anything else: a program that runs on need not do so for long.
    let asked = phases.ask_running_threads(&sampled);
    let mut resolved = results::resolve_all(&sampled.recording, &RecordingSource::default());
    if let Some(again) = phases.sample_again(&sampled, &resolved.table)? {
        sampled = again;
        resolved = results::resolve_all(&sampled.recording, &RecordingSource::default());
    }
    resolved = correct_stacks(&mut sampled.recording, resolved);
    let recording = &sampled.recording;
    let mut time =
        results::make_time_tree(recording, &resolved.table).context("adding up the time")?;
    time.cpu_waits.host_ns = sampled.stolen_ns;
    let alone = sampled_alone(&sampled, &time);
    let few = !sampled.is_enough(&time);
    if asked.is_none() && !few && !args.once && !phases.is_stopped() {
        phases.note_first_finding(&alone, phases.expected_runs(&sampled, &time));
    }
    let more = phases.sample_more(&sampled)?;
    let more = more.into_iter().map(tree_of_run);
    let more = more.collect::<anyhow::Result<Vec<CallTree>>>()?;
    let (interference, causal) = asked.unwrap_or_else(|| phases.ask_threads(&sampled, &time));
    let stalls = phases.ask_instructions(&sampled);
    let judgement = judge_measured(&Measured {
        more_runs: &more,
        stalls: &stalls,
        causal: &causal,
        interference: &interference,
        ..alone
    });
    let judgement = match judgement {
        Ok(judgement) if !few => judgement,
        Ok(_) | Err(_) if few => Default::default(),
        other => other?,
    };
    let count = if args.all { usize::MAX } else { VITAL_FEW };
    let mut result = RunResult::of_recording(recording);
    result.runs = 1 + more.len();
    result.busy_threads = time.busy_threads;
    result.threads_at_work = time.threads_at_work;
    result.time_by_kind = time.time_by_kind();
    result.machine = judgement.machine.map(JsonClaim::from);
    result.asked = phases.asked_methods().to_vec();
    result.findings_total = judgement.findings.len();
    let shown = judgement.findings.into_iter().take(count);
    result.claims = JsonClaims::of_findings(shown.collect());
    result.working_ns = judgement.working_ns;
    result.together = judgement.together;
    result.rest_waiting = judgement.rest_waiting;
    result.idle_ns = time.idle;
    result.samples = sampled.samples;
    if args.pid.is_none() {
        result.ended_by = CommandEnd::of_exit(sampled.exit, phases.is_stopped());
        let left = sampled.left_running.iter();
        result.left_running = left.filter_map(|pid| LeftProcess::find(*pid)).collect();
    }
    result.few_samples = few.then_some(sampled.samples);
    show_result(&result, before.as_ref(), args)?;
    if let Err(error) = keep_result(&result) {
        warn_user(&format!(
            "`vitalfew serve` will not show this result: {error:#}"
        ));
    }
    phases.make_tables_later();
    let exit = sampled
        .exit
        .or_else(|| phases.wait_for_end(sampled.running));
    Ok(match exit {
        None if args.pid.is_some() => ExitCode::SUCCESS,
        exit => wrapped::exit_code(exit),
    })
}

/// Returns what sampling alone says, before other methods are asked.
fn sampled_alone<'a>(sampled: &'a Sampled, time: &'a TimeTree) -> Measured<'a> {
    let recording = &sampled.recording;
    Measured {
        tree: &time.tree,
        more_runs: &[],
        each_sample: time.each_sample,
        run_ns: recording.duration_ns as f64,
        threads: &time.threads,
        cpus: sampled
            .confined
            .map_or(recording.host.cpus, |(allowed, _)| allowed),
        dear_lines: &time.dear_lines,
        ended_waits: &time.ended_waits,
        cpu_waits: &time.cpu_waits,
        confined: sampled.confined,
        memory: sampled.memory,
        stalls: &[],
        causal: &[],
        interference: &[],
        in_runtimes: &time.in_runtimes,
        stored: &sampled.stored,
        event: recording.events.first().map_or("", |event| &event.name),
    }
}

/// The last result in a database, for the page.
pub fn last_result_path(database: &Path) -> PathBuf {
    database.join("last-run.json")
}

/// Keeps the result beside the recording, for the page to show both.
fn keep_result(result: &RunResult) -> anyhow::Result<()> {
    let path = last_result_path(&store::default_database());
    write_file(&path, |out| result.write(out))
}

/// Puts callers on stacks that ended with a call, and takes frames of interpreters out. Returns the names of what is there then.
fn correct_stacks(recording: &mut Recording, named: Resolved) -> Resolved {
    // Before frames are taken out: the caller and whom it called are neighbours.
    let inserted = results::insert_tail_callers(recording, &named.table);
    match profile::fold_interpreter_frames(recording) || inserted {
        true => results::resolve_all(recording, &RecordingSource::default()),
        false => named,
    }
}

fn tree_of_run(mut recording: Recording) -> anyhow::Result<CallTree> {
    let resolved = results::resolve_all(&recording, &RecordingSource::default());
    let resolved = correct_stacks(&mut recording, resolved);
    let time = results::make_time_tree(&recording, &resolved.table);
    Ok(time.context("adding up the time")?.tree)
}

/// To standard output, unless that is a file or a pipe and a program's: then it is the program's. JSON was asked for.
fn show_result(
    result: &RunResult,
    before: Option<&RunResult>,
    args: &RunAll,
) -> anyhow::Result<()> {
    if let Some(path) = &args.output {
        write_file(path, |out| result.write(out))?;
    }
    if args.json {
        let mut out = Screen::open_output(true);
        result.write(&mut out)?;
        return Ok(out.flush()?);
    }
    let is_ours = args.command.is_empty() || std::io::stdout().is_terminal();
    let mut screen;
    let mut stderr;
    let out: &mut dyn Write = match is_ours {
        true => {
            screen = Screen::open_output(false);
            &mut screen
        }
        false => {
            stderr = std::io::stderr();
            &mut stderr
        }
    };
    text::write_report(result, args.verbose, out)?;
    if let Some(before) = before {
        changes::write_changes(before, result, out)?;
    }
    out.flush()?;
    if let Some(path) = &args.output {
        tell_user(&format!("the result is in {}", path.display()));
    }
    Ok(())
}
