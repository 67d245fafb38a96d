//! Performance experiments of causal profiling, as they were carried out.
//!
//! Coz (Curtsinger, Berger: *Coz: Finding Code that Counts with Causal Profiling*, SOSP 2015), §2 and
//! §3.2. All times are in nanoseconds of one monotonic clock; nothing here is an estimate yet.

use crate::{BuildId, Host};
use serde::{Deserialize, Serialize};

/// The experiments of any number of runs of one program. Profiles are merged by putting their runs
/// together.
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
    /// The options with which the experiments were requested; empty in profiles of other tools and in older ones.
    #[serde(default)]
    pub asked: AskedExperiments,
    /// The machine.
    pub host: Host,
    /// The measuring tool: `vitalfew`, or the tool from whose file this was read (`coz`).
    pub collector: String,
    /// Start, in nanoseconds since 1970-01-01 UTC.
    pub start_unix_ns: u64,
    /// The run time `T`: how long threads were sampled, in nanoseconds of wall time.
    pub duration_ns: u64,
    /// The part of the run time outside experiments with a speedup above 0, when nothing was delayed,
    /// in nanoseconds; 0 where it is not known.
    pub undelayed_ns: u64,
    /// The end of the run.
    pub end: RunEnd,
    /// Settings of the run.
    pub settings: ExperimentSettings,
    /// The executable and the libraries that fragments lie in.
    pub images: Vec<ProfiledImage>,
    /// The progress points.
    pub points: Vec<ProgressPoint>,
    /// Everything in scope that had a sample.
    pub fragments: Vec<Fragment>,
    /// The experiments, in the order of their start.
    pub experiments: Vec<Experiment>,
    /// Warnings for the reader: each a sentence.
    pub warnings: Vec<String>,
}

/// A `causal run` as it was asked for, so that it can be asked for again.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct AskedExperiments {
    /// The options, as they are typed, but for the time and the process.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub options: Vec<String>,
    /// The time, in nanoseconds, if one was given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub time_ns: Option<u64>,
    /// The process that ran already, in the place of a command.
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
    /// A function, also where it is inlined into others.
    Function,
}

/// The source from which the wait-for relation between threads is known. By it a woken thread is credited with the
/// delays that its waker has paid.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum CreditRule {
    /// Functions of ours in front of the program's see operations that wait and wake. A thread pays its delays before
    /// it wakes another one.
    #[default]
    Hooks,
    /// The kernel sees which thread wakes which.
    Kernel,
}

/// Settings of a run.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct ExperimentSettings {
    /// The unit of code that an experiment speeds up.
    pub by: Granularity,
    /// Time between samples of a thread `P` (§3.4), in nanoseconds of its CPU time; 0 where it is not known.
    pub sample_period_ns: u64,
    /// The processors' timers took the samples, and not one of each thread.
    #[serde(default)]
    pub by_processor: bool,
    /// Waits for what is outside of the program were sped up too.
    #[serde(default)]
    pub waits: bool,
    /// Running in the kernel counted for the line that asked for it, as running in user mode does.
    #[serde(default)]
    pub kernel_time: bool,
    /// The source of the wait-for relation between threads in this run.
    #[serde(default)]
    pub credits: CreditRule,
    /// Samples that a thread takes before it looks at them.
    pub batch: u32,
    /// Pause after each experiment, in nanoseconds.
    pub cooloff_ns: u64,
    /// The whole run was one experiment.
    pub end_to_end: bool,
    /// Patterns of the sources and binaries in scope; none: the main executable.
    pub scope: Vec<String>,
    /// The fragments that were asked for, if not all.
    pub fixed_fragments: Vec<String>,
    /// The speedups that were asked for, as fractions, if not all.
    pub fixed_speedups: Vec<f64>,
}

/// A file that fragments lie in.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ProfiledImage {
    /// Its path.
    pub path: String,
    /// Its build-id, where it has one.
    pub build_id: Option<BuildId>,
}

/// System calls by which programs hand results over: an answer that is sent, data that are kept. How often they are made can count a program's work.
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
    /// Its name, as the program or the command line gives it.
    pub name: String,
    /// The means of counting its visits.
    pub counted_by: CountedBy,
    /// Visits over the whole run (of a latency pair: of its begin), in experiments and between them.
    pub visits: u64,
}

/// Means of counting visits of a progress point (§3.3).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum CountedBy {
    /// By the program itself, through `coz.h` or a header like it.
    Source,
    /// By a hardware breakpoint.
    Breakpoint,
    /// By a breakpoint that the kernel writes into the code.
    Uprobe,
    /// Not at all: samples in it stand for visits.
    Samples,
    /// By a probe that the program has for tracers (USDT).
    Usdt,
    /// By a tracepoint of a system call.
    Syscall,
    /// The end of the run is the one visit.
    EndToEnd,
}

/// A fragment of code that can be virtually sped up.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Fragment {
    /// `path:line`, or the name of the function.
    pub name: String,
    /// The function that a line is in, or `path:line` of a function's start; empty where it is not known.
    pub detail: String,
    /// Position in [`CausalRun::images`], where it is known.
    pub image: Option<u32>,
    /// Samples in it over the whole run (`s` of eq. 6).
    pub samples: u64,
    /// Samples taken while nothing was delayed, in [`CausalRun::undelayed_ns`].
    pub undelayed_samples: u64,
    /// The wait that the fragment stands for, if it is the fragment's waits for something outside of the program;
    /// `None` if it is its running. Samples of waits are the sampling periods that they took.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub waiting: Option<FragmentWait>,
    /// The name of the whole line, if this is one of the copies of a line that was inlined at several places. Its
    /// samples include those of this copy.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub copy_of: Option<String>,
}

/// A fragment's wait.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct FragmentWait {
    /// Name of the system call.
    pub call: String,
    /// The thread waits until somebody else requests work; no experiment is about such a wait.
    #[serde(default)]
    pub for_work: bool,
}

/// One performance experiment (§3.2).
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Experiment {
    /// The fragment that was virtually sped up: position in [`CausalRun::fragments`].
    pub fragment: u32,
    /// Virtual speedup, as a fraction of the fragment's run time, 0 to 1: delay over sampling period (eq. 4).
    pub speedup: f64,
    /// Start, in nanoseconds since that of the run.
    pub start_ns: u64,
    /// Length, in nanoseconds of wall time.
    pub duration_ns: u64,
    /// The part of the length that is due to delays: what the count of delays that every thread owes
    /// grew by, in nanoseconds. The effective duration (§2) is the length without it.
    pub delay_ns: u64,
    /// Samples in the fragment during the experiment (`s_obs` of eq. 6).
    pub samples: u64,
    /// Counts of each of [`CausalRun::points`]; a point that became known later has none.
    pub counts: Vec<Progress>,
    /// Other load on the machine; `None` where it was not recorded.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub disturbance: Option<Disturbance>,
    /// Waits of the target's threads that another one of them ended; `None` where they were not counted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub meetings: Option<u64>,
    /// Samples in code that waits by looking again and again; `None` where they were not counted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub spinning: Option<u64>,
    /// Delays were charged at the pace at which threads ran the fragment between two operations, not after each sample.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub at_pace: bool,
}

/// CPU time that the target did not have during an experiment, by cause; of all CPUs together, in
/// nanoseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Disturbance {
    /// Time that the hypervisor gave to other machines.
    pub stolen_ns: u64,
    /// CPU time of the kernel's own work and of processes that were not measured.
    pub others_ns: u64,
    /// Time that nobody used; `None` where that was not recorded.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub idle_ns: Option<u64>,
    /// Running and waiting time of the target's own threads; `None` where it was not recorded.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub target: Option<TargetTime>,
}

/// The time of the target's threads during an experiment, summed over them, in nanoseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct TargetTime {
    /// Running time.
    pub ran_ns: u64,
    /// Run-queue latency: time that the threads were ready and waited for a processor, which each other or other processes had.
    pub waited_ns: u64,
    /// Time for which the threads stood still to pay delays; `None` where it was not counted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub standing: Option<StandingTime>,
    /// Wall time for which the threads waited for work from other processes: in `epoll_wait`, `accept`, `recv` and the like, each thread's
    /// waits by its part of the running time; `None` where it was not measured.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub for_clients_ns: Option<u64>,
}

/// The time for which the target's threads stood still to pay delays, summed over them, in nanoseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct StandingTime {
    /// All of it.
    pub total_ns: u64,
    /// The part of it in which they waited for a processor: a part of [`TargetTime::waited_ns`] that cost the program nothing.
    pub waited_ns: u64,
}

impl Experiment {
    /// The effective duration: the length without the delays, in nanoseconds.
    pub fn effective_ns(&self) -> u64 {
        self.duration_ns.saturating_sub(self.delay_ns)
    }

    /// Returns the fraction of a machine with `cpus` CPUs that other load had meanwhile, 0 to 1; 0 where that is not known.
    pub fn part_of_others(&self, cpus: u32) -> f64 {
        let Some(it) = self.disturbance else {
            return 0.0;
        };
        let machine = f64::from(cpus.max(1)) * self.duration_ns as f64;
        let others = it.stolen_ns as f64 + it.others_ns as f64;
        (others / machine.max(1.0)).min(1.0)
    }
}

/// The load that something else puts on the machine while experiments run, as a part of it.
#[derive(Clone, Copy, Debug)]
pub struct OtherLoad {
    /// The median over the experiments.
    pub typical: f64,
    /// The median distance from it.
    spread: f64,
}

impl OtherLoad {
    /// Parts of the machine by which experiments differ anyway: it is counted in ticks.
    const SLIGHT: f64 = 0.05;
    /// Normal standard deviations from the median.
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

    /// Returns the load above which an experiment counts for nothing; at most half of them have more.
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
        /// `L` of Little's law: how many had begun and not ended, averaged over the experiment's time.
        in_flight: f64,
    },
}
