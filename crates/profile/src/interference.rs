//! Results of the interference method for a run: a score for each block of code, with its evidence.
//!
//! `analysis::interference` makes it, and describes the estimators. Without a kept trace, it is
//! stored unchanged. `vitalfew interference report --json` prints it. All times are in nanoseconds.

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
    /// True if waits were measured.
    pub waits: bool,
    /// Events that were sampled.
    #[serde(default)]
    pub events: Vec<TracedEvent>,
    /// See [`crate::TraceHead::no_events`].
    #[serde(default)]
    pub no_events: Option<String>,
    /// The time in which threads were ready without a CPU.
    #[serde(default)]
    pub machine: MachineLoad,
    /// What threads lose to each other, as intervals in which one ran alone show.
    #[serde(default)]
    pub solo: SoloReport,
    /// The blocks that were executed, those that lose most first.
    pub findings: Vec<BlockScore>,
    /// Pairs of blocks that followed each other and were slowed down as one (§3.3), by loss,
    /// descending.
    pub sequences: Vec<SequenceScore>,
    /// Blocks without a result, with the reason.
    pub left_out: Vec<LeftOutBlock>,
    /// Warnings for the reader: each a sentence.
    pub warnings: Vec<String>,
}

/// The time in which threads were ready without a CPU, and the users of the CPUs.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct MachineLoad {
    /// Time of all threads together.
    pub ready_ns: f64,
    /// The part due to other processes: without these the program's threads would have had CPUs.
    pub taken_ns: f64,
    /// The part due to the limit of a control group.
    pub throttled_ns: f64,
    /// Other processes that had CPUs meanwhile, the longest first.
    pub others: Vec<TracedCpuUser>,
    /// Effects of that limit; `None` if there were none, or if unknown.
    pub limit: Option<Throttled>,
}

/// A block without a result.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LeftOutBlock {
    /// The block.
    pub name: String,
    /// Its image.
    pub image: String,
    /// The reason.
    pub why: String,
}

/// An estimate with its interval.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Between {
    /// The estimate.
    pub estimate: f64,
    /// The lower end.
    pub low: f64,
    /// The upper end.
    pub high: f64,
}

/// Losses by intervention: how fast threads were while all others were held, beside themselves shortly before and after.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct SoloReport {
    /// What is found.
    pub verdict: SoloVerdict,
    /// Intervals in which a thread ran alone.
    pub intervals: u64,
    /// Intervals in which nobody was held.
    pub placebos: u64,
    /// Intervals given up, because a thread held a lock or was in the kernel for too long.
    pub given_up: u64,
    /// Intervals in which the thread waited for a held one.
    pub stuck: u64,
    /// Busy threads, on average.
    pub threads: f64,
    /// The loss of the program; `None`: not known.
    pub program: Option<SoloLoss>,
    /// The losses of blocks, those that the program loses most by first.
    pub blocks: Vec<SoloBlock>,
    /// Reason that no thread was held.
    pub refused: Option<String>,
}

/// What intervals alone say of a program.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum SoloVerdict {
    /// There were no intervals, or too few executions in them.
    #[default]
    NotMeasured,
    /// Only one thread was busy at a time.
    OneThread,
    /// Threads slow each other down.
    Interference,
    /// They do not, by more than the method's error.
    NotFound,
    /// Threads wait for each other by design: alone, none gets far.
    Dependence,
}

/// A loss, as part of the time together.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct SoloLoss {
    /// The loss.
    pub loss: Between,
    /// The loss found in placebos: the method's error. `None`: not known.
    pub placebo: Option<Between>,
    /// The loss is above that.
    pub is_claimed: bool,
}

/// The loss of a block, or of a block's executions with one lock.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct SoloBlock {
    /// The function, or the name of the macro.
    pub name: String,
    /// Its image.
    pub image: String,
    /// The lock's address (its low 44 bits), of a row for one of several locks.
    pub lock: Option<u64>,
    /// The part of the threads' time together that is spent in it and in no traced function that it calls.
    pub share: f64,
    /// The part of the threads' time that is lost in it, likewise.
    #[serde(flatten)]
    pub loss: SoloLoss,
    /// Executions that ended alone.
    pub alone: u64,
    /// Executions that ended together.
    pub together: u64,
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
    /// The loss by intervention; `None`: not known.
    #[serde(default)]
    pub solo: Option<SoloLoss>,
    /// The lost time by the activity of the threads.
    #[serde(flatten)]
    pub breakdown: ScoreBreakdown,
    /// The numbers of executions.
    #[serde(flatten)]
    pub executions: ExecutionCounts,
    /// The durations of the executions.
    #[serde(flatten)]
    pub durations: DurationSummary,
    /// The floor of the kind with most time.
    pub floor: Floor,
    /// The levels of detail at which executions could be compared.
    pub coverage: Coverage,
    /// The kinds of execution with most time.
    pub kinds: Vec<KindScore>,
    /// Number of distinguished kinds.
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
    /// The same sum over the duration of all threads, without their idle time: the program's loss.
    pub program: Between,
    /// The standing of the score, as far as known.
    #[serde(default)]
    pub standing: Standing,
    /// The part of the score that the program's threads were seen to cause, or that comes with
    /// their presence.
    #[serde(default)]
    pub hindered: f64,
    /// The finding with the same loss, in a function that this one calls.
    #[serde(default)]
    pub same_as: Option<String>,
    /// The score if each thread is compared with its own fastest execution.
    pub own_floor: f64,
}

/// Parts of a score, by the state of the threads in the lost time.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct ScoreBreakdown {
    /// The part in which threads were blocked.
    pub blocked: f64,
    /// The part in which threads were ready to run, without a CPU.
    pub scheduler: f64,
    /// The part of `scheduler` in which other processes had the CPUs, or a control group was at its
    /// limit.
    #[serde(default)]
    pub machine: f64,
    /// The part in which threads ran.
    pub running: f64,
}

/// Numbers of executions of a block.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ExecutionCounts {
    /// Executions that count, the outermost of a recursion; the recorded ones also stand for those
    /// that were not recorded.
    pub calls: u64,
    /// The number of executions that were recorded.
    pub recorded: u64,
    /// Executions left out: the first of each thread that has many.
    pub warm_up: u64,
    /// Executions left by an exception, a panic or the end of the thread.
    pub unwound: u64,
    /// Sampling period at the end: one of this many executions was recorded.
    pub period: u32,
}

/// Durations of the executions of a block.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct DurationSummary {
    /// Sum of all durations.
    pub total_ns: f64,
    /// Mean duration.
    pub mean_ns: f64,
    /// Mean duration without run-queue latency. The score without it is `sci − scheduler`.
    #[serde(default)]
    pub mean_with_cpu_ns: f64,
    /// Median duration, to 5 %.
    pub median_ns: f64,
    /// The 99th percentile, to 5 %.
    pub p99_ns: f64,
    /// The longest duration.
    pub max_ns: f64,
    /// All executions by duration (Fig. 7).
    pub curve: Vec<CurvePoint>,
}

/// The fastest execution of a kind, and its reliability.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Floor {
    /// `d_min`: a low order statistic of the durations.
    pub ns: f64,
    /// The shortest duration.
    pub low_ns: f64,
    /// The floor from periods of the run alone, if that is higher.
    pub high_ns: f64,
    /// Executions of the kind.
    pub n: u64,
    /// Executions that took at most a tenth longer than the floor.
    pub near: u64,
    /// Parts of the run, of equal length, with enough executions of the kind for a floor.
    pub windows: u32,
    /// Windows whose floor is at most a quarter above the floor.
    pub windows_near: u32,
    /// Threads that executed the kind often enough.
    pub threads: u32,
    /// Threads whose floor is at most a quarter above the floor.
    pub threads_near: u32,
    /// The class.
    pub quality: Quality,
    /// Reasons why the quality is not better, each a phrase.
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

/// Shares of a block's time, by the level of detail at which its executions were distinguished;
/// their sum is 1.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Coverage {
    /// The same calls inside, in the same order.
    pub exact: f64,
    /// The same calls, apart from the number of rounds of loops.
    pub collapsed: f64,
    /// Arguments of the same magnitude.
    pub arguments: f64,
    /// All executions that were too rare to be distinguished.
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
    /// Argument numbers with their values, if arguments distinguish the executions.
    pub arguments: Vec<(u8, u64)>,
    /// Executions of traced blocks inside each of them, if always the same.
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
    /// Number of executions up to this duration, without those of the previous steps.
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

/// The meaning of a score, in the order of the listing.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
#[serde(rename_all = "snake_case")]
pub enum Standing {
    /// Threads of the program slow it down.
    #[default]
    Interference,
    /// Several threads wait in it for the work of other threads, which are busy.
    ForWork,
    /// Other processes, or the limit of a control group, left it without a CPU.
    Machine,
    /// Its executions differ, and no evidence shows that others are the reason.
    Varies,
    /// Threads wait for something outside of the program.
    Outside,
    /// Threads wait at their own request, or because they have nothing to do.
    Idle,
    /// The loss belongs to a function that it calls.
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
    /// Waiting for other threads to reach the same point.
    Barrier,
    /// Waiting for work, or for its result: a pipe, a queue, a condition.
    Pool,
    /// A disk.
    Disk,
    /// A network.
    Network,
    /// More threads of the program than CPUs.
    Scheduler,
    /// Page faults.
    PageFault,
    /// Memory, or a cache line that others write.
    Memory,
    /// A timer: the thread slept at its own request.
    Sleep,
    /// A wait for something unknown.
    OtherWait,
    /// A longer run without more instructions or cache misses: a core that another thread shares,
    /// its clock rate, interrupts.
    Core,
    /// A longer computation, and no evidence that others are the reason.
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
    /// The part of the block's loss that it may explain, 0 to 1.
    pub share: f64,
    /// True if a measurement supports it; otherwise it is only consistent with the measurements.
    pub measured: bool,
    /// Phrases that support it, each with its numbers.
    pub evidence: Vec<String>,
    /// The blocks in which threads ended these waits, by waits ended, descending.
    #[serde(default)]
    pub ended_by: Vec<WaitEnder>,
}

/// A block of code in which threads ended waits of others; for a lock, the holder's block.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct WaitEnder {
    /// The block, or its substitute.
    pub block: String,
    /// The duration of the waits that it ended.
    pub ns: f64,
    /// The thread that ended most of these waits.
    pub thread: Option<String>,
}

/// A reason why a score may be no interference.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Doubt {
    /// The doubt.
    pub kind: DoubtKind,
    /// The doubt in words, with the numbers.
    pub text: String,
    /// The number behind it.
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
    /// A few fast executions, and none for long; the value is the score without them.
    FastPath,
    /// Others in the block at the same time do not make it slower; the value is by how much they
    /// do.
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
    /// One thread waits in it for the work of the program's other threads, and is idle. The value
    /// is the part of the score that it waited for. It is ranked behind all others.
    Idle,
    /// The recorded executions stand for more time than their threads had; the value is the ratio
    /// of the two.
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
    /// Comparison of slow and fast executions; `None` without enough data.
    pub slow: Option<EventContrast>,
}

/// Slow executions against fast ones, of the same kinds.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct EventContrast {
    /// The factor by which the slow executions ran longer.
    pub slower: f64,
    /// Factor by which the event happened more often in them; `None` if no sample fell into fast
    /// ones.
    pub times: Option<f64>,
    /// The lower end of that factor (95 %, for independent samples).
    pub at_least: f64,
    /// The upper end; `None` if there is none.
    pub at_most: Option<f64>,
    /// Samples in slow executions.
    pub slow_samples: u64,
    /// Samples in fast ones.
    pub fast_samples: u64,
    /// Additional running time of slow executions for each additional event, in nanoseconds; `None`
    /// if they had no more events.
    pub ns_each: Option<f64>,
}

/// A call stack of a block.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct StackScore {
    /// Innermost caller first: function, with file and line if known.
    pub frames: Vec<String>,
    /// Number of its sightings among the calls whose stack was taken.
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
    /// The loss from the entry of the first to the leave of the second, divided by the duration of
    /// all threads.
    pub program: f64,
    /// The part of it between the two blocks.
    pub between: f64,
    /// Mean duration.
    pub mean_ns: f64,
    /// Its floor.
    pub floor_ns: f64,
}
