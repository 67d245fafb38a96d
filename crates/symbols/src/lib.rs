//! From a place in an image to its procedure, source line and inlined calls.
//!
//! [`resolve`] names all locations of a recording, for a report. It uses [`ImageSymbols`] for each
//! executable or shared library, whose procedures come from the symbol tables alone. [`DebugInfo`]
//! is its DWARF, opened only for lines or inlined calls and read unit by unit. [`KernelSymbols`],
//! [`parse_perf_map`] and [`parse_jitdump`] are for the collector, which stores names in a
//! recording that cannot be read later.
//!
//! Images are untrusted. Files are read and never mapped, so that a shrinking file is an error and
//! not a SIGBUS. The work on debug information is bounded by its size.
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
mod variables;

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
pub use variables::name_variable;
