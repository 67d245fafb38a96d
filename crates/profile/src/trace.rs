//! Executions of each block of code by each thread: the input of the interference method.
//!
//! The ISPOT paper (the SCI score), §3: a thread enters and leaves a block at a time of its CPU's
//! time-stamp counter. We keep one item for each execution, written at its end, so that a thread's
//! executions are in the order of their ends (post-order). A block's callees come before the block
//! itself, and lie in its interval.

use crate::{BuildId, Host, ImageOffset, RunEnd};
use serde::{Deserialize, Serialize};

/// Index of a [`TracedBlock`] in [`TraceHead::blocks`].
pub type BlockId = u32;

/// Index of a [`TracedThread`] in [`TraceHead::threads`].
pub type ThreadIndex = u32;

/// All of a trace except its items: known at the end of the run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct TraceHead {
    /// The command with its arguments.
    pub command: Vec<String>,
    /// The machine.
    pub host: Host,
    /// Start, in nanoseconds since 1970-01-01 UTC.
    pub start_unix_ns: u64,
    /// Ticks of the time-stamp counter in a second.
    pub ticks_per_second: u64,
    /// Time from the first instruction of `main` to the end of the process (or of tracing), in
    /// ticks.
    pub duration: u64,
    /// The end of the run.
    pub end: RunEnd,
    /// The traced blocks, and those that could not be traced.
    pub blocks: Vec<TracedBlock>,
    /// The threads that executed a traced block.
    pub threads: Vec<TracedThread>,
    /// The code addresses of the stacks, named; [`TraceItem::Stack`] has indices in this.
    pub places: Vec<TracedPlace>,
    /// Executions without room in a buffer.
    pub lost: u64,
    /// True if waits were measured (off-CPU time and wakers); otherwise there are no
    /// [`TraceItem::Wait`].
    pub waits: bool,
    /// Programs that had the CPUs while the target's threads were ready, the longest first.
    #[serde(default)]
    pub cpu_users: Vec<TracedCpuUser>,
    /// Delay by the limit of its control groups; `None` if there was none, or if unknown.
    #[serde(default)]
    pub throttled: Option<Throttled>,
    /// Attempts to let threads run alone.
    #[serde(default)]
    pub solo: SoloSchedule,
    /// Time that the record of an execution takes on this machine, in ticks; 0 if unknown.
    #[serde(default)]
    pub call_ticks: u64,
    /// Warnings for the reader: each a sentence.
    pub warnings: Vec<String>,
}

/// Attempts to let one thread run alone, beside those that are [`TraceItem::Solo`].
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct SoloSchedule {
    /// Moments at which several threads were busy.
    pub several_busy: u64,
    /// Moments at which no two were.
    pub one_busy: u64,
    /// Intervals given up, because a thread held a lock or was in the kernel for too long.
    pub given_up: u64,
    /// Reason that no thread was held.
    pub refused: Option<String>,
}

/// A process that had CPUs which threads of the target were ready for.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TracedCpuUser {
    /// Process.
    pub pid: u32,
    /// Name of the thread.
    pub name: String,
    /// True for the target itself and for processes that it started.
    pub target: bool,
    /// Time for which it had these CPUs, in nanoseconds.
    pub ns: u64,
}

/// Effects of a control group's CPU limit during a run: differences of its `cpu.stat`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Throttled {
    /// The control group.
    pub group: String,
    /// Number of periods in which the group reached its limit (`nr_throttled`).
    pub times: u64,
    /// Time for which the group was held up, on all CPUs together, in nanoseconds.
    pub ns: u64,
}

/// A traced or requested block of code.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct TracedBlock {
    /// The function, demangled, or the name in the macro.
    pub name: String,
    /// Path of its image.
    pub image: String,
    /// Build-id of its image.
    pub build_id: Option<BuildId>,
    /// Start address, in the image.
    pub offset: ImageOffset,
    /// The kind of block.
    pub kind: BlockKind,
    /// Sampling period at the end of the run (§3.2.3): one of this many executions was recorded; 1:
    /// all.
    pub period: u32,
    /// Reason why the block could not be traced; `None` if it was.
    pub refused: Option<String>,
    /// Calls that ended before the block did, by a longjmp or the end of the thread.
    pub unfinished: u64,
    /// Number of calls that its threads counted; 0 if unknown.
    #[serde(default)]
    pub calls: u64,
    /// Number of calls that the recorded executions stand for by their periods. It differs from
    /// `calls` by chance, and by executions that were lost or did not end.
    #[serde(default)]
    pub represented: u64,
    /// The cache line that its code shares with other threads, as far as samples showed it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub shared_line: Option<SharedLine>,
}

/// A cache line that threads pass to and fro.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct SharedLine {
    /// The variable in it; `None` if it is no variable of the function's image, but on the heap.
    pub variable: Option<String>,
    /// Threads that use it.
    pub threads: u64,
    /// True if they use different parts of it (false sharing).
    pub is_false: bool,
    /// Samples of the function with a known data address.
    pub samples: u64,
    /// Samples among them that access the line.
    pub shared: u64,
}

/// The kind of a block.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum BlockKind {
    /// A function.
    Function,
    /// Code between the two macros of `vitalfew.h`.
    Marked,
}

/// A thread that executed traced blocks.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct TracedThread {
    /// Process.
    pub pid: u32,
    /// Thread.
    pub tid: u32,
    /// Its name at its end.
    pub name: String,
    /// The first and the last moment of its observation, in ticks; their difference is the thread's
    /// duration in the score (§2).
    pub start: u64,
    /// See `start`.
    pub end: u64,
}

/// A place on a call stack.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TracedPlace {
    /// The function; empty if unknown.
    pub function: String,
    /// Source file and line.
    pub line: Option<(String, u32)>,
    /// Path of the image.
    pub image: String,
    /// Position in it.
    pub offset: ImageOffset,
}

/// Some items of one thread, in the order of their ends.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct TraceBatch {
    /// The thread.
    pub thread: ThreadIndex,
    /// The thread's executions and waits.
    pub items: Vec<TraceItem>,
}

/// An action of a thread. All times are in ticks of the time-stamp counter.
#[derive(Clone, Debug, PartialEq)]
pub enum TraceItem {
    /// The thread executed a block.
    Execution(Execution),
    /// The thread was off its CPU; comes before the execution that contains it.
    Wait(Wait),
    /// The call stack of the block's next execution in the batch, innermost caller first: indices
    /// in [`TraceHead::places`].
    Stack {
        /// The block.
        block: BlockId,
        /// Callers.
        places: Vec<u32>,
    },
    /// From now on, each recorded execution of a block in this thread stands for `period`
    /// executions. The trace no longer shows which calls of the block a caller in the thread made.
    Period {
        /// The block.
        block: BlockId,
        /// One of this many executions is recorded, on average.
        period: u32,
    },
    /// Number of the thread's executions that were lost here.
    Lost(u64),
    /// The thread ran alone; comes before all executions and waits that end after the times that
    /// are compared have begun.
    Solo(SoloInterval),
}

/// An interval in which a thread ran alone because the others were held, between two in which it
/// ran together with them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SoloInterval {
    /// The time together before it.
    pub before: (u64, u64),
    /// The time alone.
    pub alone: (u64, u64),
    /// The time together after it.
    pub after: (u64, u64),
    /// Nobody was held: what is found is the method's error.
    pub placebo: bool,
    /// Threads that were busy, this one included.
    pub busy: u32,
}

impl SoloInterval {
    /// Returns the beginning of the time that is compared, and its end.
    pub fn whole(&self) -> (u64, u64) {
        (self.before.0, self.after.1)
    }
}

/// One execution of a block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Execution {
    /// The block.
    pub block: BlockId,
    /// True if an exception, a panic or the end of its thread left the block.
    pub unwound: bool,
    /// The time of leaving it.
    pub leave: u64,
    /// Time from entry to leave.
    pub duration: u64,
    /// The first argument of a function that takes an address
    /// ([`takes_address`](crate::known_code::KnownOperation::takes_address)); 0 if unknown.
    pub address: u64,
}

/// A time in which a thread did not run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Wait {
    /// Start of the wait.
    pub start: u64,
    /// End of the wait, when the thread ran again.
    pub end: u64,
    /// The last part of the wait, in which the thread was ready and waited for a CPU.
    pub queued: u64,
    /// The part of `queued` in which other processes had CPUs that the thread could have had; the
    /// rest is due to the program's own threads.
    pub taken: u64,
    /// The part of the time before `queued` in which the thread that ended the wait was itself
    /// ready without a CPU, because of other processes.
    pub held: u64,
    /// True if the thread was ready all the time, because another one took its CPU.
    pub preempted: bool,
    /// The system call of the wait; `None` outside of one (a page fault). If a thread that it woke
    /// took the CPU: the call in which that thread had waited.
    pub system_call: Option<u32>,
    /// The thread of the program that woke it. If the CPU was taken from it: the thread that it had
    /// woken and that took the CPU.
    pub waker: Option<ThreadIndex>,
    /// The block of the waker.
    pub waker_block: Option<BlockId>,
}
