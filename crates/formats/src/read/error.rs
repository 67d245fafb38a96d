use profile::CallTreeError;
use std::fmt;
use std::io;
use std::path::{Path, PathBuf};

/// Why a profile could not be read.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ReadError {
    /// The system refused.
    #[error("cannot read {}: {source}", path.display())]
    Io {
        /// The file.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// The file is of no format that is read here.
    #[error("{} is no profile of a known format: {what}", path.display())]
    UnknownFormat {
        /// The file.
        path: PathBuf,
        /// What it looks like.
        what: &'static str,
    },
    /// The file says something that cannot be, or ends too early.
    #[error("{}: damaged {format}: {what}, {at}", path.display())]
    Damaged {
        /// The file.
        path: PathBuf,
        /// The format that it is of.
        format: &'static str,
        /// What is wrong.
        what: String,
        /// Where.
        at: Place,
    },
    /// Reading on would exceed the [`Limits`](super::Limits).
    #[error("{}: {format}: {what}, {at}", path.display())]
    TooLarge {
        /// The file.
        path: PathBuf,
        /// The format that it is of.
        format: &'static str,
        /// Which limit.
        what: String,
        /// Where it was reached.
        at: Place,
    },
    /// What is asked for is not in the file.
    #[error("{}: {what}", path.display())]
    Lacks {
        /// The file.
        path: PathBuf,
        /// What it has instead, and what to do.
        what: String,
    },
    /// What was read adds up to no tree.
    #[error("{}: {format}: {source}", path.display())]
    Tree {
        /// The file.
        path: PathBuf,
        /// The format that it is of.
        format: &'static str,
        /// Why.
        source: CallTreeError,
    },
}

/// A place in a profile; in what it decompresses to, if it is compressed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Place {
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

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Offset(offset) => write!(f, "at offset {offset}"),
            Self::Line(line) => write!(f, "in line {line}"),
            Self::Column { line, column } => write!(f, "in line {line}, column {column}"),
            Self::Row { table, row } => write!(f, "in {table} {row}"),
        }
    }
}

/// What is wrong with a profile, by those who do not know which file it is in.
#[derive(Debug)]
pub(crate) enum Fault {
    Io(io::Error),
    Damaged { what: String, at: Place },
    TooLarge { what: String, at: Place },
    Tree(CallTreeError),
    Lacks(String),
}

impl Fault {
    pub fn damaged(what: impl Into<String>, at: Place) -> Self {
        let what = what.into();
        Self::Damaged { what, at }
    }

    pub fn too_large(what: impl Into<String>, at: Place) -> Self {
        let what = what.into();
        Self::TooLarge { what, at }
    }

    pub fn of(self, path: &Path, format: &'static str) -> ReadError {
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

impl From<CallTreeError> for Fault {
    fn from(error: CallTreeError) -> Self {
        Self::Tree(error)
    }
}

/// What the input says of itself comes through [`io::Read`], which knows only [`io::Error`].
impl From<io::Error> for Fault {
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
pub(crate) struct InputFault(pub Box<Fault>);

impl From<Fault> for io::Error {
    fn from(fault: Fault) -> Self {
        Self::other(InputFault(Box::new(fault)))
    }
}
