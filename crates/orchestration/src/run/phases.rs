//! Phases of a run: applies each method in turn, within the time limit.

mod threads;

use super::confinement::{Confinement, own_children};
use super::memory::MemoryWatch;
use super::options::{RunOptions, RunProgress};
use super::result::Asked;
use crate::hottest::hottest_stalls;
use crate::later_tables::table_directory;
use crate::streams::{RepeatedStreams, Silenced};
use analysis::judgement::{Measured, judge_measured};
use experiment::MachineUsage;
use profile::{CallGraph, Finding, MemoryNeed, Recording, SymbolTable};
use results::{TimeTree, complete_stacks, create_database, error_chain};
use sampler::{Exit, Launched, Options, Outcome, Progress, Separation, TargetSpec};
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// Least number of samples and waits that show where the time goes.
const FEWEST_SAMPLES: u64 = 30;
/// Share of waits in the working time from which fewer samples suffice. Waits are measured, not
/// sampled.
const MEASURED_WAITS: f64 = 0.9;
/// Reason for applying no further method after few samples.
const TOO_FEW: &str = "there are too few samples";
/// Factor on a run's duration that must be left for a further run, because instruments slow it
/// down.
const SLOWER: f64 = 1.5;
/// Least duration of a run in seconds. It includes the begin and the end of its measurement.
const SHORTEST_RUN: f64 = 0.05;
/// Least share of stacks that reach the start of the program. With fewer, unwind tables may have
/// come too late. They are ready for the next run.
const COMPLETE: f64 = 0.8;
/// Maximum duration of a command that is sampled again for complete stacks. In longer runs, most
/// stacks were taken with tables.
const SHORT: Duration = Duration::from_secs(10);
/// Maximum number of further sampled runs, which show how runs differ, and the part of the time
/// that they may take.
const MORE_RUNS: usize = 4;
const REPEATING: f64 = 0.25;
/// Part of the time for sampling a multi-threaded program that continues to run. Experiments need
/// the rest.
const SAMPLING: f64 = 0.4;
/// Largest part of the time for sampling any program. Naming and judging the samples needs the
/// rest.
const LONGEST_SAMPLING: f64 = 0.9;
/// Time for naming and judging at the end, in units of the time for naming the procedures after
/// sampling. It was measured for a Node.js server under load.
const JUDGING: f64 = 1.5;
/// Largest share of the time that is reserved for judging. Without a limit, no method would run on
/// a busy machine.
const MOST_JUDGING: f64 = 0.25;

/// Reason for applying no other method.
const STOPPED: &str = "it was told to end";
/// Reason for not running a command again.
const ASKS_USER: &str = "it waited until somebody typed, and would again";
/// Reasons for ignoring further runs.
const OTHER_END: &str = "run again, the command ended otherwise";
const OTHER_WORK: &str = "run again, the command did other work";
/// Least ratio of two runs' CPU times for the same work. A smaller ratio means other work: other
/// users of a machine change the times by less.
const SAME_WORK: f64 = 0.5;
/// CPU time in nanoseconds from which runs are compared. Shorter runs differ by the content of the
/// caches.
const COMPARABLE_NS: f64 = 1e8;

/// Result of sampling.
pub struct Sampled {
    /// The recording.
    pub recording: Recording,
    /// Number of samples and waits.
    pub samples: u64,
    /// Path of the recording.
    pub stored: String,
    /// Exit status of the command. `None` if it still runs.
    pub exit: Option<Exit>,
    /// The running command, to wait for.
    pub running: Option<Launched>,
    /// Number of usable CPUs, and of all CPUs. `None` if all are usable.
    pub confined: Option<(u32, u32)>,
    /// Time in which the hypervisor let the program wait for a CPU, in nanoseconds.
    pub stolen_ns: u64,
    /// Memory that the program needed, if that exceeded its limit.
    pub memory: Option<MemoryNeed>,
    /// True if the program had several threads at the last observation.
    pub has_threads: bool,
    /// Processes that the program has left running.
    pub left_running: Vec<u32>,
    /// True if the program waited for a user to type.
    pub reads_terminal: bool,
}

impl Sampled {
    /// Returns whether the samples show where the time goes.
    pub fn is_enough(&self, time: &TimeTree) -> bool {
        self.samples >= FEWEST_SAMPLES || time.waiting_part() >= MEASURED_WAITS
    }
}

/// Exit status of a run, and the CPU time of its threads.
struct RunEnd {
    exit: Option<Exit>,
    /// CPU time in nanoseconds. `None` if it is not known.
    ran_ns: Option<u64>,
}

impl RunEnd {
    fn of_run(exit: Option<Exit>, recording: &Recording) -> Self {
        let times = recording.task_times;
        Self {
            exit,
            ran_ns: times.map(|times| times.cpu_ns),
        }
    }

    /// Returns the kind of difference between two runs, if there is one.
    fn difference_to(&self, other: &Self) -> Option<&'static str> {
        let (less, more) = match (self.ran_ns, other.ran_ns) {
            (Some(one), Some(other)) => (one.min(other) as f64, one.max(other) as f64),
            _ => (0.0, 0.0),
        };
        match self.exit == other.exit {
            false => Some(OTHER_END),
            true if less < SAME_WORK * more && more >= COMPARABLE_NS => Some(OTHER_WORK),
            true => None,
        }
    }
}

/// State of one `vitalfew run`.
pub struct Phases<'a> {
    options: &'a RunOptions,
    stop: &'a AtomicBool,
    observe: &'a dyn Fn(RunProgress<'_>),
    streams: RepeatedStreams,
    end: Instant,
    /// Methods applied so far.
    pub asked: Vec<Asked>,
    /// Duration of the last recording, including all overhead.
    took: Duration,
    /// Stolen time per nanosecond of running time during the last recording.
    stolen_part: f64,
    /// Time for naming the procedures of the first recording and writing it.
    naming: Duration,
    /// Difference between the command's first run and later runs, if there is one.
    differs: Option<&'static str>,
    /// Files whose unwind tables the last recording did not finish.
    pub without_tables: Vec<PathBuf>,
}

impl<'a> Phases<'a> {
    /// Begins a run.
    ///
    /// # Errors
    /// If standard input cannot be kept for further runs.
    pub fn begin(
        options: &'a RunOptions,
        stop: &'a AtomicBool,
        observe: &'a dyn Fn(RunProgress<'_>),
    ) -> anyhow::Result<Self> {
        create_database()?;
        let phases = Self {
            options,
            stop,
            observe,
            streams: RepeatedStreams::keep_input()?,
            end: Instant::now() + options.budget,
            asked: Vec::new(),
            took: Duration::ZERO,
            stolen_part: 0.0,
            naming: Duration::ZERO,
            differs: None,
            without_tables: Vec::new(),
        };
        let seconds = options.budget.as_secs();
        phases.note_progress(&match options.pid {
            Some(pid) => format!("sampling process {pid}; up to {seconds} s for all"),
            None if options.once => "sampling the command, which is run once".to_owned(),
            None => format!(
                "sampling the command; if it ends in time, it is run again and again for up to {seconds} s, its output shown once; --once for one that must not be"
            ),
        });
        Ok(phases)
    }

    /// Reports the progress.
    pub fn note_progress(&self, text: &str) {
        (self.observe)(RunProgress::Note(text));
    }

    /// Reports the first finding, the time left, and the number of further runs.
    pub fn note_first_finding(&self, known: &Measured<'_>, further_runs: usize) {
        let judgement = judge_measured(known).unwrap_or_default();
        if let Some(first) = judgement.findings.first() {
            let left = self.time_left().as_secs();
            let known = results::phrases::claim_sentence(first);
            (self.observe)(RunProgress::Finding(&known));
            let runs = match further_runs {
                0 => String::new(),
                1 => "; the command is run once more".to_owned(),
                runs => format!("; the command is run about {runs} more times"),
            };
            self.note_progress(&format!("so far: {known} (up to {left} s more{runs})"));
        }
    }

    /// Returns the expected number of further runs, if they take as long as the first one.
    pub fn expected_runs(&self, sampled: &Sampled, time: &TimeTree) -> usize {
        if self.is_repeatable(sampled).is_err() {
            return 0;
        }
        let runs_in = |time: Duration, each: Duration| {
            (time.as_secs_f64() / each.as_secs_f64().max(SHORTEST_RUN)) as usize
        };
        let sampling = runs_in(self.options.budget.mul_f64(REPEATING), self.took).min(MORE_RUNS);
        if time.threads_at_work < 2 {
            return sampling;
        }
        let left = self.time_left().saturating_sub(self.took * sampling as u32);
        let each = Duration::from_nanos(sampled.recording.duration_ns).mul_f64(SLOWER);
        sampling + runs_in(left, each)
    }

    /// Returns whether the user has stopped the run.
    pub fn is_stopped(&self) -> bool {
        self.stop.load(Ordering::Relaxed)
    }

    /// Returns the time left for measuring, without the time for judging.
    fn time_left(&self) -> Duration {
        let most = self.options.budget.mul_f64(MOST_JUDGING);
        let judging = self.naming.mul_f64(JUDGING).min(most);
        self.end
            .saturating_duration_since(Instant::now())
            .saturating_sub(judging)
    }

    /// Samples the program and measures its waits.
    ///
    /// # Errors
    /// If the program cannot be sampled, or the recording cannot be written.
    pub fn sample_runs(&mut self) -> anyhow::Result<Sampled> {
        let database = create_database()?;
        let mut confinement = Confinement::default();
        let mut memory = MemoryWatch::default();
        let pid = self.options.pid;
        let sampling = self.options.budget.mul_f64(SAMPLING);
        let mut enough = None;
        let stopped = self.stop;
        let (stop, mut next_phase) = (AtomicBool::new(false), false);
        let once = self.options.once;
        if pid.is_some() {
            (self.observe)(RunProgress::PhaseBegan("sampling"));
        }
        if self.options.output_to_errors && pid.is_none() {
            self.streams.move_output_to_errors()?;
        }
        let outcome = self.record_once(&stop, &mut |progress| {
            let pids = pid.map_or_else(own_children, |pid| vec![pid]);
            confinement.look_at_processes(&pids);
            memory.look_at_processes(&pids);
            let has_begun = matches!(progress, Progress::Samples(_));
            // The time counts from the first samples: preparation may take seconds on a busy
            // machine.
            let is_enough = has_begun
                && Instant::now() >= *enough.get_or_insert_with(|| Instant::now() + sampling);
            next_phase |= !once && confinement.has_threads() && is_enough;
            stop.store(
                next_phase || stopped.load(Ordering::Relaxed),
                Ordering::Relaxed,
            );
        });
        // The user told the command to end.
        if stop.load(Ordering::Relaxed) && !next_phase {
            stopped.store(true, Ordering::Relaxed);
        }
        self.end_hidden_run();
        let mut outcome = outcome?;
        let begin = Instant::now();
        symbols::embed_procedures(&mut outcome.recording, &symbols::SymbolOptions::default());
        let written = store::store_recording(&database, &outcome.recording)?;
        self.naming = begin.elapsed();
        let ran_ns = outcome.recording.task_times.map_or(0, |times| times.cpu_ns);
        let samples: u64 = outcome.recording.samples.iter().map(|s| s.count).sum();
        let had = format!("{samples} samples and waits");
        self.note_asked("sampling", Some(had), None);
        Ok(Sampled {
            samples,
            reads_terminal: results::waits_for_typing(&outcome.recording),
            recording: outcome.recording,
            left_running: outcome.left_running,
            stored: written.path.display().to_string(),
            exit: outcome.exit,
            running: outcome.running,
            confined: confinement.limits(),
            memory: memory.need(),
            stolen_ns: (ran_ns as f64 * self.stolen_part) as u64,
            has_threads: confinement.has_threads(),
        })
    }

    /// Samples one run.
    fn record_once(
        &mut self,
        stop: &AtomicBool,
        observe: &mut dyn FnMut(Progress),
    ) -> anyhow::Result<Outcome> {
        let target = match self.options.pid {
            Some(pid) => TargetSpec::Process(pid),
            None => TargetSpec::Command(self.options.command.clone()),
        };
        let mut options = Options::new(target);
        options.call_graph = CallGraph::Tables;
        options.table_directory = table_directory();
        options.off_cpu = true;
        options.as_permitted = true;
        options.separation = Separation::Threads;
        let left = self.end.saturating_duration_since(Instant::now());
        options.duration = Some(left.min(self.options.budget.mul_f64(LONGEST_SAMPLING)));
        let begin = Instant::now();
        let before = MachineUsage::read_machine();
        let outcome = sampler::record(&options, stop, observe);
        let stolen = before.zip(MachineUsage::read_machine());
        let stolen = stolen.map(|(before, now)| now.stolen_for_running(before));
        self.stolen_part = stolen.unwrap_or_default();
        self.took = begin.elapsed();
        let outcome = outcome?;
        self.without_tables.clone_from(&outcome.without_tables);
        Ok(outcome)
    }

    /// Samples a short command several more times, to see how its runs differ.
    ///
    /// # Errors
    /// If the command cannot be sampled.
    pub fn sample_more(&mut self, sampled: &Sampled) -> anyhow::Result<Vec<Recording>> {
        let mut more = Vec::new();
        let first = RunEnd::of_run(sampled.exit, &sampled.recording);
        let until = Instant::now() + self.options.budget.mul_f64(REPEATING);
        while more.len() < MORE_RUNS && self.is_repeatable(sampled).is_ok() {
            if Instant::now() + self.took > until {
                break;
            }
            self.begin_hidden_run("sampling again")?;
            let outcome = self.record_once(self.stop, &mut |_| {});
            self.end_hidden_run();
            let outcome = outcome?;
            outcome.running.map(Launched::wait_for_end);
            let again = RunEnd::of_run(outcome.exit, &outcome.recording);
            if self.notice_difference(&first, &again) {
                break;
            }
            more.push(outcome.recording);
        }
        if let Some(asked) = self.asked.first_mut() {
            let runs = 1 + more.len();
            asked.had = asked.had.take().map(|had| match runs {
                1 => match self.differs {
                    Some(differs) => format!("{had} in one run: {differs}"),
                    None => format!("{had} in one run"),
                },
                _ => format!("{had} in the first of {runs} runs"),
            });
        }
        Ok(more)
    }

    /// Notes that a further run did other work than the first one: it ended otherwise, or its CPU
    /// time differs. An example is a command that finds its earlier output.
    fn notice_difference(&mut self, first: &RunEnd, again: &RunEnd) -> bool {
        let difference = first.difference_to(again);
        // A run that the user ended early says nothing about the command.
        if let Some(difference) = difference.filter(|_| !self.is_stopped()) {
            self.note_progress(&format!("{difference}: only its first run counts"));
            self.differs = Some(difference);
        }
        difference.is_some()
    }

    /// Samples a short command once more if its stacks are cut, because the unwind tables of its
    /// images did not exist yet.
    ///
    /// # Errors
    /// If the command cannot be sampled.
    pub fn sample_again(
        &mut self,
        sampled: &Sampled,
        table: &SymbolTable,
    ) -> anyhow::Result<Option<Sampled>> {
        let recording = &sampled.recording;
        let is_short = Duration::from_nanos(recording.duration_ns) < SHORT;
        let complete = complete_stacks(recording, table);
        let enough = complete >= COMPLETE || sampled.samples < FEWEST_SAMPLES;
        if enough || !is_short || self.is_repeatable(sampled).is_err() {
            return Ok(None);
        }
        let asked = std::mem::take(&mut self.asked);
        self.note_progress(
            "most stacks are cut, as unwind tables had to be made first: sampling again",
        );
        self.begin_hidden_run("sampling again")?;
        let again = self.sample_runs();
        self.end_hidden_run();
        let again = again?;
        let ends = [sampled, &again].map(|one| RunEnd::of_run(one.exit, &one.recording));
        if self.notice_difference(&ends[0], &ends[1]) {
            self.asked = asked;
            return Ok(None);
        }
        Ok(Some(again))
    }

    /// Finds the stalling instructions of the hottest procedures.
    pub fn ask_instructions(&mut self, sampled: &Sampled) -> Vec<Finding> {
        if sampled.samples < FEWEST_SAMPLES {
            self.not_asked("instructions", TOO_FEW);
            return Vec::new();
        }
        let warn = |text: &str| (self.observe)(RunProgress::Warning(text));
        let (had, why_not, stalls) = match hottest_stalls(&sampled.recording, &warn) {
            Ok(stalls) if stalls.is_empty() => {
                let why = "no procedure of a file has enough samples, or none stalls";
                (None, Some(why.to_owned()), stalls)
            }
            Ok(stalls) if stalls.len() == 1 => {
                (Some("the hottest procedure".to_owned()), None, stalls)
            }
            Ok(stalls) => (
                Some(format!("the {} hottest procedures", stalls.len())),
                None,
                stalls,
            ),
            Err(error) => (None, Some(error_chain(&error)), Vec::new()),
        };
        self.note_asked("instructions", had, why_not);
        stalls
    }

    /// Checks whether the command can be run again.
    ///
    /// # Errors
    /// The reason why the command cannot be run again.
    pub fn is_repeatable(&self, sampled: &Sampled) -> Result<(), String> {
        let again = Duration::from_nanos(sampled.recording.duration_ns).mul_f64(SLOWER);
        if self.options.pid.is_some() {
            return Err("a running process cannot be run again".to_owned());
        }
        if self.options.once {
            return Err("the command was to be run once (--once)".to_owned());
        }
        if let Some(differs) = self.differs {
            return Err(differs.to_owned());
        }
        if self.is_stopped() {
            return Err(STOPPED.to_owned());
        }
        if sampled.reads_terminal {
            return Err(ASKS_USER.to_owned());
        }
        if sampled.exit.is_none() {
            return Err("the command did not end in time".to_owned());
        }
        if again > self.time_left() {
            return Err("there was no time left for another run (--for gives more)".to_owned());
        }
        Ok(())
    }

    fn note_asked(&mut self, method: &str, had: Option<String>, why_not: Option<String>) {
        self.asked.push(Asked {
            method: method.to_owned(),
            had,
            why_not,
        });
    }

    fn not_asked(&mut self, method: &str, why: impl Into<String>) {
        self.note_asked(method, None, Some(why.into()));
    }

    /// Begins a further run. It reads the input of the first run, its output is discarded, and the
    /// user sees only the name of the phase.
    fn begin_hidden_run(&mut self, phase: &str) -> anyhow::Result<()> {
        self.streams.rewind_input()?;
        self.streams.silence_output(Silenced::All)?;
        (self.observe)(RunProgress::PhaseBegan(phase));
        Ok(())
    }

    /// Ends a further run, or a phase with a running process. The user sees our messages again.
    fn end_hidden_run(&mut self) {
        (self.observe)(RunProgress::PhaseEnded);
        self.streams.restore_output();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn runs_that_end_or_work_otherwise_differ() {
        let end = |code, ran_ns| RunEnd {
            exit: Some(Exit::Code(code)),
            ran_ns,
        };
        let ms = |count: u64| Some(count * 1_000_000);
        let first = end(0, ms(1_000));
        assert_eq!(first.difference_to(&end(0, ms(600))), None);
        assert_eq!(first.difference_to(&end(0, ms(400))), Some(OTHER_WORK));
        assert_eq!(first.difference_to(&end(0, ms(2_100))), Some(OTHER_WORK));
        assert_eq!(first.difference_to(&end(1, ms(1_000))), Some(OTHER_END));
        assert_eq!(end(0, ms(9)).difference_to(&end(0, ms(2))), None);
        assert_eq!(first.difference_to(&end(0, None)), None);
    }
}
