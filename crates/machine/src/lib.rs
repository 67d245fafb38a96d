//! From the bytes of an image to what the instruction-level analyses need: [`Instruction`]s, the
//! control-flow [`FlowGraph`] of a procedure, and which of its blocks and edges run equally often.
//!
//! Images are untrusted: nothing here follows their contents by recursion, everything is bounded
//! by the size of the procedure.
#![forbid(unsafe_code)]

mod aarch64;
mod adjacency;
mod architecture;
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

/// The largest procedure that is analysed, in bytes.
pub const MAX_PROCEDURE: usize = 8 << 20;

/// The most instructions that a procedure may have, those that overlap others included.
pub const MAX_INSTRUCTIONS: usize = 4 << 20;
