//! The columns of the catalogue.

use crate::CauseKind;

/// A library, a runtime of a language, or another piece of code that everybody knows.
#[derive(Debug)]
pub struct KnownCode {
    /// Its name.
    pub name: &'static str,
    /// What it is for.
    pub kind: CodeKind,
    /// Patterns for the names of its files, which may have a version behind them.
    pub files: &'static [&'static str],
    /// Patterns for the paths of the scripts that it brings along.
    pub scripts: &'static [&'static str],
    /// Directories in the paths of scripts that others have written for it.
    pub packages: &'static [&'static str],
    /// Programs that start it, beside its own files.
    pub starters: &'static [&'static str],
    /// Patterns for the names of functions, by their role.
    pub(super) functions: &'static [(FunctionRole, &'static [&'static str])],
    /// Functions that wait, wake, or take as long as their arguments say.
    pub(super) operations: &'static [KnownFunction],
    /// The work that it does by itself.
    pub works: &'static [RuntimeWork],
    /// How to get the names of functions that symbol tables do not have.
    pub naming: Option<NamingAdvice>,
}

/// What known code is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CodeKind {
    /// The C library, or a part of it.
    CLibrary,
    /// The loader of shared libraries.
    Loader,
    /// A library that replaces the C library's allocator.
    Allocator,
    /// The standard library of a language, which works for its callers.
    StandardLibrary,
    /// An interpreter, which works for a script; its own frames say nothing of that.
    Interpreter,
    /// A compiling runtime that works for a script: what its functions call says something.
    Engine,
    /// A library that hands work out to a team of threads.
    Team,
    /// Anything else, which works for itself.
    Other,
}

/// The role of functions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FunctionRole {
    /// Leads to work without being any.
    Glue,
    /// Glue at which stacks begin.
    Start,
    /// Glue through which system calls enter the kernel.
    KernelEntry,
    /// Glue of an interpreter, in whose files it executes scripts.
    Loop,
    /// Executes scripts in the files of its interpreter.
    Executes,
    /// Is the standard library's, wherever it was compiled into.
    Library,
    /// The same, of code that a runtime generated for itself.
    Generated,
    /// First part of the names of the standard library's packages.
    Package,
    /// Is the standard library's if it is a script's.
    ScriptLibrary,
    /// Locks or unlocks.
    Locking,
    /// A thread stands in it until its runtime lets it go on.
    RuntimeWait,
    /// Hands work out to a team of threads.
    HandsOut,
}

/// What known functions wait for, and whom they wake.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KnownOperation {
    /// Takes a lock.
    Lock,
    /// Is the C library's own way to wait, for whatever lock its callers have.
    FutexLock,
    /// Gives a lock back, and so lets those go on that wait for it.
    Unlock,
    /// Signals a condition or a semaphore: one waiting thread goes on.
    Signal,
    /// Signals a condition: all waiting threads go on.
    Broadcast,
    /// Waits for all of a team.
    Barrier,
    /// Waits for a condition.
    Condition,
    /// Waits for work.
    Await,
    /// Waits for the end of a thread or a process: its caller has nothing to do until then.
    Join,
    /// Hands work on through a file, a pipe or a socket.
    Write,
    /// The same, of what waits for the network.
    Send,
    /// Waits for the network.
    Network,
    /// Waits for a disk.
    Flush,
    /// Waits for a time.
    Sleep,
    /// Lets others run: its caller has nothing to do until somebody else has done something.
    Yield,
    /// Changes the memory map.
    MapMemory,
    /// Allocates or frees memory.
    Allocate,
    /// Waits for nothing in particular.
    Compute,
}

impl KnownOperation {
    /// Returns the cause of its waits, if it waits.
    pub fn waits_for(self) -> Option<CauseKind> {
        match self {
            Self::Lock | Self::FutexLock | Self::Yield => Some(CauseKind::Lock),
            Self::Barrier => Some(CauseKind::Barrier),
            Self::Condition | Self::Await | Self::Join => Some(CauseKind::Pool),
            Self::Send | Self::Network => Some(CauseKind::Network),
            Self::Flush => Some(CauseKind::Disk),
            Self::Sleep => Some(CauseKind::Sleep),
            Self::MapMemory => Some(CauseKind::AddressSpace),
            Self::Allocate => Some(CauseKind::Allocator),
            Self::Unlock | Self::Signal | Self::Broadcast | Self::Write | Self::Compute => None,
        }
    }

    /// Returns the kind of waits of other threads that it ends.
    pub fn ends_waits(self) -> Option<CauseKind> {
        match self {
            Self::Unlock => Some(CauseKind::Lock),
            Self::Barrier => Some(CauseKind::Barrier),
            Self::Signal | Self::Broadcast | Self::Write | Self::Send => Some(CauseKind::Pool),
            _ => None,
        }
    }
}

/// Functions of one operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KnownFunction {
    /// What they do.
    pub operation: KnownOperation,
    /// Arguments, from 1, by which their executions are told apart (§3.4).
    pub arguments: &'static [u8],
    /// Patterns for their names.
    pub names: &'static [&'static str],
}

/// One kind of work that a runtime does by itself.
#[derive(Debug, PartialEq, Eq)]
pub struct RuntimeWork {
    /// The frame that stands for it.
    pub name: &'static str,
    /// True for a garbage collector.
    pub is_collection: bool,
    /// A function whose callers are to be asked why there is so much of it, as `report --callers`
    /// finds it; empty where none is known.
    pub callers: &'static str,
    /// A change that spares it.
    pub spared_by: &'static str,
    /// Patterns for files, of which none is any file, and for the functions in these that do it
    /// with all that they call.
    pub(super) functions: &'static [(&'static [&'static str], &'static [&'static str])],
    /// Patterns for the allocating functions that cause it.
    pub(super) allocators: &'static [&'static str],
    /// Patterns for the names of threads that do nothing else.
    pub(super) threads: &'static [&'static str],
    /// True if the program's own functions may call these, too: it is such work where none of them
    /// is on the stack.
    pub(super) only_alone: bool,
    /// True if what it asks the kernel for says more than it does.
    pub keeps_calls: bool,
}

/// Advice how to get the names of functions that symbol tables do not have.
#[derive(Debug)]
pub struct NamingAdvice {
    /// What to do.
    pub advice: &'static str,
    /// The same for recordings with stacks, where these could have had the names.
    pub with_stacks: Option<&'static str>,
    /// True if it compiles scripts: then generated code can be its.
    pub compiles: bool,
}
