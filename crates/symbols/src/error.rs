use std::io;
use std::path::PathBuf;

/// Reason why an image, its debug information or a list of symbols cannot be used.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A file could not be opened or read.
    #[error("{}: {source}", path.display())]
    Io {
        /// The file.
        path: PathBuf,
        /// The system's error.
        source: io::Error,
    },
    /// The file was gone when the recording ended, and has no build-id to find another copy.
    #[error("{}: it was gone when the recording ended", path.display())]
    Gone {
        /// The file.
        path: PathBuf,
    },
    /// The file at this path has another build-id than the recorded one.
    #[error("{}: it was replaced since the recording", path.display())]
    Replaced {
        /// The file.
        path: PathBuf,
    },
    /// The file is not ELF.
    #[error("{}: not an ELF file", path.display())]
    NotElf {
        /// The file.
        path: PathBuf,
    },
    /// The file is ELF, but neither an executable nor a shared library, so that its code has no
    /// addresses.
    #[error("{}: an ELF file, but not an executable or shared library", path.display())]
    NotLinked {
        /// The file.
        path: PathBuf,
    },
    /// The file contradicts itself, ends too early, or asks for an absurd amount of memory.
    #[error("{}: {what}, at offset {offset:#x}: {reason}", path.display())]
    Malformed {
        /// The file.
        path: PathBuf,
        /// The part of the file.
        what: String,
        /// Start of that part, in bytes from the start of the file.
        offset: u64,
        /// The damage.
        reason: String,
    },
    /// The debug information is unusable.
    #[error("{}: {section}+{offset:#x}: {reason}", path.display())]
    Debug {
        /// The file.
        path: PathBuf,
        /// The section read last.
        section: &'static str,
        /// The position in it (in its uncompressed form).
        offset: u64,
        /// The damage.
        reason: DebugProblem,
    },
    /// A malformed line of a text file (`/proc/kallsyms`, `/proc/modules`).
    #[error("{}: line {line} (offset {offset:#x}): {reason}", path.display())]
    Line {
        /// The file.
        path: PathBuf,
        /// The line, from 1.
        line: u64,
        /// Start of the line, in bytes.
        offset: u64,
        /// The damage.
        reason: &'static str,
    },
    /// The kernel shows this user only zero addresses.
    #[error("{}: the kernel hides its addresses from this user (kernel.kptr_restrict)", path.display())]
    KernelAddressesHidden {
        /// The file.
        path: PathBuf,
    },
}

/// A problem with debug information.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum DebugProblem {
    /// The debug information is not valid DWARF.
    #[error("{0}")]
    Invalid(gimli::Error),
    /// The debug information takes far more steps than its size justifies.
    #[error("following it takes more steps than its size can justify")]
    TooMuchWork,
    /// Inlined calls are nested deeper than by any compiler.
    #[error("inlined calls nested too deep")]
    TooDeep,
}

impl Error {
    pub(crate) fn wrap_io(path: &std::path::Path) -> impl FnOnce(io::Error) -> Self + '_ {
        move |source| Self::Io {
            path: path.to_owned(),
            source,
        }
    }
}
