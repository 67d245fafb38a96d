//! Counts executions of a few places of a procedure exactly, in bursts that are spread over a run.
//!
//! A hardware breakpoint that the kernel only counts costs some microseconds for each execution,
//! because the processor (or the hypervisor) handles an exception. So each place has a budget of CPU
//! time: it is counted in windows of some milliseconds while it has credit. A place that is executed
//! all the time is counted in few windows, and one that is executed rarely is always counted.
//!
//! The breakpoints of a thread are in a group with a clock that samples the registers, at random
//! distances. Registers that a loop advances by a constant count the loop's rounds at no cost; what
//! they gain between samples lies on a line only if the loop was not entered again meanwhile.

mod cost;
mod session;
mod thread;

pub use session::{CountOutcome, CountRequest, count_executions};
