//! Unwind tables for the collector's BPF program: made by a separate thread when an image is first
//! seen on a stack, kept on disk by build-id and in the kernel in bounded memory.
//!
//! # A walk of a stack
//!
//! The walk itself is BPF: `bpf/unwind_walk.h`, a step at a time (`unwind_steps.h`), by the rules
//! that `unwind_rules.h` finds. For each frame it looks up the mapping in the kernel's tree of
//! mappings (`unwind_mappings.h`), the mapping's image in `image_numbers`, and the place in the
//! image's rows.
//!
//! The walk requests images without a number. `service` finds the file. `worker` takes the table
//! from `disk`, or has `maker` compile one (`unwind::CompactTable`); `store` puts it into the
//! kernel. `worker` also recognises interpreters (`languages::LanguageRuntime`).

mod counts;
mod disk;
mod hotspot;
mod maker;
mod pages;
mod recent;
mod service;
mod store;
mod worker;

pub use maker::make_tables;
pub(crate) use recent::target_name;
pub(crate) use service::{TableSettings, Unwinding};
pub(crate) use worker::UnfinishedTables;
