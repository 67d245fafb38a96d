//! Losses of threads to each other, and predictions of experiments: in further runs of a command, or in a later phase of a program
//! that runs on.

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

/// Reason that a program with one busy thread is not traced.
const ONE_RUNS: &str = "one thread runs, the others only wait";
/// Least samples of a busy thread, as a share of the busiest one's.
const BUSY: f64 = 0.05;
/// Reason that experiments with a program that runs on say nothing.
const NO_COUNT: &str =
    "no function was found whose calls count its work: --progress names one, or a system call";
/// Reason that there are no experiments.
const NO_TIME: &str = "there was no time left (--for gives more)";
/// The part of the time left that a run with tracing may take: experiments need the rest.
const TRACING: f64 = 0.5;
/// The same of a program that runs on: a few seconds of a server have enough executions.
const TRACING_RUNNING: f64 = 0.3;
/// In less time a program that runs on has no experiment: it takes a second to attach.
const SHORTEST_EXPERIMENTS: Duration = Duration::from_secs(2);
/// Calls a second with which a function counts the program's work: ten in a usual experiment, and few enough to cost little.
const COUNTABLE: std::ops::Range<f64> = 40.0..20_000.0;
/// Calls that there are at least in one run.
const FEWEST_CALLS: u64 = 100;

/// Program that other methods are asked about: a command, which is started once more, or a process
/// that runs already.
struct ProgramUnderTest {
    command: Vec<OsString>,
    process: Option<u32>,
}

impl ProgramUnderTest {
    /// Returns it as the end of a command line.
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
    /// Finds what threads lose to each other, and what experiments predict.
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
        // Tracing may have taken all the time there was.
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

    /// Traces a program of several threads that runs on, and experiments with it: the process that has most of the samples. `None` if it is no such program.
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
        // Functions of a server are called too often to be counted, as a rule; the kernel counts its answers by itself.
        let answers = results::answering_call(&sampled.recording);
        let answers = answers.map(|call| format!("syscall:{call}"));
        let counted = answers.or(counted);
        Some((
            findings,
            self.experiment_or_tell(&process, counted.as_deref()),
        ))
    }

    /// Traces, for a part of the time that is left; why there is nothing is said where that is so.
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

    /// Experiments; why there are none is said where that is so.
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

    /// Runs experiments. Progress is measured by the points that the user named, else by the point `counted`, else as
    /// `causal run` does.
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

    /// Experiments, and keeps the profile where `causal report` finds it. Returns the profile, the
    /// measure of progress, and how often the command was started.
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
        let mut keeper = ProfileKeeper::new(None, None, fewest, &mut rewind);
        let outcome = run_repeatedly(&options, repeats, self.stop, &mut keeper);
        let (profile, choice) = (keeper.profile, keeper.choice);
        let outcome = outcome.map(|outcome| {
            outcome.running.map(Launched::wait_for_end);
            outcome.runs
        });
        self.end_hidden_run();
        Ok((profile, choice, outcome?))
    }

    /// Begins a phase in another run of a command, or with a process that runs: of one that we were told of, nobody sees the output here.
    fn begin_phase(&mut self, program: &ProgramUnderTest, phase: &str) -> anyhow::Result<()> {
        if program.process.is_none() {
            self.begin_hidden_run(phase)?;
        } else if self.options.pid.is_some() {
            (self.observe)(RunProgress::PhaseBegan(phase));
        }
        Ok(())
    }
}

/// Returns the progress point of the function whose calls can count the program's work: of the traced functions with a suitable
/// rate of calls, the one that takes most time. Short programs end before `causal run` has found one by itself.
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

/// Returns why experiments say nothing; `None` if they do.
fn why_unknown(profile: &CausalProfile, predicted: &[Finding]) -> Option<String> {
    if !predicted.is_empty() {
        return None;
    }
    let warnings = profile.runs.iter().flat_map(|run| &run.warnings);
    let warning = warnings.last().cloned();
    Some(warning.unwrap_or_else(|| "too few experiments with any line".to_owned()))
}

/// Returns why a process that runs on need not be traced.
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

/// Returns the process that has most samples of the first event.
fn busiest_process(recording: &Recording) -> Option<u32> {
    let mut samples: BTreeMap<u32, u64> = BTreeMap::new();
    for thread in recording.threads.iter().filter(|t| t.event.0 == 0) {
        *samples.entry(thread.pid).or_default() += thread.count;
    }
    let busiest = samples.into_iter().max_by_key(|(_, count)| *count);
    busiest.map(|(pid, _)| pid)
}
