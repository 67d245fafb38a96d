//! Losses of threads to each other, and predictions of experiments: in further runs of a command, or in a later phase of a program
//! that runs on.

use super::{Asked, FEWEST_SAMPLES, Phases, STOPPED, Sampled, TOO_FEW};
use crate::args::{Args, Command};
use crate::commands::causal::args::CausalAction;
use crate::commands::interference::args::InterferenceAction;
use crate::commands::{causal, interference};
use clap::Parser;
use experiment::ProgressChoice;
use profile::{BlockKind, CausalProfile, Finding, Interference, Recording};
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

/// Program that other methods are asked about.
enum ProgramUnderTest {
    /// A command, which is started once more.
    Command(Vec<OsString>),
    /// A process that runs already.
    Process(u32),
}

impl ProgramUnderTest {
    /// Returns it as the end of a command line.
    fn to_words(&self) -> Vec<OsString> {
        match self {
            Self::Command(words) => std::iter::once("--".into())
                .chain(words.iter().cloned())
                .collect(),
            Self::Process(pid) => vec!["-p".into(), pid.to_string().into()],
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
            self.not_asked("interference", TOO_FEW.to_owned());
            self.not_asked("experiments", TOO_FEW.to_owned());
            return (Vec::new(), Vec::new());
        }
        if time.threads_at_work < 2 {
            self.not_asked("interference", "one thread does the work".to_owned());
            let why = "one thread does the work: a part of its time is what it is worth";
            self.not_asked("experiments", why.to_owned());
            return (Vec::new(), Vec::new());
        }
        if let Err(why) = self.is_repeatable(sampled) {
            self.not_asked("interference", why.clone());
            self.not_asked("experiments", why);
            return (Vec::new(), Vec::new());
        }
        let (findings, counted) = match time.busy_threads {
            ..2 => {
                self.not_asked("interference", ONE_RUNS.to_owned());
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
        ProgramUnderTest::Command(self.args.command.clone())
    }

    /// Traces a program of several threads that runs on, and experiments with it: the process that has most of the samples. `None` if it is no such program.
    pub fn ask_running_threads(
        &mut self,
        sampled: &Sampled,
    ) -> Option<(Vec<Finding>, Vec<Finding>)> {
        let runs_on = sampled.exit.is_none() && sampled.has_threads && !self.args.once;
        let pid = busiest_process(&sampled.recording).filter(|_| runs_on)?;
        let process = ProgramUnderTest::Process(pid);
        let (findings, counted) = match why_not_traced(&sampled.recording, pid) {
            _ if self.is_stopped() => {
                self.not_asked("interference", STOPPED.to_owned());
                (Vec::new(), None)
            }
            Some(why) => {
                self.not_asked("interference", why.to_owned());
                (Vec::new(), None)
            }
            None => self.trace_or_tell(&sampled.recording, &process, TRACING_RUNNING),
        };
        if self.is_stopped() {
            self.not_asked("experiments", STOPPED.to_owned());
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
        let words = ["interference", "run", "--quiet"];
        let args = parse_defaults(&words, program)?;
        let Command::Interference(args) = args else {
            anyhow::bail!("no such command");
        };
        let InterferenceAction::Run(mut args) = args.action else {
            anyhow::bail!("no such command");
        };
        args.duration = Some(self.time_left().mul_f64(part));
        let args = &args;
        self.begin_phase(program, "tracing")?;
        let traced = interference::trace_recorded(args, recording, &self.signals.stop);
        self.end_hidden_run();
        let (path, result, running) = traced?;
        running.map(Launched::wait_for_end);
        let next = command_words(&["interference", "report", &path.display().to_string()]);
        let findings = analysis::interference::findings(&result, &next);
        self.asked.push(Asked {
            method: "interference".to_owned(),
            had: Some(match program {
                ProgramUnderTest::Command(_) => {
                    format!("{} executions in one run", result.executions)
                }
                ProgramUnderTest::Process(pid) => {
                    format!("{} executions in process {pid}", result.executions)
                }
            }),
            why_not: None,
        });
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
        let mut words = vec!["causal", "run", "--quiet"];
        let mut points = self.args.progress.clone();
        if points.is_empty() {
            points.extend(counted.map(str::to_owned));
        }
        for point in &points {
            words.extend(["--progress", point]);
        }
        let had = match self.experiments(&words, program, left) {
            Err(error) if is_without_lines(&error) => {
                self.experiments(&[&words[..], &["--by", "function"]].concat(), program, left)?
            }
            other => other?,
        };
        let profile = had.profile;
        let experiments: usize = profile.runs.iter().map(|run| run.experiments.len()).sum();
        let analysis = analysis::causal::analyse_profile(&profile, &Default::default());
        let predicted = analysis::causal::findings(&analysis.fragments, |fragment| {
            let mut words = command_words(&["causal", "run", "--fixed-line", &fragment.name]);
            words.extend(command_text(&program.to_words()));
            words
        });
        let is_command = matches!(program, ProgramUnderTest::Command(_));
        let nothing_counts = !is_command
            && points.is_empty()
            && matches!(had.choice, Some(ProgressChoice::EndToEnd) | None);
        let counted = match (points.as_slice(), had.choice) {
            ([], Some(ProgressChoice::Function { name, .. })) => format!("calls of {name}"),
            ([], Some(ProgressChoice::EndToEnd) | None) if is_command => {
                "the ends of runs".to_owned()
            }
            ([], Some(ProgressChoice::EndToEnd) | None) => "nothing".to_owned(),
            ([], Some(ProgressChoice::Source(points))) => points.join(", "),
            (named, _) => named.join(", "),
        };
        self.asked.push(Asked {
            method: "experiments".to_owned(),
            had: Some(match program {
                ProgramUnderTest::Command(_) => format!(
                    "{experiments} in {} runs, progress measured by {counted}",
                    had.runs
                ),
                ProgramUnderTest::Process(pid) => {
                    format!("{experiments} with process {pid}, progress measured by {counted}")
                }
            }),
            why_not: match nothing_counts {
                true => Some(NO_COUNT.to_owned()),
                false => why_unknown(&profile, &predicted),
            },
        });
        Ok(predicted)
    }

    fn experiments(
        &mut self,
        words: &[&str],
        program: &ProgramUnderTest,
        time: Duration,
    ) -> anyhow::Result<causal::QuietExperiments> {
        let args = parse_defaults(words, program)?;
        let Command::Causal(args) = args else {
            anyhow::bail!("no such command");
        };
        let CausalAction::Run(args) = &args.action else {
            anyhow::bail!("no such command");
        };
        self.begin_phase(program, "experimenting")?;
        let streams = &mut self.streams;
        let result = causal::experiment_quietly(args, time, &self.signals.stop, &mut || {
            streams.rewind_input().is_ok()
        });
        self.end_hidden_run();
        result
    }

    /// Begins a phase in another run of a command, or with a process that runs: of one that we were told of, nobody sees the output here.
    fn begin_phase(&mut self, program: &ProgramUnderTest, phase: &str) -> anyhow::Result<()> {
        match program {
            ProgramUnderTest::Command(_) => self.begin_hidden_run(phase),
            ProgramUnderTest::Process(_) => {
                if self.args.pid.is_some() {
                    self.line.show_phase(phase);
                }
                Ok(())
            }
        }
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

/// The command line of another command, with its defaults, for the same program.
fn parse_defaults(words: &[&str], program: &ProgramUnderTest) -> anyhow::Result<Command> {
    let words = std::iter::once("vitalfew").chain(words.iter().copied());
    let words = words.map(OsString::from).chain(program.to_words());
    Ok(Args::try_parse_from(words)?.command)
}
