//! Profiles of other tools.
//!
//! | module | what it does |
//! |---|---|
//! | [`read`] | profiles of other tools, and recordings of ours, become call trees: one reader each, all in one table |
//! | [`write`] | recordings of ours become files of other tools: one writer each |
//! | [`counts`] | how often code ran, as other tools counted it: instructions, source lines, branches |
//! | [`coz`] | causal profiles, both ways |
#![forbid(unsafe_code)]

pub mod counts;
pub mod coz;
pub mod read;
pub mod write;

mod frame;

pub use frame::base_name;
