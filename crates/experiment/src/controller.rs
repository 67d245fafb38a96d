//! Control of a run, from the launch to its results.

use crate::causal_session::{CausalSession, EarlierRuns, experiment_settings};
use crate::launch::Way;
use crate::memory::CausalMemory;
use crate::options::MeasuringEnd;
use crate::outcome::{CausalOutcome, Talk};
use crate::period::affordable_period;
use crate::targets::HeldTarget;
use crate::{Error, ExperimentOptions, attach, launch};
use profile::CausalRun;
use sampler::{Launched, command_text};
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::{Relaxed, Release};
use std::time::Instant;

/// Runs a command and experiments with it until it ends, `stop` is set, the time is over, or
/// nothing can be learned. Calls `talk` some times a second.
///
/// # Errors
/// Any obstacle to experiments. The command then has not started, or has not reached its `main` and
/// is ended. Later problems become warnings of the run.
pub fn run_experiments(
    options: &ExperimentOptions,
    stop: &AtomicBool,
    talk: Talk<'_>,
) -> Result<CausalOutcome, Error> {
    run_remembering(options, stop, talk, &mut EarlierRuns::default())
}

/// As [`run_experiments`], with knowledge from earlier runs of this command.
pub(crate) fn run_remembering(
    options: &ExperimentOptions,
    stop: &AtomicBool,
    talk: Talk<'_>,
    remembered: &mut EarlierRuns,
) -> Result<CausalOutcome, Error> {
    // Measured once, before the program starts, because it takes some time.
    affordable_period();
    let duration = options.duration;
    let until = MeasuringEnd {
        stop,
        at: duration.and_then(|duration| Instant::now().checked_add(duration)),
    };
    if let Some(pid) = options.attach {
        return match attach::way_into_process(pid, options.hooks) {
            Way::Hooks => experiment_with_process(options, pid, until, talk),
            Way::Kernel { .. } => experiment_without_hooks(options, pid, until, talk),
        };
    }
    if let Way::Kernel { .. } = launch::way_into(&options.command, options.hooks)? {
        return run_without_hooks(options, until, talk, remembered);
    }
    let memory = CausalMemory::new()?;
    set_options(&memory, options);
    let inherited = memory.inheritable_descriptor()?;
    let environment =
        launch::target_environment(&options.runtime, &inherited, runtime_abi::VARIABLE)?;
    let mut launched = Launched::fork_waiting_with(&options.command, &environment)?;
    drop(inherited);
    memory.pid.store(launched.pid(), Release);
    launched.start()?;
    let words = memory.wait_words();
    if let Err(error) = launch::await_runtime(words, &options.command, &mut launched, stop) {
        return Ok(unmeasured_outcome(options, launched, &error));
    }
    let known = std::mem::take(remembered);
    let prepared = CausalSession::prepare_target(options, memory, launched.pid(), known, None);
    let mut session = match prepared {
        Ok(session) => session,
        Err(error) => {
            // The command waits before its first own instruction, so nothing is lost by ending it.
            launched.send_signal(libc::SIGKILL);
            launched.wait();
            return Err(error);
        }
    };
    let exit = session.run_target(&mut launched, until, talk);
    launched.stop_as_told(until.stop);
    Ok(session.end_command(exit, launched, remembered))
}

/// Runs a command whose functions cannot be hooked.
fn run_without_hooks(
    options: &ExperimentOptions,
    until: MeasuringEnd<'_>,
    talk: Talk<'_>,
    remembered: &mut EarlierRuns,
) -> Result<CausalOutcome, Error> {
    let memory = CausalMemory::without_hooks()?;
    set_options(&memory, options);
    let (launched, held, program) = attach::launch_command(&options.command, &memory)?;
    let known = std::mem::take(remembered);
    let pid = launched.pid();
    let prepared = CausalSession::prepare_target(options, memory, pid, known, Some(program));
    let prepared = prepared.and_then(|session| session.sampled_by_processor(pid));
    let mut target = HeldTarget {
        launched,
        held: Some(held),
    };
    let mut session = match prepared {
        Ok(session) => session,
        Err(error) => {
            target.launched.send_signal(libc::SIGKILL);
            target.held = None;
            target.launched.wait();
            return Err(error);
        }
    };
    let exit = session.run_target(&mut target, until, talk);
    target.launched.stop_as_told(until.stop);
    Ok(session.end_command(exit, target.launched, remembered))
}

/// Experiments with a running process whose functions cannot be hooked.
fn experiment_without_hooks(
    options: &ExperimentOptions,
    pid: u32,
    until: MeasuringEnd<'_>,
    talk: Talk<'_>,
) -> Result<CausalOutcome, Error> {
    let options = &ExperimentOptions {
        command: attach::command_of(pid),
        ..options.clone()
    };
    let process = attach::RunningProcess::open(pid)?;
    let (program, memory) = attach::attach_without_hooks(pid, until.stop)?;
    set_options(&memory, options);
    let known = EarlierRuns::default();
    let prepared = CausalSession::prepare_target(options, memory, pid, known, Some(program));
    let mut session = prepared?.sampled_by_processor(pid)?;
    let mut outcome = session.measure_process(&process, until, talk);
    let trouble = session.leave_process();
    outcome.run.warnings.extend(trouble.map(str::to_owned));
    Ok(outcome)
}

/// Experiments with a running process, which runs on afterwards.
fn experiment_with_process(
    options: &ExperimentOptions,
    pid: u32,
    until: MeasuringEnd<'_>,
    talk: Talk<'_>,
) -> Result<CausalOutcome, Error> {
    let options = &ExperimentOptions {
        command: attach::command_of(pid),
        ..options.clone()
    };
    let (attached, memory) = attach::attach_process(pid, &options.runtime, until.stop)?;
    set_options(&memory, options);
    let known = EarlierRuns::default();
    let session = CausalSession::prepare_target(options, memory, pid, known, None);
    let session = session.and_then(|session| session.sampled_by_processor(pid));
    let mut session = match session {
        Ok(session) => session,
        Err(error) => {
            attached.leave();
            return Err(error);
        }
    };
    let mut outcome = session.measure_process(&attached, until, talk);
    drop(session);
    let trouble = if attached.has_ended() {
        "the process has ended; what was measured until then is kept"
    } else if !attached.leave() {
        "the runtime has not left the process yet: a thread of it does not get on; it does nothing meanwhile"
    } else {
        return Ok(outcome);
    };
    outcome.run.warnings.push(trouble.into());
    Ok(outcome)
}

fn set_options(memory: &CausalMemory, options: &ExperimentOptions) {
    memory.period_ns.store(affordable_period(), Relaxed);
    let real_clocks = u32::from(options.real_clocks);
    memory.real_clocks.store(real_clocks, Relaxed);
}

fn unmeasured_outcome(
    options: &ExperimentOptions,
    mut launched: Launched,
    error: &Error,
) -> CausalOutcome {
    let exit = launched.try_wait();
    CausalOutcome {
        run: CausalRun {
            command: command_text(&options.command),
            asked: options.asked.clone(),
            host: sampler::read_host(),
            collector: "vitalfew".into(),
            start_unix_ns: launch::unix_ns(),
            duration_ns: 0,
            undelayed_ns: 0,
            end: launch::run_end(exit),
            settings: experiment_settings(options, options.by, false),
            images: Vec::new(),
            points: Vec::new(),
            fragments: Vec::new(),
            experiments: Vec::new(),
            warnings: vec![error.to_string()],
        },
        exit,
        running: exit.is_none().then_some(launched),
        choice: None,
        in_background: false,
        unknown_part: 0.0,
    }
}
