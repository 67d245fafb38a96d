//! Why a JVM did not do what it was asked.

use std::io;

/// Why a JVM did not write its perf map.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum AttachError {
    /// The process has ended, or may not be looked at.
    Ended,
    /// It was started with `-XX:+DisableAttachMechanism`.
    Refused,
    /// It does not handle SIGQUIT: it is just starting, or was started with `-Xrs`.
    NotReady,
    /// It does not know the order: its release is before 17.
    TooOld,
    /// It did not listen or answer in time.
    Silent,
    /// What is there is not its own, as a socket of somebody else.
    Foreign,
    /// The system refused something, or the JVM answered something else.
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
