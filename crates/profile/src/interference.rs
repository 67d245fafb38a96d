//! Results of the interference method for a run: a score for each block of code, with its evidence.
//!
//! Made by `analysis::interference`, which is where the estimators are described. It is stored as
//! it is where no trace is kept, and is what `vitalfew interference report --json` prints.
//! All times are in nanoseconds.

use crate::{BlockKind, Host, RunEnd, Throttled, TracedCpuUser, TracedEvent};
use serde::{Deserialize, Serialize};

/// The scores of a run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Interference {
    /// The command with its arguments.
    pub command: Vec<String>,
    /// The machine.
    pub host: Host,
    /// Start, in nanoseconds since 1970-01-01 UTC.
    pub start_unix_ns: u64,
    /// Time from the first instruction of `main` to the end.
    pub duration_ns: f64,
    /// The end of the run.
    pub end: RunEnd,
    /// Executions of blocks that count.
    pub executions: u64,
    /// Executions that were lost because a buffer was full.
    pub lost: u64,
    /// Threads that executed a traced block.
    pub threads: u64,
    /// The durations of these threads together.
    pub thread_time_ns: f64,
    /// The measured duration of an empty block.
    pub empty_ns: f64,
    /// Waits were measured.
    pub waits: bool,
    /// Events that were sampled.
    #[serde(default)]
    pub events: Vec<TracedEvent>,
    /// See [`crate::TraceHead::no_events`].
    #[serde(default)]
    pub no_events: Option<String>,
    /// The time that threads were ready without a CPU.
    #[serde(default)]
    pub machine: MachineLoad,
    /// The blocks that were executed, those that lose most first.
    pub findings: Vec<BlockScore>,
    /// Pairs of blocks that followed each other and were slowed down as one (§3.3), those that lose
    /// most first.
    pub sequences: Vec<SequenceScore>,
    /// Blocks that nothing can be said of, and why.
    pub left_out: Vec<LeftOutBlock>,
    /// Warnings for the reader: each a sentence.
    pub warnings: Vec<String>,
}

/// The time in which threads were ready without a CPU, and who had the CPUs.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct MachineLoad {
    /// Time of all threads together.
    pub ready_ns: f64,
    /// The part that the program's threads owe to other processes: without these they would have had CPUs.
    pub taken_ns: f64,
    /// The part that they owe to the limit of a control group.
    pub throttled_ns: f64,
    /// Other processes that had CPUs meanwhile, the longest first.
    pub others: Vec<TracedCpuUser>,
    /// Effects of that limit; `None` if there were none, or they are not known.
    pub limit: Option<Throttled>,
}

/// A block that nothing can be said of.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LeftOutBlock {
    /// The block.
    pub name: String,
    /// Its image.
    pub image: String,
    /// Reason that nothing can be said of it.
    pub why: String,
}

/// An estimate with the interval that the truth is in.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Between {
    /// The estimate.
    pub estimate: f64,
    /// The lower end.
    pub low: f64,
    /// The upper end.
    pub high: f64,
}

/// The results for one block. In JSON the fields of its parts stand beside each other.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct BlockScore {
    /// The function, or the name of the macro.
    pub name: String,
    /// Its image.
    pub image: String,
    /// The kind of block.
    pub kind: BlockKind,
    /// The loss and its meaning.
    #[serde(flatten)]
    pub score: InterferenceScore,
    /// The lost time by the activity of the threads.
    #[serde(flatten)]
    pub breakdown: ScoreBreakdown,
    /// The numbers of executions.
    #[serde(flatten)]
    pub executions: ExecutionCounts,
    /// The durations of the executions.
    #[serde(flatten)]
    pub durations: DurationSummary,
    /// The floor of the kind that took most time.
    pub floor: Floor,
    /// The levels of detail at which executions could be compared.
    pub coverage: Coverage,
    /// The kinds of execution that took most time.
    pub kinds: Vec<KindScore>,
    /// The number of kinds that were told apart.
    pub kinds_total: u64,
    /// The threads that lost most.
    pub threads: Vec<ThreadScore>,
    /// Number of threads that executed the block.
    pub threads_total: u64,
    /// Events in its executions, in the order of [`Interference::events`].
    #[serde(default)]
    pub events: Vec<EventScore>,
    /// Possible causes, the likeliest first.
    pub causes: Vec<Cause>,
    /// Reasons that the score may be no interference.
    pub doubts: Vec<Doubt>,
    /// Call stacks, the one with most time first.
    pub stacks: Vec<StackScore>,
}

/// The loss of a block and its meaning.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct InterferenceScore {
    /// The SCI score (§2): the sum of `d_j − d_min` over the duration of the threads that
    /// executed the block.
    pub sci: Between,
    /// The same sum over the duration of all threads, without the time that they were idle: what the program loses.
    pub program: Between,
    /// The standing of the score, as far as it can be told.
    #[serde(default)]
    pub standing: Standing,
    /// The part of the score that the program's threads were seen to be the reason of, or slowed down while they were there.
    #[serde(default)]
    pub hindered: f64,
    /// The finding that has the same loss, in a function that this one calls.
    #[serde(default)]
    pub same_as: Option<String>,
    /// The score if each thread is held against its own fastest execution.
    pub own_floor: f64,
}

/// Parts of a score, by what the threads did in the lost time.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct ScoreBreakdown {
    /// The part that threads were blocked for.
    pub blocked: f64,
    /// The part that threads were ready to run for, without a CPU.
    pub scheduler: f64,
    /// The part of `scheduler` for which other processes had the CPUs, or a control group was at its limit.
    #[serde(default)]
    pub machine: f64,
    /// The part that threads ran for.
    pub running: f64,
}

/// Numbers of executions of a block.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ExecutionCounts {
    /// Executions that count, the outermost of a recursion; those that were not recorded are
    /// accounted for by those that were.
    pub calls: u64,
    /// The number of executions that were recorded.
    pub recorded: u64,
    /// Executions left out: the first of each thread that has many.
    pub warm_up: u64,
    /// Executions left by an exception, a panic or the end of the thread.
    pub unwound: u64,
    /// Sampling period at the end: the number of executions of which one was recorded.
    pub period: u32,
}

/// Durations of the executions of a block.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct DurationSummary {
    /// All executions together.
    pub total_ns: f64,
    /// Their mean.
    pub mean_ns: f64,
    /// Their mean without run-queue latency, in which they were ready without a CPU. The score without it is `sci − scheduler`.
    #[serde(default)]
    pub mean_with_cpu_ns: f64,
    /// Their median, to 5 %.
    pub median_ns: f64,
    /// The 99th percentile, to 5 %.
    pub p99_ns: f64,
    /// The longest.
    pub max_ns: f64,
    /// All executions by duration (Fig. 7).
    pub curve: Vec<CurvePoint>,
}

/// The fastest execution of a kind, and how sure that is.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Floor {
    /// `d_min`: a low order statistic of the durations.
    pub ns: f64,
    /// The shortest of all.
    pub low_ns: f64,
    /// The floor that periods of the run have by themselves, if that is higher.
    pub high_ns: f64,
    /// Executions of the kind.
    pub n: u64,
    /// Executions that took at most a tenth longer than the floor.
    pub near: u64,
    /// Parts of the run, of equal length, in which the kind was executed often enough to have a floor.
    pub windows: u32,
    /// Windows whose floor is at most a quarter above the floor.
    pub windows_near: u32,
    /// Threads that executed the kind often enough.
    pub threads: u32,
    /// Threads whose floor is at most a quarter above the floor.
    pub threads_near: u32,
    /// The class.
    pub quality: Quality,
    /// Reasons that the quality is not better, each a phrase.
    pub reasons: Vec<String>,
}

/// The reliability of a floor.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Quality {
    /// Seen often, at all times, by all threads.
    Good,
    /// One of these is missing.
    Fair,
    /// The true floor may be elsewhere.
    #[default]
    Doubtful,
}

/// Shares of a block's time, by how finely its executions were told apart; their sum is 1.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Coverage {
    /// The same calls inside, in the same order.
    pub exact: f64,
    /// The same, but for how often loops ran.
    pub collapsed: f64,
    /// Arguments of the same magnitude.
    pub arguments: f64,
    /// All that were too rare to be told apart.
    pub block: f64,
}

/// A level of detail.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Level {
    /// See [`Coverage::exact`].
    Exact,
    /// See [`Coverage::collapsed`].
    Collapsed,
    /// See [`Coverage::arguments`].
    Arguments,
    /// See [`Coverage::block`].
    Block,
}

/// The score of one kind of execution of a block.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct KindScore {
    /// The properties that its executions share.
    pub level: Level,
    /// Argument numbers with their values, where executions were told apart by them.
    pub arguments: Vec<(u8, u64)>,
    /// Executions of traced blocks inside each of them, where that is always the same.
    pub inside: Option<u64>,
    /// Executions.
    pub calls: u64,
    /// Its part of the block's score.
    pub sci: f64,
    /// Their mean.
    pub mean_ns: f64,
    /// Its floor.
    pub floor: Floor,
}

/// A step of a distribution.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct CurvePoint {
    /// Up to this duration.
    pub up_to_ns: f64,
    /// The number of executions up to this duration, without those of the previous steps.
    pub calls: u64,
}

/// The score of a block in one thread.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ThreadScore {
    /// The thread.
    pub tid: u32,
    /// Its process.
    pub pid: u32,
    /// Its name.
    pub name: String,
    /// Its score.
    pub sci: f64,
    /// Executions.
    pub calls: u64,
    /// Its shortest execution.
    pub min_ns: f64,
    /// The thread's duration.
    pub duration_ns: f64,
}

impl BlockScore {
    /// Returns whether a thread only waited in it for the program's own work ([`DoubtKind::Idle`]).
    pub fn is_idle(&self) -> bool {
        self.doubts
            .iter()
            .any(|doubt| doubt.kind == DoubtKind::Idle)
    }
}

/// The meaning of a score, in the order in which findings are listed.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
#[serde(rename_all = "snake_case")]
pub enum Standing {
    /// Threads of the program slow it down.
    #[default]
    Interference,
    /// Several threads wait in it for the work of others, who are busy.
    ForWork,
    /// Other processes, or the limit of a control group, left it without a CPU.
    Machine,
    /// Its executions differ, and nothing says that others are the reason.
    Varies,
    /// Threads wait for something from outside of the program.
    Outside,
    /// Threads wait because they asked to, or because they have nothing to do.
    Idle,
    /// The loss is that of a function that it calls.
    Same,
    /// Threads lose next to nothing.
    Slight,
}

/// A possible cause of interference.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum CauseKind {
    /// A lock that others hold.
    Lock,
    /// Waiting for others to come to the same point.
    Barrier,
    /// Waiting for work, or for its result: a pipe, a queue, a condition.
    Pool,
    /// A disk.
    Disk,
    /// A network.
    Network,
    /// The program's own threads are more than the CPUs.
    Scheduler,
    /// Page faults.
    PageFault,
    /// Memory, or a cache line that others write.
    Memory,
    /// A timer: it slept because it asked to.
    Sleep,
    /// It waited, and it is not known for what.
    OtherWait,
    /// It ran longer without more instructions or cache misses: a core that another thread shares, its clock rate, interrupts.
    Core,
    /// It computed longer, and nothing says that others are the reason.
    Work,
    /// The lock of the allocator.
    Allocator,
    /// The lock of the process's memory map.
    AddressSpace,
    /// The limit of a control group.
    Throttle,
    /// Other processes had the CPUs.
    OtherProcesses,
}

impl CauseKind {
    /// Returns its name for people.
    pub fn label(self) -> &'static str {
        match self {
            Self::Lock => "lock",
            Self::Barrier => "barrier, or unequal work before it",
            Self::Pool => "waiting for other threads' work",
            Self::Disk => "disk",
            Self::Network => "network",
            Self::Scheduler => "scheduler: more threads than CPUs",
            Self::PageFault => "page faults",
            Self::Memory => "memory, or a shared cache line",
            Self::Sleep => "sleeping",
            Self::OtherWait => "waiting, for what is not known",
            Self::Core => "a shared core, its clock rate, or interrupts",
            Self::Work => "more work",
            Self::Allocator => "the allocator",
            Self::AddressSpace => "the process's memory map",
            Self::Throttle => "the CPU limit of a control group",
            Self::OtherProcesses => "other processes had the CPUs",
        }
    }
}

/// A cause with its evidence.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Cause {
    /// The cause.
    pub kind: CauseKind,
    /// The part of what the block lost that it may stand for, 0 to 1.
    pub share: f64,
    /// True if something that was measured says so; else it is only consistent with that.
    pub measured: bool,
    /// Phrases that support it, each with its numbers.
    pub evidence: Vec<String>,
    /// The blocks in which threads ended these waits, those that ended most first.
    #[serde(default)]
    pub ended_by: Vec<WaitEnder>,
}

/// A block of code in which threads ended waits of others: of a lock, who held it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct WaitEnder {
    /// The block, or what stands for it.
    pub block: String,
    /// The duration of the waits that it ended.
    pub ns: f64,
    /// The thread that ended most of that.
    pub thread: Option<String>,
}

/// A reason that a score may be no interference.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Doubt {
    /// The doubt.
    pub kind: DoubtKind,
    /// In words, with the numbers.
    pub text: String,
    /// The number that it rests on.
    pub value: f64,
}

/// A kind of doubt.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum DoubtKind {
    /// One execution only (§5.3).
    OneCall,
    /// The duration follows an argument (§3.4); the value is the R².
    Argument,
    /// The duration follows the time on the CPU; the value is the R².
    Work,
    /// A few fast executions, and then nothing for long; the value is the score without them.
    FastPath,
    /// Others in the block at the same time make it no slower; the value is by how much they do.
    NotConcurrent,
    /// The floor is not trustworthy.
    Floor,
    /// Executions of different kinds had to be compared; the value is their share of the time.
    Mixed,
    /// Only a sample of its executions was recorded.
    Sampled,
    /// Recursion could not be followed; the value is how many executions may count twice.
    Recursion,
    /// One thread only.
    OneThread,
    /// One thread waits in it for the work of the program's other threads, and is idle. The value is the part of the
    /// score that it waited for. It is ranked behind all others.
    Idle,
    /// The recorded executions stand for more time than their threads had; the value is for how many times as much.
    Overstated,
}

/// The frequency of an event in the executions of a block.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct EventScore {
    /// The event.
    pub name: String,
    /// Samples in the executions.
    pub samples: u64,
    /// The mean number of events in an execution.
    pub per_execution: f64,
    /// Comparison of slow and fast executions; `None` where nothing can be said.
    pub slow: Option<EventContrast>,
}

/// Slow executions against fast ones, of the same kinds.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct EventContrast {
    /// The factor by which the slow executions ran longer.
    pub slower: f64,
    /// Factor by which the event happened more often in them; `None`: no sample fell into fast ones.
    pub times: Option<f64>,
    /// The lower end of that (95 %, for samples that do not depend on each other).
    pub at_least: f64,
    /// The upper end; `None`: there is none.
    pub at_most: Option<f64>,
    /// Samples in slow executions.
    pub slow_samples: u64,
    /// Samples in fast ones.
    pub fast_samples: u64,
    /// Additional running time of slow executions for each event that they had more, in nanoseconds; `None`: they had no more.
    pub ns_each: Option<f64>,
}

/// A call stack of a block.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct StackScore {
    /// Innermost caller first: function, with file and line where known.
    pub frames: Vec<String>,
    /// The number of sightings among the calls whose stack was taken.
    pub count: u64,
    /// The mean duration of those calls.
    pub mean_ns: f64,
}

/// Two blocks that a thread executed one after the other, as one.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct SequenceScore {
    /// The first.
    pub first: String,
    /// The second.
    pub second: String,
    /// The number of calls.
    pub calls: u64,
    /// From the entry of the first to the leave of the second: what they lost over the duration of all threads.
    pub program: f64,
    /// The part of it that passed between them.
    pub between: f64,
    /// The mean.
    pub mean_ns: f64,
    /// The floor.
    pub floor_ns: f64,
}
