//! Bringing the runtime into a process that runs already, and leaving it again.
//!
//! A thread of the process that waits in a system call is borrowed ([`borrowed`]): it loads the runtime from memory, which works
//! in other mount namespaces too, calls it, and goes on with its wait as if nothing had happened. Everything else the
//! runtime's own thread does (`runtime/attached`), until the [`lifeline`] is let go of.

mod borrowed;
mod choose;
mod handler_image;
mod hookless;
mod image;
mod lifeline;
mod plant;
mod proc_files;
mod refuse;
mod return_frame;
#[cfg(target_arch = "x86_64")]
mod stopped;
mod urgent;
mod visit;
mod waits;

use crate::Error;
use crate::launch::{ProgramKind, Way, is_go_program, program_kind};
use crate::memory::{AttachedMemory, CausalMemory};
use lifeline::Lifeline;
use runtime_abi::state;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::path::Path;
use std::sync::atomic::Ordering::{Acquire, Relaxed};
use std::sync::atomic::{AtomicBool, AtomicU32};
use std::time::{Duration, Instant};

pub(crate) use hookless::{HeldCommand, HooklessProgram, attach_without_hooks, launch_command};
pub(crate) use proc_files::{command_of, mapped_file};
pub(crate) use refuse::refusal;
#[cfg(target_arch = "x86_64")]
pub(crate) use stopped::{StoppedProcess, StoppedThread};

/// Time limit for the runtime to leave.
const LEAVING: Duration = Duration::from_secs(2);

/// Returns how a process can be measured: programs that no library can be loaded into, without hooks.
pub(crate) fn way_into_process(pid: u32, hooks: bool) -> Way {
    let executable = format!("/proc/{pid}/exe");
    let executable = Path::new(&executable);
    let go = is_go_program(executable);
    let other = matches!(
        program_kind(executable),
        Some(ProgramKind::Static | ProgramKind::OtherLibrary)
    );
    match go || other || !hooks {
        true => Way::Kernel { go },
        false => Way::Hooks,
    }
}

/// A process that the runtime is in. Dropped, it leaves.
pub(crate) struct Attached<M: AttachedMemory> {
    process: RunningProcess,
    lifeline: Lifeline<M>,
}

/// Attaches to a process for experiments, with new shared memory.
///
/// # Errors
/// [`Error::NotAttachable`]; the process runs on unchanged then.
pub(crate) fn attach_process(
    pid: u32,
    runtime: &Path,
    stop: &AtomicBool,
) -> Result<(Attached<CausalMemory>, CausalMemory), Error> {
    let (attached, memory) = bring_runtime::<CausalMemory>(pid, runtime, stop)?;
    check_reported(pid, &memory.state)?;
    // By the target's own numbers it may be another one.
    memory.pid.store(pid, Relaxed);
    choose::unblock_signal(pid);
    Ok((attached, memory))
}

/// Brings the runtime into a process, which begins a session there.
///
/// # Errors
/// [`Error::NotAttachable`]; the process runs on unchanged then.
pub(crate) fn bring_runtime<M: AttachedMemory>(
    pid: u32,
    runtime: &Path,
    stop: &AtomicBool,
) -> Result<(Attached<M>, M), Error> {
    let process = RunningProcess::open(pid)?;
    refuse::check_process(pid, refuse::WayIn::Library)?;
    let image = image::RuntimeImage::read(runtime, M::ENTRY)?;
    let libc = image::LibcFunctions::find(pid)?;
    let mut thread = choose::borrow_thread(pid, stop)?;
    let visited = visit::load_runtime::<M>(pid, &mut thread, &image, &libc);
    thread.give_back();
    let visited = visited?;
    let attached = Attached {
        process,
        lifeline: visited.lifeline,
    };
    Ok((attached, visited.memory))
}

/// Refuses a process where the runtime has not said that it is there.
pub(crate) fn check_reported(pid: u32, now: &AtomicU32) -> Result<(), Error> {
    match now.load(Acquire) {
        state::READY => Ok(()),
        _ => Err(refuse::refusal(pid, "the runtime in it has not reported")),
    }
}

/// A process that is not ours to wait for.
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
        // SAFETY: the kernel has just given us this descriptor.
        Ok(Self(unsafe { OwnedFd::from_raw_fd(process as i32) }))
    }

    /// Returns whether it has ended.
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

impl<M: AttachedMemory> Attached<M> {
    /// Returns whether the process has ended.
    pub fn has_ended(&self) -> bool {
        self.process.has_ended()
    }

    /// Lets the runtime leave, and waits for that. Returns whether it did.
    pub fn leave(self) -> bool {
        self.lifeline.let_go();
        let start = Instant::now();
        while self.lifeline.is_guarded() {
            if self.has_ended() {
                return true;
            }
            if start.elapsed() > LEAVING {
                return false;
            }
            std::thread::sleep(Duration::from_millis(5));
        }
        true
    }
}
