//! Interference: what do threads cost each other?
//!
//! ISPOT (the SCI paper), §2, defines the score of a block of code as the time that its executions
//! take longer than without other threads, as part of the threads' time. The paper takes the
//! fastest execution for one without interference. We measure it instead: at random moments all
//! threads but one are held, and the one is compared with itself shortly before and after.
//! `docs/method/interference.md` describes the method as a whole.
//!
//! [`Analyser`] takes the items of a run as they come, while the program runs or from a file, in
//! memory that does not depend on how long it ran:
//!
//! - [`solo`] adds up the intervals alone: the loss of the program, and the part of it in each
//!   function and lock.
//! - [`analyser`] counts executions, and lists each wait with the innermost traced function around
//!   it. [`waits`] says what the wait was for, and [`turns`] whether threads use a semaphore or
//!   condition variable as a lock.
//! - [`finish`] puts both together. [`profile::Interference`] is the result.

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
