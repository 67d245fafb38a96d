//! Profiles of other tools.
//!
//! | module | what it does |
//! |---|---|
//! | [`read`] | reads profiles of other tools, and recordings, as call trees, one reader each |
//! | [`write`] | writes recordings as files of other tools: one writer each |
//! | [`counts`] | execution counts of other tools: instructions, source lines, branches |
//! | [`coz`] | causal profiles, both ways |
#![forbid(unsafe_code)]

pub mod counts;
pub mod coz;
pub mod read;
pub mod write;

mod frame;

pub use frame::base_name;
