//! The columns of the catalogue.

use crate::CauseKind;

/// A library, a runtime of a language, or other well-known code.
#[derive(Debug)]
pub struct KnownCode {
    /// Its name.
    pub name: &'static str,
    /// Its purpose.
    pub kind: CodeKind,
    /// Patterns for the names of its files, to which a version may be appended.
    pub files: &'static [&'static str],
    /// Patterns for the paths of the scripts that come with it.
    pub scripts: &'static [&'static str],
    /// Directories in the paths of scripts that others have written for it.
    pub packages: &'static [&'static str],
    /// Programs that start it, beside its own files.
    pub starters: &'static [&'static str],
    /// Patterns for the names of functions, by their role.
    pub(super) functions: &'static [(FunctionRole, &'static [&'static str])],
    /// Functions by their operation.
    pub(super) operations: &'static [KnownFunctions],
    /// Its own work.
    pub works: &'static [RuntimeWork],
    /// Advice how to get the names of functions that are not in symbol tables.
    pub naming: Option<NamingAdvice>,
}

/// The purpose of known code.
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
    /// An interpreter, which works for a script; its own frames say nothing about the script.
    Interpreter,
    /// A compiling runtime that works for a script; the callees of its functions matter.
    Engine,
    /// A library that hands work out to a team of threads.
    Team,
    /// Anything else, which works for itself.
    Other,
}

/// The role of functions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FunctionRole {
    /// Leads to work without doing any.
    Glue,
    /// Glue at which stacks begin.
    Start,
    /// Glue through which system calls enter the kernel.
    KernelEntry,
    /// Glue of an interpreter that executes scripts, in the interpreter's files.
    Loop,
    /// Executes scripts in the files of its interpreter.
    Executes,
    /// Belongs to the standard library, in any file that it was compiled into.
    Library,
    /// Belongs to the standard library, in code that a runtime generated for itself.
    Generated,
    /// First part of the names of the standard library's packages.
    Package,
    /// Belongs to the standard library if it is a script's function.
    ScriptLibrary,
    /// Locks or unlocks.
    Locking,
    /// Parks a thread until its runtime lets it continue.
    RuntimeWait,
    /// Hands out work to a team of threads.
    HandsOut,
}

/// The waits and wake-ups of known functions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KnownOperation {
    /// Takes a lock.
    Lock,
    /// Waits for any lock of its callers: the C library's own way.
    FutexLock,
    /// Releases a lock, and so lets its waiters continue.
    Unlock,
    /// Signals a condition or a semaphore: one waiting thread continues.
    Signal,
    /// Signals a condition: all waiting threads continue.
    Broadcast,
    /// Waits for all of a team.
    Barrier,
    /// Waits for a condition.
    Condition,
    /// Waits for a semaphore.
    Semaphore,
    /// Waits for work.
    Await,
    /// Waits for the end of a thread or a process: its caller has nothing to do until then.
    Join,
    /// Hands work on through a file, a pipe or a socket.
    Write,
    /// Hands work on through the network.
    Send,
    /// Waits for the network.
    Network,
    /// Waits for a disk.
    Flush,
    /// Waits for a time.
    Sleep,
    /// Yields: its caller has nothing to do until another thread has done something.
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
            Self::Condition | Self::Semaphore | Self::Await | Self::Join => Some(CauseKind::Pool),
            Self::Send | Self::Network => Some(CauseKind::Network),
            Self::Flush => Some(CauseKind::Disk),
            Self::Sleep => Some(CauseKind::Sleep),
            Self::MapMemory => Some(CauseKind::AddressSpace),
            Self::Allocate => Some(CauseKind::Allocator),
            Self::Unlock | Self::Signal | Self::Broadcast | Self::Write | Self::Compute => None,
        }
    }

    /// Returns whether the first argument is the address of what it locks, waits for or signals.
    pub fn takes_address(self) -> bool {
        use KnownOperation::{Broadcast, Condition, FutexLock, Lock, Semaphore, Signal};
        matches!(
            self,
            Lock | FutexLock | Condition | Semaphore | Signal | Broadcast
        )
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

/// An operation, and patterns for the names of its functions.
pub type KnownFunctions = (KnownOperation, &'static [&'static str]);

/// One kind of own work of a runtime.
#[derive(Debug, PartialEq, Eq)]
pub struct RuntimeWork {
    /// The frame that stands for it.
    pub name: &'static str,
    /// True for a garbage collector.
    pub is_collection: bool,
    /// A function whose callers explain the amount of this work, as `report --callers` finds it;
    /// empty if unknown.
    pub callers: &'static str,
    /// A change that avoids it.
    pub spared_by: &'static str,
    /// Patterns for files (none stands for any file), and for the functions in these that do this
    /// work with all their callees.
    pub(super) functions: &'static [(&'static [&'static str], &'static [&'static str])],
    /// Patterns for the allocating functions that cause it.
    pub(super) allocators: &'static [&'static str],
    /// Patterns for the names of threads that only do this work.
    pub(super) threads: &'static [&'static str],
    /// True if the program's own functions may call these, too: they do this work only if no
    /// function of the program is on the stack.
    pub(super) only_alone: bool,
    /// True if its system calls say more than its own name.
    pub keeps_calls: bool,
}

/// Advice how to get the names of functions that are not in symbol tables.
#[derive(Debug)]
pub struct NamingAdvice {
    /// The advice.
    pub advice: &'static str,
    /// The advice for recordings with stacks, which could have had the names.
    pub with_stacks: Option<&'static str>,
    /// True if it compiles scripts, so that generated code can belong to it.
    pub compiles: bool,
}
