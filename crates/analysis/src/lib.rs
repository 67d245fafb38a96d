//! Inference from measurements: pure functions of data, without clock, files or rights.
//!
//! One module a method; each opens with its paper, its estimator and its assumptions.
#![forbid(unsafe_code)]

pub mod bottleneck;
pub mod causal;
pub mod interference;
pub mod judgement;
pub mod ranks;
pub mod stall;
pub mod statistics;
pub mod variation;
