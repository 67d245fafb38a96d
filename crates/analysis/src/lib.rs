//! What follows from what was measured: pure functions, without clock, files or rights.
#![forbid(unsafe_code)]

pub mod variation;
