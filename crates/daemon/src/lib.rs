//! Continuous profiling: samples the whole machine permanently, and stores the counts (DCPI section
//! 4).
//!
//! [`run`] is the daemon. It takes the lease of its database (`lease`: the claim on the collectors,
//! the lock, the socket) and hands over to the loop (`serve`). Clients [`ask_daemon`] over the
//! socket (`control`) and get a [`Status`].
//!
//! # A drain, step by step
//!
//! 1. The collector, [`sampler::Continuous`], flips its two buffers, and reads the full one without
//!    clearing it. Stacks are counted as `record` does; `bpf/labels.rs` of `sampler` keeps the
//!    meanings of their labels for the next daemon.
//! 2. `epoch_writer`, the only thread that touches the database, adds a part to the open epoch
//!    (`store::OpenEpoch`) under the drain's number. Then the buffer is cleared. `storing` keeps
//!    the accounts between the two, and `backlog` the drains that are not stored yet.
//! 3. `merge_queue` runs merges of parts ([`merge_epoch`]), one after the other, with a bound on
//!    the call tree (`profile/src/rare_stacks.rs`). `names` finds symbols of deleted programs.
//! 4. `cost_meter` measures the cost of all that, and `governor`, which is pure, chooses the rate.
//! 5. With each tick the daemon moves ahead the time until which the BPF programs sample.
//!    `take_over` stops the collectors that dead daemons left (`bpf/pins.rs` of `sampler`) and
//!    stores their counts.
//!
//! If the database is in a bucket, the daemon writes to a local spool, and `sending` has closed
//! epochs sent from there ([`send_spool`]).
//!
//! Some tasks need much memory for a moment or may hang, so child processes do them:
//! [`merge_epoch`], [`send_spool`] and [`answer_names`]. The daemon's program, [`HostProgram`],
//! tells how to start them. Messages use the option names of `vitalfew daemon run`.
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
mod sending;
mod serve;
mod status;
mod storing;
mod take_over;
mod wall_clock;

pub use control::{Request, ask_daemon};
pub use merge::merge_epoch;
pub use names::answer_names;
pub use options::{
    BucketOptions, DaemonOptions, MergeOptions, Retention, SendOptions, TableLimits,
};
pub use pins::{Abandoned, abandoned_collectors, abandoned_of};
pub use program::HostProgram;
pub use run::{DaemonEnd, run};
pub use sending::{SendOutcome, send_spool};
pub use status::Status;
