//! From the bytes of an image to the input of instruction-level analyses: [`Instruction`]s, the
//! control-flow [`FlowGraph`] of a procedure, and classes of its blocks and edges that run equally
//! often.
//!
//! Images are untrusted: nothing here recurses on their contents, and the size of the procedure
//! bounds all work.
#![forbid(unsafe_code)]

mod aarch64;
mod adjacency;
mod architecture;
mod counters;
mod decode;
mod effect;
mod equivalence;
mod error;
mod form_names;
mod graph;
mod instruction;
mod interpret;
mod loops;
mod model;
mod register;
mod x86_64;

pub use architecture::Architecture;
pub use counters::{
    CountedLoop, StepCounter, counted_loops, loop_exit, starts_at_constant, step_counters,
};
pub use decode::InstructionDecoder;
pub use equivalence::Equivalence;
pub use error::Error;
pub use graph::{
    Block, Edge, EdgeKind, FlowGraph, JumpTable, LoadedImage, NoImage, is_never_returning,
};
pub use instruction::{Flow, Instruction, InstructionForm, InstructionKind, MemoryOperand};
pub use interpret::{
    Blocked, CodeInterpreter, MAX_OPERATIONS, ObservedAccess, ObservedBranch, Registers, Slice,
    SliceKind, SliceOperation, WalkExtent, WayObservation,
};
pub use loops::{Loop, Loops};
pub use model::{
    Bounds, Held, InstructionCost, Limit, Machines, PROCESSORS, Processor, ProcessorModel,
    Resource, Scheduled, taken_branches_event,
};
pub use register::{Register, RegisterSet};

/// Size of the largest procedure that is analysed, in bytes.
pub const MAX_PROCEDURE: usize = 8 << 20;

/// Maximum number of instructions of a procedure, including overlapping ones.
pub const MAX_INSTRUCTIONS: usize = 4 << 20;
