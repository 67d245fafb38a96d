//! Counts executions of a few places of a procedure exactly, in bursts that are spread over a run.
//!
//! A hardware breakpoint that the kernel only counts costs some microseconds for each execution,
//! because the processor (or the hypervisor) handles an exception. So each place has a budget of CPU
//! time: it is counted in windows of some milliseconds while it has credit. A place that is executed
//! all the time is counted in few windows, and one that is executed rarely is always counted.
//!
//! The breakpoints of a thread are in a group with a clock that samples the registers, so that each
//! sample also says how often each place was passed. Registers that a loop advances by a constant
//! count the loop's rounds at no cost, as long as no breakpoint saw the loop being entered again.

mod cost;
mod session;
mod thread;

pub use session::{CountOutcome, CountRequest, count_executions};
