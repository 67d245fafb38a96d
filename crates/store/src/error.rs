use std::fmt;
use std::path::{Path, PathBuf};

/// Reason that a recording could not be written or read.
///
/// Reading distinguishes *this is something else* ([`NotARecording`](StoreError::NotARecording)),
/// *this is of a newer program* ([`Newer`](StoreError::Newer)), *this was damaged on the way*
/// ([`Truncated`](StoreError::Truncated), [`Checksum`](StoreError::Checksum)) and *this was never
/// right* ([`Damaged`](StoreError::Damaged)).
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StoreError {
    /// The system refused an action. A full disk and missing rights are of this kind, with
    /// [`std::io::ErrorKind::StorageFull`] and [`std::io::ErrorKind::PermissionDenied`].
    #[error("cannot {action} {}: {source}", path.display())]
    Io {
        /// The action that failed: `read`, `write`, `rename`.
        action: &'static str,
        /// The file or directory that it failed on.
        path: PathBuf,
        /// The system's error.
        source: std::io::Error,
    },
    /// The path holds no recording and no database.
    #[error("{} is not a recording: it is {looks_like}", path.display())]
    NotARecording {
        /// The path.
        path: PathBuf,
        /// The format that it looks like instead, with an article, and the command that reads it if
        /// there is one.
        looks_like: &'static str,
    },
    /// A newer program wrote the recording in a form unknown to this one.
    #[error(
        "{} has format version {version}, this program reads up to {supported}: upgrade it",
        path.display()
    )]
    Newer {
        /// The recording.
        path: PathBuf,
        /// Its version.
        version: u64,
        /// The newest version that this program reads.
        supported: u64,
    },
    /// An older program wrote a trace whose words had another meaning.
    #[error(
        "{} has format version {version}, and not all calls in it were recorded: which of them stand for how many was not \
         written down then, so that its figures would be wrong; trace the program again",
        path.display()
    )]
    Outdated {
        /// The trace.
        path: PathBuf,
        /// Its version.
        version: u64,
    },
    /// A member is missing, or its length has changed. (A file whose end is missing has no list of
    /// members: that is [`StoreError::Damaged`].)
    #[error(
        "{}: {member} has {found} bytes of {expected}: the recording was cut short or changed",
        path.display()
    )]
    Truncated {
        /// The recording.
        path: PathBuf,
        /// The member.
        member: String,
        /// Its length when it was written, in bytes.
        expected: u64,
        /// Its length now; 0 if it is missing.
        found: u64,
    },
    /// The bytes of a member differ from those written.
    #[error(
        "{}: {member} is damaged: its checksum is {found:08x}, not {expected:08x}",
        path.display()
    )]
    Checksum {
        /// The recording.
        path: PathBuf,
        /// The member.
        member: String,
        /// The written CRC-32.
        expected: u32,
        /// CRC-32 of the current bytes.
        found: u32,
    },
    /// A member, or the container, has impossible contents.
    #[error("{}: {member}: {what}, {at}", path.display())]
    Damaged {
        /// The recording.
        path: PathBuf,
        /// The member, or `archive` for the container itself.
        member: String,
        /// The damage.
        what: String,
        /// Its place in the member.
        at: ErrorPlace,
    },
    /// The bucket of the database could not be used.
    #[error(transparent)]
    Bucket(#[from] bucket::BucketError),
    /// A recording was not sent to its bucket, and waits on this machine.
    #[error("{source}; the recording waits in {}, and the next one for this bucket takes it along", path.display())]
    Kept {
        /// Its epoch.
        path: PathBuf,
        /// The reason.
        source: Box<StoreError>,
    },
    /// A damaged part of an epoch was moved aside.
    #[error("{} was damaged and is not part of its epoch any more", path.display())]
    SetAside {
        /// Its new path.
        path: PathBuf,
    },
    /// The recording in memory contradicts itself or exceeds the format's limits; nothing was
    /// written.
    #[error("the recording cannot be stored: {what}")]
    Unstorable {
        /// The damage.
        what: String,
    },
    /// The recordings cannot be merged into one.
    #[error("the recordings cannot be merged: {what}")]
    Unmergeable {
        /// The reason.
        what: String,
    },
}

/// A place in a member of a recording.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ErrorPlace {
    /// A byte offset from its start.
    Offset(u64),
    /// A row, from 0.
    Row(u64),
}

impl fmt::Display for ErrorPlace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Offset(offset) => write!(f, "at offset {offset}"),
            Self::Row(row) => write!(f, "in row {row}"),
        }
    }
}

const LEFT_OUT: &str = "left out: ";

/// Returns the warning that unreadable data is missing from a recording.
pub fn left_out(error: &StoreError) -> String {
    format!("{LEFT_OUT}{error}")
}

/// Returns whether a warning reports data that is missing from the recording.
pub fn is_left_out(warning: &str) -> bool {
    warning.starts_with(LEFT_OUT)
}

impl StoreError {
    /// Returns whether the disk is full.
    pub fn is_full(&self) -> bool {
        use std::io::ErrorKind::{QuotaExceeded, StorageFull};
        matches!(self, Self::Io { source, .. } if matches!(source.kind(), StorageFull | QuotaExceeded))
    }

    /// Returns a wrapper for `map_err`, with the action and the path that the system refused.
    pub(crate) fn wrap_io<'a>(
        action: &'static str,
        path: &'a Path,
    ) -> impl FnOnce(std::io::Error) -> Self + 'a {
        move |source| Self::Io {
            action,
            path: path.to_owned(),
            source,
        }
    }

    pub(crate) fn unstorable(what: impl Into<String>) -> Self {
        Self::Unstorable { what: what.into() }
    }
}

/// Damage of a member, found where the file's name is unknown.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct TableFault {
    pub what: String,
    pub at: ErrorPlace,
}

impl TableFault {
    pub fn at_offset(offset: usize, what: impl Into<String>) -> Self {
        Self {
            what: what.into(),
            at: ErrorPlace::Offset(offset as u64),
        }
    }

    pub fn in_row(row: u64, what: impl Into<String>) -> Self {
        Self {
            what: what.into(),
            at: ErrorPlace::Row(row),
        }
    }

    pub fn in_member(self, path: &Path, member: &str) -> StoreError {
        StoreError::Damaged {
            path: path.to_owned(),
            member: member.to_owned(),
            what: self.what,
            at: self.at,
        }
    }
}
