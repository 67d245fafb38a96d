//! The daemon: what it does with the collector's drains.

mod control;
mod merge;
mod names;
mod pins;
mod privileges;
mod run;
mod status;

pub use control::{Request, ask};
pub use merge::merge;
pub use names::names;
pub use pins::{Abandoned, abandoned};
pub use run::{is_running, run};
pub use status::Status;
