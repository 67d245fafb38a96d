//! Times of several runs of a command, kept in a file with a recording of all of them beside it.

use crate::commands::streams::{RepeatedStreams, Silenced};
use crate::commands::wrapped::{self, Signals};
use crate::kept_file::KeptFile;
use crate::output::write_file;
use profile::{Host, Recording};
use results::inconclusive_refusal;
use sampler::{Exit, Options, TargetSpec};
use serde::{Deserialize, Serialize};
use std::path::{Path, PathBuf};
use std::sync::atomic::Ordering;

/// The version of the form.
const SCHEMA: &str = "vitalfew.check/1";
const MEASUREMENT_FILE: KeptFile = KeptFile {
    what: "a measurement of check",
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
    /// Ready to run, but waiting for a CPU, in all threads, in nanoseconds; absent where it was not measured.
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
    /// Number of them that the recording beside it has.
    #[serde(default = "one_run")]
    pub recorded_runs: u32,
}

/// Number in results that were kept before all runs were recorded.
fn one_run() -> u32 {
    1
}

impl CheckMeasurement {
    /// Runs a command so many times; returns also one recording of all runs.
    ///
    /// # Errors
    /// If it cannot be run or sampled, fails, or is stopped.
    pub fn measure_runs(command: &[String], runs: u32) -> anyhow::Result<(Self, Recording)> {
        let signals = Signals::catch_signals()?;
        let mut streams = RepeatedStreams::keep_input()?;
        let mut recordings = Vec::new();
        for run in 0..runs {
            if run > 0 {
                streams.rewind_input()?;
            }
            streams.silence_output(Silenced::All)?;
            let options = Options::new(TargetSpec::Command(command.to_vec()));
            let outcome = sampler::record(&options, &signals.stop, &mut |_| {});
            streams.restore_output();
            let outcome = outcome?;
            signals.pass_on(outcome.running.as_ref());
            let exit = outcome
                .exit
                .or_else(|| wrapped::wait_for_command(outcome.running));
            if signals.stop.load(Ordering::Relaxed) {
                return Err(inconclusive_refusal("stopped before all runs".to_owned()));
            }
            match exit {
                Some(exit) if exit.exit_code() == 0 => {}
                other => anyhow::bail!(
                    "run {} of the command ended with exit code {}: nothing is compared",
                    run + 1,
                    other.map_or(1, Exit::exit_code)
                ),
            }
            recordings.push(outcome.recording);
        }
        let measurement = Self {
            schema: SCHEMA.to_owned(),
            command: command.to_vec(),
            host: sampler::read_host(),
            runs: recordings.iter().map(run_times).collect(),
            recorded_runs: runs,
        };
        // One run of a short program has too few samples to say which function changed.
        let mut all = store::merge_recordings(&recordings)?;
        symbols::embed_procedures(&mut all, &symbols::SymbolOptions::default());
        Ok((measurement, all))
    }

    /// Reads what was kept.
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

    /// Keeps it, with the recording beside it.
    ///
    /// # Errors
    /// If a file cannot be written.
    pub fn keep(&self, path: &Path, recording: &Recording) -> anyhow::Result<()> {
        store::write_file(recording, &recording_beside(path))?;
        write_file(path, |out| {
            serde_json::to_writer_pretty(&mut *out, self)?;
            Ok(writeln!(out)?)
        })
    }
}

fn run_times(recording: &Recording) -> RunTimes {
    RunTimes {
        wall_ns: recording.duration_ns,
        cpu_ns: recording.task_times.map_or(0, |times| times.cpu_ns),
        waiting_ns: recording.task_times.and_then(|times| times.waiting_ns),
    }
}

/// Returns the path of the recording that belongs to a measurement.
pub fn recording_beside(path: &Path) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(".recording");
    name.into()
}
