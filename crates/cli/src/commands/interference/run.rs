//! `vitalfew interference run`.

use super::args::InterferenceRunArgs;
use super::hot;
use crate::commands::streams::{RepeatedStreams, Silenced};
use crate::output::group_digits;
use crate::screen::{Screen, tell_user};
use crate::wrapped::{self, Line, Signals};
use analysis::interference::Analyser;
use experiment::{FunctionPattern, TraceLive, TraceOptions};
use profile::known_code::{known_function, known_functions};
use profile::{Interference, Recording, TraceBatch, TraceHead, TracedBlock};
use sampler::{Exit, Launched};
use std::io::{IsTerminal, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::atomic::AtomicBool;
use std::time::{Duration, SystemTime, UNIX_EPOCH};
use store::{StoredResult, TraceWriter};

/// Time for which a process that runs is traced without `--for`.
const ATTACHED: Duration = Duration::from_secs(30);

/// Runs the command.
pub fn run(args: &InterferenceRunArgs) -> anyhow::Result<ExitCode> {
    let signals = Signals::catch_signals()?;
    let options = options(args, &signals)?;
    let mut keeper = Keeper::new(args)?;
    let line = Line::new(args.quiet);
    let traced = experiment::trace(
        &options,
        &signals.stop,
        &mut |blocks, batch| keeper.take(blocks, batch),
        &mut |live| show(live, &line),
    )?;
    line.clear();
    let (path, result) = keeper.finish(&traced.head)?;
    if !args.quiet {
        tell_user(&format!("what was measured is in {}", path.display()));
        show_result(&result, args, &path)?;
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

/// Writes the result to standard output if that is a terminal, or if JSON was asked for. Else standard output is the
/// program's alone, and the result goes to standard error.
fn show_result(
    result: &Interference,
    args: &InterferenceRunArgs,
    path: &Path,
) -> anyhow::Result<()> {
    let path = path.display().to_string();
    let mut screen;
    let mut stderr;
    let out: &mut dyn Write = match args.shown.json || std::io::stdout().is_terminal() {
        true => {
            screen = Screen::open_output(args.shown.json);
            &mut screen
        }
        false => {
            stderr = std::io::stderr();
            &mut stderr
        }
    };
    super::report::print(result, &args.shown, &path, out).map(drop)
}

/// Traces the functions that a recording of the same command has found hot, keeps the result where `interference report` finds
/// it, and says nothing.
///
/// # Errors
/// If the command cannot be traced, or the result cannot be kept.
pub fn trace_recorded(
    args: &InterferenceRunArgs,
    recording: &Recording,
    stop: &AtomicBool,
) -> anyhow::Result<(PathBuf, Interference, Option<Launched>)> {
    let options = trace_options(args, hot::hot_functions(recording), known_names())?;
    let mut keeper = Keeper::new(args)?;
    let traced = experiment::trace(
        &options,
        stop,
        &mut |blocks, batch| keeper.take(blocks, batch),
        &mut |_| {},
    )?;
    let (path, result) = keeper.finish(&traced.head)?;
    Ok((path, result, traced.running))
}

/// Returns the recorded arguments of a function: those that name what it locks or waits for.
fn recorded_arguments(name: &str) -> Vec<u8> {
    known_function(name).map_or_else(Vec::new, |known| known.arguments.to_vec())
}

/// Functions that are traced wherever they are: what they wait for is known.
fn known_names() -> Vec<FunctionPattern> {
    let names = known_functions().flat_map(|known| known.names);
    let exact = names.filter(|name| !name.contains('*'));
    exact.map(|name| FunctionPattern::parse(name)).collect()
}

fn options(args: &InterferenceRunArgs, signals: &Signals) -> anyhow::Result<TraceOptions<'static>> {
    let functions = args
        .functions
        .iter()
        .map(|text| FunctionPattern::parse(text));
    let mut functions: Vec<_> = functions.collect();
    let mut also = Vec::new();
    if functions.is_empty()
        && let Some(pid) = args.pid
    {
        if !args.quiet {
            tell_user(
                "the process is sampled for 3 s, to see which functions take time, and then they are traced",
            );
        }
        functions = hot::functions_of_process(pid, &signals.stop)?;
        also = known_names();
    } else if functions.is_empty() {
        // At once, not behind the first run.
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
        functions = found?;
        also = known_names();
    }
    trace_options(args, functions, also)
}

fn trace_options(
    args: &InterferenceRunArgs,
    functions: Vec<FunctionPattern>,
    also: Vec<FunctionPattern>,
) -> anyhow::Result<TraceOptions<'static>> {
    Ok(TraceOptions {
        command: args.command.words.clone(),
        attach: args.pid,
        runtime: experiment::find_runtime(args.runtime.as_deref())?,
        functions,
        also,
        arguments: Vec::new(),
        default_arguments: &recorded_arguments,
        events: Vec::new(),
        no_events: None,
        room: args.buffer << 20,
        duration: match args.pid {
            Some(_) => Some(args.duration.unwrap_or(ATTACHED)),
            None => args.duration,
        },
        budget: (args.every == 1).then_some(args.overhead / 100.0),
        every: args.every,
        call_overhead: experiment::call_overhead(),
    })
}

/// Consumer of the items: it analyses them as they come, and keeps them.
struct Keeper {
    analyser: Analyser,
    writer: Option<TraceWriter>,
    result: PathBuf,
    limit: u64,
    /// Reason that there is no trace.
    failed: Option<String>,
    blocks: usize,
}

impl Keeper {
    fn new(args: &InterferenceRunArgs) -> anyhow::Result<Self> {
        let now = SystemTime::now().duration_since(UNIX_EPOCH);
        let now = now.map_or(0, |now| now.as_nanos() as u64);
        let database = args.db.clone().unwrap_or_else(store::default_database);
        let path = |kept| match &args.output {
            Some(path) => path.clone(),
            None => store::interference_path(&database, now, kept),
        };
        Ok(Self {
            analyser: Analyser::new(&[], cfg!(target_arch = "aarch64")),
            writer: match args.no_trace {
                true => None,
                false => Some(TraceWriter::create_file(&path(StoredResult::Trace))?),
            },
            result: path(StoredResult::Result),
            limit: args.trace_limit.saturating_mul(1 << 20),
            failed: None,
            blocks: 0,
        })
    }

    fn take(&mut self, blocks: &[TracedBlock], batch: &TraceBatch) {
        if blocks.len() != self.blocks {
            self.blocks = blocks.len();
            self.analyser.set_blocks(blocks);
        }
        self.analyser.push(batch);
        if let Some(writer) = &mut self.writer {
            if let Err(error) = writer.write_batch(batch) {
                self.failed = Some(format!("the trace could not be kept: {error}"));
                self.writer = None;
            } else if writer.bytes_written() > self.limit {
                self.failed = Some(format!(
                    "the trace grew beyond {} and was not kept (--trace-limit allows more)",
                    crate::output::format_bytes(self.limit)
                ));
                self.writer = None;
            }
        }
    }

    /// Stores the trace, or the result without one. Returns the path and the result.
    fn finish(self, head: &TraceHead) -> anyhow::Result<(PathBuf, Interference)> {
        let mut head = head.clone();
        head.warnings.extend(self.failed);
        let result = self.analyser.finish(&head);
        let written = match self.writer {
            Some(writer) => writer.finish_trace(&head)?,
            None => store::write_interference(&result, &self.result)?,
        };
        Ok((written.path, result))
    }
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
