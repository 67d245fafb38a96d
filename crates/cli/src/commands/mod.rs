//! One module a command.

pub mod annotate;
pub mod bottlenecks;
pub mod causal;
pub mod daemon;
pub mod diff;
pub mod doctor;
pub mod epochs;
pub mod export;
pub mod generate;
pub mod interference;
pub mod query;
pub mod record;
pub mod report;
mod skid;
pub mod stats;
mod wrapped;
