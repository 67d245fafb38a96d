//! Counts executions of a few places of a procedure exactly, in bursts that are spread over a run.
//!
//! A uprobe that the kernel only counts costs one to six microseconds for each execution. So each
//! place has a budget of CPU time: it is counted in windows of some milliseconds while it has
//! credit. A place that is executed all the time is counted in few windows, and one that is
//! executed rarely is always counted.
//!
//! Each thread has a clock that samples the registers, at random distances. Registers that a loop
//! advances by a constant count the loop's rounds at no cost; what they gain between samples lies
//! on a line only if the loop was not entered again meanwhile.

mod cost;
mod places;
mod session;
mod thread;
mod uprobe;

pub use places::ProbePlace;
pub use session::{CountOutcome, CountRequest, count_executions};
