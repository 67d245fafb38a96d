//! Profiles of every format that is read, as call trees.

#[path = "../common/mod.rs"]
mod common;
mod folded;
mod roundtrip;
mod support;
