//! From a place in an image to its procedure, source line and inlined calls.
//!
//! [`resolve`] answers for all locations of a recording: what a report calls. Behind it,
//! [`ImageSymbols`] is one executable or shared library, and its procedures come from the symbol
//! tables alone; [`DebugInfo`] is its DWARF, opened only where lines or inlined calls are asked
//! for and read unit by unit. [`KernelSymbols`], [`parse_perf_map`] and [`parse_jitdump`] are for
//! the collector, which embeds in a recording what nobody can read again later.
//!
//! Images are untrusted. Files are read and never mapped, so that one that shrinks meanwhile is an
//! error and not a SIGBUS; and the work done on debug information is bounded by its size.
#![forbid(unsafe_code)]

mod abbreviations;
mod contents;
mod debug_info;
mod debuginfod;
mod demangle;
mod detail;
mod elf;
mod embed;
mod error;
mod frames;
mod go_functions;
mod image;
mod input;
mod jit;
mod job;
mod kernel;
mod kernel_file;
mod lines;
mod load;
mod open;
mod plt;
mod resolve;
mod search;
mod section;
mod sites;
mod symtab;
mod tables;

pub use debug_info::{DebugInfo, DebugProcedure};
pub use debuginfod::DebuginfodClient;
pub use demangle::demangle_name;
pub use detail::{Detail, Warning};
pub use embed::embed_procedures;
pub use error::{DebugProblem, Error};
pub use image::{ImageSymbols, RawProcedure};
pub use jit::{ProcessSymbol, parse_jitdump, parse_perf_map};
pub use kernel::{KernelModule, KernelSymbol, KernelSymbols};
pub use kernel_file::running_kernel_build_id;
pub use resolve::{Resolved, resolve};
pub use search::{SymbolOptions, build_id_of_bytes, build_id_of_file};
pub use sites::Site;
