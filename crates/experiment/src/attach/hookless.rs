//! Programs without hooks, which get only the handler of the sampling signal; the kernel reports
//! which thread wakes which.
//!
//! A command gets the handler before its first instruction. In a running process, a thread is
//! borrowed for the system calls.

use super::borrowed::BorrowedThread;
use super::choose::UnblockedThreads;
use super::plant::{Plant, give_signal_back, plant_handler};
use super::refuse::{WayIn, check_process, refusal};
use super::return_frame::{ReturningCall, ReturningCodeSearch, WayOfReturning};
use super::{RunningProcess, choose, handler_image};
use crate::launch::is_go_program;
use crate::memory::{COUNTS, CausalMemory, forget_contents};
use crate::{Error, maps};
use profile::MapsLine;
use runtime_abi::SIGNAL;
use sampler::{KernelCredits, Launched, process_file, program_text, thread_ids};
use std::ffi::OsString;
use std::fs::File;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

/// A program with the handler. On drop the handler is deactivated.
pub(crate) struct HooklessProgram {
    pid: u32,
    handler: u64,
    /// A process that ran before, with its shared memory.
    process: Option<(RunningProcess, OwnedFd)>,
    /// True for a Go program.
    pub go: bool,
    /// The BPF programs that credit threads. They stop when this is dropped.
    pub credits: KernelCredits,
    unblocked: UnblockedThreads,
}

/// A command held before its first instruction. On drop it continues.
pub(crate) struct HeldCommand {
    thread: BorrowedThread,
    go: bool,
}

/// Number of system calls within which a Go program installs its handlers: it makes some hundred
/// before.
const GO_STARTS: usize = 10_000;
/// Time after which a sent signal has reached its thread.
const GRACE: Duration = Duration::from_millis(20);
/// Limit on the distance of the handler's code from its start.
const HANDLER_BYTES: u64 = 1 << 20;
/// Maximum number of bytes of a program's code that are searched for a way back.
const MOST_CODE: u64 = 64 << 20;

impl HeldCommand {
    /// Continues the command. Returns false for a Go program that does not start as such programs
    /// do.
    pub fn release(mut self) -> bool {
        // A Go program installs handlers of all signals before its second thread begins. It must
        // not replace that of the sampling signal.
        !self.go || self.thread.run_past_action(SIGNAL, GO_STARTS)
    }
}

/// Starts a command with the handler in it, held before its first instruction.
pub(crate) fn launch_command(
    command: &[OsString],
    memory: &CausalMemory,
) -> Result<(Launched, HeldCommand, HooklessProgram), Error> {
    let mut launched = Launched::fork_waiting(command)?;
    let child = BorrowedThread::follow_child(launched.pid())?;
    launched.start()?;
    let pid = launched.pid();
    let thread = child.stop_at_first_instruction()?;
    let mut thread = thread.ok_or_else(|| Error::NotLoaded {
        program: program_text(command),
        reason: "it ended before".into(),
    })?;
    let planted = plant_in_command(pid, &mut thread, launched.pidfd(), memory);
    match planted {
        Ok(program) => {
            let go = program.go;
            Ok((launched, HeldCommand { thread, go }, program))
        }
        Err(error) => {
            launched.send_signal(libc::SIGKILL);
            drop(thread);
            launched.wait();
            Err(error)
        }
    }
}

fn plant_in_command(
    pid: u32,
    thread: &mut BorrowedThread,
    descriptor: BorrowedFd<'_>,
    memory: &CausalMemory,
) -> Result<HooklessProgram, Error> {
    let mut credits = load_credits(pid)?;
    let entry = thread.registers.rip;
    let mut code = [0; 2];
    let read = thread.memory.read_exact_at(&mut code, entry);
    read.map_err(|_| refusal(pid, "its memory cannot be read"))?;
    let handler = plant_handler(
        &Plant {
            pid,
            descriptor,
            memory,
            clocks: clocks_of(pid, &credits)?,
        },
        thread,
        |thread| {
            // The process ends if vitalfew does: no way back is needed, and it runs nowhere else
            // meanwhile.
            let written = thread.memory.write_all_at(b"\x0f\x05", entry);
            written.map_err(|_| refusal(pid, "its memory cannot be written to"))?;
            thread.prepare_return(ReturningCall {
                call: entry,
                back: WayOfReturning::Call(entry),
            })
        },
    );
    let restored = thread.memory.write_all_at(&code, entry);
    let handler = handler?;
    restored.map_err(|_| refusal(pid, "its memory cannot be written to"))?;
    credits.begin(handler)?;
    begin_in(memory, pid, handler);
    Ok(HooklessProgram {
        pid,
        handler,
        process: None,
        go: is_go_program(Path::new(&process_file(pid, "exe"))),
        credits,
        unblocked: UnblockedThreads::none_of(pid),
    })
}

/// Brings the handler into a running process.
pub(crate) fn attach_without_hooks(
    pid: u32,
    stop: &AtomicBool,
) -> Result<(HooklessProgram, CausalMemory), Error> {
    let process = RunningProcess::open(pid)?;
    check_process(pid, WayIn::Handler)?;
    refuse_used(pid)?;
    let go = is_go_program(Path::new(&process_file(pid, "exe")));
    let memory = CausalMemory::without_hooks()?;
    lock_memory(&memory)?;
    let credits = load_credits(pid)?;
    let planted_before = !handler_image::find_handlers(pid).is_empty();
    let code = find_way_back(pid);
    let has_room = |thread: &BorrowedThread| planted_before || !go || has_go_stack(thread);
    let mut thread = choose::borrow_for_calls(pid, stop, has_room)?;
    let planted = plant_handler(
        &Plant {
            pid,
            descriptor: process.0.as_fd(),
            memory: &memory,
            clocks: clocks_of(pid, &credits)?,
        },
        &mut thread,
        |thread| {
            let code = code.ok_or_else(|| {
                refusal(
                    pid,
                    "it has no code by which a thread could go back by itself",
                )
            })?;
            thread.prepare_return(code)
        },
    );
    thread.give_back();
    let handler = planted?;
    let mut program = HooklessProgram {
        pid,
        handler,
        process: Some((process, memory.another_descriptor()?)),
        go,
        credits,
        unblocked: UnblockedThreads::none_of(pid),
    };
    program.credits.begin(handler)?;
    begin_in(&memory, pid, handler);
    program.unblocked = UnblockedThreads::unblock_all(pid);
    Ok((program, memory))
}

fn load_credits(pid: u32) -> Result<KernelCredits, Error> {
    KernelCredits::load().map_err(|source| {
        let reason = format!(
            "without functions of ours in front of its own, it takes the right to load BPF to measure it (vitalfew doctor): {source}"
        );
        refusal(pid, &reason)
    })
}

fn clocks_of(pid: u32, credits: &KernelCredits) -> Result<BorrowedFd<'_>, Error> {
    let clocks = credits.clocks();
    clocks.ok_or_else(|| refusal(pid, "the kernel's counts cannot be shared with it"))
}

/// Sets the fields that the runtime would set.
fn begin_in(memory: &CausalMemory, pid: u32, handler: u64) {
    memory.pid.store(pid, Relaxed);
    memory.handler.store(handler, Relaxed);
    // The program reads the unadjusted clocks: no hook replaces them.
    memory.real_clocks.store(1, Relaxed);
    // Threads have the slots that the kernel assigns.
    let slots = runtime_abi::kernel::KERNEL_THREADS as u32;
    memory.used.store(slots, Relaxed);
    memory.state.store(runtime_abi::state::READY, Relaxed);
}

/// Returns whether the stack of a Go thread has room: goroutines have small ones. The word in front
/// of the thread pointer leads to its bounds, the first words of `runtime.g`.
fn has_go_stack(thread: &BorrowedThread) -> bool {
    let sp = thread.registers.rsp;
    let borders = || {
        let own = thread.word_at(thread.registers.fs_base.wrapping_sub(8))?;
        Some((thread.word_at(own)?, thread.word_at(own + 8)?))
    };
    borders()
        .is_some_and(|(low, high)| (low..=high).contains(&sp) && sp - low > thread.needed_stack())
}

/// Finds code by which a thread makes its first call and restores itself, should vitalfew be
/// killed.
fn find_way_back(pid: u32) -> Option<ReturningCall> {
    let memory = File::open(process_file(pid, "mem")).ok()?;
    let mut search = ReturningCodeSearch::default();
    for mapping in maps::read_mappings(pid) {
        let length = (mapping.range.end - mapping.range.start).min(MOST_CODE);
        let mut code = vec![0; length as usize];
        let read = memory.read_at(&mut code, mapping.range.start).unwrap_or(0);
        search.search_code(code.get(..read)?, mapping.range.start);
        if let Some(found) = search.found_code() {
            return Some(found);
        }
    }
    None
}

/// Refuses a process that another vitalfew measures: that one holds a lock on the memory, which
/// ends with it.
fn refuse_used(pid: u32) -> Result<(), Error> {
    let text = std::fs::read_to_string(process_file(pid, "maps")).unwrap_or_default();
    let name = format!("/memfd:{COUNTS}");
    for line in MapsLine::parse_all(&text).filter(|line| line.original_path() == name) {
        let range = line.addresses;
        let path = format!("/proc/{pid}/map_files/{:x}-{:x}", range.start, range.end);
        let mut lock = whole_file();
        // SAFETY: the lock is written through the pointer.
        let asked = File::open(path).is_ok_and(|file| unsafe {
            libc::fcntl(file.as_raw_fd(), libc::F_GETLK, &raw mut lock) == 0
        });
        if asked && lock.l_type != libc::F_UNLCK as libc::c_short {
            return Err(refusal(
                pid,
                &format!("process {} is attached to it", lock.l_pid),
            ));
        }
    }
    Ok(())
}

fn lock_memory(memory: &CausalMemory) -> Result<(), Error> {
    let lock = whole_file();
    // SAFETY: the lock is read through the pointer.
    let locked = unsafe { libc::fcntl(memory.descriptor(), libc::F_SETLK, &raw const lock) };
    match locked {
        0 => Ok(()),
        _ => Err(Error::system_error("locking shared memory")),
    }
}

/// Returns a lock of a whole file.
fn whole_file() -> libc::flock {
    // SAFETY: zeros are a lock: from the first byte to the end.
    let mut lock: libc::flock = unsafe { std::mem::zeroed() };
    lock.l_type = libc::F_WRLCK as libc::c_short;
    lock
}

impl HooklessProgram {
    /// Leaves a running process, whose threads no longer get the signal: restores its action of the
    /// signal and frees the memory. The handler stays mapped. Returns whether that succeeded.
    pub fn leave(mut self) -> bool {
        self.try_leave()
    }

    /// Unblocks the sampling signal in threads that block it.
    pub fn unblock_signal(&mut self) {
        let near = self.handler.saturating_sub(HANDLER_BYTES)..self.handler + HANDLER_BYTES;
        for tid in thread_ids(self.pid) {
            self.unblocked.unblock_thread(tid, near.clone());
        }
    }

    fn try_leave(&mut self) -> bool {
        self.credits.end();
        let Some((process, memory)) = self.process.take() else {
            return true;
        };
        if process.has_ended() {
            return true;
        }
        std::thread::sleep(GRACE);
        let stop = AtomicBool::new(false);
        let left = choose::borrow_for_calls(self.pid, &stop, |_| true).and_then(|mut thread| {
            let given = give_signal_back(self.pid, &mut thread, self.handler);
            thread.give_back();
            given
        });
        self.unblocked.block_again();
        forget_contents(&memory);
        left.is_ok() || process.has_ended()
    }
}

impl Drop for HooklessProgram {
    fn drop(&mut self) {
        self.try_leave();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_way_back_is_found_in_any_program() {
        let found = find_way_back(std::process::id()).unwrap();
        assert!(matches!(found.back, WayOfReturning::PopNumber(_)));
        let memory = File::open("/proc/self/mem").unwrap();
        let mut code = [0; 3];
        memory.read_exact_at(&mut code, found.call).unwrap();
        assert_eq!(code, *b"\x0f\x05\xc3");
    }
}
