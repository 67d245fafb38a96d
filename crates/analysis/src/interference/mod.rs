//! Interference: the time that threads cost each other.
//!
//! ISPOT (the SCI paper), §2, defines the score of a block of code as the time that its executions
//! take longer than without other threads, relative to the threads' time. The paper takes the
//! fastest execution as one without interference. We measure an execution without interference
//! instead: at random moments we hold all threads but one. Then we compare that thread with itself
//! shortly before and after. `docs/method/interference.md` describes the whole method.
//!
//! [`Analyser`] consumes the items of a run in order, while the program runs or from a file. Its
//! memory does not depend on the length of the run:
//!
//! - [`solo`] sums the intervals in which a thread ran alone. It estimates the loss of the program,
//!   and the part of the loss in each function and lock.
//! - [`analyser`] counts executions, and assigns each wait to the innermost traced function around
//!   it. [`waits`] determines the kind of a wait. [`turns`] finds semaphores and condition
//!   variables that threads use as a lock.
//! - [`finish`] combines both into a [`profile::Interference`].

mod analyser;
mod claims;
mod finish;
mod functions;
mod solo;
mod turns;
mod waits;

pub use analyser::Analyser;
pub use claims::findings;
pub use functions::waits_for;
