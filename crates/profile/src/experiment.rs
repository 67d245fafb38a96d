//! Performance experiments of causal profiling, as executed.
//!
//! Coz (Curtsinger, Berger: *Coz: Finding Code that Counts with Causal Profiling*, SOSP 2015), §2
//! and §3.2. All times are in nanoseconds of one monotonic clock; nothing here is an estimate.

use crate::{BuildId, Host};
use serde::{Deserialize, Serialize};

/// The experiments of any number of runs of one program. Merging profiles concatenates their runs.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct CausalProfile {
    /// The runs, each with tables of its own.
    pub runs: Vec<CausalRun>,
}

/// One run of the program, from the first sample to the last, and the experiments in it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct CausalRun {
    /// The command with its arguments.
    pub command: Vec<String>,
    /// The options with which the experiments were requested; empty in profiles of other tools and
    /// in older ones.
    #[serde(default)]
    pub asked: AskedExperiments,
    /// The machine.
    pub host: Host,
    /// The measuring tool: `vitalfew`, or the tool from whose file this was read (`coz`).
    pub collector: String,
    /// Start, in nanoseconds since 1970-01-01 UTC.
    pub start_unix_ns: u64,
    /// The run time `T` for which threads were sampled, in nanoseconds of wall time.
    pub duration_ns: u64,
    /// The part of the run time outside experiments with a speedup above 0, when nothing was
    /// delayed, in nanoseconds; 0 if unknown.
    pub undelayed_ns: u64,
    /// The end of the run.
    pub end: RunEnd,
    /// Settings of the run.
    pub settings: ExperimentSettings,
    /// The executable and the libraries that fragments lie in.
    pub images: Vec<ProfiledImage>,
    /// The progress points.
    pub points: Vec<ProgressPoint>,
    /// All fragments in scope with samples.
    pub fragments: Vec<Fragment>,
    /// The experiments, in the order of their start.
    pub experiments: Vec<Experiment>,
    /// Warnings for the reader: each a sentence.
    pub warnings: Vec<String>,
}

/// The options of a `causal run`, which can request it again.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct AskedExperiments {
    /// The options as typed, without the time and the process.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub options: Vec<String>,
    /// The time, in nanoseconds, if one was given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub time_ns: Option<u64>,
    /// The running process that was measured in place of a command.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub process: Option<u32>,
}

/// The end of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RunEnd {
    /// The program exited with this code.
    Exited(i32),
    /// A signal ended it.
    Signalled(i32),
    /// Measuring ended before the program did.
    Stopped,
    /// The end is unknown, because another tool made the profile.
    Unknown,
}

/// The unit of code that an experiment speeds up.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Granularity {
    /// A source line.
    #[default]
    Line,
    /// A function, including its inlined copies.
    Function,
}

/// The source of the wait-for relation between threads. By that relation, a woken thread is
/// credited with the delays that its waker has paid.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum CreditRule {
    /// Our functions in front of the program's see waits and wake-ups. A thread pays its delays
    /// before it wakes another one.
    #[default]
    Hooks,
    /// The kernel reports which thread wakes which.
    Kernel,
}

/// Settings of a run.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct ExperimentSettings {
    /// The unit of code that an experiment speeds up.
    pub by: Granularity,
    /// Time between samples of a thread `P` (§3.4), in nanoseconds of its CPU time; 0 if unknown.
    pub sample_period_ns: u64,
    /// True if the processors' timers took the samples, instead of one timer for each thread.
    #[serde(default)]
    pub by_processor: bool,
    /// True if waits for events outside of the program were sped up too.
    #[serde(default)]
    pub waits: bool,
    /// True if time in the kernel counted for the line that called it, like time in user mode.
    #[serde(default)]
    pub kernel_time: bool,
    /// The source of the wait-for relation between threads in this run.
    #[serde(default)]
    pub credits: CreditRule,
    /// Number of samples that a thread takes before it processes them.
    pub batch: u32,
    /// Pause after each experiment, in nanoseconds.
    pub cooloff_ns: u64,
    /// True if the whole run was one experiment.
    pub end_to_end: bool,
    /// Patterns of the sources and binaries in scope; if empty, the main executable.
    pub scope: Vec<String>,
    /// The requested fragments, if not all.
    pub fixed_fragments: Vec<String>,
    /// The requested speedups, as fractions, if not all.
    pub fixed_speedups: Vec<f64>,
}

/// A file that contains fragments.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ProfiledImage {
    /// Its path.
    pub path: String,
    /// Its build-id, if it has one.
    pub build_id: Option<BuildId>,
}

/// System calls by which programs deliver results: a sent answer, stored data. Their number can
/// measure a program's work.
pub const ANSWERING_CALLS: [&str; 7] = [
    "sendmsg",
    "sendmmsg",
    "sendto",
    "writev",
    "write",
    "pwrite64",
    "fdatasync",
];

/// A progress point.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ProgressPoint {
    /// Its name, given by the program or the command line.
    pub name: String,
    /// The means of counting its visits.
    pub counted_by: CountedBy,
    /// Visits over the whole run (for a latency pair, of its begin), in experiments and between
    /// them.
    pub visits: u64,
}

/// Means of counting visits of a progress point (§3.3).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum CountedBy {
    /// The program counts itself, through `coz.h` or a similar header.
    Source,
    /// A hardware breakpoint.
    Breakpoint,
    /// A breakpoint that the kernel writes into the code.
    Uprobe,
    /// Nothing: samples in it stand for visits.
    Samples,
    /// A probe that the program has for tracers (USDT).
    Usdt,
    /// A tracepoint of a system call.
    Syscall,
    /// The end of the run is the only visit.
    EndToEnd,
}

/// A fragment of code that can be virtually sped up.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Fragment {
    /// `path:line`, or the name of the function.
    pub name: String,
    /// The function of a line, or `path:line` of a function's start; empty if unknown.
    pub detail: String,
    /// Position in [`CausalRun::images`], if known.
    pub image: Option<u32>,
    /// Samples in it over the whole run (`s` of eq. 6).
    pub samples: u64,
    /// Samples taken while nothing was delayed, in [`CausalRun::undelayed_ns`].
    pub undelayed_samples: u64,
    /// The wait that the fragment stands for, if experiments speed up its waits for events outside
    /// of the program; `None` if they speed up its running. Samples of waits are their durations in
    /// sampling periods.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub waiting: Option<FragmentWait>,
    /// The name of the whole line, if this is one of the copies of a line that was inlined at
    /// several places. The whole line's samples include those of this copy.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub copy_of: Option<String>,
}

/// A fragment's wait.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct FragmentWait {
    /// Name of the system call.
    pub call: String,
    /// True if the thread waits until another process requests work; no experiment speeds up such a
    /// wait.
    #[serde(default)]
    pub for_work: bool,
}

/// One performance experiment (§3.2).
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Experiment {
    /// The fragment that was virtually sped up: position in [`CausalRun::fragments`].
    pub fragment: u32,
    /// Virtual speedup, as a fraction of the fragment's run time, 0 to 1: delay over sampling
    /// period (eq. 4).
    pub speedup: f64,
    /// Start, in nanoseconds since that of the run.
    pub start_ns: u64,
    /// Length, in nanoseconds of wall time.
    pub duration_ns: u64,
    /// The part of the length due to delays, in nanoseconds: the growth of the delay that every
    /// thread owes. The effective duration (§2) is the length without it.
    pub delay_ns: u64,
    /// Samples in the fragment during the experiment (`s_obs` of eq. 6).
    pub samples: u64,
    /// Counts of each of [`CausalRun::points`]; none for a point that became known later.
    pub counts: Vec<Progress>,
    /// Other load on the machine; `None` if not recorded.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub disturbance: Option<Disturbance>,
    /// Waits of the target's threads that another of its threads ended; `None` if not counted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub meetings: Option<u64>,
    /// Samples in spinning code; `None` if not counted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub spinning: Option<u64>,
    /// True if delays were charged at the pace of the fragment's execution between two operations,
    /// and not after each sample.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub at_pace: bool,
}

/// CPU time that the target lost during an experiment, by cause; of all CPUs together, in
/// nanoseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Disturbance {
    /// Time that the hypervisor gave to other machines.
    pub stolen_ns: u64,
    /// CPU time of the kernel's own work and of unmeasured processes.
    pub others_ns: u64,
    /// Idle time; `None` if not recorded.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub idle_ns: Option<u64>,
    /// Running and waiting time of the target's own threads; `None` if not recorded.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub target: Option<TargetTime>,
}

/// The time of the target's threads during an experiment, summed over them, in nanoseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct TargetTime {
    /// Running time.
    pub ran_ns: u64,
    /// Run-queue latency: time in which the threads were ready and waited for a processor that
    /// others of them or other processes had.
    pub waited_ns: u64,
    /// Time for which the threads stood still to pay delays; `None` if not counted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub standing: Option<StandingTime>,
    /// Wall time for which the threads waited for work from other processes: in `epoll_wait`,
    /// `accept`, `recv` and the like, each thread's waits weighted by its part of the running time;
    /// `None` if not measured.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub for_clients_ns: Option<u64>,
}

/// The time for which the target's threads stood still to pay delays, summed over them, in
/// nanoseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct StandingTime {
    /// Total time.
    pub total_ns: u64,
    /// The part of it in which they waited for a processor: a part of [`TargetTime::waited_ns`]
    /// that cost the program nothing.
    pub waited_ns: u64,
}

impl Experiment {
    /// Returns the effective duration: the length without the delays, in nanoseconds.
    pub fn effective_ns(&self) -> u64 {
        self.duration_ns.saturating_sub(self.delay_ns)
    }

    /// Returns the fraction of a machine with `cpus` CPUs that other load used meanwhile, 0 to 1; 0
    /// if unknown.
    pub fn part_of_others(&self, cpus: u32) -> f64 {
        let Some(it) = self.disturbance else {
            return 0.0;
        };
        let machine = f64::from(cpus.max(1)) * self.duration_ns as f64;
        let others = it.stolen_ns as f64 + it.others_ns as f64;
        (others / machine.max(1.0)).min(1.0)
    }
}

/// Other load during experiments, as a part of the machine.
#[derive(Clone, Copy, Debug)]
pub struct OtherLoad {
    /// The median over the experiments.
    pub typical: f64,
    /// The median distance from `typical`.
    spread: f64,
}

impl OtherLoad {
    /// Part of the machine by which experiments differ anyway, because load is counted in ticks.
    const SLIGHT: f64 = 0.05;
    /// Number of normal standard deviations from the median that are too far.
    const TOO_FAR: f64 = 3.0;
    /// A normal standard deviation, in median distances from the median.
    const NORMAL: f64 = 1.4826;

    /// Returns the load during these experiments, on a machine with `cpus` CPUs.
    pub fn during(experiments: &[Experiment], cpus: u32) -> Self {
        let median = |mut values: Vec<f64>| {
            values.sort_by(f64::total_cmp);
            values.get(values.len() / 2).copied().unwrap_or(0.0)
        };
        let parts = experiments.iter().map(|it| it.part_of_others(cpus));
        let parts: Vec<f64> = parts.collect();
        let typical = median(parts.clone());
        let spread = median(parts.iter().map(|part| (part - typical).abs()).collect());
        Self { typical, spread }
    }

    /// Returns the load above which an experiment does not count; at most half of them have more.
    pub fn limit(&self) -> f64 {
        self.typical + Self::SLIGHT.max(Self::TOO_FAR * Self::NORMAL * self.spread)
    }
}

/// Counts of a progress point during an experiment.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Progress {
    /// Throughput: visits.
    Visits(u64),
    /// Latency, between a begin and an end.
    Latency {
        /// Visits of the begin.
        arrivals: u64,
        /// Visits of the end.
        departures: u64,
        /// `L` of Little's law: the mean number that had begun and not ended, over the experiment's
        /// time.
        in_flight: f64,
    },
}
