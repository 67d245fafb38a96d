//! Interference: where do threads slow each other down?
//!
//! The method of ISPOT (the SCI paper), §2 and §3.3: the fastest execution of a block of code is taken to be
//! free of interference, and what others take longer is what interference costs,
//! `SCI = Σ (d_j − d_min) / duration of the thread`. `docs/method/interference.md` describes the method as a whole.
//!
//! [`Analyser`] takes the items of a run as they come, while the program runs or from a file, in
//! memory that does not depend on how long it ran. What it counts depends on the order of the items
//! only, so that a run and its trace have the same result to the last bit.
//!
//! # Kinds
//!
//! Executions are compared with executions of the same kind. A kind is the block, the values of the
//! arguments that count (§3.4, [`known_code`](profile::known_code)), and the kinds of what it called, in order: the paper's
//! sequences `f_start g_start g_end f_end` (`nesting`). Where a kind is rarer than [`Options::enough`],
//! kinds are put together (`floor`).
//!
//! # Where this differs from the paper
//!
//! - A kind is a whole call with what is in it. The paper replaces pairs of events wherever they
//!   recur, so that a sequence may also begin in one call and end in another; what it makes of a trace depends on
//!   which pair comes first. Of such sequences we follow neighbours in one caller, two at a time (`pairs`).
//! - An execution inside another of the same block does not count: the outer one has its time.
//! - The first execution of a thread that has many is left out: it loads caches, pages and symbols.
//! - The floor is not the least duration but the fourth least, and has an interval.
//!
//! # Assumptions
//!
//! Executions of a kind would all take as long without interference, and some ran nearly
//! without. The first fails for blocks whose work depends on data; [`profile::Doubt`]s say where it looks like it.
//! The second fails for blocks that are always slowed down; nothing in one run can show that.
//!
//! # An execution, step by step
//!
//! `store::TraceReader`, or the buffers of a running program, give the items of a trace. [`Analyser`]
//! keeps no item:
//!
//! 1. In `worker`, `nesting` finds what an execution contains and hashes it to a kind. An execution
//!    that contains nothing, of a block that its thread has met, takes a short way.
//! 2. `queue` waits whether an outer execution of the same block follows.
//! 3. `counting` adds many executions at a time to the sums of their kind (`kinds`, `sketch`), of their
//!    thread (`cells`) and to the evidence of their block (`blocks`).
//! 4. `finish` puts rare kinds together (`floor`). For each block, `block_score` says what it loses
//!    (`loss`) and asks `causes` and `doubts`.
//!
//! [`profile::Interference`] is the result; `store` keeps it and the command shows it.

mod analyser;
mod block_score;
mod blocks;
mod cases;
mod causes;
mod cell;
mod cells;
mod claims;
mod counting;
mod doubts;
mod draft;
mod events;
mod evidence;
mod finish;
mod floor;
mod functions;
mod hand_over;
mod instants;
mod kinds;
mod known;
mod loss;
mod nesting;
mod node;
mod options;
mod pairs;
mod per_thread;
mod queue;
mod sequences;
mod shape;
mod sketch;
mod solo;
mod solo_findings;
mod standing;
mod tallies;
mod turns;
mod wait_sum;
mod worker;

pub use analyser::Analyser;
pub use claims::findings;
pub use functions::waits_for;
pub use options::{Options, Pattern};
