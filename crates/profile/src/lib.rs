//! Data model of measurements: recordings, call trees, experiments, findings.
//!
//! The lowest layer: plain data that all other crates share, and no I/O. A [`Recording`] is the
//! result of a collection: [`Image`]s (executables, shared libraries, the kernel), [`Sample`]s
//! counted by position in an image, by event and by process, and, if recorded, the call stacks in a
//! [`StackTable`].
//!
//! Three kinds of numbers are easily confused, and are three types here: an address in the running
//! process ([`ProcessAddress`]), an address in the image's own tables ([`ImageAddress`]), and a
//! position in the image that outlives both ([`Location`], an image and an [`ImageOffset`]).
//!
//! A [`CallTree`] is the other view of a profile, and the only one that other tools' profiles share
//! with ours: names in calling contexts, with costs.
//!
//! A [`CausalProfile`] is the record of performance experiments: the virtually sped up code, the
//! speedup, and the effect on the rate of progress. A trace ([`TraceHead`], [`TraceBatch`]) is the
//! record of each execution of some blocks of code; [`Interference`] is derived from it.
//!
//! [`known_code`] is the catalogue of well-known libraries and runtimes.
//!
//! A [`Finding`] is one claim of any method about one place, in their common form.
#![forbid(unsafe_code)]

mod accesses;
mod address;
mod branch_stack;
mod call_tree;
mod call_tree_builder;
mod container;
mod event;
mod execution_counts;
mod experiment;
mod finding;
mod folding;
mod image;
mod interference;
pub mod known_code;
mod order;
mod plain_name;
mod process_maps;
mod process_names;
mod rare_stacks;
mod recording;
mod shared_lines;
mod socket_use;
mod stack;
mod stack_walks;
mod symbol;
mod task_times;
mod trace;

pub use accesses::{AccessCount, Accesses, Footprint, KEPT, OnWay, Visits, add_way};
pub use address::{ImageAddress, ImageOffset, Location, ProcessAddress};
pub use branch_stack::{Stretch, StretchCount, StretchSightings, Stretches, TakenBranch};
pub use call_tree::{
    CallTree, CallTreeColumns, CallTreeError, Method, MethodId, NodeId, ValueType,
};
pub use call_tree_builder::{CallTreeBuilder, DraftNode};
pub use container::Container;
pub use event::{Event, EventId, Unit};
pub use execution_counts::{CountSample, CountWindow, ExecutionCounts, PlaceHits, ProbedKind};
pub use experiment::{
    ANSWERING_CALLS, AskedExperiments, CausalProfile, CausalRun, CountedBy, CreditRule,
    Disturbance, Experiment, ExperimentSettings, Fragment, FragmentWait, Granularity, OtherLoad,
    ProfiledImage, Progress, ProgressPoint, RunEnd, StandingTime, TargetTime,
};
pub use finding::{
    AmountBase, AmountUnit, Certainty, Claim, CpuTaker, EndingThread, FINDING_SCHEMA, Finding,
    FindingAmount, FindingDoubt, FindingEvidence, FindingPlace, KERNEL_CALL, MemoryLimit,
    MemoryNeed, PAGE_FAULT, PlaceInCode, TimeKind,
};
pub use folding::{GIL_WAIT, fold_interpreter_frames};
pub use image::{BuildId, FileIdentity, Image, ImageId, ImageKind};
pub use interference::{
    Between, CauseKind, Contention, FunctionLoss, FunctionStack, FunctionThread, FunctionWaits,
    Interference, LeftOutFunction, LockLoss, MachineLoad, SoloLoss, SoloReport, SoloVerdict,
    TracedFunction, WaitEnder,
};
pub use plain_name::{plain_name, strip_clones};
pub use process_maps::MapsLine;
pub use process_names::{ProcessNames, name_processes};
pub use rare_stacks::{
    FoldedStacks, RARE_STACKS, RARE_STACKS_WARNING, RareStacks, rare_stacks_image,
    rare_stacks_symbol, stack_importance,
};
pub use recording::{
    BranchCount, CallGraph, Collector, Host, LIMITED_RIGHTS, NameId, NameSet, Recording, Sample,
    Target, ThreadCount, Waker, kernel_name, name_thread,
};
pub use shared_lines::{DataAccess, SharedLines, SharingCode};
pub use socket_use::SocketUse;
pub use stack::{StackFrame, StackId, StackTable};
pub use stack_walks::{FRAMES_SUMMARY, StackWalkCounts, StackWalks, warn_of_lost_stacks};
pub use symbol::{
    EmbeddedSymbol, Procedure, Resolution, SourceFrame, SymbolTable, UNNAMED_PROCEDURE,
};
pub use task_times::TaskTimes;
pub use trace::{
    BlockId, BlockKind, Execution, SharedLine, SoloInterval, SoloSchedule, ThreadIndex, Throttled,
    TraceBatch, TraceHead, TraceItem, TracedBlock, TracedCpuUser, TracedPlace, TracedThread, Wait,
};
