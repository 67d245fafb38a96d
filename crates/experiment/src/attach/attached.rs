//! A process into which one of its threads has loaded the runtime.

use super::choose::UnblockedThreads;
use super::lifeline::Lifeline;
use super::{RunningProcess, choose, image, refuse, visit};
use crate::Error;
use crate::memory::{AttachedMemory, CausalMemory};
use runtime_abi::state;
use std::path::Path;
use std::sync::atomic::Ordering::{Acquire, Relaxed};
use std::sync::atomic::{AtomicBool, AtomicU32};
use std::time::{Duration, Instant};

/// Time limit for the runtime to leave the process.
const LEAVING: Duration = Duration::from_secs(2);

/// A process with the runtime in it. On drop the runtime leaves.
pub(crate) struct Attached<M: AttachedMemory> {
    process: RunningProcess,
    lifeline: Lifeline<M>,
    unblocked: UnblockedThreads,
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
    let (mut attached, memory) = bring_runtime::<CausalMemory>(pid, runtime, stop)?;
    check_reported(pid, &memory.state)?;
    // In the target's PID namespace the number may differ.
    memory.pid.store(pid, Relaxed);
    attached.unblocked = UnblockedThreads::unblock_all(pid);
    Ok((attached, memory))
}

/// Loads the runtime into a process and begins a session there.
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
        unblocked: UnblockedThreads::none_of(pid),
    };
    Ok((attached, visited.memory))
}

/// Refuses a process in which the runtime has not reported.
pub(crate) fn check_reported(pid: u32, now: &AtomicU32) -> Result<(), Error> {
    match now.load(Acquire) {
        state::READY => Ok(()),
        _ => Err(refuse::refusal(pid, "the runtime in it has not reported")),
    }
}

impl<M: AttachedMemory> Attached<M> {
    /// Returns whether the process has ended.
    pub fn has_ended(&self) -> bool {
        self.process.has_ended()
    }

    /// Makes the runtime leave, and waits for that. Returns whether it left.
    pub fn leave(mut self) -> bool {
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
        self.unblocked.block_again();
        true
    }
}
