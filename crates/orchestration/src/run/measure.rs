//! A complete run: applies the methods in order, and judges their results together.

use super::options::{RunOptions, RunProgress};
use super::phases::{Phases, Sampled};
use super::result::{CommandEnd, LeftProcess, RunResult};
use analysis::judgement::{Measured, judge_measured};
use anyhow::Context;
use profile::{CallTree, Recording};
use results::{JsonClaim, JsonClaims, RecordingSource, TimeTree};
use sampler::{Exit, Launched};
use std::path::PathBuf;
use std::sync::atomic::AtomicBool;
use symbols::Resolved;

/// Result of measuring a program.
pub struct MeasuredRun {
    /// The findings.
    pub result: RunResult,
    /// Exit status of the command's first run. `None` if it still runs.
    pub exit: Option<Exit>,
    /// The running command, to wait for.
    pub running: Option<Launched>,
    /// Files whose unwind tables are not finished.
    pub without_tables: Vec<PathBuf>,
}

/// Measures a program by all methods until `stop` is true. A command that was told to end also sets
/// `stop`.
///
/// # Errors
/// If the program cannot be sampled.
pub fn measure_program(
    options: &RunOptions,
    stop: &AtomicBool,
    observe: &dyn Fn(RunProgress<'_>),
) -> anyhow::Result<MeasuredRun> {
    let mut phases = Phases::begin(options, stop, observe)?;
    let mut sampled = phases.sample_runs()?;
    // Running threads are examined first: a program that still runs may end soon.
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
    if asked.is_none() && !few && !options.once && !phases.is_stopped() {
        phases.note_first_finding(&alone, phases.expected_runs(&sampled, &time));
    }
    let more = phases.sample_more(&sampled)?;
    let more = more.into_iter().map(tree_of_run);
    let more = more.collect::<anyhow::Result<Vec<CallTree>>>()?;
    let (interference, causal) = asked.unwrap_or_else(|| phases.ask_threads(&sampled, &time));
    let stalls = phases.ask_instructions(&sampled);
    let judgement = if few {
        Default::default()
    } else {
        judge_measured(&Measured {
            more_runs: &more,
            stalls: &stalls,
            causal: &causal,
            interference: &interference,
            ..alone
        })?
    };
    let mut result = RunResult::of_recording(recording);
    result.runs = 1 + more.len();
    result.busy_threads = time.busy_threads;
    result.threads_at_work = time.threads_at_work;
    result.time_by_kind = time.time_by_kind();
    result.machine = judgement.machine.map(JsonClaim::from);
    result.asked = std::mem::take(&mut phases.asked);
    result.findings_total = judgement.findings.len();
    let shown = judgement.findings.into_iter().take(options.most_findings);
    result.claims = JsonClaims::of_findings(shown.collect());
    result.working_ns = judgement.working_ns;
    result.together = judgement.together;
    result.rest_waiting = judgement.rest_waiting;
    result.idle_ns = time.idle;
    result.samples = sampled.samples;
    if options.pid.is_none() {
        result.ended_by = CommandEnd::of_exit(sampled.exit, phases.is_stopped());
        let left = sampled.left_running.iter();
        result.left_running = left.filter_map(|pid| LeftProcess::find(*pid)).collect();
    }
    result.few_samples = few.then_some(sampled.samples);
    result.state_header();
    Ok(MeasuredRun {
        result,
        exit: sampled.exit,
        running: sampled.running,
        without_tables: phases.without_tables,
    })
}

/// Returns the results of sampling alone, before other methods run.
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

/// Adds callers to stacks whose functions ended with a tail call, and removes frames of
/// interpreters. Returns the names for the corrected stacks.
fn correct_stacks(recording: &mut Recording, named: Resolved) -> Resolved {
    // This must precede the removal of frames: a caller and its callee must be adjacent.
    let inserted = results::insert_tail_callers(recording, &named.table);
    if profile::fold_interpreter_frames(recording) || inserted {
        results::resolve_all(recording, &RecordingSource::default())
    } else {
        named
    }
}

fn tree_of_run(mut recording: Recording) -> anyhow::Result<CallTree> {
    let resolved = results::resolve_all(&recording, &RecordingSource::default());
    let resolved = correct_stacks(&mut recording, resolved);
    let time = results::make_time_tree(&recording, &resolved.table);
    Ok(time.context("adding up the time")?.tree)
}
