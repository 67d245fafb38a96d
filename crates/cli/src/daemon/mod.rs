//! The daemon: what it does with the collector's drains.

mod archive;
mod backlog;
mod control;
mod cost;
mod governor;
mod merge;
mod merges;
mod names;
mod pins;
mod place;
mod privileges;
mod run;
mod serve;
mod status;

pub use control::{Request, ask};
pub use merge::merge;
pub use names::names;
pub use pins::{Abandoned, abandoned, abandoned_of};
pub use run::run;
pub use status::Status;
