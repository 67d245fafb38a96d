//! Choice of the thread to borrow.

use super::borrowable_calls::{is_plain_wait, would_wait_longer};
use super::borrowed::{BorrowedThread, Errand, arguments_of};
use super::proc_files::{ThreadStatus, awaited_call, mapped_file};
use super::{image, refuse};
use crate::Error;
use profile::ProcessAddress;
use sampler::thread_ids;
use std::ops::Range;
use std::os::unix::fs::FileExt;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::Relaxed;
use std::time::{Duration, Instant};
use unwind::{AddressSpace, ModuleData, StackMemory, UnwindRegisters, Unwinder};

/// Time limit for the search.
const PATIENCE: Duration = Duration::from_secs(5);
/// Time in which only threads are accepted whose wait continues with exactly its remaining timeout.
const PICKY: Duration = Duration::from_millis(500);
const PAUSE: Duration = Duration::from_millis(2);
/// Number of bytes of a stack that are searched.
const STACK: usize = 64 << 10;

/// Borrows a waiting thread that is inside no function which loading a library would disturb.
pub(super) fn borrow_thread(pid: u32, stop: &AtomicBool) -> Result<BorrowedThread, Error> {
    let stacks = Stacks::read(pid);
    let start = Instant::now();
    let mut unsafe_seen = false;
    while start.elapsed() < PATIENCE && !stop.load(Relaxed) {
        let picky = start.elapsed() < PICKY;
        for tid in thread_ids(pid) {
            let Some((number, arguments)) = awaited_call(pid, tid) else {
                continue;
            };
            if !is_plain_wait(number, &arguments) || picky && would_wait_longer(number, &arguments)
            {
                continue;
            }
            let Some(thread) = BorrowedThread::stop_thread(pid, tid, Errand::CallFunctions)? else {
                continue;
            };
            if stacks.is_safe(&thread) {
                return Ok(thread);
            }
            unsafe_seen = true;
            thread.give_back();
        }
        std::thread::sleep(PAUSE);
    }
    Err(refuse::refusal(
        pid,
        if unsafe_seen {
            "the threads of it that wait do so inside the allocator or the dynamic linker, where nothing can be loaded; try again"
        } else {
            "no thread of it waits in a system call, which one must to load the runtime; start it with `causal run -- COMMAND`"
        },
    ))
}

/// Borrows a thread for system calls only: one that waits if there is one, any other otherwise.
/// `has_room` tells whether its stack has room for the frame.
pub(super) fn borrow_for_calls(
    pid: u32,
    stop: &AtomicBool,
    has_room: impl Fn(&BorrowedThread) -> bool,
) -> Result<BorrowedThread, Error> {
    let start = Instant::now();
    while start.elapsed() < PATIENCE && !stop.load(Relaxed) {
        let picky = start.elapsed() < PICKY;
        for tid in thread_ids(pid) {
            let waits = awaited_call(pid, tid).is_some_and(|(number, arguments)| {
                is_plain_wait(number, &arguments) && !would_wait_longer(number, &arguments)
            });
            if picky && !waits {
                continue;
            }
            let thread = BorrowedThread::stop_thread(pid, tid, Errand::MakeCalls)?;
            if let Some(thread) = thread.filter(&has_room) {
                return Ok(thread);
            }
        }
        std::thread::sleep(PAUSE);
    }
    Err(refuse::refusal(
        pid,
        "no thread of it can be used for a moment: each is in a system call that cannot be interrupted, or has no room on its stack",
    ))
}

/// Unwind tables of a process, and the functions that a borrowed thread must not be inside.
struct Stacks {
    space: AddressSpace,
    forbidden: Vec<Range<u64>>,
}

impl Stacks {
    fn read(pid: u32) -> Self {
        let mut space = AddressSpace::new();
        for mapping in crate::maps::read_mappings(pid) {
            let Range { start, end } = mapping.range;
            let module = if mapping.path.starts_with('/') {
                ModuleData::open(&mapped_file(pid, start, end, &mapping.path)).ok()
            } else {
                None
            };
            let module = module.unwrap_or_else(ModuleData::without_tables);
            let range = ProcessAddress(start)..ProcessAddress(end);
            space.add_module(range, mapping.offset, Arc::new(module));
        }
        Self {
            space,
            forbidden: image::allocator_functions(pid),
        }
    }

    fn is_safe(&self, thread: &BorrowedThread) -> bool {
        let registers = &thread.registers;
        if !is_plain_wait(registers.orig_rax as i64, &arguments_of(registers)) {
            return false;
        }
        let mut stack = vec![0; STACK];
        let read = thread.memory.read_at(&mut stack, registers.rsp);
        stack.truncate(read.unwrap_or(0));
        let mut state = UnwindRegisters::x86_64(registers.rip, registers.rsp, registers.rbp);
        for (number, value) in [
            (3, registers.rbx),
            (12, registers.r12),
            (13, registers.r13),
            (14, registers.r14),
            (15, registers.r15),
        ] {
            state = state.with(number, value);
        }
        let mut frames = Vec::new();
        let stack = StackMemory::new(registers.rsp, &stack);
        Unwinder::new().unwind(&self.space, &state, stack, &mut frames);
        frames.iter().all(|frame| {
            let inside = frame.0.saturating_sub(1);
            !self.forbidden.iter().any(|range| range.contains(&inside))
        })
    }
}

/// Threads of a process that block the sampling signal; it is unblocked in them while they are
/// measured.
pub(super) struct UnblockedThreads {
    pid: u32,
    threads: Vec<u32>,
}

impl UnblockedThreads {
    /// Makes an empty set for a process.
    pub fn none_of(pid: u32) -> Self {
        let threads = Vec::new();
        Self { pid, threads }
    }

    /// Unblocks the signal in all threads that block it, also in running ones.
    pub fn unblock_all(pid: u32) -> Self {
        let mut unblocked = Self::none_of(pid);
        retry_threads(thread_ids(pid), |tid| unblocked.unblock_thread(tid, 0..0));
        unblocked
    }

    /// Unblocks the signal in a thread, unless it is in code at `spared`, the signal's handler.
    /// Returns false if that must be retried.
    pub fn unblock_thread(&mut self, tid: u32, spared: Range<u64>) -> bool {
        let changed = set_blocked(self.pid, tid, false, spared);
        self.threads
            .extend(changed.filter(|changed| *changed).map(|_| tid));
        changed.is_some()
    }

    /// Restores the threads' masks.
    pub fn block_again(&mut self) {
        let threads = std::mem::take(&mut self.threads);
        retry_threads(threads, |tid| {
            set_blocked(self.pid, tid, true, 0..0).is_some()
        });
    }
}

/// Retries `succeeds` for each thread until it succeeds, for a limited time.
fn retry_threads(mut threads: Vec<u32>, mut succeeds: impl FnMut(u32) -> bool) {
    let start = Instant::now();
    while !threads.is_empty() && start.elapsed() < PICKY {
        threads.retain(|&tid| !succeeds(tid));
        std::thread::sleep(PAUSE);
    }
}

/// Blocks or unblocks the sampling signal in a thread. Returns whether that is a change; `None` if
/// it must be retried.
fn set_blocked(pid: u32, tid: u32, blocked: bool, spared: Range<u64>) -> Option<bool> {
    let bit = 1u64 << (runtime_abi::SIGNAL - 1);
    let status = ThreadStatus::read(pid, tid);
    let changes = status.is_some_and(|status| {
        let is_blocked = status.signals("SigBlk") & bit != 0;
        // The runtime's guard thread blocks all signals.
        is_blocked != blocked && status.field("Name") != Some("vitalfew")
    });
    if !changes {
        return Some(false);
    }
    // Other calls would fail if they were interrupted.
    let waits = awaited_call(pid, tid);
    if waits.is_some_and(|(number, arguments)| !is_plain_wait(number, &arguments)) {
        return None;
    }
    match BorrowedThread::stop_thread(pid, tid, Errand::MakeCalls) {
        Ok(Some(mut thread)) => {
            let is_spared = spared.contains(&thread.registers.rip);
            if !is_spared {
                let others = thread.mask & !bit;
                thread.keep_mask(if blocked { others | bit } else { others });
            }
            thread.give_back();
            (!is_spared).then_some(true)
        }
        Ok(None) => None,
        Err(_) => Some(false),
    }
}
