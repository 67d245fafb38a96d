//! The memory that the runtime shares with its controller when it traces executions of blocks.
//!
//! [`Memory`] lies at the start of one shared memory object. Behind it, at [`SEGMENTS_OFFSET`], are
//! the [`SEGMENTS`] for the threads' records, and at [`CODE_OFFSET`] the code that the controller
//! generates for the target. `docs/method/interference.md` is the protocol.

use core::sync::atomic::{
    AtomicI32, AtomicI64, AtomicU32, AtomicU64,
    Ordering::{AcqRel, Acquire, Relaxed, Release},
};

/// The required first word: different for every layout, and different from that of a
/// [`Page`](crate::Page).
pub const MAGIC: u64 = !crate::layout::LAYOUT;
/// The environment variable with the file descriptor of the memory.
pub const VARIABLE: &str = "VITALFEW_TRACE";

/// Maximum number of threads traced at a time.
pub const THREADS: usize = 16_384;
/// Segments; a thread that traces has at least one.
pub const SEGMENTS: usize = 32_768;
/// Size of a segment in bytes: its [`SegmentHead`], records, and room for signal handlers.
pub const SEGMENT: usize = 64 << 10;
/// Size of a record in bytes.
pub const RECORD: usize = 16;
/// Records of a segment after which a thread takes another one.
pub const RECORDS: usize = SEGMENT / RECORD - 1 - SPARE;
/// Records that signal handlers may write while their thread is about to take another segment.
pub const SPARE: usize = 128;
/// Maximum number of traced blocks.
pub const BLOCKS: usize = 1 << 19;
/// Maximum number of blocks marked in the source.
pub const MARKED: usize = 256;
/// Bytes of a marked block's name, with a zero at its end.
pub const NAME: usize = 120;
/// Executions of a block in a thread between two of its stacks (section 3.2.2).
pub const STACK_PERIOD: u32 = 10_000;
/// Maximum number of words kept of a stack.
pub const STACK: usize = 1024;
/// Frames of a thread: the maximum nesting depth of traced blocks.
pub const FRAMES: usize = 2048;

/// Start of the segments.
pub const SEGMENTS_OFFSET: usize = size_of::<Memory>().next_multiple_of(SEGMENT);
/// Start of the code.
pub const CODE_OFFSET: usize = SEGMENTS_OFFSET + SEGMENTS * SEGMENT;
/// Maximum size of the code in bytes.
pub const CODE: usize = 1 << 29;
/// Number of blocks whose calls a [`CallPage`] counts.
pub const PAGE_BLOCKS: usize = 1024;
/// Number of call pages; a thread has one for each [`PAGE_BLOCKS`] blocks of which it calls any.
pub const CALL_PAGES: usize = THREADS + 4096;
/// Start of the call pages.
pub const CALL_PAGES_OFFSET: usize = CODE_OFFSET + CODE;
/// Size of the whole object. Untouched parts take no memory.
pub const LENGTH: usize = CALL_PAGES_OFFSET + CALL_PAGES * size_of::<CallPage>();

/// The fields of a record's first word: a time above a tag.
///
/// A record is two words; the second is written before the first, which is 0 until then. An
/// execution has the block as its tag and its duration in the second word.
pub mod record {
    /// Bits of the tag.
    pub const TAG: u32 = 20;
    /// The first argument of the execution that follows is in the second word: an address.
    pub const ADDRESS: u64 = (1 << TAG) - 1;
    /// A block that was left by unwinding: its number is in the upper half of the second word.
    pub const UNWOUND: u64 = (1 << TAG) - 2;
    /// A stack: its number of words is above the tag, the block in the second word. The words
    /// follow, two a record.
    pub const STACK: u64 = (1 << TAG) - 3;
    /// Number of executions that found no room, in the second word.
    pub const LOST: u64 = (1 << TAG) - 4;
    /// Sampling period of a block in this thread: from now on each recorded execution stands for
    /// this number of calls. The period is in the second word, the block above it.
    pub const PERIOD: u64 = (1 << TAG) - 5;
    /// Tags below this are blocks.
    pub const BLOCKS_END: u64 = PERIOD;
}

/// Values of [`Memory::state`].
pub use crate::state;

/// The shared memory.
#[repr(C, align(4096))]
pub struct Memory {
    /// [`MAGIC`]; controller.
    pub magic: AtomicU64,
    /// One of [`state`], a futex; both.
    pub state: AtomicU32,
    /// The process to measure: of a command, controller; of a running process, runtime.
    pub pid: AtomicU32,
    /// A futex that changes when the controller has news to read; runtime.
    pub news: AtomicU32,
    /// The controller sleeps on `news`.
    pub waiting: AtomicU32,
    /// Number of requests to look for new code and new marked blocks; runtime.
    pub asked: AtomicU32,
    /// Number of requests answered, a futex; controller.
    pub answered: AtomicU32,
    /// Offset of the thread's pointer to its [`Local`] from the thread pointer, in bytes; runtime.
    pub local: AtomicI64,
    /// Address of the function behind [`Reason`]; runtime.
    pub slow: AtomicU64,
    /// Address of the personality of traced frames; runtime.
    pub personality: AtomicU64,
    /// Address of this memory in the target; runtime.
    pub address: AtomicU64,
    /// The first [`Step`] to carry out, as an offset in bytes from the start of the memory;
    /// controller.
    pub steps: AtomicU64,
    /// Number of steps to carry out; controller.
    pub step_count: AtomicU64,
    /// Number of the step that failed, from 1; runtime.
    pub failed_step: AtomicU32,
    /// The errno of that step; runtime.
    pub failed_errno: AtomicI32,
    /// Number of threads without a slot; runtime.
    pub untraced: AtomicU64,
    /// Number of calls that were not traced because blocks nested too deep; runtime.
    pub too_deep: AtomicU64,
    /// Slots that have been in use so far.
    pub used: AtomicU32,
    /// Head of the list of free slots: a tag above index + 1.
    pub free: AtomicU64,
    /// Segments that have been in use so far.
    pub used_segments: AtomicU32,
    /// Maximum number of segments in use at a time; controller.
    pub room: AtomicU32,
    /// The program has restricted its system calls; runtime.
    pub filtered: AtomicU32,
    /// Number of executions that ended before one that began later: the program switched stacks;
    /// runtime.
    pub unordered: AtomicU64,
    /// Address of the function that throws exceptions, as the target's libraries resolve it;
    /// runtime.
    pub raise_exception: AtomicU64,
    /// Address of the function that registers unwinding information; runtime.
    pub register_frame: AtomicU64,
    /// Time at which the process reached the end of `exit`, in ticks; runtime.
    pub ended: AtomicU64,
    /// A robust mutex like [`crate::Page::lifeline`], used after attaching.
    pub lifeline: [AtomicU64; crate::LIFELINE],
    /// 1 once the first steps are done or one has failed, used after attaching; runtime.
    pub prepared: AtomicU32,
    /// Parts of the controller's code in use after the code was restored: one of [`remains`]; used
    /// after attaching.
    pub remains: AtomicU32,
    /// Id of the runtime's own thread, used after attaching; runtime.
    pub guard: AtomicU32,
    /// Hold of all threads but one.
    pub hold: Hold,
    /// Head of the list of free segments, likewise.
    pub free_segments: crate::Line<AtomicU64>,
    /// Threads.
    pub threads: [Thread; THREADS],
    /// Number of untraced calls on stacks that are not the thread's, by slot; never reset; runtime.
    pub foreign: [AtomicU64; THREADS],
    /// Twice the sampling period of each block; 0: every execution is recorded. A thread with at
    /// least this number of calls left before its next call into the runtime makes that call now;
    /// controller.
    pub periods: [AtomicU32; BLOCKS],
    /// Call pages that have been in use so far.
    pub used_call_pages: AtomicU32,
    /// Head of the list of free call pages, as for segments.
    pub free_call_pages: AtomicU64,
    /// Index + 1 of the next call page, in a thread's list or the free list.
    pub next_call_page: [AtomicU32; CALL_PAGES],
    /// Number of each call page: its first block divided by [`PAGE_BLOCKS`]; runtime.
    pub call_page_part: [AtomicU32; CALL_PAGES],
    /// Index + 1 of the next free segment.
    pub next_segment: [AtomicU32; SEGMENTS],
    /// Marked blocks.
    pub marked: [Marked; MARKED],
}

/// A thread, from its first trace until its last record is read.
#[repr(C, align(64))]
pub struct Thread {
    /// Thread id, 0 while the slot is free; runtime.
    pub tid: AtomicU32,
    /// Process of the thread; runtime.
    pub pid: AtomicU32,
    /// 0 free, 1 traced, 2 ended; the controller frees the slot.
    pub state: AtomicU32,
    /// Index + 1 of the next free slot.
    pub next: AtomicU32,
    /// Index + 1 of the thread's first segment; runtime.
    pub first: AtomicU32,
    /// Time at which the thread was first seen, in ticks; runtime.
    pub start: AtomicU64,
    /// Time at which the thread ended, in ticks; runtime.
    pub end: AtomicU64,
    /// Address of the thread's [`Local`]; runtime.
    pub address: AtomicU64,
    /// Thread name; runtime, at the thread's end.
    pub name: [AtomicU64; 2],
    /// Number of executions that found no room so far; runtime.
    pub lost: AtomicU64,
    /// Index + 1 of the thread's first call page; runtime.
    pub call_pages: AtomicU32,
    /// 1 if some of the thread's blocks have no call page; runtime.
    pub uncounted: AtomicU32,
    /// Locks that it holds, as far as hooks know; runtime.
    pub locks: AtomicU32,
    /// The last hold in which it stood; runtime.
    pub stood: AtomicU32,
    /// The program has this thread block [`crate::SIGNAL`], which it does not; runtime.
    pub blocks_signal: AtomicU32,
}

/// Holds all threads but one for a moment, which runs alone meanwhile.
///
/// A held thread spins or sleeps in the handler of [`crate::SIGNAL`] and lets itself go when the
/// time is over, whatever has become of the controller.
#[repr(C, align(128))]
pub struct Hold {
    /// Address of the runtime's handler; runtime.
    pub handler: AtomicU64,
    /// Number of the hold, 0: there is none; controller.
    pub number: AtomicU32,
    /// The thread that runs alone; controller.
    pub subject: AtomicU32,
    /// One of [`hold`]; controller.
    pub manner: AtomicU32,
    /// Time at which held threads let themselves go, in ticks; controller.
    pub until: AtomicU64,
    /// Time at which the first of them did, in ticks, 0: none has; runtime.
    pub left: AtomicU64,
    /// The last hold for which all others stood still: `until` is final; controller.
    pub settled: AtomicU32,
    /// Ticks in a microsecond; controller.
    pub ticks_per_us: AtomicU32,
    /// Code in which no thread is held, because it may hold a lock that hooks do not see: the start
    /// and the end of the allocator; controller.
    pub allocator: [AtomicU64; 2],
    /// Used entries of `threads`; controller.
    pub count: AtomicU32,
    /// Threads of the process.
    pub threads: [HeldThread; HELD],
}

/// Threads whose hold is known at a time.
pub const HELD: usize = 1024;

/// Manners of holding threads.
pub mod hold {
    /// Held threads keep their processors busy.
    pub const SPIN: u32 = 0;
    /// Held threads sleep: there are more of them than processors.
    pub const SLEEP: u32 = 1;
}

/// A thread, as far as it is held.
#[repr(C)]
pub struct HeldThread {
    /// Its id; controller.
    pub tid: AtomicU32,
    /// The last hold in which it stood; runtime.
    pub stood: AtomicU32,
    /// The last hold for which it was interrupted while it held a lock; runtime.
    pub asked: AtomicU32,
    /// Time since which it stands or stood, in ticks; runtime.
    pub since: AtomicU64,
    /// Time until which it stood, 0: it still stands; runtime.
    pub until: AtomicU64,
}

/// A thread's call counts for [`PAGE_BLOCKS`] blocks. `left` is also mapped into the thread's
/// counts, so that the controller knows them however the program ends.
#[repr(C, align(4096))]
pub struct CallPage {
    /// Calls of each block until the next call into the runtime; wraps below zero at that call.
    pub left: [AtomicU32; PAGE_BLOCKS],
    /// The runtime's counts for each block.
    pub blocks: [CallCount; PAGE_BLOCKS],
}

/// A thread's count of its calls of a block.
#[repr(C)]
pub struct CallCount {
    /// Calls so far, plus [`CallPage::left`].
    pub calls: AtomicU64,
    /// Sampling period of the count.
    pub period: AtomicU32,
    /// Sampling period that the thread's records state; 0: none.
    pub said: AtomicU32,
}

impl CallPage {
    /// Returns how often the thread has called a block of the page.
    pub fn calls(&self, at: usize) -> u64 {
        let (Some(block), Some(left)) = (self.blocks.get(at), self.left.get(at)) else {
            return 0;
        };
        let left = i64::from(left.load(Relaxed) as i32);
        (block.calls.load(Relaxed) as i64).wrapping_sub(left).max(0) as u64
    }

    /// Clears a block. Untouched counts are not written to, so that they take no memory.
    pub fn clear(&self, at: usize) {
        let (Some(block), Some(left)) = (self.blocks.get(at), self.left.get(at)) else {
            return;
        };
        if block.calls.load(Relaxed) != 0 || left.load(Relaxed) != 0 {
            left.store(0, Relaxed);
            block.calls.store(0, Relaxed);
        }
        if block.period.load(Relaxed) != 0 {
            block.period.store(0, Relaxed);
            block.said.store(0, Relaxed);
        }
    }
}

/// A block that is marked in the source.
#[repr(C, align(128))]
pub struct Marked {
    /// 0 free, 1 being named, 2 in use; runtime.
    pub state: AtomicU32,
    /// Number of the block, from 1; controller.
    pub block: AtomicU32,
    /// Name of the block; runtime.
    pub name: [core::sync::atomic::AtomicU8; NAME],
}

/// The header of a segment, as long as a record.
#[repr(C)]
pub struct SegmentHead {
    /// Index + 1 of the segment that follows this one, 0: none yet; runtime.
    pub next: AtomicU32,
    /// Number of records in the segment once the thread has moved to the next; runtime.
    pub records: AtomicU32,
    /// Not used.
    pub reserved: AtomicU64,
}

/// A target thread's private tracing state, which the controller's trampolines use.
#[repr(C)]
pub struct Local {
    /// Address of the next free [`Frame`].
    pub top: u64,
    /// First address behind the last usable frame.
    pub limit: u64,
    /// Address of the next record.
    pub head: u64,
    /// Address of the last record of the segment.
    pub end: u64,
    /// Address of the first frame.
    pub base: u64,
    /// Index of the slot.
    pub slot: u64,
    /// Index of the segment in use.
    pub segment: u64,
    /// 1 while the thread is inside the runtime, where it is not traced.
    pub busy: u64,
    /// Number of executions that found no room and are not recorded as lost yet.
    pub lost: u64,
    /// Address of the spill buffer: records for which no segment is free go there, and count as
    /// lost.
    pub spill: u64,
    /// Process of the thread.
    pub pid: u64,
    /// Lowest address of the thread's stack.
    pub stack_low: u64,
    /// Size of the thread's stack in bytes.
    pub stack_size: u64,
    /// Address of the thread's count in [`Memory::foreign`].
    pub foreign: u64,
    /// Call pages: index + 1; 0: none yet; `u16::MAX`: none was free.
    pub call_pages: [u16; BLOCKS / PAGE_BLOCKS],
}

/// Offset of a thread's call counts ([`CallPage::left`]) from its [`Local`], in bytes: one `u32` a
/// block.
pub const COUNTS: usize = 4096;

/// A traced execution that has not ended.
#[repr(C)]
pub struct Frame {
    /// Time of entry, in ticks.
    pub enter: u64,
    /// Address that the block returns to.
    pub return_address: u64,
    /// The caller's rbx.
    pub rbx: u64,
    /// Spill slot for rax, while the controller's code uses that register.
    pub rax: u64,
    /// Spill slot for rdx.
    pub rdx: u64,
    /// Spill slot for rcx.
    pub rcx: u64,
    /// The block.
    pub block: u64,
    /// The stack pointer of the caller.
    pub stack: u64,
    /// The thread's [`Local`].
    pub local: u64,
    /// The first argument, if that is an address.
    pub address: u64,
    /// Padding: the size of a frame is a power of two.
    pub reserved: [u64; 6],
}

/// Value of [`Frame::block`] for an execution that ended before one that began later.
pub const ENDED: u64 = u64::MAX;

/// Reasons for which the controller's code calls the runtime. The reason is the third argument of
/// that call, after the block and the stack pointer; the call returns whether to trace the
/// execution.
pub mod reason {
    /// The thread has no [`super::Local`], or no free frame.
    pub const FRAME: u32 = 0;
    /// The call count of a block reached zero.
    pub const COUNT: u32 = 1;
    /// A segment is full.
    pub const SEGMENT: u32 = 2;
    /// The program has loaded a library.
    pub const LIBRARY: u32 = 3;
    /// An execution ends that is not the last one begun in its thread.
    pub const RETURN: u32 = 4;
}

/// An action that the runtime carries out for the controller.
#[repr(C)]
pub struct Step {
    /// One of [`step`].
    pub kind: AtomicU32,
    /// Length in bytes.
    pub length: AtomicU32,
    /// Address in the target.
    pub address: AtomicU64,
    /// Offset in the shared memory, or the new protection.
    pub value: AtomicU64,
    /// Not used.
    pub reserved: AtomicU64,
}

/// Parts of the controller's code that are still in use after it restored the code of a process it
/// had attached to.
pub mod remains {
    /// The controller restored nothing: it was killed.
    pub const UNKNOWN: u32 = 0;
    /// None: the remaining steps unmap the code.
    pub const NOTHING: u32 = 1;
    /// Threads are in the code, or will return to it.
    pub const CODE: u32 = 2;
    /// A thread was in the runtime, and goes on with this session's state: no further session is
    /// possible.
    pub const THREADS: u32 = 3;
}

/// Kinds of [`Step`].
pub mod step {
    /// Map a part of the shared memory as executable, where nothing is mapped yet.
    pub const MAP: u32 = 1;
    /// Change the protection of pages.
    pub const PROTECT: u32 = 2;
    /// Copy bytes from the shared memory.
    pub const COPY: u32 = 3;
    /// Register unwinding information.
    pub const UNWIND: u32 = 4;
    /// Deregister unwinding information.
    pub const FORGET: u32 = 5;
    /// Unmap code.
    pub const UNMAP: u32 = 6;
    /// Unmap a thread's [`super::Local`].
    pub const UNMAP_LOCAL: u32 = 7;
}

fn take(head: &AtomicU64, next: impl Fn(u32) -> u32) -> Option<u32> {
    loop {
        let seen = head.load(Acquire);
        let index = (seen as u32).checked_sub(1)?;
        let new = (seen >> 32).wrapping_add(1) << 32 | u64::from(next(index));
        if head.compare_exchange(seen, new, AcqRel, Relaxed).is_ok() {
            return Some(index);
        }
    }
}

fn give(head: &AtomicU64, index: u32, set_next: impl Fn(u32)) {
    loop {
        let seen = head.load(Acquire);
        set_next(seen as u32);
        let new = (seen >> 32).wrapping_add(1) << 32 | (u64::from(index) + 1);
        if head.compare_exchange(seen, new, AcqRel, Relaxed).is_ok() {
            return;
        }
    }
}

fn fresh(used: &AtomicU32, limit: usize) -> Option<u32> {
    let more = |used: u32| ((used as usize) < limit).then_some(used + 1);
    used.fetch_update(AcqRel, Relaxed, more).ok()
}

impl Memory {
    /// Takes a slot for a new thread; `None` if none is free.
    pub fn take_thread(&self) -> Option<u32> {
        let next = |index: u32| {
            let thread = self.threads.get(index as usize);
            thread.map_or(0, |thread| thread.next.load(Relaxed))
        };
        take(&self.free, next)
            .or_else(|| fresh(&self.used, THREADS))
            .filter(|index| (*index as usize) < THREADS)
    }

    /// Returns a slot to the free list.
    pub fn give_thread(&self, index: u32) {
        let Some(thread) = self.threads.get(index as usize) else {
            return;
        };
        thread.tid.store(0, Relaxed);
        thread.first.store(0, Relaxed);
        thread.lost.store(0, Relaxed);
        thread.call_pages.store(0, Relaxed);
        thread.uncounted.store(0, Relaxed);
        thread.locks.store(0, Relaxed);
        thread.blocks_signal.store(0, Relaxed);
        thread.state.store(0, Release);
        give(&self.free, index, |next| thread.next.store(next, Relaxed));
    }

    /// Takes an empty segment; `None` if all are in use.
    pub fn take_segment(&self) -> Option<u32> {
        let next = |index: u32| {
            let next = self.next_segment.get(index as usize);
            next.map_or(0, |next| next.load(Relaxed))
        };
        take(&self.free_segments.0, next)
            .or_else(|| {
                let room = self.room.load(Relaxed) as usize;
                fresh(&self.used_segments, room.min(SEGMENTS))
            })
            .filter(|index| (*index as usize) < SEGMENTS)
    }

    /// Takes an empty call page; `None` if all are in use.
    pub fn take_call_page(&self) -> Option<u32> {
        let next = |index: u32| {
            let next = self.next_call_page.get(index as usize);
            next.map_or(0, |next| next.load(Relaxed))
        };
        take(&self.free_call_pages, next)
            .or_else(|| fresh(&self.used_call_pages, CALL_PAGES))
            .filter(|index| (*index as usize) < CALL_PAGES)
    }

    /// Returns a call page, zeroed, to the free list.
    pub fn give_call_page(&self, index: u32) {
        if let Some(own) = self.next_call_page.get(index as usize) {
            give(&self.free_call_pages, index, |next| {
                own.store(next, Relaxed)
            });
        }
    }

    /// Returns a segment, zeroed, to the free list.
    pub fn give_segment(&self, index: u32) {
        if let Some(own) = self.next_segment.get(index as usize) {
            give(&self.free_segments.0, index, |next| {
                own.store(next, Relaxed)
            });
        }
    }
}
