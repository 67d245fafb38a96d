//! Results of the interference method for a run: what threads cost each other, and what they wait
//! for.
//!
//! Made by `analysis::interference`, which is where the estimators are described. It is stored as
//! it is where no trace is kept, and is what `vitalfew interference report --json` prints.
//! All times are in nanoseconds.

use crate::{BlockKind, Host, RunEnd, SharedLine, Throttled, TracedCpuUser};
use serde::{Deserialize, Serialize};

/// The result of a run.
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
    /// Recorded executions of functions.
    pub executions: u64,
    /// Executions that were lost because a buffer was full.
    pub lost: u64,
    /// Threads that executed a traced function.
    pub threads: u64,
    /// The durations of these threads together.
    pub thread_time_ns: f64,
    /// Waits were measured.
    pub waits: bool,
    /// The time that threads were ready without a CPU.
    pub machine: MachineLoad,
    /// The loss of the program by intervention.
    pub solo: SoloReport,
    /// The part of it in all functions together in which threads contend for locks; `None` if
    /// unknown.
    pub contention: Option<Contention>,
    /// The functions that were executed: first those in which the program loses most, then those
    /// in which it waits longest.
    pub functions: Vec<TracedFunction>,
    /// Functions that were not executed or not traced, and why.
    pub left_out: Vec<LeftOutFunction>,
    /// Warnings for the reader: each a sentence.
    pub warnings: Vec<String>,
}

/// The time in which threads were ready without a CPU, and the processes that had the CPUs.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct MachineLoad {
    /// Time of all threads together.
    pub ready_ns: f64,
    /// The part in which other processes had CPUs that the threads could have had.
    pub taken_ns: f64,
    /// The part in which a control group was at its limit.
    pub throttled_ns: f64,
    /// Other processes that had CPUs meanwhile, the longest first.
    pub others: Vec<TracedCpuUser>,
    /// Effects of that limit; `None` if there were none, or if unknown.
    pub limit: Option<Throttled>,
}

/// A function without a result.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LeftOutFunction {
    /// The function, or the name of the macro.
    pub name: String,
    /// Its image.
    pub image: String,
    /// The reason.
    pub why: String,
}

/// An estimate with its 95 % interval.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Between {
    /// The estimate.
    pub estimate: f64,
    /// The lower end.
    pub low: f64,
    /// The upper end.
    pub high: f64,
}

impl Between {
    /// Returns the length of the interval.
    #[must_use]
    pub fn interval_width(&self) -> f64 {
        self.high - self.low
    }
}

/// The loss of a program by intervention: the speed of threads while all others were held, beside
/// their own shortly before and after.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct SoloReport {
    /// The verdict.
    pub verdict: SoloVerdict,
    /// Intervals in which a thread ran alone.
    pub intervals: u64,
    /// Intervals in which no thread was held, for comparison.
    pub placebos: u64,
    /// Intervals given up, because a thread held a lock or was in the kernel for too long.
    pub given_up: u64,
    /// Intervals in which the thread waited for a held one.
    pub stuck: u64,
    /// Busy threads, on average.
    pub threads: f64,
    /// The loss of the program; `None` if unknown.
    pub program: Option<SoloLoss>,
    /// Reason that no thread was held.
    pub refused: Option<String>,
}

/// The verdict of intervals alone on a program.
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
    /// Threads do not slow each other down by more than the method's error.
    NotFound,
    /// Threads wait for each other by design: alone, none gets far.
    Dependence,
}

/// A loss, as part of the threads' time together.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct SoloLoss {
    /// The loss.
    pub loss: Between,
    /// The loss found in placebos; `None` if unknown.
    pub placebo: Option<Between>,
    /// The loss is larger than the method's error.
    pub is_claimed: bool,
}

/// The result for one function. The losses of all functions add up to the program's, but for code
/// outside of traced functions.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct TracedFunction {
    /// The function, or the name of the macro.
    pub name: String,
    /// Its image.
    pub image: String,
    /// The kind of block.
    pub kind: BlockKind,
    /// The loss in it and in no traced function that it calls; `None` if unknown.
    pub loss: Option<FunctionLoss>,
    /// The same by lock, of a function that takes several.
    pub locks: Vec<LockLoss>,
    /// The cause of the loss, where the kernel or the function's name tells it.
    pub cause: Option<CauseKind>,
    /// The cache line that most of its samples share with other threads.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub shared_line: Option<SharedLine>,
    /// The waits in it and in no traced function that it calls, the longest first.
    pub waits: Vec<FunctionWaits>,
    /// Calls; the recorded ones also stand for those that were not recorded.
    pub calls: u64,
    /// Recorded executions.
    pub recorded: u64,
    /// Sampling period at the end: one of this many executions was recorded.
    pub period: u32,
    /// Executions left by an exception, a panic or the end of the thread.
    pub unwound: u64,
    /// All executions together. Those inside others of the same function count, too.
    pub total_ns: f64,
    /// Their mean.
    pub mean_ns: f64,
    /// The longest.
    pub max_ns: f64,
    /// The threads with most time in it.
    pub threads: Vec<FunctionThread>,
    /// Number of threads that executed it.
    pub threads_total: u64,
    /// Call stacks, the one with most time first.
    pub stacks: Vec<FunctionStack>,
}

/// The loss in all functions in which threads contend for locks.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Contention {
    /// The function in which threads wait longest.
    pub function: String,
    /// Its image.
    pub image: String,
    /// Its kind of contention.
    pub cause: CauseKind,
    /// Number of functions.
    pub functions: u64,
    /// The loss. Estimated together, as the functions' errors partly cancel.
    #[serde(flatten)]
    pub loss: FunctionLoss,
}

/// The loss in a function.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct FunctionLoss {
    /// The part of the threads' time together that is spent in it, without traced callees.
    pub share: f64,
    /// The part of the threads' time that is lost in it.
    #[serde(flatten)]
    pub solo: SoloLoss,
}

/// The loss in a function's executions with one lock.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct LockLoss {
    /// The lock's address (its low 44 bits).
    pub address: u64,
    /// The loss.
    #[serde(flatten)]
    pub loss: FunctionLoss,
}

/// Waits of one kind in a function.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct FunctionWaits {
    /// The kind.
    pub kind: CauseKind,
    /// Time blocked, and ready after that.
    pub ns: f64,
    /// Number of waits.
    pub waits: u64,
    /// The functions in which threads ended these waits, the longest waits first.
    pub ended_by: Vec<WaitEnder>,
}

/// A function in which threads ended waits of others; for a lock, the holder's function.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct WaitEnder {
    /// The function; `None` if no traced function was under way.
    pub function: Option<String>,
    /// The duration of the waits that it ended.
    pub ns: f64,
    /// The thread that ended most of these waits.
    pub thread: Option<String>,
}

/// A function's executions in one thread.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct FunctionThread {
    /// The thread.
    pub tid: u32,
    /// Its process.
    pub pid: u32,
    /// Its name.
    pub name: String,
    /// Executions.
    pub calls: u64,
    /// All executions together.
    pub total_ns: f64,
}

/// A call stack of a function.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct FunctionStack {
    /// Innermost caller first: function, with file and line if known.
    pub frames: Vec<String>,
    /// Number of its sightings among the calls whose stack was taken.
    pub count: u64,
    /// The mean duration of those calls.
    pub mean_ns: f64,
}

/// A kind of wait between threads, or outside of the program; also the cause of a loss.
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
    /// A page fault.
    PageFault,
    /// A timer: the thread slept at its own request.
    Sleep,
    /// A wait for something unknown.
    OtherWait,
    /// The lock of the allocator.
    Allocator,
    /// The lock of the process's memory map.
    AddressSpace,
    /// A cache line that threads pass to and fro.
    SharedLine,
}

impl CauseKind {
    /// Returns its name for people.
    pub fn label(self) -> &'static str {
        match self {
            Self::Lock => "lock contention",
            Self::Barrier => "barrier wait",
            Self::Pool => "waiting for other threads' work",
            Self::Disk => "disk wait",
            Self::Network => "network wait",
            Self::PageFault => "page faults",
            Self::Sleep => "sleeping",
            Self::OtherWait => "waiting, for what is not known",
            Self::Allocator => "lock contention in the allocator",
            Self::AddressSpace => "contention for the process's memory map",
            Self::SharedLine => "shared cache line",
        }
    }

    /// Returns whether threads wait there for something that others hold, and not for others' work.
    pub fn is_contention(self) -> bool {
        matches!(self, Self::Lock | Self::Allocator | Self::AddressSpace)
    }
}
