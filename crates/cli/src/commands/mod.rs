//! One module for each command.

pub mod annotate;
pub mod bottlenecks;
pub mod causal;
pub mod check;
pub mod daemon;
pub mod diff;
pub mod doctor;
pub mod epochs;
pub mod export;
pub mod generate;
pub mod help_topic;
pub mod interference;
pub mod mcp;
pub mod page;
pub mod query;
pub mod record;
pub mod report;
pub mod run;
pub mod stats;
pub mod top;
