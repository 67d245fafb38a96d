//! Applies tracing and experiments to a program with several threads: in further runs of a command,
//! or in a later phase of a running program.

use super::{FEWEST_SAMPLES, Phases, STOPPED, Sampled, TOO_FEW};
use crate::experiments::ProfileKeeper;
use crate::run::options::RunProgress;
#[cfg(target_arch = "x86_64")]
use crate::tracing::trace_recorded;
use experiment::{ExperimentOptions, PointSpec, ProgressChoice, Repeats, run_repeatedly};
use profile::{
    AskedExperiments, BlockKind, CausalProfile, Finding, Granularity, Interference, Recording,
};
use results::{TimeTree, command_words, error_chain};
use sampler::{Launched, command_text};
use std::collections::BTreeMap;
use std::ffi::OsString;
use std::time::Duration;

/// Reason for not tracing a program with one busy thread.
const ONE_RUNS: &str = "one thread runs, the others only wait";
/// Least number of samples of a busy thread, as a share of the busiest thread's.
const BUSY: f64 = 0.05;
/// Reason why experiments with a running program have no result.
const NO_COUNT: &str =
    "no function was found whose calls count its work: --progress names one, or a system call";
/// Reason for running no experiments.
const NO_TIME: &str = "there was no time left (--for gives more)";
/// Part of the time left that a run with tracing may take. Experiments need the rest.
const TRACING: f64 = 0.5;
/// The same for a running program. A server executes enough calls in a few seconds.
const TRACING_RUNNING: f64 = 0.3;
/// Least time for experiments with a running program. Attaching alone takes a second.
const SHORTEST_EXPERIMENTS: Duration = Duration::from_secs(2);
/// Call rates, per second, of a function that can count the program's work. The lowest gives about
/// ten calls per experiment, and the highest still costs little.
const COUNTABLE: std::ops::Range<f64> = 40.0..20_000.0;
/// Least number of calls of such a function in one run.
const FEWEST_CALLS: u64 = 100;

/// Program for the other methods: a command, which is started once more, or a running process.
struct ProgramUnderTest {
    command: Vec<OsString>,
    process: Option<u32>,
}

impl ProgramUnderTest {
    /// Returns the program as the end of a command line.
    fn to_words(&self) -> Vec<String> {
        match self.process {
            Some(pid) => vec!["-p".to_owned(), pid.to_string()],
            None => {
                let words = command_text(&self.command);
                std::iter::once("--".to_owned()).chain(words).collect()
            }
        }
    }
}

impl Phases<'_> {
    /// Finds losses of threads to each other, and predictions of experiments.
    pub fn ask_threads(
        &mut self,
        sampled: &Sampled,
        time: &TimeTree,
    ) -> (Vec<Finding>, Vec<Finding>) {
        if sampled.samples < FEWEST_SAMPLES {
            self.not_asked("interference", TOO_FEW);
            self.not_asked("experiments", TOO_FEW);
            return (Vec::new(), Vec::new());
        }
        if time.threads_at_work < 2 {
            self.not_asked("interference", "one thread does the work");
            let why = "one thread does the work: a part of its time is what it is worth";
            self.not_asked("experiments", why);
            return (Vec::new(), Vec::new());
        }
        if let Err(why) = self.is_repeatable(sampled) {
            self.not_asked("interference", why.clone());
            self.not_asked("experiments", why);
            return (Vec::new(), Vec::new());
        }
        let (findings, counted) = match time.busy_threads {
            ..2 => {
                self.not_asked("interference", ONE_RUNS);
                (Vec::new(), None)
            }
            _ => self.trace_or_tell(&sampled.recording, &self.command(), TRACING),
        };
        // Tracing may have taken all the time that was left.
        if let Err(why) = self.is_repeatable(sampled) {
            self.not_asked("experiments", why);
            return (findings, Vec::new());
        }
        (
            findings,
            self.experiment_or_tell(&self.command(), counted.as_deref()),
        )
    }

    fn command(&self) -> ProgramUnderTest {
        ProgramUnderTest {
            command: self.options.command.clone(),
            process: None,
        }
    }

    /// Traces a running program with several threads, and experiments with it. Its process with the
    /// most samples is taken. Returns `None` if the program has ended, has one thread, or is to be
    /// run only once.
    pub fn ask_running_threads(
        &mut self,
        sampled: &Sampled,
    ) -> Option<(Vec<Finding>, Vec<Finding>)> {
        let runs_on = sampled.exit.is_none() && sampled.has_threads && !self.options.once;
        let pid = busiest_process(&sampled.recording).filter(|_| runs_on)?;
        let process = ProgramUnderTest {
            command: Vec::new(),
            process: Some(pid),
        };
        let (findings, counted) = match why_not_traced(&sampled.recording, pid) {
            _ if self.is_stopped() => {
                self.not_asked("interference", STOPPED);
                (Vec::new(), None)
            }
            Some(why) => {
                self.not_asked("interference", why);
                (Vec::new(), None)
            }
            None => self.trace_or_tell(&sampled.recording, &process, TRACING_RUNNING),
        };
        if self.is_stopped() {
            self.not_asked("experiments", STOPPED);
            return Some((findings, Vec::new()));
        }
        // A server's functions are usually called too often to be counted. The kernel can count its
        // answers.
        let answers = results::answering_call(&sampled.recording);
        let answers = answers.map(|call| format!("syscall:{call}"));
        let counted = answers.or(counted);
        Some((
            findings,
            self.experiment_or_tell(&process, counted.as_deref()),
        ))
    }

    /// Traces for a part of the time left. An error is recorded as the reason for no result.
    fn trace_or_tell(
        &mut self,
        recording: &Recording,
        program: &ProgramUnderTest,
        part: f64,
    ) -> (Vec<Finding>, Option<String>) {
        let traced = self.trace(recording, program, part);
        traced.unwrap_or_else(|error| {
            self.not_asked("interference", error_chain(&error));
            (Vec::new(), None)
        })
    }

    /// Runs experiments. An error is recorded as the reason for no result.
    fn experiment_or_tell(
        &mut self,
        program: &ProgramUnderTest,
        counted: Option<&str>,
    ) -> Vec<Finding> {
        self.experiment(program, counted).unwrap_or_else(|error| {
            self.not_asked("experiments", error_chain(&error));
            Vec::new()
        })
    }

    #[cfg(not(target_arch = "x86_64"))]
    fn trace(
        &mut self,
        _: &Recording,
        _: &ProgramUnderTest,
        _: f64,
    ) -> anyhow::Result<(Vec<Finding>, Option<String>)> {
        anyhow::bail!("only x86-64 programs can be traced so far")
    }

    #[cfg(target_arch = "x86_64")]
    fn trace(
        &mut self,
        recording: &Recording,
        program: &ProgramUnderTest,
        part: f64,
    ) -> anyhow::Result<(Vec<Finding>, Option<String>)> {
        self.note_progress("tracing what threads lose to each other");
        let duration = self.time_left().mul_f64(part);
        self.begin_phase(program, "tracing")?;
        let (command, process) = (&program.command, program.process);
        let traced = trace_recorded(command, process, recording, duration, self.stop);
        self.end_hidden_run();
        let (path, result, running) = traced?;
        running.map(Launched::wait_for_end);
        let next = command_words(&["interference", "report", &path.display().to_string()]);
        let findings = analysis::interference::findings(&result, &next);
        let had = match program.process {
            None => format!("{} executions in one run", result.executions),
            Some(pid) => format!("{} executions in process {pid}", result.executions),
        };
        self.note_asked("interference", Some(had), None);
        Ok((findings, function_to_count(&result)))
    }

    /// Runs experiments. Progress is measured by the user's points, else by the point `counted`,
    /// else as in `causal run`.
    fn experiment(
        &mut self,
        program: &ProgramUnderTest,
        counted: Option<&str>,
    ) -> anyhow::Result<Vec<Finding>> {
        let left = self.time_left();
        if left < SHORTEST_EXPERIMENTS {
            anyhow::bail!("{NO_TIME}");
        }
        self.note_progress(&format!(
            "experimenting for {} s (--progress names what counts the work)",
            left.as_secs()
        ));
        let mut points = self.options.progress.clone();
        if points.is_empty() {
            points.extend(counted.map(str::to_owned));
        }
        let had = match self.experiments(&points, Granularity::Line, program, left) {
            Err(error) if is_without_lines(&error) => {
                self.experiments(&points, Granularity::Function, program, left)?
            }
            other => other?,
        };
        let (profile, choice, runs) = had;
        let experiments: usize = profile.runs.iter().map(|run| run.experiments.len()).sum();
        let analysis = analysis::causal::analyse_profile(&profile, &Default::default());
        let predicted = analysis::causal::findings(&analysis.fragments, |fragment| {
            let mut words = command_words(&["causal", "run", "--fixed-line", &fragment.name]);
            words.extend(program.to_words());
            words
        });
        let is_command = program.process.is_none();
        let nothing_counts = !is_command
            && points.is_empty()
            && matches!(choice, Some(ProgressChoice::EndToEnd) | None);
        let counted = match (points.as_slice(), choice) {
            ([], Some(ProgressChoice::Function { name, .. })) => format!("calls of {name}"),
            ([], Some(ProgressChoice::EndToEnd) | None) if is_command => {
                "the ends of runs".to_owned()
            }
            ([], Some(ProgressChoice::EndToEnd) | None) => "nothing".to_owned(),
            ([], Some(ProgressChoice::Source(points))) => points.join(", "),
            (named, _) => named.join(", "),
        };
        let with = match program.process {
            None => format!("in {runs} runs"),
            Some(pid) => format!("with process {pid}"),
        };
        let had = format!("{experiments} {with}, progress measured by {counted}");
        let why_not = if nothing_counts {
            Some(NO_COUNT.to_owned())
        } else {
            why_unknown(&profile, &predicted)
        };
        self.note_asked("experiments", Some(had), why_not);
        Ok(predicted)
    }

    /// Runs experiments, and stores the profile for `causal report`. Returns the profile, the
    /// measure of progress, and the number of runs.
    fn experiments(
        &mut self,
        points: &[String],
        by: Granularity,
        program: &ProgramUnderTest,
        time: Duration,
    ) -> anyhow::Result<(CausalProfile, Option<ProgressChoice>, u32)> {
        let runtime = experiment::find_runtime(None)?;
        let mut options = ExperimentOptions::new(program.command.clone(), runtime);
        options.attach = program.process;
        options.by = by;
        options.or_functions = by == Granularity::Line;
        let specs = points.iter().map(|point| PointSpec::parse_spec(point));
        options.points = specs.collect::<Result<_, _>>()?;
        options.choose_point = true;
        options.duration = Some(time);
        let mut asked: Vec<&str> = Vec::new();
        for point in points {
            asked.extend(["--progress", point]);
        }
        if by == Granularity::Function {
            asked.extend(["--by", "function"]);
        }
        options.asked = AskedExperiments {
            options: asked.into_iter().map(str::to_owned).collect(),
            time_ns: None,
            process: program.process,
        };
        let repeats = match program.process {
            Some(_) => Repeats::Times(1),
            None => Repeats::For(time),
        };
        self.begin_phase(program, "experimenting")?;
        let streams = &mut self.streams;
        let mut rewind = || streams.rewind_input().is_ok();
        let fewest = analysis::causal::Options::default().minimum_speedups;
        let mut keeper = ProfileKeeper::new(None, fewest, &mut rewind);
        let outcome = run_repeatedly(&options, repeats, self.stop, &mut keeper);
        let (profile, choice) = (keeper.profile, keeper.choice);
        let outcome = outcome.map(|outcome| {
            outcome.running.map(Launched::wait_for_end);
            outcome.runs
        });
        self.end_hidden_run();
        Ok((profile, choice, outcome?))
    }

    /// Begins a phase in a further run of a command, or with a running process. The output of a
    /// process that the user named does not appear on this terminal.
    fn begin_phase(&mut self, program: &ProgramUnderTest, phase: &str) -> anyhow::Result<()> {
        if program.process.is_none() {
            self.begin_hidden_run(phase)?;
        } else if self.options.pid.is_some() {
            (self.observe)(RunProgress::PhaseBegan(phase));
        }
        Ok(())
    }
}

/// Returns the progress point of a function whose calls can count the program's work. It is the
/// function with the most time among those with a suitable call rate. Short programs end before
/// `causal run` finds such a function by itself.
fn function_to_count(result: &Interference) -> Option<String> {
    let seconds = result.duration_ns / 1e9;
    let countable = result.functions.iter().filter(|function| {
        let of_program = profile::known_code::KnownCode::of_file(&function.image).is_none();
        of_program
            && function.kind == BlockKind::Function
            && function.calls >= FEWEST_CALLS
            && COUNTABLE.contains(&(function.calls as f64 / seconds))
    });
    let most = countable.max_by(|a, b| a.total_ns.total_cmp(&b.total_ns));
    most.map(|function| format!("function:{}", function.name))
}

fn is_without_lines(error: &anyhow::Error) -> bool {
    let error = error.downcast_ref::<experiment::Error>();
    matches!(
        error,
        Some(experiment::Error::NoDebugInfo { .. } | experiment::Error::IsScript { .. })
    )
}

/// Returns the reason why experiments predict nothing, or `None` if they predict something.
fn why_unknown(profile: &CausalProfile, predicted: &[Finding]) -> Option<String> {
    if !predicted.is_empty() {
        return None;
    }
    let warnings = profile.runs.iter().flat_map(|run| &run.warnings);
    let warning = warnings.last().cloned();
    Some(warning.unwrap_or_else(|| "too few experiments with any line".to_owned()))
}

/// Returns the reason for not tracing a running process, if there is one.
fn why_not_traced(recording: &Recording, pid: u32) -> Option<&'static str> {
    let threads = recording.threads.iter();
    let own = threads.filter(|thread| thread.event.0 == 0 && thread.pid == pid);
    let counts: Vec<u64> = own.map(|thread| thread.count).collect();
    let all: u64 = counts.iter().sum();
    let most = counts.iter().copied().max().unwrap_or_default();
    let busy = counts
        .iter()
        .filter(|count| **count as f64 > BUSY * most as f64);
    match busy.count() {
        _ if all < FEWEST_SAMPLES => Some(TOO_FEW),
        ..2 => Some(ONE_RUNS),
        _ => None,
    }
}

/// Returns the process with the most samples of the first event.
fn busiest_process(recording: &Recording) -> Option<u32> {
    let mut samples: BTreeMap<u32, u64> = BTreeMap::new();
    for thread in recording.threads.iter().filter(|t| t.event.0 == 0) {
        *samples.entry(thread.pid).or_default() += thread.count;
    }
    let busiest = samples.into_iter().max_by_key(|(_, count)| *count);
    busiest.map(|(pid, _)| pid)
}
