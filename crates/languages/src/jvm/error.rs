//! Reasons why a JVM did not execute a command.

use std::io;

/// Reason why a JVM did not write its perf map.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum AttachError {
    /// The process has ended, or may not be inspected.
    Ended,
    /// The JVM was started with `-XX:+DisableAttachMechanism`.
    Refused,
    /// The JVM does not handle SIGQUIT: it is still starting, or was started with `-Xrs`.
    NotReady,
    /// The JVM does not know the command: its release is before 17.
    TooOld,
    /// The JVM did not listen or answer in time.
    Silent,
    /// The file at the socket's path is not the JVM's own, such as a socket of another user.
    Foreign,
    /// The system refused something, or the JVM gave another answer.
    Failed(String),
}

impl std::fmt::Display for AttachError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let text = match self {
            Self::Ended => "it has ended, or belongs to another user",
            Self::Refused => "it was started with -XX:+DisableAttachMechanism",
            Self::NotReady => "it takes no orders: it is starting, or was started with -Xrs",
            Self::TooOld => "its release is before JDK 17",
            Self::Silent => "it did not answer in time",
            Self::Foreign => "the socket that it should listen on is not its own",
            Self::Failed(reason) => reason,
        };
        f.write_str(text)
    }
}

impl std::error::Error for AttachError {}

impl From<io::Error> for AttachError {
    fn from(error: io::Error) -> Self {
        match error.kind() {
            io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut => Self::Silent,
            _ => Self::Failed(error.to_string()),
        }
    }
}
