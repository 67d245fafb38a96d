use std::io;
use std::path::PathBuf;

/// Reason why the unwind tables of an image could not be read.
///
/// An image without tables is no error: its frames are walked by frame pointers.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The file could not be opened.
    #[error("cannot open {path}: {source}")]
    Open {
        /// The file.
        path: PathBuf,
        /// The system's error.
        source: io::Error,
    },
    /// Some bytes of the file could not be read, usually because the file ends before them.
    #[error("{name}: cannot read {what}, {size} bytes at offset {offset:#x}: {source}")]
    Read {
        /// The file.
        name: String,
        /// The part of the file.
        what: &'static str,
        /// Offset in the file.
        offset: u64,
        /// Number of bytes.
        size: u64,
        /// The system's error.
        source: io::Error,
    },
    /// The file is not an ELF image of a machine that can be unwound.
    #[error("{name}: offset {offset:#x}: {reason}")]
    Unsupported {
        /// The file.
        name: String,
        /// Offset in the file.
        offset: u64,
        /// The damage.
        reason: &'static str,
    },
    /// A part of the file claims to be larger than any real one.
    #[error("{name}: {what} at offset {offset:#x} claims {size} bytes, more than {limit}")]
    TooBig {
        /// The file.
        name: String,
        /// The part of the file.
        what: &'static str,
        /// Offset in the file.
        offset: u64,
        /// The claimed size, in bytes.
        size: u64,
        /// The maximum size, in bytes.
        limit: u64,
    },
    /// The tables are larger than any real program's, or take too long to compile.
    #[error("{name}: its unwind tables are not compiled: {reason}")]
    TooComplex {
        /// The file.
        name: String,
        /// The table that is too large.
        reason: &'static str,
    },
    /// The cache is full of tables in use.
    #[error("{name}: its unwind tables of {size} bytes do not fit into the cache of {limit} bytes")]
    CacheFull {
        /// The file.
        name: String,
        /// The size of its tables, in bytes.
        size: usize,
        /// The size of the cache, in bytes.
        limit: usize,
    },
}
