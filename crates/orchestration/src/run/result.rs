//! Result of a run as data. It is printed, and stored as JSON. docs/json.md documents the schema.

use crate::kept_file::KeptFile;
use profile::{Host, Recording, Target, TaskTimes, TimeKind};
use results::phrases::{count_noun, format_ns, percent};
use results::{IdleKind, JsonClaim, JsonClaims, ResultKind};
use sampler::Exit;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// Version of the schema.
const SCHEMA: &str = "vitalfew.run/2";
/// Least part of all time that a kind of time needs to be named in the header.
const NAMED_KIND: f64 = 0.01;
/// The same for the part of the run in which no thread had work: starting and ending are idle, too.
const NAMED_IDLE: f64 = 0.1;
const RESULT_FILE: KeptFile = KeptFile {
    what: "a result of run",
    kind: ResultKind::Run,
    schema: SCHEMA,
    longest: 64 << 20,
};

/// Use of one method in a run.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Asked {
    /// Name of the method.
    pub method: String,
    /// Data that the method could use. Absent if the method was not applied.
    pub had: Option<String>,
    /// Reason why the method was not applied, or had no result.
    pub why_not: Option<String>,
}

/// An end of the command that probably came before its work was done.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum CommandEnd {
    /// The command returned this code.
    Code(i32),
    /// This signal ended the command.
    Signal(i32),
    /// The command had not ended at the end of the time.
    Unfinished,
    /// The command had not ended when the user stopped the measurement.
    Stopped,
}

/// A process that the command left running.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct LeftProcess {
    /// Process id.
    pub pid: u32,
    /// Name of the main thread.
    pub name: String,
}

impl LeftProcess {
    /// Returns the process with its name, if it still runs.
    pub fn find(pid: u32) -> Option<Self> {
        let name = std::fs::read_to_string(format!("/proc/{pid}/comm")).ok()?;
        let name = name.trim_end().to_owned();
        Some(Self { pid, name })
    }
}

impl CommandEnd {
    /// Returns the kind of a premature end. `None` if the command returned 0. `exit` is absent if
    /// the command still runs. `stopped` is true if the user stopped the measurement.
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
    /// Start of the sampled run, in nanoseconds since 1970.
    pub start_unix_ns: u64,
    /// Duration of the sampled run, in nanoseconds.
    pub duration_ns: u64,
    /// CPU and waiting times of its threads.
    pub times: Option<TaskTimes>,
    /// The first line of the answer: duration, and time of the threads by kind.
    #[serde(default)]
    pub header: String,
    /// Number of sampled runs.
    pub runs: usize,
    /// Number of threads that did much of the work.
    pub busy_threads: usize,
    /// Number of threads that ran, or that waited for anything but work from the program itself.
    pub threads_at_work: usize,
    /// Time of all threads by kind, in nanoseconds.
    pub time_by_kind: BTreeMap<TimeKind, u64>,
    /// Claim about waiting for CPUs that other programs had, if the time is large.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub machine: Option<JsonClaim>,
    /// Methods, each with the data that it used or the reason for no result.
    pub asked: Vec<Asked>,
    /// Number of findings.
    pub findings_total: usize,
    /// The findings that are shown.
    pub claims: JsonClaims,
    /// Working time in nanoseconds: time in which threads ran, or waited at a loss.
    pub working_ns: f64,
    /// Share of the working time in the call sequences of all findings.
    pub together: f64,
    /// Share of the working time in waits outside all call sequences.
    pub rest_waiting: f64,
    /// Waiting time without a loss by kind, in nanoseconds.
    pub idle_ns: BTreeMap<IdleKind, u64>,
    /// Premature end of the command. Absent if the work was probably done.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ended_by: Option<CommandEnd>,
    /// Processes that the command left running.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub left_running: Vec<LeftProcess>,
    /// Number of samples and waits on which the findings rest.
    #[serde(default)]
    pub samples: u64,
    /// Number of samples, if they are too few to say anything.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub few_samples: Option<u64>,
    /// The sentence about measurements that need more rights, and the command that brings these.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub limited_rights: Option<String>,
}

impl RunResult {
    /// Creates a result of a recording, without findings.
    pub fn of_recording(recording: &Recording) -> Self {
        Self {
            schema: SCHEMA.to_owned(),
            target: recording.target.clone(),
            host: recording.host.clone(),
            start_unix_ns: recording.start_unix_ns,
            duration_ns: recording.duration_ns,
            times: recording.task_times,
            header: String::new(),
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
            limited_rights: recording.limited_rights().cloned(),
        }
    }

    /// States the duration of the run, and the time of its threads by kind, in one line.
    pub fn state_header(&mut self) {
        let wall = format_ns(self.duration_ns as f64);
        let on_cpu: u64 = (self.time_by_kind.iter())
            .filter(|(kind, _)| kind.is_running())
            .map(|(_, ns)| ns)
            .sum();
        let mut parts = vec![("on CPU", on_cpu)];
        let waits = self.time_by_kind.iter();
        let waits = waits.filter(|(kind, _)| !kind.is_running());
        parts.extend(waits.map(|(kind, ns)| (kind.phrase(), *ns)));
        let worked: u64 = parts.iter().map(|(_, ns)| ns).sum();
        let waited = self.times.and_then(|times| times.waiting_ns).unwrap_or(0);
        // At least: threads may have worked at the same time.
        let idle = self.duration_ns.saturating_sub(worked + waited);
        if idle as f64 >= NAMED_IDLE * self.duration_ns as f64 && self.limited_rights.is_none() {
            parts.push(("idle", idle));
        }
        let all: u64 = parts.iter().map(|(_, ns)| ns).sum();
        parts.retain(|(_, ns)| *ns as f64 >= NAMED_KIND * all as f64 && *ns > 0);
        let several = self.threads_at_work > 1;
        let words = parts.iter().map(|(name, ns)| {
            if several {
                format!("{} {name}", percent(*ns as f64 / all as f64))
            } else {
                format!("{} {name}", format_ns(*ns as f64))
            }
        });
        let unknown = (self.limited_rights.iter()).map(|_| "waits not measured".to_owned());
        let words = words.chain(unknown).collect::<Vec<_>>().join(", ");
        let threads = count_noun(self.threads_at_work.max(1) as u64, "thread");
        let text = match (words.is_empty(), several) {
            (true, _) => format!("{wall} wall"),
            (_, true) => format!("{wall} wall, {threads}: {words}"),
            (_, false) => format!("{wall} wall: {words}, {threads}"),
        };
        self.header = match self.runs {
            0 | 1 => text,
            runs => format!("{text}   {runs} runs"),
        };
    }

    /// Reads a stored result.
    ///
    /// # Errors
    /// If the file cannot be read, or is no result of `run`.
    pub fn read(path: &Path) -> anyhow::Result<Self> {
        RESULT_FILE.read(path, |result: &Self| &result.schema)
    }
}

/// Returns the path of the latest result in a database. The page reads it.
pub fn last_result_path(database: &Path) -> PathBuf {
    database.join("last-run.json")
}

#[cfg(test)]
mod tests {
    use super::*;
    use profile::{CallGraph, Collector};

    fn header_of(change: impl FnOnce(&mut RunResult)) -> String {
        let command = Target::Command(vec!["./app".to_owned()]);
        let recording = Recording::new(Host::default(), command, Collector::Bpf, CallGraph::Tables);
        let mut result = RunResult::of_recording(&recording);
        result.duration_ns = 2_000_000_000;
        result.time_by_kind = BTreeMap::from([
            (TimeKind::Computing, 1_000_000_000),
            (TimeKind::SystemCalls, 100_000_000),
            (TimeKind::Disk, 400_000_000),
        ]);
        change(&mut result);
        result.state_header();
        result.header
    }

    #[test]
    fn the_header_says_the_time_by_kind_and_what_is_idle() {
        let one = "2.00 s wall: 1.10 s on CPU, 400 ms disk wait, 500 ms idle, 1 thread";
        assert_eq!(header_of(|_| ()), one);
        let two = header_of(|result| {
            result.threads_at_work = 2;
            result.runs = 3;
            result.time_by_kind.insert(TimeKind::Locks, 1_500_000_000);
        });
        let parts = "37 % on CPU, 13 % disk wait, 50 % lock contention";
        assert_eq!(two, format!("2.00 s wall, 2 threads: {parts}   3 runs"));
        // What was not measured is not said to be idle.
        let limited =
            header_of(|result| result.limited_rights = Some("waits need rights".to_owned()));
        assert!(!limited.contains("idle") && limited.contains("waits not measured"));
    }
}
