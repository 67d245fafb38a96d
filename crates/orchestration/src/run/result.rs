//! Result of a run, as data: printed, and kept as JSON. The schema is documented in docs/json.md.

use crate::kept_file::KeptFile;
use profile::{Host, Recording, Target, TaskTimes, TimeKind};
use results::{IdleKind, JsonClaim, JsonClaims};
use sampler::Exit;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// The version of the form.
const SCHEMA: &str = "vitalfew.run/2";
const RESULT_FILE: KeptFile = KeptFile {
    what: "a result of run",
    schema: SCHEMA,
    longest: 64 << 20,
};

/// Use of one method in a run.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Asked {
    /// The method.
    pub method: String,
    /// Data that the method could use; absent if it was not asked.
    pub had: Option<String>,
    /// Reason that it was not asked, or could not answer.
    pub why_not: Option<String>,
}

/// An end of a command before its work was done, as it seems.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum CommandEnd {
    /// The command returned this code.
    Code(i32),
    /// This signal ended the command.
    Signal(i32),
    /// The command had not ended when the time was over.
    Unfinished,
    /// The command had not ended when the user stopped the measurement.
    Stopped,
}

/// A process that the command has left behind.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct LeftProcess {
    /// Its id.
    pub pid: u32,
    /// The name of its main thread.
    pub name: String,
}

impl LeftProcess {
    /// Returns it with its name, if it still runs.
    pub fn find(pid: u32) -> Option<Self> {
        let name = std::fs::read_to_string(format!("/proc/{pid}/comm")).ok()?;
        let name = name.trim_end().to_owned();
        Some(Self { pid, name })
    }
}

impl CommandEnd {
    /// Returns how a command ended; `None` if it returned 0. `exit` is absent where it still runs, `stopped` true if the user stopped us.
    pub fn of_exit(exit: Option<Exit>, stopped: bool) -> Option<Self> {
        match exit {
            Some(Exit::Code(0)) => None,
            Some(Exit::Code(code)) => Some(Self::Code(code)),
            Some(Exit::Signal(signal)) => Some(Self::Signal(signal)),
            None if stopped => Some(Self::Stopped),
            None => Some(Self::Unfinished),
        }
    }
}

/// Result of a run.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct RunResult {
    schema: String,
    /// The measured target.
    pub target: Target,
    /// The machine.
    pub host: Host,
    start_unix_ns: u64,
    /// Length of the sampled run, in nanoseconds.
    pub duration_ns: u64,
    /// CPU and waiting times of its threads.
    pub times: Option<TaskTimes>,
    /// Number of runs that were sampled.
    pub runs: usize,
    /// Threads that did much of the work.
    pub busy_threads: usize,
    /// Threads that ran, or waited for anything but other work of the program.
    pub threads_at_work: usize,
    /// Time of all threads by what they did, in nanoseconds.
    pub time_by_kind: BTreeMap<TimeKind, u64>,
    /// Waiting for a CPU that other programs had, if that was much.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub machine: Option<JsonClaim>,
    /// Methods with their use, or the reason that they were not used.
    pub asked: Vec<Asked>,
    /// Number of findings.
    pub findings_total: usize,
    /// Findings that are shown.
    pub claims: JsonClaims,
    /// Working time: threads ran, or waited at a loss; in nanoseconds.
    pub working_ns: f64,
    /// Share of it in the call sequences of all findings.
    pub together: f64,
    /// Share of it in waits outside all call sequences.
    pub rest_waiting: f64,
    /// Waits that are no loss.
    pub idle_ns: BTreeMap<IdleKind, u64>,
    /// End of the command; `None` if its work was done, as it seems.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ended_by: Option<CommandEnd>,
    /// Processes that the command has left behind.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub left_running: Vec<LeftProcess>,
    /// Number of samples and waits that the findings rest on.
    #[serde(default)]
    pub samples: u64,
    /// Number of samples, if they are too few to say anything.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub few_samples: Option<u64>,
}

impl RunResult {
    /// A result of a recording, with no finding yet.
    pub fn of_recording(recording: &Recording) -> Self {
        Self {
            schema: SCHEMA.to_owned(),
            target: recording.target.clone(),
            host: recording.host.clone(),
            start_unix_ns: recording.start_unix_ns,
            duration_ns: recording.duration_ns,
            times: recording.task_times,
            runs: 1,
            busy_threads: 0,
            threads_at_work: 0,
            time_by_kind: BTreeMap::new(),
            machine: None,
            asked: Vec::new(),
            findings_total: 0,
            claims: JsonClaims::of_findings(Vec::new()),
            working_ns: 0.0,
            together: 0.0,
            rest_waiting: 0.0,
            idle_ns: BTreeMap::new(),
            ended_by: None,
            left_running: Vec::new(),
            samples: 0,
            few_samples: None,
        }
    }

    /// Reads a result that was kept.
    ///
    /// # Errors
    /// If the file cannot be read, or is no result of `run`.
    pub fn read(path: &Path) -> anyhow::Result<Self> {
        RESULT_FILE.read(path, |result: &Self| &result.schema)
    }
}

/// Returns the path of the last result in a database, for the page.
pub fn last_result_path(database: &Path) -> PathBuf {
    database.join("last-run.json")
}
