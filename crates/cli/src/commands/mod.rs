//! One module a command.

pub mod bottlenecks;
pub mod doctor;
pub mod export;
pub mod generate;
pub mod record;
pub mod report;
