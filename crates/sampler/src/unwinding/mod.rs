//! Unwind tables for the collector's BPF program: made by a thread of their own when an image is first
//! seen on a stack, kept on disk by build-id and in the kernel in bounded memory.

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
