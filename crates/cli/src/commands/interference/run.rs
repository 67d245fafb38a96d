//! `vitalfew interference run`.

use super::args::InterferenceRunArgs;
use super::hot;
use crate::output::group_digits;
use crate::screen::{Screen, tell_user};
use crate::wrapped::{self, Line, Signals};
use experiment::{FunctionPattern, TraceLive, TraceOptions, find_runtime};
use orchestration::{
    RepeatedStreams, Silenced, TraceKeeper, known_patterns, trace_program, usual_trace,
};
use sampler::Exit;
use std::process::ExitCode;
use std::time::Duration;

/// Time for which a running process is traced without `--for`.
const ATTACHED: Duration = Duration::from_secs(30);

/// Runs the command.
pub fn run(args: &InterferenceRunArgs) -> anyhow::Result<ExitCode> {
    let signals = Signals::catch_signals()?;
    if args.output.is_none() {
        results::create_database()?;
    }
    let options = trace_options(args, &signals)?;
    let keeper = TraceKeeper::create(
        args.output.clone(),
        (!args.no_trace).then_some(args.trace_limit),
    )?;
    let line = Line::new(args.quiet);
    let progress = &mut |live: &TraceLive| show(live, &line);
    let (path, result, traced) = trace_program(&options, keeper, &signals.stop, progress)?;
    line.clear();
    if !args.quiet {
        let path = path.display().to_string();
        tell_user(&format!("what was measured is in {path}"));
        let mut out = Screen::beside_program(args.shown.json, args.shown.json);
        super::report::print(&result, &args.shown, &path, &mut out)?;
    }
    let exit = match args.pid {
        Some(_) => Some(Exit::Code(0)),
        None => {
            signals.pass_on(traced.running.as_ref());
            traced
                .exit
                .or_else(|| wrapped::wait_for_saved_command(traced.running, &signals, args.quiet))
        }
    };
    Ok(wrapped::exit_code(exit))
}

/// Returns the functions that must exist in the program, and others that may be absent.
fn functions_to_trace(
    args: &InterferenceRunArgs,
    signals: &Signals,
) -> anyhow::Result<[Vec<FunctionPattern>; 2]> {
    if !args.functions.is_empty() {
        let named = args.functions.iter();
        let named = named.map(|text| FunctionPattern::parse(text));
        return Ok([named.collect(), Vec::new()]);
    }
    if let Some(pid) = args.pid {
        if !args.quiet {
            tell_user(
                "the process is sampled for 3 s, to see which functions take time, and then they are traced",
            );
        }
        let found = hot::functions_of_process(pid, &signals.stop)?;
        return Ok([found, known_patterns()]);
    }
    // Reports an error now, not after the first run.
    experiment::check_traced_command(&args.command.words)?;
    if !args.quiet {
        tell_user(
            "the command is run twice: now, to its end, to see which functions take time, and then to trace them. \
             Files that it writes are written twice; -f FUNCTION needs one run only",
        );
    }
    let mut streams = RepeatedStreams::keep_input()?;
    streams.silence_output(Silenced::Kept)?;
    let found = hot::functions(&args.command.words, signals);
    streams.restore_output();
    streams.rewind_input()?;
    Ok([found?, known_patterns()])
}

fn trace_options(args: &InterferenceRunArgs, signals: &Signals) -> anyhow::Result<TraceOptions> {
    let [functions, also] = functions_to_trace(args, signals)?;
    let runtime = find_runtime(args.runtime.as_deref())?;
    Ok(TraceOptions {
        functions,
        also,
        room: args.buffer << 20,
        duration: match args.pid {
            Some(_) => Some(args.duration.unwrap_or(ATTACHED)),
            None => args.duration,
        },
        budget: (args.every == 1).then_some(args.overhead / 100.0),
        every: args.every,
        ..usual_trace(args.command.words.clone(), args.pid, runtime)
    })
}

/// Shows the progress on standard error.
fn show(live: &TraceLive, line: &Line) {
    line.show(&format!(
        "{:.0} s, {} functions, {} threads, {} executions, {} lost",
        live.elapsed.as_secs_f64(),
        live.blocks,
        live.threads,
        group_digits(live.executions),
        group_digits(live.lost),
    ));
}
