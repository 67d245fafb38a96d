//! Times of several runs of a command, kept in a file with a recording of all runs beside it.

use crate::output::{shell_words, write_file, write_json};
use crate::wrapped::Signals;
use orchestration::{KeptFile, RepeatedStreams, Silenced};
use profile::{Host, Recording};
use results::{ResultKind, inconclusive_refusal};
use sampler::{Exit, Launched, Options, TargetSpec, command_text};
use serde::{Deserialize, Serialize};
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

/// Default number of turns of two commands: minimum, maximum, and the time within which further
/// ones begin.
const FEWEST_TURNS: u32 = 12;
const MOST_TURNS: u32 = 60;
const TURNS_TIME: Duration = Duration::from_secs(25);

/// The version of the form.
const SCHEMA: &str = "vitalfew.check/1";
const MEASUREMENT_FILE: KeptFile = KeptFile {
    what: "a measurement of check",
    kind: ResultKind::Check,
    schema: SCHEMA,
    longest: 16 << 20,
};

/// Times of one run.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub struct RunTimes {
    /// From its start to its end, in nanoseconds.
    pub wall_ns: u64,
    /// On CPUs, in nanoseconds.
    pub cpu_ns: u64,
    /// Ready to run, but waiting for a CPU, in all threads, in nanoseconds; absent where it was not
    /// measured.
    #[serde(default)]
    pub waiting_ns: Option<u64>,
}

/// Times of several runs.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct CheckMeasurement {
    schema: String,
    /// The command with its arguments.
    pub command: Vec<String>,
    /// The machine.
    pub host: Host,
    /// The runs.
    pub runs: Vec<RunTimes>,
    /// Number of runs in the recording.
    #[serde(default = "one_run")]
    pub recorded_runs: u32,
}

/// Returns the number for results that were kept before all runs were recorded.
fn one_run() -> u32 {
    1
}

impl CheckMeasurement {
    /// Runs a command `runs` times; also returns one recording of all runs.
    ///
    /// # Errors
    /// If the command cannot be run or sampled, fails, or is stopped.
    pub fn measure_runs(command: &[OsString], runs: u32) -> anyhow::Result<(Self, Recording)> {
        let mut repeated = RepeatedRuns::start()?;
        let recordings = (0..runs).map(|_| repeated.record_run(command));
        Self::of_recordings(command, &recordings.collect::<anyhow::Result<Vec<_>>>()?)
    }

    /// Runs two commands alternately, `runs` times each. Without `runs`, the number follows from a
    /// time that does not depend on the result.
    ///
    /// # Errors
    /// As [`Self::measure_runs`].
    pub fn measure_turns(
        commands: [&[OsString]; 2],
        runs: Option<u32>,
    ) -> anyhow::Result<[(Self, Recording); 2]> {
        let mut repeated = RepeatedRuns::start()?;
        let mut recordings = [Vec::new(), Vec::new()];
        let begun = Instant::now();
        for turn in 0..runs.unwrap_or(MOST_TURNS) {
            if runs.is_none() && turn >= FEWEST_TURNS && begun.elapsed() >= TURNS_TIME {
                break;
            }
            // The order alternates, so that neither command always benefits from the other's
            // caches.
            let first = turn as usize % 2;
            for side in [first, 1 - first] {
                recordings[side].push(repeated.record_run(commands[side])?);
            }
        }
        let [base, own] = recordings;
        Ok([
            Self::of_recordings(commands[0], &base)?,
            Self::of_recordings(commands[1], &own)?,
        ])
    }

    fn of_recordings(
        command: &[OsString],
        recordings: &[Recording],
    ) -> anyhow::Result<(Self, Recording)> {
        let measurement = Self {
            schema: SCHEMA.to_owned(),
            command: command_text(command),
            host: sampler::read_host(),
            runs: recordings.iter().map(run_times).collect(),
            recorded_runs: recordings.len() as u32,
        };
        // One run of a short program has too few samples to tell which function changed.
        let mut all = store::merge_recordings(recordings)?;
        symbols::embed_procedures(&mut all, &symbols::SymbolOptions::default());
        Ok((measurement, all))
    }

    /// Reads a kept measurement.
    ///
    /// # Errors
    /// If the file cannot be read, or is no such measurement.
    pub fn read(path: &Path) -> anyhow::Result<Self> {
        let measurement: Self = MEASUREMENT_FILE.read(path, |kept: &Self| &kept.schema)?;
        if measurement.runs.len() < 2 {
            return Err(MEASUREMENT_FILE.refuse(path, "it has fewer than two runs"));
        }
        Ok(measurement)
    }

    /// Writes the measurement, with the recording beside it.
    ///
    /// # Errors
    /// If a file cannot be written.
    pub fn keep(&self, path: &Path, recording: &Recording) -> anyhow::Result<()> {
        store::write_file(recording, &recording_beside(path))?;
        write_file(path, |out| Ok(write_json(out, self)?))
    }
}

/// Repeated runs of commands, with the same input and no output.
struct RepeatedRuns {
    signals: Signals,
    streams: RepeatedStreams,
    runs: u32,
}

impl RepeatedRuns {
    fn start() -> anyhow::Result<Self> {
        Ok(Self {
            signals: Signals::catch_signals()?,
            streams: RepeatedStreams::keep_input()?,
            runs: 0,
        })
    }

    /// Runs a command once.
    fn record_run(&mut self, command: &[OsString]) -> anyhow::Result<Recording> {
        if self.runs > 0 {
            self.streams.rewind_input()?;
        }
        self.runs += 1;
        self.streams.silence_output(Silenced::All)?;
        let options = Options::new(TargetSpec::Command(command.to_vec()));
        let outcome = sampler::record(&options, &self.signals.stop, &mut |_| {});
        self.streams.restore_output();
        let outcome = outcome?;
        self.signals.pass_on(outcome.running.as_ref());
        let exit = outcome
            .exit
            .or_else(|| outcome.running.map(Launched::wait_for_end));
        if self.signals.stop.load(Ordering::Relaxed) {
            return Err(inconclusive_refusal("stopped before all runs".to_owned()));
        }
        match exit {
            Some(exit) if exit.exit_code() == 0 => Ok(outcome.recording),
            other => anyhow::bail!(
                "run {} of {} ended with exit code {}: nothing is compared",
                self.runs,
                shell_words(&command_text(command)),
                other.map_or(1, Exit::exit_code)
            ),
        }
    }
}

fn run_times(recording: &Recording) -> RunTimes {
    RunTimes {
        wall_ns: recording.duration_ns,
        cpu_ns: recording.task_times.map_or(0, |times| times.cpu_ns),
        waiting_ns: recording.task_times.and_then(|times| times.waiting_ns),
    }
}

/// Returns the path of a measurement's recording.
pub fn recording_beside(path: &Path) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(".recording");
    name.into()
}
