use std::path::PathBuf;

/// Options of reading: the parts of a profile, and the labels.
#[derive(Clone, Debug)]
pub struct ReadOptions {
    /// Frames to put above the outermost ones, in this order, where the profile says what they are.
    pub group_by: Vec<GroupBy>,
    /// True if methods are told apart by source line: `function:line` instead of `function`.
    pub lines: bool,
    /// True if functions inlined at a place are frames of their own; else their cost is their
    /// caller's, that was not inlined.
    pub inline: bool,
    /// Directories with symbols for profiles that bring none. They are searched before the places where the
    /// system keeps symbols.
    pub debug_dirs: Vec<PathBuf>,
    /// Limits on the file's demands.
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

/// Frames that stacks can be grouped by. A group is a frame, and its method's module is the group's
/// name in brackets: `[host]`, `[process]`, `[thread]`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum GroupBy {
    /// The machine, by its name.
    Host,
    /// The process, by its name, so that processes that run the same program are one; `pid 12` where
    /// only its number is known.
    Process,
    /// The slice of the recording's time, by its number.
    Slice,
    /// The thread, by its name and number: `worker (12)`, or whichever of them is known.
    Thread,
}

impl GroupBy {
    /// The module of the frames.
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
    /// Bytes of memory for the tree and the tables that it is made from, as far as they grow with
    /// the file. The process needs somewhat more.
    pub memory: u64,
    /// Bytes that a compressed file may decompress to for each of its own, once it has given 64 MiB.
    pub ratio: u64,
    /// Frames of one stack.
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
