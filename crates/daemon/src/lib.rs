//! Continuous profiling: samples the whole machine for as long as it runs, and stores the counts (DCPI
//! section 4).
//!
//! [`run`] is the daemon. It takes the lease of its database (`lease`: the claim on the collectors,
//! the lock, the socket) and hands over to the loop (`serve`). Clients [`ask`] over the socket
//! (`control`) and get a [`Status`].
//!
//! # A drain, step by step
//!
//! 1. The collector, [`sampler::Continuous`], flips its two buffers, reads the full one and leaves it
//!    as it is. Stacks are counted as `record` does; `bpf/labels.rs` of `sampler` keeps what their
//!    labels mean for the next daemon.
//! 2. `epoch_writer`, the only thread that touches the database, adds a part to the open epoch
//!    (`store::OpenEpoch`) under the drain's number. Then the buffer is emptied. `storing` keeps the
//!    books between the two, and `backlog` the drains that are not stored yet.
//! 3. `merge_queue` has parts merged ([`merge`]), one after the other, with a bound on the call tree
//!    (`profile/src/rare_stacks.rs`). `names` has symbols of deleted programs found.
//! 4. `cost_meter` measures the cost of all that, and `governor`, which is pure, chooses the rate.
//! 5. With each tick the daemon moves on the time until which the BPF programs sample. `take_over`
//!    stops the collectors that dead daemons left (`bpf/pins.rs` of `sampler`) and stores their counts.
//!
//! Two things need much memory for a moment, so processes of their own do them: [`merge`] and
//! [`answer_names`]. The program that the daemon is part of, [`HostProgram`], says how to start them.
//! Messages name the options of `vitalfew daemon run`.
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
