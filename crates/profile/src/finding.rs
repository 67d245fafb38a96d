//! The common form of all methods' answers.
//!
//! A [`Finding`] is one claim about one place: the claim, the place, the amount and its base, the
//! evidence, the doubts, and the command that shows more. Methods return findings beside their own
//! detailed results. It contains no sentences, so that a program can weigh findings of different
//! methods. The phrase book in `results` turns it into sentences, for text, JSON and pages alike.

use crate::{CauseKind, SharedLine};
use serde::{Deserialize, Serialize};

/// The version of the form, as it stands in JSON. `docs/finding.schema.json` is its schema.
pub const FINDING_SCHEMA: &str = "vitalfew.finding/2";

/// One claim of one method about one place.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Finding {
    /// The claim.
    pub claim: Claim,
    /// The place.
    pub place: FindingPlace,
    /// The amount that is claimed.
    pub amount: FindingAmount,
    /// The numbers behind the claim.
    pub evidence: Vec<FindingEvidence>,
    /// Reasons why it may be wrong.
    pub doubts: Vec<FindingDoubt>,
    /// The command that shows more of it, as words, the program's name first.
    pub next: Vec<String>,
}

/// A claim about a place. Each kind belongs to one method.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum Claim {
    /// Search of call trees: the place has a cost, without the overlap with earlier findings.
    HoldsCost,
    /// Causal profile: a faster place makes the program faster.
    WorthSpeedup,
    /// Causal profile: a faster place makes the program slower, because threads meet more often.
    SpeedupHurts,
    /// Causal profile: a faster place does not change the program's speed.
    SpeedupWorthless,
    /// Causal profile: the experiments are inconclusive.
    SpeedupUnclear,
    /// Interference: threads lose time to each other in the place.
    LosesTime,
    /// Comparison: the place costs more or less than before.
    Changed,
    /// Spread of several runs: the place varies more than by chance.
    Varies,
    /// Instruction-level analysis: the place stalls.
    Stalls,
    /// All methods together (`run`): the program spends its time in the place, running or waiting.
    TakesTime,
}

/// The place of a finding. Unknown parts are empty or absent.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct FindingPlace {
    /// The path of the image, or its last part if no more is known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub image: Option<String>,
    /// The place in the image.
    pub what: PlaceInCode,
}

/// A place in a program.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case", tag = "kind")]
pub enum PlaceInCode {
    /// Calls, the outermost first.
    CallPath {
        /// The procedures.
        path: Vec<String>,
    },
    /// A procedure.
    Procedure {
        /// Its name.
        name: String,
    },
    /// A line of source.
    Line {
        /// `path:line`.
        line: String,
        /// The procedure that it is in.
        procedure: String,
    },
    /// An instruction.
    Instruction {
        /// The procedure that it is in.
        procedure: String,
        /// Its address in the image.
        address: u64,
    },
    /// A thread.
    Thread {
        /// Its number.
        tid: u32,
        /// Its name.
        name: String,
    },
    /// A lock.
    Lock {
        /// The procedure that waits for it.
        procedure: String,
    },
    /// A file or a device.
    File {
        /// Its path.
        path: String,
    },
    /// The whole program.
    #[default]
    Program,
}

/// An amount: its value, its unit, and its base.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct FindingAmount {
    /// The estimate.
    pub value: f64,
    /// The 95 % confidence interval, both ends; absent if unknown.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub interval: Option<[f64; 2]>,
    /// The unit of the value.
    pub unit: AmountUnit,
    /// The base of the value: the whole that it is a part of.
    pub relative_to: AmountBase,
    /// The kind of statement that the value is.
    pub certainty: Certainty,
}

impl FindingAmount {
    /// Returns the reliable amount: the end of the interval nearer to 0, or 0 if the interval
    /// contains it. Without an interval, the value itself.
    pub fn conservative(&self) -> f64 {
        match self.interval {
            Some([low, _]) if low > 0.0 => low,
            Some([_, high]) if high < 0.0 => high,
            Some(_) => 0.0,
            None => self.value,
        }
    }
}

/// The unit of an amount.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum AmountUnit {
    /// A part of [`FindingAmount::relative_to`], 1 for all of it.
    Fraction,
    /// A factor, relative to before: 1 for no change.
    Factor,
    /// Nanoseconds.
    Nanoseconds,
    /// Samples, allocated bytes or other units of a profile.
    Units(String),
}

/// The base of an amount.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum AmountBase {
    /// The sum of a profile's costs.
    ProfileTotal,
    /// The difference of two profiles.
    ProfileDifference,
    /// The time between two visits of a progress point.
    Period(String),
    /// The time from the begin of a transaction to its end.
    Latency(String),
    /// The durations of all threads together.
    ThreadTime,
    /// The time of the procedure itself.
    ProcedureTime,
    /// The same place in the first of two sets.
    FirstSet,
    /// The mean of the same place over several sets.
    MeanOfSets,
    /// Time in which threads ran, or waited for something that no other thread of the program was
    /// working on.
    WorkingTime,
}

/// The kind of statement that an amount is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum Certainty {
    /// A direct measurement.
    Measured,
    /// The most that removing the place can gain, because nothing is ever free.
    UpperBound,
    /// A prediction by experiments of a change that nobody has made.
    Prediction,
}

/// A measurement that supports a claim.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case", tag = "kind")]
pub enum FindingEvidence {
    /// Performance experiments.
    Experiments {
        /// Number of experiments that count.
        experiments: usize,
        /// Experiments that were too far from all others to count.
        set_aside: usize,
        /// Visits of the progress point in them.
        visits: u64,
        /// Program speedup for each speedup of the place, with its interval.
        slope: [f64; 3],
        /// False-discovery rate among the effects with this or a smaller value.
        q: f64,
        /// The speedup of the place at which the amount holds.
        at_speedup: f64,
    },
    /// The experiments sped up the place's waits for events outside of the program, in this system
    /// call, and not its running.
    SpedUpWaits {
        /// The system call.
        call: String,
    },
    /// Its part of all samples (for waits, of all measured waits), 0 to 1.
    SampleShare {
        /// The part.
        share: f64,
    },
    /// Its cost in a call tree.
    CallCost {
        /// Its cost including overlap with earlier findings, in the profile's unit.
        cost: f64,
        /// Its cost without that overlap.
        new: f64,
        /// The number of calling contexts that end in the place.
        contexts: usize,
    },
    /// Executions of a traced block.
    Executions {
        /// Number of them.
        calls: u64,
        /// Their mean, in nanoseconds.
        mean_ns: f64,
    },
    /// The cause of a loss.
    LossCause {
        /// The cause.
        cause: CauseKind,
        /// The cache line, if that is the cause.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        shared_line: Option<SharedLine>,
    },
    /// Samples in two sets.
    SampleCounts {
        /// In the first.
        before: u64,
        /// In the second.
        after: u64,
        /// False discoveries among the rows with this or a smaller value; absent with too few
        /// samples.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        q: Option<f64>,
    },
    /// Samples in several runs.
    SampleSpread {
        /// In each of them.
        counts: Vec<u64>,
        /// False discoveries among the rows with this or a smaller value; absent with too few
        /// samples.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        q: Option<f64>,
    },
    /// The time at a place by activity.
    TimeSpent {
        /// The activity.
        on: TimeKind,
        /// The part of the time at the place, 0 to 1.
        part: f64,
    },
    /// A function that the place calls, and that works for the place: its time is a part of the
    /// place's.
    TimeCalling {
        /// The function.
        function: String,
        /// The part of the time at the place, 0 to 1.
        part: f64,
    },
    /// The outermost function that asks for most of the time at the place, but not for most of the
    /// program.
    OnBehalfOf {
        /// The function.
        function: String,
        /// The part of the time at the place that it asks for, 0 to 1.
        part: f64,
    },
    /// A function whose allocations a garbage collector collects.
    AllocatedBy {
        /// The function.
        function: String,
        /// The part of the time that allocations take, 0 to 1.
        part: f64,
    },
    /// A change that avoids the own work of a language's runtime.
    SparedBy {
        /// The change.
        change: String,
    },
    /// The instruction of a procedure that takes most of its time; the reasons follow.
    HotInstruction {
        /// The procedure.
        procedure: String,
        /// Its address in the image.
        address: u64,
        /// Its source line, as `file:line`.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        line: Option<String>,
        /// Its longest wait, as a part of the procedure's time, 0 to 1.
        part: f64,
    },
    /// The line of the place's function that has most of the function's time, callees included.
    DearLine {
        /// `file:line`.
        line: String,
        /// The part of the function's time, 0 to 1.
        part: f64,
    },
    /// The program's speedup if the place gets faster, as Coz defines it (section 2).
    VirtualSpeedup {
        /// The time that gets shorter: [`AmountBase::WorkingTime`] stands for the whole run.
        of: AmountBase,
        /// The part that is saved if the place takes no time. If the place is twice as fast, half
        /// of that is saved.
        free: f64,
        /// The 95 % bounds of `free`. A negative value makes the program slower.
        interval: [f64; 2],
        /// The line or function that experiments sped up. Absent if the speedup follows from the
        /// times.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        measured_at: Option<String>,
    },
    /// The time that threads lose to each other in the place, measured by letting one thread run
    /// alone for moments.
    ContentionLoss {
        /// The part of the threads' time.
        part: f64,
        /// Its 95 % bounds.
        interval: [f64; 2],
    },
    /// A part of the same amount that other findings of the list have, and that is not in this
    /// amount.
    CountedElsewhere {
        /// The part, of the amount's base.
        part: f64,
    },
    /// The thread that ended waits at the place.
    WaitEnded {
        /// The thread.
        by: EndingThread,
        /// The part of the waiting at the place, 0 to 1.
        part: f64,
    },
    /// Other threads of the program waited until code of the place ended their waits.
    HoldsUp {
        /// The function that waited most.
        waiting: String,
        /// The most frequent reason of these waits.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        on: Option<TimeKind>,
        /// All these waits, as a part of the working time.
        part: f64,
    },
    /// One thread ran code of the place while no other thread of the program worked.
    WorksAlone {
        /// The least part of the run for which that was so, 0 to 1.
        part: f64,
    },
    /// The holder of the CPU that threads waited for.
    CpuTaken {
        /// The holder.
        by: CpuTaker,
        /// The part of that waiting, 0 to 1.
        part: f64,
    },
    /// The program's memory exceeded its limit.
    MemoryShort {
        /// The needed memory and its limit.
        need: MemoryNeed,
    },
    /// A reason of stalls that could not be ruled out.
    StallCulprit {
        /// Its name, as `annotate` lists it.
        culprit: String,
        /// The part of the time that only it can explain, 0 to 1.
        least: f64,
        /// The part that it can explain at most, 0 to 1.
        most: f64,
    },
    /// A reason of all stalls of a place, beside those of the slowest instruction.
    StallSum {
        /// Its name, as `annotate` lists it.
        culprit: String,
        /// The part of the place's time that only it can explain, 0 to 1.
        least: f64,
        /// The part that it can explain at most, 0 to 1.
        most: f64,
    },
}

/// A thread that ended waits of others.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct EndingThread {
    /// Its name.
    pub thread: String,
    /// False for a thread of another program.
    pub is_own: bool,
    /// The function that ended them, if its stack is known: the innermost outside the kernel and
    /// the C library.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub function: Option<String>,
}

/// The holder of a CPU that a thread waited for.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case", tag = "who")]
pub enum CpuTaker {
    /// Another program.
    OtherProgram {
        /// The name of its thread.
        name: String,
    },
    /// Threads of the program itself, which may not use all CPUs.
    OwnThreads {
        /// CPUs that it may use.
        allowed: u32,
        /// Number of online CPUs.
        online: u32,
    },
    /// Other machines on the same host: the hypervisor gave them the CPU.
    OtherMachines,
    /// Nobody: the control group reached its limit, or the CPU took long to wake up.
    Nobody,
}

impl CpuTaker {
    /// Returns whether the holder of the CPU is neither the program nor its limit.
    pub fn is_stranger(&self) -> bool {
        matches!(self, Self::OtherProgram { .. } | Self::OtherMachines)
    }
}

/// The memory that a program needed, and its limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct MemoryNeed {
    /// Peak memory of its processes, swapped-out memory included, without files' pages, in bytes.
    pub needed_bytes: u64,
    /// The swapped-out part of the peak, in bytes.
    pub swapped_bytes: u64,
    /// The limit of `limit_of`, in bytes.
    pub allowed_bytes: u64,
    /// The owner of the limit.
    pub limit_of: MemoryLimit,
}

/// The limit on memory that a program has reached.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum MemoryLimit {
    /// A control group's limit, for all its processes.
    ControlGroup,
    /// The machine's memory, for all programs.
    Machine,
}

/// An activity or a wait that a thread spends time on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum TimeKind {
    /// Its own code.
    Computing,
    /// The kernel's code, in system calls.
    SystemCalls,
    /// The kernel's code, in page faults.
    PageFaults,
    /// Waiting for memory that was swapped out, and the kernel's work to bring it back and to make
    /// room.
    Swapping,
    /// Waiting for a disk.
    Disk,
    /// Waiting for a network, or for a process beyond it.
    Network,
    /// Waiting for a lock.
    Locks,
    /// Waiting for other threads to reach the same point.
    Barriers,
    /// Sleeping at its own request.
    Sleeping,
    /// Waiting for something unknown.
    OtherWaits,
    /// Ready to run, but without a CPU.
    NoCpu,
}

impl TimeKind {
    /// All kinds, in the order of their declaration.
    pub const ALL: [Self; 11] = [
        Self::Computing,
        Self::SystemCalls,
        Self::PageFaults,
        Self::Swapping,
        Self::Disk,
        Self::Network,
        Self::Locks,
        Self::Barriers,
        Self::Sleeping,
        Self::OtherWaits,
        Self::NoCpu,
    ];

    /// Returns whether a thread runs during this kind of time. Swapping counts as a wait for
    /// memory, although a part of it may run.
    pub fn is_running(self) -> bool {
        matches!(self, Self::Computing | Self::SystemCalls | Self::PageFaults)
    }

    /// Returns whether some time of this kind may come from samples, and not from measurement.
    pub fn is_sampled(self) -> bool {
        self.is_running() || self == Self::Swapping
    }

    /// Returns its phrase, in the field's words.
    pub fn phrase(self) -> &'static str {
        match self {
            Self::Computing => "on CPU",
            Self::SystemCalls => "system calls",
            Self::PageFaults => "page faults",
            Self::Swapping => "swapping",
            Self::Disk => "disk wait",
            Self::Network => "network wait",
            Self::Locks => "lock contention",
            Self::Barriers => "barrier wait",
            Self::Sleeping => "sleep",
            Self::OtherWaits => "off CPU",
            Self::NoCpu => "run queue",
        }
    }
}

/// Reason why a claim may be wrong.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case", tag = "kind")]
pub enum FindingDoubt {
    /// The interval contains "no effect".
    IntervalHoldsZero,
    /// The place runs only in a part of the time, so that the amount was scaled.
    ShortPhase {
        /// The part of the run time.
        part: f64,
    },
    /// Threads wait for each other more often than delays can follow, so that the interval was
    /// widened.
    FrequentMeetings {
        /// Running time of a thread between two such waits, in nanoseconds.
        every_ns: f64,
    },
    /// One side of a comparison has only one recording, so that the spread between runs is a prior.
    OneRun,
    /// The execution frequency of the code is too uncertain.
    UnsureFrequency,
}

impl Finding {
    /// Returns the least saving of a speedup of the place: the lower end of its virtual speedup or
    /// of its contention, or, if unknown, of its amount.
    pub fn saving(&self) -> f64 {
        let savings = self.evidence.iter().filter_map(|evidence| match evidence {
            FindingEvidence::VirtualSpeedup { interval, .. }
            | FindingEvidence::ContentionLoss { interval, .. } => Some(interval[0].max(0.0)),
            _ => None,
        });
        let saving = savings.reduce(f64::max);
        saving.unwrap_or_else(|| self.amount.conservative())
    }

    /// Returns the activity that takes most of the time, from its first such evidence.
    pub fn spent_on(&self) -> Option<TimeKind> {
        self.evidence.iter().find_map(|evidence| match evidence {
            FindingEvidence::TimeSpent { on, .. } => Some(*on),
            _ => None,
        })
    }

    /// Returns the holder of the CPU that was waited for most.
    pub fn cpu_taken_by(&self) -> Option<&CpuTaker> {
        self.evidence.iter().find_map(|evidence| match evidence {
            FindingEvidence::CpuTaken { by, .. } => Some(by),
            _ => None,
        })
    }
}

/// The suffix of a frame that stands for the kernel's work in a system call.
pub const KERNEL_CALL: &str = " (system call)";
/// The frame that stands for the kernel's work in a page fault.
pub const PAGE_FAULT: &str = "page fault";

impl PlaceInCode {
    /// Returns the shortest name of the place that still identifies it.
    pub fn name(&self) -> String {
        match self {
            Self::CallPath { path } => path.last().cloned().unwrap_or_default(),
            Self::Procedure { name } => name.clone(),
            Self::Line { line, .. } => line.clone(),
            Self::Instruction { procedure, address } => format!("{procedure} at {address:#x}"),
            Self::Thread { tid, name } => format!("thread {name} ({tid})"),
            Self::Lock { procedure } => format!("the lock that {procedure} waits for"),
            Self::File { path } => path.clone(),
            Self::Program => "the program".to_owned(),
        }
    }
}
