use profile::CallTreeError;
use std::fmt;
use std::io;
use std::path::{Path, PathBuf};

/// Reason that a profile could not be read.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ReadError {
    /// The system refused access.
    #[error("cannot read {}: {source}", path.display())]
    Io {
        /// The file.
        path: PathBuf,
        /// The system's error.
        source: io::Error,
    },
    /// The file's format is not supported.
    #[error("{} is no profile of a known format: {what}", path.display())]
    UnknownFormat {
        /// The file.
        path: PathBuf,
        /// The format that it looks like.
        what: &'static str,
    },
    /// The file has impossible contents, or ends too early.
    #[error("{}: damaged {format}: {what}, {at}", path.display())]
    Damaged {
        /// The file.
        path: PathBuf,
        /// The format of the file.
        format: &'static str,
        /// The damage.
        what: String,
        /// Its place.
        at: FilePosition,
    },
    /// Reading on would exceed the [`ReadLimits`](super::ReadLimits).
    #[error("{}: {format}: {what}, {at}", path.display())]
    TooLarge {
        /// The file.
        path: PathBuf,
        /// The format of the file.
        format: &'static str,
        /// The limit.
        what: String,
        /// Place at which it was reached.
        at: FilePosition,
    },
    /// The requested value is not in the file.
    #[error("{}: {what}", path.display())]
    Lacks {
        /// The file.
        path: PathBuf,
        /// The values that it has instead, and the remedy.
        what: String,
    },
    /// The costs form no valid tree.
    #[error("{}: {format}: {source}", path.display())]
    Tree {
        /// The file.
        path: PathBuf,
        /// The format of the file.
        format: &'static str,
        /// The reason.
        source: CallTreeError,
    },
}

/// A place in a profile; in its decompressed content, if it is compressed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum FilePosition {
    /// A byte, from 0.
    Offset(u64),
    /// A line, from 1.
    Line(u64),
    /// A line and a column in bytes, both from 1.
    Column {
        /// The line.
        line: u64,
        /// The column.
        column: u64,
    },
    /// An element of a table of the format.
    Row {
        /// The table.
        table: &'static str,
        /// The element, from 0.
        row: u64,
    },
}

impl fmt::Display for FilePosition {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Offset(offset) => write!(f, "at offset {offset}"),
            Self::Line(line) => write!(f, "in line {line}"),
            Self::Column { line, column } => write!(f, "in line {line}, column {column}"),
            Self::Row { table, row } => write!(f, "in {table} {row}"),
        }
    }
}

/// A fault of a profile, found where the file's name is unknown.
#[derive(Debug)]
pub(crate) enum ReadFault {
    Io(io::Error),
    Damaged { what: String, at: FilePosition },
    TooLarge { what: String, at: FilePosition },
    Tree(CallTreeError),
    Lacks(String),
}

impl ReadFault {
    pub fn damaged(what: impl Into<String>, at: FilePosition) -> Self {
        let what = what.into();
        Self::Damaged { what, at }
    }

    pub fn too_large(what: impl Into<String>, at: FilePosition) -> Self {
        let what = what.into();
        Self::TooLarge { what, at }
    }

    pub fn in_file(self, path: &Path, format: &'static str) -> ReadError {
        let path = path.to_owned();
        match self {
            Self::Io(source) => ReadError::Io { path, source },
            Self::Damaged { what, at } => ReadError::Damaged {
                path,
                format,
                what,
                at,
            },
            Self::TooLarge { what, at } => ReadError::TooLarge {
                path,
                format,
                what,
                at,
            },
            Self::Lacks(what) => ReadError::Lacks { path, what },
            Self::Tree(source) => ReadError::Tree {
                path,
                format,
                source,
            },
        }
    }
}

impl From<CallTreeError> for ReadFault {
    fn from(error: CallTreeError) -> Self {
        Self::Tree(error)
    }
}

/// Faults of the input pass through [`io::Read`], which only allows [`io::Error`].
impl From<io::Error> for ReadFault {
    fn from(error: io::Error) -> Self {
        match error.downcast::<InputFault>() {
            Ok(InputFault(fault)) => *fault,
            Err(error) => Self::Io(error),
        }
    }
}

/// A fault on its way through an [`io::Error`].
#[derive(Debug, thiserror::Error)]
#[error("{0:?}")]
pub(crate) struct InputFault(pub Box<ReadFault>);

impl From<ReadFault> for io::Error {
    fn from(fault: ReadFault) -> Self {
        Self::other(InputFault(Box::new(fault)))
    }
}
