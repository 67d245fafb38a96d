//! Loading the runtime into a running process, and leaving the process again.
//!
//! A thread of the process that waits in a system call is borrowed: `choose` finds it, [`borrowed`]
//! holds it. `visit` makes it load the runtime from memory, which works in other mount namespaces
//! too. Then the thread continues its wait unchanged. The runtime's own thread does the rest
//! (`runtime/attached`): it installs hooks in the libraries' tables, and removes them when the
//! [`lifeline`] is released.
//!
//! Without hooks (static programs, other C libraries), `hookless` holds a command before its first
//! instruction, or borrows a thread. `plant` makes it map the handler of `freestanding`, which
//! `build.rs` has compiled into an image (`handler_image`). `sampler/src/bpf/credits.bpf.c` counts
//! which thread wakes which.

#[cfg(target_arch = "x86_64")]
mod attached;
#[cfg(target_arch = "x86_64")]
mod borrowable_calls;
mod borrowed;
#[cfg(target_arch = "x86_64")]
mod choose;
#[cfg(target_arch = "x86_64")]
mod handler_image;
#[cfg(target_arch = "x86_64")]
mod hookless;
#[cfg(target_arch = "x86_64")]
mod image;
#[cfg(target_arch = "x86_64")]
mod lifeline;
#[cfg(target_arch = "x86_64")]
mod plant;
mod proc_files;
mod refuse;
#[cfg(target_arch = "x86_64")]
mod return_frame;
#[cfg(target_arch = "x86_64")]
mod stopped;
#[cfg(not(target_arch = "x86_64"))]
mod unsupported;
#[cfg(target_arch = "x86_64")]
mod urgent;
#[cfg(target_arch = "x86_64")]
mod visit;
#[cfg(target_arch = "x86_64")]
use crate::Error;
use crate::launch::{ProgramKind, Way, is_go_program, program_kind};
use sampler::process_file;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::path::Path;

#[cfg(target_arch = "x86_64")]
pub(crate) use attached::{Attached, attach_process, bring_runtime, check_reported};
#[cfg(target_arch = "x86_64")]
pub(crate) use hookless::{HeldCommand, HooklessProgram, attach_without_hooks, launch_command};
pub(crate) use proc_files::{command_of, mapped_file};
pub(crate) use refuse::refusal;
#[cfg(target_arch = "x86_64")]
pub(crate) use stopped::{StoppedProcess, StoppedThread};
#[cfg(not(target_arch = "x86_64"))]
pub(crate) use unsupported::{
    Attached, HeldCommand, HooklessProgram, attach_process, attach_without_hooks, launch_command,
};

/// Returns how a process can be measured: without hooks, if no library can be loaded into it.
pub(crate) fn way_into_process(pid: u32, hooks: bool) -> Way {
    let executable = process_file(pid, "exe");
    let executable = Path::new(&executable);
    let go = is_go_program(executable);
    let other = matches!(
        program_kind(executable),
        Some(ProgramKind::Static | ProgramKind::OtherLibrary)
    );
    if go || other || !hooks {
        Way::Kernel { go }
    } else {
        Way::Hooks
    }
}

/// A running process that is not a child.
pub(crate) struct RunningProcess(OwnedFd);

impl RunningProcess {
    /// Watches a process.
    ///
    /// # Errors
    /// [`Error::NotAttachable`].
    pub fn open(pid: u32) -> Result<Self, Error> {
        // SAFETY: a plain call; the result is new.
        let process = unsafe { libc::syscall(libc::SYS_pidfd_open, pid as libc::pid_t, 0) };
        if process < 0 {
            return Err(refuse::refusal(pid, "there is no such process"));
        }
        // SAFETY: the kernel has just returned this descriptor.
        Ok(Self(unsafe { OwnedFd::from_raw_fd(process as i32) }))
    }

    /// Returns whether the process has ended.
    pub fn has_ended(&self) -> bool {
        let mut polled = libc::pollfd {
            fd: self.0.as_raw_fd(),
            events: libc::POLLIN,
            revents: 0,
        };
        // SAFETY: one descriptor, which lives during the call.
        unsafe { libc::poll(&raw mut polled, 1, 0) > 0 }
    }
}
