//! The form that the answers of all methods have in common.
//!
//! A [`Finding`] is one claim about one place: what, where, how much and of what, the evidence, the
//! doubts, and the command that shows more. Methods return findings beside their own detailed results.
//! Nothing in it is a sentence, so that a program can weigh findings of different methods. The phrase
//! book in `results` makes sentences of it, for text, JSON and pages alike.

use crate::{CauseKind, DoubtKind};
use serde::{Deserialize, Serialize};

/// The version of the form, as it stands in JSON. `docs/finding.schema.json` is its schema.
pub const FINDING_SCHEMA: &str = "vitalfew.finding/2";

/// One claim of one method about one place.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Finding {
    /// The claim.
    pub claim: Claim,
    /// Where.
    pub place: FindingPlace,
    /// The amount that is claimed.
    pub amount: FindingAmount,
    /// The numbers that the claim rests on.
    pub evidence: Vec<FindingEvidence>,
    /// Why it may be wrong.
    pub doubts: Vec<FindingDoubt>,
    /// The command that shows more of it: its words, the program's name first.
    pub next: Vec<String>,
}

/// A claim about a place. Each kind is one method's.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum Claim {
    /// Search of call trees: it has a cost, overlap with the findings before it not counted.
    HoldsCost,
    /// Causal profile: the program becomes faster if it does.
    WorthSpeedup,
    /// Causal profile: the program becomes slower if it gets faster, because threads meet more often.
    SpeedupHurts,
    /// Causal profile: the program does not notice.
    SpeedupWorthless,
    /// Causal profile: the experiments do not tell.
    SpeedupUnclear,
    /// Interference: threads lose time in it to each other.
    LosesTime,
    /// Comparison: it costs more or less than before.
    Changed,
    /// Spread of several runs: it varies more than by chance.
    Varies,
    /// Instruction-level analysis: it stalls.
    Stalls,
    /// All methods together (`run`): the program spends its time there, running or waiting.
    TakesTime,
}

/// Where something was found. What is not known is empty or absent.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct FindingPlace {
    /// The path of the image, or its last part where that is all that is known.
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
    /// Where the truth is with 95 %: both ends; absent where no interval is known.
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
    /// The end of the interval that is nearer to 0, or 0 if it reaches over it: what can be relied on. The
    /// value itself where no interval is known.
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
    /// Samples, allocated bytes or whatever a profile counts.
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
    /// The time that threads ran, or waited for what no other thread of the program was busy with.
    WorkingTime,
}

/// The kind of statement that an amount is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum Certainty {
    /// Measured as it is.
    Measured,
    /// The most that removing it can gain: nothing is ever free.
    UpperBound,
    /// A prediction by experiments, of a change that nobody has made.
    Prediction,
}

/// Something that was measured and speaks for a claim.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case", tag = "kind")]
pub enum FindingEvidence {
    /// Performance experiments.
    Experiments {
        /// Number of those that count.
        experiments: usize,
        /// Experiments that were too far from all others to count.
        set_aside: usize,
        /// Visits of the progress point in them.
        visits: u64,
        /// Program speedup for each speedup of the place, with its interval.
        slope: [f64; 3],
        /// False discoveries among the effects with this or a smaller value.
        q: f64,
        /// The speedup of the place at which the amount holds.
        at_speedup: f64,
    },
    /// The experiments sped up the place's waits in this system call for what is outside of the program, not its running.
    SpedUpWaits {
        /// The system call.
        call: String,
    },
    /// Its part of all samples (of waits: of all that were measured), 0 to 1.
    SampleShare {
        /// The part.
        share: f64,
    },
    /// Its cost in a call tree.
    CallCost {
        /// With what findings before it have, in the profile's unit.
        cost: f64,
        /// Without that.
        new: f64,
        /// The number of calling contexts that end in it.
        contexts: usize,
    },
    /// Executions of a traced block.
    Executions {
        /// Number of them.
        calls: u64,
        /// Their mean, in nanoseconds.
        mean_ns: f64,
        /// The duration of the fastest executions of the same kind, in nanoseconds.
        floor_ns: f64,
    },
    /// The lost time by state, as parts of the block's time.
    LostTime {
        /// It ran.
        running: f64,
        /// It waited for something.
        blocked: f64,
        /// It waited for a CPU.
        scheduler: f64,
    },
    /// A possible reason.
    SuspectedCause {
        /// The cause.
        cause: CauseKind,
        /// The part of the loss that it may stand for, 0 to 1.
        share: f64,
        /// True if something that was measured says so.
        measured: bool,
    },
    /// Samples in two sets.
    SampleCounts {
        /// In the first.
        before: u64,
        /// In the second.
        after: u64,
        /// False discoveries among the rows with this or a smaller value; absent with too few samples.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        q: Option<f64>,
    },
    /// Samples in several runs.
    SampleSpread {
        /// In each of them.
        counts: Vec<u64>,
        /// False discoveries among the rows with this or a smaller value; absent with too few samples.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        q: Option<f64>,
    },
    /// The time at a place by activity.
    TimeSpent {
        /// On what.
        on: TimeKind,
        /// The part of the time at the place, 0 to 1.
        part: f64,
    },
    /// A function that the place calls, and that works for it: its time is a part of the place's.
    TimeCalling {
        /// The function.
        function: String,
        /// The part of the time at the place, 0 to 1.
        part: f64,
    },
    /// The outermost function that asks for most of the time at the place, but not for most of the program.
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
    /// A change that spares what a language's runtime does by itself.
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
        /// What it waits for at most, as a part of the procedure's time, 0 to 1.
        part: f64,
    },
    /// The line of the place's function that most of the function's time lies in, with what it calls.
    DearLine {
        /// `file:line`.
        line: String,
        /// The part of the function's time, 0 to 1.
        part: f64,
    },
    /// By how much the program gets faster if the place does, as Coz defines it (section 2).
    VirtualSpeedup {
        /// What gets shorter: [`AmountBase::WorkingTime`] stands for the whole run.
        of: AmountBase,
        /// The part that it gets shorter by if the place takes no time. If the place is twice as
        /// fast, it is half of that.
        free: f64,
        /// Bounds of `free`, with 95 %. Below 0 the program gets slower.
        interval: [f64; 2],
        /// The line or function that experiments sped up. Absent where it follows from the times.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        measured_at: Option<String>,
    },
    /// A part of the same amount that other findings of the list have: it is not in this one's.
    CountedElsewhere {
        /// The part, of the amount's base.
        part: f64,
    },
    /// The thread that ended waits at the place.
    WaitEnded {
        /// Whoever it was.
        by: EndingThread,
        /// The part of the waiting at the place, 0 to 1.
        part: f64,
    },
    /// Others of the program waited until code of the place ended their waits.
    HoldsUp {
        /// The function that waited most.
        waiting: String,
        /// What for, most of the time.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        on: Option<TimeKind>,
        /// All these waits, as a part of the working time.
        part: f64,
    },
    /// One thread ran code of the place while no other thread of the program worked.
    WorksAlone {
        /// For so much of the run at least, 0 to 1.
        part: f64,
    },
    /// The holder of the CPU that threads waited for.
    CpuTaken {
        /// Whoever it was.
        by: CpuTaker,
        /// The part of that waiting, 0 to 1.
        part: f64,
    },
    /// The program's memory did not fit into what it may have.
    MemoryShort {
        /// What it needed, and what there was.
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
    /// The same of all stalls of a place, beside those of the slowest instruction.
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
    /// The function that did it, if its stack is known: the innermost outside the kernel and the C library.
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
        /// CPUs that there are.
        online: u32,
    },
    /// Other machines on the same host: the hypervisor let this one wait.
    OtherMachines,
    /// Nobody: its control group may use no more, or the CPU was long in waking up.
    Nobody,
}

impl CpuTaker {
    /// Returns whether whoever had the CPU is no part of the program, nor of what it was allowed.
    pub fn is_stranger(&self) -> bool {
        matches!(self, Self::OtherProgram { .. } | Self::OtherMachines)
    }
}

/// The memory that a program needed, and the most that it may have.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct MemoryNeed {
    /// Memory that its processes had at most at one time, what was swapped out included, without files' pages: in bytes.
    pub needed_bytes: u64,
    /// The part of it that was swapped out then, in bytes.
    pub swapped_bytes: u64,
    /// The most that `limit_of` may have, in bytes.
    pub allowed_bytes: u64,
    /// The owner of the limit.
    pub limit_of: MemoryLimit,
}

/// Whose limit on memory a program has reached.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum MemoryLimit {
    /// A control group's, with all its processes.
    ControlGroup,
    /// The machine's, with all programs.
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
    /// Waiting for memory that was swapped out, and the kernel's work to bring it back and to make room.
    Swapping,
    /// Waiting for a disk.
    Disk,
    /// Waiting for a network, or for a process beyond it.
    Network,
    /// Waiting for a lock.
    Locks,
    /// Waiting for other threads to come to the same point.
    Barriers,
    /// Sleeping because it asked to.
    Sleeping,
    /// Waiting for something that is not known.
    OtherWaits,
    /// Ready to run, but without a CPU.
    NoCpu,
}

impl TimeKind {
    /// All of them, in the order of their declaration.
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

    /// Returns whether a thread runs while it spends its time so. Swapping is a wait for memory, although a part of it may run.
    pub fn is_running(self) -> bool {
        matches!(self, Self::Computing | Self::SystemCalls | Self::PageFaults)
    }

    /// Returns whether some of its time may be that of samples, and not measured.
    pub fn is_sampled(self) -> bool {
        self.is_running() || self == Self::Swapping
    }

    /// Returns the field's name of it.
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

/// Why a claim may be wrong.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case", tag = "kind")]
pub enum FindingDoubt {
    /// The interval reaches over "no effect".
    IntervalHoldsZero,
    /// The place runs in a part of the time only, so that the amount was scaled.
    ShortPhase {
        /// The part of the run time.
        part: f64,
    },
    /// Threads wait for each other more often than delays can follow, so that the interval was widened.
    FrequentMeetings {
        /// Running time of a thread between two such waits, in nanoseconds.
        every_ns: f64,
    },
    /// One recording is on one side of a comparison, so that the spread between runs is experience.
    OneRun,
    /// A doubt of the interference method.
    Score {
        /// The doubt.
        doubt: DoubtKind,
        /// The number that it rests on.
        value: f64,
    },
    /// The execution frequency of the code is not known well enough.
    UnsureFrequency,
}

impl Finding {
    /// Returns what a speedup of the place saves at least: the lower end of its virtual speedup, or,
    /// where that is not known, of its amount.
    pub fn saving(&self) -> f64 {
        let speedup = self.evidence.iter().find_map(|evidence| match evidence {
            FindingEvidence::VirtualSpeedup { interval, .. } => Some(interval[0].max(0.0)),
            _ => None,
        });
        speedup.unwrap_or_else(|| self.amount.conservative())
    }

    /// Returns what most of the time is spent on, by its first evidence of that.
    pub fn spent_on(&self) -> Option<TimeKind> {
        self.evidence.iter().find_map(|evidence| match evidence {
            FindingEvidence::TimeSpent { on, .. } => Some(*on),
            _ => None,
        })
    }

    /// Returns who had the CPU that was waited for most.
    pub fn cpu_taken_by(&self) -> Option<&CpuTaker> {
        self.evidence.iter().find_map(|evidence| match evidence {
            FindingEvidence::CpuTaken { by, .. } => Some(by),
            _ => None,
        })
    }
}

/// Strips what C libraries put in front of the same function: `___pthread_mutex_lock`, `__GI_fsync`, `__libc_write`.
pub fn plain_name(name: &str) -> &str {
    let plain = name.trim_start_matches('_');
    let plain = plain.strip_prefix("GI_").unwrap_or(plain);
    let plain = plain.trim_start_matches('_');
    match name.starts_with('_') {
        true => plain.strip_prefix("libc_").unwrap_or(plain),
        false => plain,
    }
}

/// The suffix of a frame that stands for the kernel's work in a system call.
pub const KERNEL_CALL: &str = " (system call)";
/// The frame that stands for the kernel's work in a page fault.
pub const PAGE_FAULT: &str = "page fault";

impl PlaceInCode {
    /// The name of the place, as short as it can be and still be found.
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_the_c_library_are_those_of_its_manual() {
        for (name, plain) in [
            ("__GI___libc_write", "write"),
            ("___pthread_mutex_lock", "pthread_mutex_lock"),
            ("__libc_pread64", "pread64"),
            ("libc_of_mine", "libc_of_mine"),
            ("write", "write"),
        ] {
            assert_eq!(plain_name(name), plain);
        }
    }
}
