//! Programs in other languages: where their interpreters keep the frames of functions, and what their code is called.
//!
//! The sampler reads frames in the kernel, at the sample. This crate says where: [`python::Interpreter::find`] recognises an
//! interpreter in an image. It also names what was read: [`python::CodeObject`]. What a runtime says itself, it is asked for:
//! [`jvm::write_perf_map`]. What a program has in its own file is read there: [`go::FunctionTable`].

#![forbid(unsafe_code)]

pub mod go;
pub mod jvm;
pub mod python;

/// A runtime that is not understood: why, in words.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NotSupported(pub String);
