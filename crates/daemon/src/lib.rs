//! Continuous profiling: samples the whole machine for as long as it runs, and stores the counts (DCPI section 4).
//!
//! [`run`] is the daemon. It takes the lease of its database (`lease`: the claim on the collectors, the lock, the socket), and hands
//! over to the loop (`serve`). The loop drains [`sampler::Continuous`] through `storing`, which keeps the books of drains that are
//! not stored yet (`backlog`), lets the thread that writes (`epoch_writer`) store them and the processes that merge (`merge_queue`)
//! merge them. `cost_meter` measures the cost of all that, and `governor`, which is pure, chooses the rate. `take_over`
//! finds the counts that earlier daemons left behind. Clients [`ask`] over the socket (`control`) and get a [`Status`].
//!
//! Two things need much memory for a moment, and so are done by processes of their own: [`merge`] and [`answer_names`]. The program
//! that the daemon is part of, [`HostProgram`], says how they are started. Messages name the options of `vitalfew daemon run`.
#![forbid(unsafe_code)]

mod backlog;
mod control;
mod cost_meter;
mod epoch_writer;
mod governor;
mod inbox;
mod lease;
mod merge;
mod merge_queue;
mod names;
mod options;
mod pins;
mod privileges;
mod program;
mod retention;
mod run;
mod serve;
mod status;
mod storing;
mod take_over;
mod wall_clock;

pub use control::{Request, ask_daemon};
pub use merge::merge_epoch;
pub use names::answer_names;
pub use options::{DaemonOptions, MergeOptions, Retention, TableLimits};
pub use pins::{Abandoned, abandoned_collectors, abandoned_of};
pub use program::HostProgram;
pub use run::{DaemonEnd, run};
pub use status::Status;
