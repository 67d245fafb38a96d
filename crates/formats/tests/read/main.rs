//! Profiles of every readable format, as call trees.

#[path = "../common/mod.rs"]
mod common;
mod fixtures;
mod folded;
mod hostile;
mod memory;
mod readers;
mod roundtrip;
mod support;
