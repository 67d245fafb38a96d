//! The program that contains the daemon.

use crate::options::{MergeOptions, SendOptions};
use std::process::Command;

/// The services that the daemon needs from its program.
#[derive(Clone, Copy)]
pub struct HostProgram {
    /// Prints a line for the daemon's user.
    pub say: fn(&str),
    /// Returns an error and its causes in one line.
    pub explain: fn(&anyhow::Error) -> String,
    /// Returns the command that calls [`merge_epoch`](crate::merge_epoch) with these options.
    pub merge_command: fn(&MergeOptions) -> Command,
    /// Returns the command that calls [`send_spool`](crate::send_spool) with these options.
    pub send_command: fn(&SendOptions) -> Command,
    /// Returns the command that calls [`answer_names`](crate::answer_names).
    pub names_command: fn() -> Command,
}

impl HostProgram {
    /// Prints a line.
    pub(crate) fn print_line(&self, text: &str) {
        (self.say)(text);
    }
}
