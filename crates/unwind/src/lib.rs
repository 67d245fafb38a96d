//! Call stacks from copies of stacks.
//!
//! A sample of `record --call-graph dwarf` carries the user registers and the first bytes of the
//! user stack. [`Unwinder::unwind`] turns them into return addresses with the unwind tables
//! (`.eh_frame`, `.debug_frame`) of the files mapped into the process, an [`AddressSpace`] of
//! [`ModuleData`]. Files without tables are followed by their instructions (x86-64), generated code
//! by frame pointers. Each machine can unwind stacks of both x86-64 and AArch64.
//!
//! The registers, the stack and the tables are untrusted. With any contents, an unwind ends after
//! [`MAX_FRAMES`] frames and a bounded amount of work, and reports its end.
#![forbid(unsafe_code)]

mod cache;
mod caller;
mod caller_rule;
mod code_frames;
mod compact;
mod elf;
mod error;
mod evaluate;
mod failure;
mod module;
mod registers;
mod rows;
mod rule;
mod space;
mod stack;
mod unwinder;

pub use cache::ModuleCache;
pub use caller_rule::CallerRule;
#[cfg(feature = "model")]
pub use compact::CompactUnwinder;
pub use compact::{CompactFrame, CompactKind, CompactReturn, CompactRule, CompactTable};
pub use error::Error;
pub use failure::UnwindFailure;
pub use module::ModuleData;
pub use registers::{UnwindMachine, UnwindRegisters};
pub use space::AddressSpace;
pub use stack::StackMemory;
pub use unwinder::{MAX_FRAMES, UnwindOutcome, Unwinder};
