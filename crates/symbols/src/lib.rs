//! From a place in an image to its procedure, source line and inlined calls.
#![forbid(unsafe_code)]

mod debug_info;
mod demangle;
mod elf;
mod error;
mod image;
mod input;
mod jit;
mod kernel;
mod lines;
mod load;
mod plt;
mod resolve;
mod search;
mod section;
mod symtab;

pub use debug_info::DebugInfo;
pub use demangle::demangle;
pub use error::{DebugProblem, Error};
pub use image::{ImageSymbols, RawProcedure};
pub use jit::{ProcessSymbol, parse_jitdump, parse_perf_map};
pub use kernel::{KernelModule, KernelSymbol, KernelSymbols};
pub use resolve::{Detail, Resolved, Warning, resolve};
pub use search::{Options, build_id_of_bytes, build_id_of_file};
