//! Probes what can be measured on this machine by this user, and how well.
//!
//! [`probe`] tries each feature that vitalfew can use, in the way it will be used. It reads the
//! reason of a refusal from the error number, the kernel's settings and the rights of this process.
//! Each [`Gap`] says what is missing, what is lost without it, and the remedy. Probing changes
//! nothing.

mod answers;
mod diagnose;
mod facts;
mod probe;
mod program;
mod questions;
mod render;
mod system;
#[cfg(test)]
mod tests;

pub use answers::{Capabilities, Fix, Gap, Probe, Question, SCHEMA};
pub use facts::{Limits, Machine, User};
pub(crate) use facts::{check_first_pid_namespace, check_process_ids};
pub use probe::probe_machine;
pub use program::{DebugInfo, FramePointers, Linking, Program, ProgramError};
pub use render::{render_capabilities, render_program};
