//! Programs in other languages: the frames of their interpreters, and the names of their code.
//!
//! The sampler reads frames in the kernel, at the sample. This crate gives their layout: each
//! [`LanguageRuntime`] recognises itself in an image. It also names the functions that were read:
//! [`ScriptFunction`]. Some runtimes name their code on command: [`jvm::write_perf_map`]. Some
//! programs have names in their own file: [`go::FunctionTable`].
//!
//! # A function of a script on a stack
//!
//! At an image of an interpreter the kernel's walk calls `python.h`, `ruby.h`, `v8.h` or
//! `hotspot.h` (`sampler/src/bpf`), which puts the functions of the script on the stack.
//! `sampler/src/recording/script_functions.rs` makes places of them, in an image for each source
//! file. `profile::fold_interpreter_frames` hides the interpreter's own frames when stacks are
//! shown. JVMs whose memory does not name their methods are asked for names (`jvm_names.rs`); names
//! of Python's threads are read from memory (`python_threads.rs`). `docs/method/languages.md`
//! describes the method.

#![forbid(unsafe_code)]

mod elf_image;
mod function_parts;
pub mod go;
pub mod jvm;
pub mod python;
mod read_budget;
pub mod ruby;
mod runtime;
mod script_function;
pub mod v8;

pub use elf_image::ElfImage;
pub use runtime::{LanguageRuntime, NotSupported};
pub use script_function::ScriptFunction;
