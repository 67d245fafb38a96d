use std::path::PathBuf;

/// Options of reading a profile.
#[derive(Clone, Debug)]
pub struct ReadOptions {
    /// Groups to put above the outermost frames, in this order, if the profile has them.
    pub group_by: Vec<GroupBy>,
    /// True if methods are separated by source line: `function:line` instead of `function`.
    pub lines: bool,
    /// True if functions inlined at a place are separate frames; otherwise their cost belongs to
    /// the caller that was not inlined.
    pub inline: bool,
    /// Directories with symbols for profiles without any. They are searched before the system's
    /// places for symbols.
    pub debug_dirs: Vec<PathBuf>,
    /// Limits on a file's demands.
    pub limits: ReadLimits,
}

impl Default for ReadOptions {
    /// Returns the options: by function, with inlined functions, not grouped.
    fn default() -> Self {
        Self {
            group_by: Vec::new(),
            lines: false,
            inline: true,
            debug_dirs: Vec::new(),
            limits: ReadLimits::default(),
        }
    }
}

/// Properties by which stacks can be grouped. A group is a frame, and its method's module is the
/// group's name in brackets: `[host]`, `[process]`, `[thread]`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum GroupBy {
    /// The machine, by its name.
    Host,
    /// The process, by its name, so that processes of the same program are one; `pid 12` if only
    /// its number is known.
    Process,
    /// The slice of the recording's time, by its number.
    Slice,
    /// The thread, by its name and number: `worker (12)`, or by the one that is known.
    Thread,
}

impl GroupBy {
    /// Returns the module of the group's frames.
    pub fn module_name(self) -> &'static str {
        match self {
            Self::Host => "[host]",
            Self::Process => "[process]",
            Self::Slice => "[slice]",
            Self::Thread => "[thread]",
        }
    }
}

/// Limits on a file's demands, beyond which it is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReadLimits {
    /// Bytes of memory for the tree and its tables, as far as they grow with the file. The process
    /// needs somewhat more.
    pub memory: u64,
    /// Maximum ratio of decompressed to compressed bytes, checked after 64 MiB.
    pub ratio: u64,
    /// Maximum number of frames of a stack.
    pub depth: u32,
}

impl Default for ReadLimits {
    fn default() -> Self {
        Self {
            memory: 8 << 30,
            ratio: 300,
            depth: 1 << 16,
        }
    }
}
