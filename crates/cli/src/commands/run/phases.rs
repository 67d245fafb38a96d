//! What each method is asked, in its turn, within the time that there is.

use super::args::RunAll;
use super::confinement::Confinement;
use crate::args::{Args, Command};
use crate::commands::causal::args::CausalAction;
use crate::commands::interference::args::InterferenceAction;
use crate::commands::streams::{RepeatedStreams, Silenced};
use crate::commands::wrapped::Signals;
use crate::commands::{annotate, causal, interference};
use crate::exit::error_chain;
use crate::screen::tell_user;
use clap::Parser;
use experiment::ProgressChoice;
use profile::{BlockKind, CallGraph, CausalProfile, Finding, Interference, Recording, SymbolTable};
use results::{TimeTree, command_words, complete_stacks};
use sampler::{Exit, Launched, Options, Outcome, Progress, Separation, TargetSpec};
use serde::{Deserialize, Serialize};
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

/// A further run fits if there is so many times its duration left: instruments slow it down.
const SLOWER: f64 = 1.5;
/// If fewer stacks than this reach the start of the program, its unwind tables may have come too late: they are there for the next run.
const COMPLETE: f64 = 0.8;
/// Commands that run for longer are not sampled twice: most of their stacks were taken with tables.
const SHORT: Duration = Duration::from_secs(10);
/// Further runs that are sampled, to see how runs differ, and the part of the time that they may take.
const MORE_RUNS: usize = 4;
const REPEATING: f64 = 0.25;
/// The part of the time left that a run with tracing may take: experiments need the rest.
const TRACING: f64 = 0.5;
/// Calls a second with which a function counts the program's work: ten in a usual experiment, and few enough to cost little.
const COUNTABLE: std::ops::Range<f64> = 40.0..20_000.0;
/// Calls that there are at least in one run.
const FEWEST_CALLS: u64 = 100;

/// Why further runs do not count.
const OTHER_END: &str = "run again, the command ended otherwise";

/// What a method was asked.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Asked {
    /// The method.
    pub method: String,
    /// What it had to go on; absent if it was not asked.
    pub had: Option<String>,
    /// Why it was not asked, or could not answer.
    pub why_not: Option<String>,
}

/// What sampling has left.
pub struct Sampled {
    /// What was sampled.
    pub recording: Recording,
    /// Samples and waits.
    pub samples: u64,
    /// Where it is.
    pub stored: String,
    /// How the command ended; `None`: it still runs.
    pub exit: Option<Exit>,
    /// The command, to wait for.
    pub running: Option<Launched>,
    /// How many CPUs it may use, and how many there are, if it may not use all.
    pub confined: Option<(u32, u32)>,
}

/// One `vitalfew run`.
pub struct Phases<'a> {
    args: &'a RunAll,
    signals: Signals,
    streams: RepeatedStreams,
    end: Instant,
    asked: Vec<Asked>,
    /// The last recording, with all that it took beside the command.
    took: Duration,
    /// Run again, the command did not end as the first time.
    ends_otherwise: bool,
}

impl<'a> Phases<'a> {
    /// Begins.
    ///
    /// # Errors
    /// If signals or standard input cannot be had.
    pub fn begin(args: &'a RunAll) -> anyhow::Result<Self> {
        let phases = Self {
            args,
            signals: Signals::catch_signals()?,
            streams: RepeatedStreams::keep_input()?,
            end: Instant::now() + args.budget,
            asked: Vec::new(),
            took: Duration::ZERO,
            ends_otherwise: false,
        };
        if args.pid.is_none() && !args.once {
            phases.note_progress(&format!(
                "if it ends in time, the command is run again and again for up to {} s, its output shown once; --once for one that must not be",
                args.budget.as_secs()
            ));
        }
        Ok(phases)
    }

    /// Says how far it is.
    pub fn note_progress(&self, text: &str) {
        if !self.args.quiet {
            tell_user(text);
        }
    }

    /// What each method was asked so far.
    pub fn asked_methods(&self) -> &[Asked] {
        &self.asked
    }

    /// Passes on what a command that still runs has not got.
    pub fn pass_on(&self, running: Option<&Launched>) {
        self.signals.pass_on(running);
    }

    /// Samples what is run, and measures what is waited for.
    ///
    /// # Errors
    /// If that is not possible.
    pub fn sample_runs(&mut self) -> anyhow::Result<Sampled> {
        let database = store::Database::create(&store::default_database())?;
        let mut confinement = Confinement::default();
        let pid = self.args.pid;
        let mut outcome = self.record_once(&mut |_| confinement.look_at_cpus(pid))?;
        symbols::embed_procedures(&mut outcome.recording, &symbols::SymbolOptions::default());
        let written = database.write_recording(&outcome.recording)?;
        let samples: u64 = outcome.recording.samples.iter().map(|s| s.count).sum();
        self.asked.push(Asked {
            method: "sampling".to_owned(),
            had: Some(format!("{samples} samples and waits")),
            why_not: None,
        });
        Ok(Sampled {
            samples,
            recording: outcome.recording,
            stored: written.path.display().to_string(),
            exit: outcome.exit,
            running: outcome.running,
            confined: confinement.limits(),
        })
    }

    /// Samples one run.
    fn record_once(&mut self, observe: &mut dyn FnMut(Progress)) -> anyhow::Result<Outcome> {
        let target = match self.args.pid {
            Some(pid) => TargetSpec::Process(pid),
            None => TargetSpec::Command(self.args.command.clone()),
        };
        let mut options = Options::new(target);
        options.call_graph = CallGraph::Tables;
        options.table_directory = crate::cache::cache_directory().map(|cache| cache.join("unwind"));
        options.off_cpu = true;
        options.separation = Separation::Threads;
        options.duration = Some(self.end.saturating_duration_since(Instant::now()));
        let begin = Instant::now();
        let outcome = sampler::record(&options, &self.signals.stop, observe);
        self.took = begin.elapsed();
        Ok(outcome?)
    }

    /// Samples a short command some more times, to see how its runs differ.
    ///
    /// # Errors
    /// If that is not possible.
    pub fn sample_more(&mut self, sampled: &Sampled) -> anyhow::Result<Vec<Recording>> {
        let mut more = Vec::new();
        let until = Instant::now() + self.args.budget.mul_f64(REPEATING);
        while more.len() < MORE_RUNS && self.is_repeatable(sampled).is_ok() {
            if Instant::now() + self.took > until {
                break;
            }
            self.rewind_streams()?;
            let outcome = self.record_once(&mut |_| {});
            self.streams.restore_output();
            let outcome = outcome?;
            crate::commands::wrapped::wait_for_command(outcome.running, true);
            if self.notice_other_end(sampled.exit, outcome.exit) {
                break;
            }
            more.push(outcome.recording);
        }
        if let Some(asked) = self.asked.first_mut() {
            let runs = 1 + more.len();
            asked.had = asked.had.take().map(|had| match runs {
                1 if self.ends_otherwise => format!("{had} in one run: {OTHER_END}"),
                1 => format!("{had} in one run"),
                _ => format!("{had} in the first of {runs} runs"),
            });
        }
        Ok(more)
    }

    /// Notices that a further run ended otherwise than the first one, as that of a command which finds what it had made: it did other work.
    fn notice_other_end(&mut self, first: Option<Exit>, again: Option<Exit>) -> bool {
        let differs = first != again;
        if differs {
            self.note_progress(&format!("{OTHER_END}: only its first run counts"));
            self.ends_otherwise = true;
        }
        differs
    }

    /// Samples a short command once more if its stacks are cut, because the unwind tables of its images were not yet there.
    ///
    /// # Errors
    /// If that is not possible.
    pub fn sample_again(
        &mut self,
        sampled: &Sampled,
        table: &SymbolTable,
    ) -> anyhow::Result<Option<Sampled>> {
        let recording = &sampled.recording;
        let is_short = Duration::from_nanos(recording.duration_ns) < SHORT;
        let complete = complete_stacks(recording, table);
        let enough = complete >= COMPLETE || sampled.samples == 0;
        if enough || !is_short || self.is_repeatable(sampled).is_err() {
            return Ok(None);
        }
        let asked = std::mem::take(&mut self.asked);
        self.note_progress(
            "most stacks are cut, as unwind tables had to be made first: sampling again",
        );
        self.rewind_streams()?;
        let again = self.sample_runs();
        self.streams.restore_output();
        let again = again?;
        if self.notice_other_end(sampled.exit, again.exit) {
            self.asked = asked;
            return Ok(None);
        }
        Ok(Some(again))
    }

    /// Which instructions of the hottest procedures stall.
    pub fn ask_instructions(&mut self, recording: &Recording) -> Vec<Finding> {
        let (had, why_not, stalls) = match annotate::hottest_stalls(recording) {
            Ok(stalls) if stalls.is_empty() => {
                let why = "no procedure of a file has enough samples, or none stalls";
                (None, Some(why.to_owned()), stalls)
            }
            Ok(stalls) => (
                Some(format!("the {} hottest procedures", stalls.len())),
                None,
                stalls,
            ),
            Err(error) => (None, Some(error_chain(&error)), Vec::new()),
        };
        self.asked.push(Asked {
            method: "instructions".to_owned(),
            had,
            why_not,
        });
        stalls
    }

    /// Tells whether the command can be run again.
    ///
    /// # Errors
    /// Why it cannot.
    pub fn is_repeatable(&self, sampled: &Sampled) -> Result<(), String> {
        let again = Duration::from_nanos(sampled.recording.duration_ns).mul_f64(SLOWER);
        if self.args.pid.is_some() {
            return Err("a running process can only be sampled so far".to_owned());
        }
        if self.args.once {
            return Err("the command was to be run once (--once)".to_owned());
        }
        if self.ends_otherwise {
            return Err(OTHER_END.to_owned());
        }
        if self.signals.stop.load(Ordering::Relaxed) {
            return Err("you stopped it".to_owned());
        }
        if sampled.exit.is_none() {
            return Err("the command did not end in time".to_owned());
        }
        if Instant::now() + again > self.end {
            return Err("there was no time left for another run (--for gives more)".to_owned());
        }
        Ok(())
    }

    /// What threads lose to each other, and what experiments predict.
    pub fn ask_threads(
        &mut self,
        sampled: &Sampled,
        time: &TimeTree,
    ) -> (Vec<Finding>, Vec<Finding>) {
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
        let traced = match time.busy_threads {
            ..2 => {
                let why = "one thread runs, the others only wait";
                self.not_asked("interference", why.to_owned());
                Ok((Vec::new(), None))
            }
            _ => self.trace(&sampled.recording),
        };
        let (findings, counted) = traced.unwrap_or_else(|error| {
            self.not_asked("interference", error_chain(&error));
            (Vec::new(), None)
        });
        // Tracing may have taken all the time there was.
        if let Err(why) = self.is_repeatable(sampled) {
            self.not_asked("experiments", why);
            return (findings, Vec::new());
        }
        let predicted = self.experiment(counted.as_deref());
        let predicted = predicted.unwrap_or_else(|error| {
            self.not_asked("experiments", error_chain(&error));
            Vec::new()
        });
        (findings, predicted)
    }

    fn not_asked(&mut self, method: &str, why: String) {
        self.asked.push(Asked {
            method: method.to_owned(),
            had: None,
            why_not: Some(why),
        });
    }

    /// Before another run: it reads what the first one read, and nobody sees what it writes.
    fn rewind_streams(&mut self) -> anyhow::Result<()> {
        self.streams.rewind_input()?;
        self.streams.silence_output(Silenced::All)
    }

    #[cfg(not(target_arch = "x86_64"))]
    fn trace(&mut self, _: &Recording) -> anyhow::Result<(Vec<Finding>, Option<String>)> {
        anyhow::bail!("only x86-64 programs can be traced so far")
    }

    #[cfg(target_arch = "x86_64")]
    fn trace(&mut self, recording: &Recording) -> anyhow::Result<(Vec<Finding>, Option<String>)> {
        self.note_progress("tracing what threads lose to each other");
        let args = parse_defaults(&["interference", "run", "--quiet"], &self.args.command)?;
        let Command::Interference(args) = args else {
            anyhow::bail!("no such command");
        };
        let InterferenceAction::Run(mut args) = args.action else {
            anyhow::bail!("no such command");
        };
        let left = self.end.saturating_duration_since(Instant::now());
        args.duration = Some(left.mul_f64(TRACING));
        let args = &args;
        self.rewind_streams()?;
        let traced = interference::trace_recorded(args, recording, &self.signals.stop);
        self.streams.restore_output();
        let (path, result, running) = traced?;
        crate::commands::wrapped::wait_for_command(running, true);
        let next = command_words(&["interference", "report", &path.display().to_string()]);
        let findings = analysis::interference::findings(&result.findings, &next);
        self.asked.push(Asked {
            method: "interference".to_owned(),
            had: Some(format!("{} executions in one run", result.executions)),
            why_not: None,
        });
        Ok((findings, function_to_count(&result)))
    }

    /// Experiments, with progress measured by what was named, else by calls of `counted`, a function, else as `causal run` does.
    fn experiment(&mut self, counted: Option<&str>) -> anyhow::Result<Vec<Finding>> {
        let left = self.end.saturating_duration_since(Instant::now());
        self.note_progress(&format!(
            "experimenting for {} s (--progress names what counts the work)",
            left.as_secs()
        ));
        let mut words = vec!["causal", "run", "--quiet"];
        let mut points = self.args.progress.clone();
        if points.is_empty() {
            points.extend(counted.map(|name| format!("function:{name}")));
        }
        for point in &points {
            words.extend(["--progress", point]);
        }
        let had = match self.experiments(&words, left) {
            Err(error) if is_without_lines(&error) => {
                self.experiments(&[&words[..], &["--by", "function"]].concat(), left)?
            }
            other => other?,
        };
        let profile = had.profile;
        let experiments: usize = profile.runs.iter().map(|run| run.experiments.len()).sum();
        let analysis = analysis::causal::analyse_profile(&profile, &Default::default());
        let command = self.args.command.clone();
        let predicted = analysis::causal::findings(&analysis.fragments, |fragment| {
            let mut words = command_words(&["causal", "run", "--fixed-line", &fragment.name, "--"]);
            words.extend(command.iter().cloned());
            words
        });
        let counted = match (points.as_slice(), had.choice) {
            ([], Some(ProgressChoice::Function { name, .. })) => format!("calls of {name}"),
            ([], Some(ProgressChoice::EndToEnd) | None) => "the ends of runs".to_owned(),
            ([], Some(ProgressChoice::Source(points))) => points.join(", "),
            (named, _) => named.join(", "),
        };
        self.asked.push(Asked {
            method: "experiments".to_owned(),
            had: Some(format!(
                "{experiments} in {} runs, progress measured by {counted}",
                had.runs
            )),
            why_not: why_unknown(&profile, &predicted),
        });
        Ok(predicted)
    }

    fn experiments(
        &mut self,
        words: &[&str],
        time: Duration,
    ) -> anyhow::Result<causal::QuietExperiments> {
        let args = parse_defaults(words, &self.args.command)?;
        let Command::Causal(args) = args else {
            anyhow::bail!("no such command");
        };
        let CausalAction::Run(args) = &args.action else {
            anyhow::bail!("no such command");
        };
        self.rewind_streams()?;
        let streams = &mut self.streams;
        let result = causal::experiment_quietly(args, time, &self.signals.stop, &mut || {
            streams.rewind_input().is_ok()
        });
        self.streams.restore_output();
        result
    }
}

/// Returns the function whose calls can count the program's work: the one that takes most time of those that were traced and are called steadily
/// enough. Short programs end before `causal run` has found one by itself.
fn function_to_count(result: &Interference) -> Option<String> {
    let seconds = result.duration_ns / 1e9;
    let blocks = result.findings.iter();
    let countable = blocks.filter(|block| {
        let calls = block.executions.calls + block.executions.warm_up;
        let of_program = analysis::interference::known_function(&block.name).is_none();
        of_program
            && block.kind == BlockKind::Function
            && calls >= FEWEST_CALLS
            && COUNTABLE.contains(&(calls as f64 / seconds))
    });
    let most = countable.max_by(|a, b| a.durations.total_ns.total_cmp(&b.durations.total_ns));
    most.map(|block| block.name.clone())
}

fn is_without_lines(error: &anyhow::Error) -> bool {
    let error = error.downcast_ref::<experiment::Error>();
    matches!(
        error,
        Some(experiment::Error::NoDebugInfo { .. } | experiment::Error::IsScript { .. })
    )
}

/// Why experiments say nothing, if they do not.
fn why_unknown(profile: &CausalProfile, predicted: &[Finding]) -> Option<String> {
    if !predicted.is_empty() {
        return None;
    }
    let warnings = profile.runs.iter().flat_map(|run| &run.warnings);
    let warning = warnings.last().cloned();
    Some(warning.unwrap_or_else(|| "too few experiments with any line".to_owned()))
}

/// The command line of another command, with its defaults, for the same program.
fn parse_defaults(words: &[&str], command: &[String]) -> anyhow::Result<Command> {
    let words = std::iter::once("vitalfew").chain(words.iter().copied());
    let words = words.chain(std::iter::once("--")).map(str::to_owned);
    Ok(Args::try_parse_from(words.chain(command.iter().cloned()))?.command)
}
