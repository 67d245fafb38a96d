//! The daemon: what it does with the collector's drains.

mod control;
mod merge;
mod names;
mod privileges;
mod run;
mod status;

pub use control::{Request, ask};
pub use merge::merge;
pub use names::names;
pub use run::run;
pub use status::Status;
