//! The memory that the runtime shares with its controller when it traces executions of blocks.
//!
//! [`Memory`] lies at the start of one shared memory object. Behind it, at [`SEGMENTS_OFFSET`], are the
//! [`SEGMENTS`] that threads write their records into, and at [`CODE_OFFSET`] the code that the
//! controller makes for the target. `docs/method/interference.md` is the protocol.

use core::sync::atomic::{
    AtomicI32, AtomicI64, AtomicU32, AtomicU64,
    Ordering::{AcqRel, Acquire, Relaxed, Release},
};

/// The required first word: the same of no two layouts, and another than that of a [`Page`](crate::Page).
pub const MAGIC: u64 = !crate::layout::LAYOUT;
/// The environment variable that names the descriptor of the memory.
pub const VARIABLE: &str = "VITALFEW_TRACE";

/// Threads that can be traced at a time.
pub const THREADS: usize = 16_384;
/// Segments; a thread that traces has at least one.
pub const SEGMENTS: usize = 32_768;
/// Size of a segment in bytes: its [`SegmentHead`], records, and room for signal handlers.
pub const SEGMENT: usize = 64 << 10;
/// Size of a record in bytes.
pub const RECORD: usize = 16;
/// Records of a segment after which a thread looks for another one.
pub const RECORDS: usize = SEGMENT / RECORD - 1 - SPARE;
/// Records that signal handlers may write while their thread is about to look for another segment.
pub const SPARE: usize = 128;
/// Blocks that can be traced.
pub const BLOCKS: usize = 1 << 19;
/// Blocks that can be marked in the source.
pub const MARKED: usize = 256;
/// Bytes of a marked block's name, with a zero at its end.
pub const NAME: usize = 120;
/// Executions of a block in a thread between two of its stacks (section 3.2.2).
pub const STACK_PERIOD: u32 = 10_000;
/// Words of a stack that are kept.
pub const STACK: usize = 1024;
/// Frames of a thread: how deep traced blocks may nest.
pub const FRAMES: usize = 2048;

/// Start of the segments.
pub const SEGMENTS_OFFSET: usize = size_of::<Memory>().next_multiple_of(SEGMENT);
/// Start of the code.
pub const CODE_OFFSET: usize = SEGMENTS_OFFSET + SEGMENTS * SEGMENT;
/// Bytes of code at most.
pub const CODE: usize = 1 << 29;
/// Blocks whose calls a [`CallPage`] counts.
pub const PAGE_BLOCKS: usize = 1024;
/// Call pages; a thread has one for each [`PAGE_BLOCKS`] blocks of which it calls some.
pub const CALL_PAGES: usize = THREADS + 4096;
/// Start of the call pages.
pub const CALL_PAGES_OFFSET: usize = CODE_OFFSET + CODE;
/// Size of the whole object. What is not touched takes no memory.
pub const LENGTH: usize = CALL_PAGES_OFFSET + CALL_PAGES * size_of::<CallPage>();

/// The fields of a record's first word: a time above a tag.
///
/// A record is two words; the second is written before the first, which is 0 until then. An execution
/// has the block as its tag and its duration in the second word.
pub mod record {
    /// Bits of the tag.
    pub const TAG: u32 = 20;
    /// Arguments of the execution that follows: the low 44 bits of one above the tag; in the second
    /// word the low 32 bits of another one, and of a third one above them.
    pub const ARGUMENTS: u64 = (1 << TAG) - 1;
    /// Something that was left by unwinding: the block is in the second word's upper half.
    pub const UNWOUND: u64 = (1 << TAG) - 2;
    /// A stack: its number of words is above the tag, the block in the second word; the words follow,
    /// two a record.
    pub const STACK: u64 = (1 << TAG) - 3;
    /// Executions that found no room: their number in the second word.
    pub const LOST: u64 = (1 << TAG) - 4;
    /// From now on each recorded execution of a block in this thread stands for a number of calls:
    /// this number in the second word, the block above it.
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
    /// Process of the runtime; runtime.
    pub pid: AtomicU32,
    /// A futex that changes when the controller has something to look at; runtime.
    pub news: AtomicU32,
    /// The controller sleeps on `news`.
    pub waiting: AtomicU32,
    /// Requests to look for new code and new marked blocks, counted; runtime.
    pub asked: AtomicU32,
    /// Requests answered, a futex; controller.
    pub answered: AtomicU32,
    /// Offset of the thread's pointer to its [`Local`] from the thread pointer, in bytes; runtime.
    pub local: AtomicI64,
    /// Address of the function behind [`Reason`]; runtime.
    pub slow: AtomicU64,
    /// Address of the personality of traced frames; runtime.
    pub personality: AtomicU64,
    /// Address of this memory in the target; runtime.
    pub address: AtomicU64,
    /// First step to be taken ([`Step`], in bytes from the start of the memory), and their number; controller.
    pub steps: AtomicU64,
    /// See `steps`.
    pub step_count: AtomicU64,
    /// A step that failed, from 1, and why; runtime.
    pub failed_step: AtomicU32,
    /// See `failed_step`.
    pub failed_errno: AtomicI32,
    /// Threads for which there was no slot; runtime.
    pub untraced: AtomicU64,
    /// Calls that were not traced because blocks nested too deep; runtime.
    pub too_deep: AtomicU64,
    /// Slots that have been in use so far.
    pub used: AtomicU32,
    /// Head of the list of free slots: a tag above an index + 1.
    pub free: AtomicU64,
    /// Segments that have been in use so far.
    pub used_segments: AtomicU32,
    /// Segments that may be in use at a time; controller.
    pub room: AtomicU32,
    /// The program has restricted its system calls; runtime.
    pub filtered: AtomicU32,
    /// Executions that ended while one that began later had not: their stacks were switched; runtime.
    pub unordered: AtomicU64,
    /// Address of the function that throws exceptions, as the target's libraries find it; runtime.
    pub raise_exception: AtomicU64,
    /// Address of the function that the unwinding information is registered with; runtime.
    pub register_frame: AtomicU64,
    /// Time at which the process came to the end of `exit`, in ticks; runtime.
    pub ended: AtomicU64,
    /// A robust mutex like [`crate::Page::lifeline`], in a process that was attached to.
    pub lifeline: [AtomicU64; crate::LIFELINE],
    /// In a process that was attached to, the first steps are taken, or one has failed: 1; runtime.
    pub prepared: AtomicU32,
    /// In a process that was attached to, the controller has put its code back: one of [`remains`].
    pub remains: AtomicU32,
    /// In a process that was attached to, the id of the runtime's own thread; runtime.
    pub guard: AtomicU32,
    /// Head of the list of free segments, likewise.
    pub free_segments: crate::Line<AtomicU64>,
    /// Threads.
    pub threads: [Thread; THREADS],
    /// Calls on stacks that are not the thread's, which are not traced, by slot; never set back; runtime.
    pub foreign: [AtomicU64; THREADS],
    /// Twice the number of executions of a block of which one is recorded; 0: all are recorded. A
    /// thread with as many calls left before it asks the runtime as stand here, or more, asks now;
    /// controller.
    pub periods: [AtomicU32; BLOCKS],
    /// Call pages that have been in use so far.
    pub used_call_pages: AtomicU32,
    /// Head of the list of free call pages, as for segments.
    pub free_call_pages: AtomicU64,
    /// Index + 1 of the next call page, of a thread's or of the free ones.
    pub next_call_page: [AtomicU32; CALL_PAGES],
    /// The first block of each call page, over [`PAGE_BLOCKS`]; runtime.
    pub call_page_part: [AtomicU32; CALL_PAGES],
    /// Next of each free segment.
    pub next_segment: [AtomicU32; SEGMENTS],
    /// Marked blocks.
    pub marked: [Marked; MARKED],
}

/// A thread, while it is traced and until its last record was read.
#[repr(C, align(64))]
pub struct Thread {
    /// Its id, 0 while the slot is free; runtime.
    pub tid: AtomicU32,
    /// Its process; runtime.
    pub pid: AtomicU32,
    /// 0 free, 1 traces, 2 ended; the controller frees it.
    pub state: AtomicU32,
    /// Index + 1 of the next free slot.
    pub next: AtomicU32,
    /// Its first segment, index + 1; runtime.
    pub first: AtomicU32,
    /// Time of its first sighting, in ticks; runtime.
    pub start: AtomicU64,
    /// Time of its end, in ticks; runtime.
    pub end: AtomicU64,
    /// Address of its [`Local`]; runtime.
    pub address: AtomicU64,
    /// Its name; runtime, at its end.
    pub name: [AtomicU64; 2],
    /// Executions that found no room so far; runtime.
    pub lost: AtomicU64,
    /// Its first call page, index + 1; runtime.
    pub call_pages: AtomicU32,
    /// There was no call page for some of its blocks; runtime.
    pub uncounted: AtomicU32,
}

/// Counts a thread's calls of [`PAGE_BLOCKS`] blocks. The first page of it is mapped into the thread's counts too, so that
/// the controller knows them however the program ends.
#[repr(C, align(4096))]
pub struct CallPage {
    /// Calls of each block before the next that asks the runtime, less one below zero when it does.
    pub left: [AtomicU32; PAGE_BLOCKS],
    /// The runtime's counts of each block.
    pub blocks: [CallCount; PAGE_BLOCKS],
}

/// A thread's count of its calls of a block.
#[repr(C)]
pub struct CallCount {
    /// Calls so far, were none [`CallPage::left`].
    pub calls: AtomicU64,
    /// The period by which it counts.
    pub period: AtomicU32,
    /// The period that its records say; 0: none.
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

    /// Forgets a block. What was never touched takes no memory, and is not written to.
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
    /// The block that it is, from 1; controller.
    pub block: AtomicU32,
    /// Its name; runtime.
    pub name: [core::sync::atomic::AtomicU8; NAME],
}

/// The header of a segment: as long as a record.
#[repr(C)]
pub struct SegmentHead {
    /// Index + 1 of the segment that goes on after this one, 0: none yet; runtime.
    pub next: AtomicU32,
    /// Records in it once it goes on elsewhere; runtime.
    pub records: AtomicU32,
    /// Not used.
    pub reserved: AtomicU64,
}

/// A target thread's private tracing state; the controller's trampolines work on it.
#[repr(C)]
pub struct Local {
    /// The next free [`Frame`].
    pub top: u64,
    /// One behind the last frame that may be used.
    pub limit: u64,
    /// Address of the next record.
    pub head: u64,
    /// The last record of the segment.
    pub end: u64,
    /// The first frame.
    pub base: u64,
    /// Index of the slot.
    pub slot: u64,
    /// Segment in use, index.
    pub segment: u64,
    /// The thread is inside the runtime: it is not traced meanwhile.
    pub busy: u64,
    /// Executions that found no room, and are not among its records yet.
    pub lost: u64,
    /// Address of the spill buffer: records for which there is no segment go there, and count as lost.
    pub spill: u64,
    /// Process that it belongs to.
    pub pid: u64,
    /// Lowest address of the thread's stack.
    pub stack_low: u64,
    /// Bytes of it.
    pub stack_size: u64,
    /// Address of its count in [`Memory::foreign`].
    pub foreign: u64,
    /// Its call pages: index + 1, 0 none yet, `u16::MAX` there is none.
    pub call_pages: [u16; BLOCKS / PAGE_BLOCKS],
}

/// Offset of a thread's counts of calls from its [`Local`], in bytes: one `u32` a block, [`CallPage::left`].
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
    /// Spill slot for rax, while the code of the controller uses the register.
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
    /// Arguments.
    pub arguments: [u64; 3],
    /// Not used: the size of a frame is a power of two.
    pub reserved: [u64; 4],
}

/// Value of [`Frame::block`] for an execution that has ended, while others that began later had not.
pub const ENDED: u64 = u64::MAX;

/// Reasons for which the controller's code calls the runtime: the third argument of that function, after the block and
/// the stack pointer. It returns whether the execution is to be traced.
pub mod reason {
    /// The thread has no [`super::Local`], or no frame is left.
    pub const FRAME: u32 = 0;
    /// A count has run out.
    pub const COUNT: u32 = 1;
    /// A segment is full.
    pub const SEGMENT: u32 = 2;
    /// The program has loaded a library.
    pub const LIBRARY: u32 = 3;
    /// An execution ends that is not the last one begun in its thread.
    pub const RETURN: u32 = 4;
}

/// Something that the runtime does for the controller.
#[repr(C)]
pub struct Step {
    /// One of [`step`].
    pub kind: AtomicU32,
    /// Bytes.
    pub length: AtomicU32,
    /// Address in the target.
    pub address: AtomicU64,
    /// Offset in the shared memory, or a protection.
    pub value: AtomicU64,
    /// Not used.
    pub reserved: AtomicU64,
}

/// Parts of the controller's code that are still in use in a process that was attached to, after the code was put back.
pub mod remains {
    /// The controller has put nothing back: it was killed.
    pub const UNKNOWN: u32 = 0;
    /// Nothing: the steps that were left unmap it.
    pub const NOTHING: u32 = 1;
    /// Threads are in it, or will return to it.
    pub const CODE: u32 = 2;
    /// A thread was in the runtime, and goes on with its state of this session: there can be no other one.
    pub const THREADS: u32 = 3;
}

/// Kinds of [`Step`].
pub mod step {
    /// Map a part of the shared memory, for executing, where nothing is mapped yet.
    pub const MAP: u32 = 1;
    /// Change the protection of pages.
    pub const PROTECT: u32 = 2;
    /// Copy bytes of the shared memory.
    pub const COPY: u32 = 3;
    /// Register unwinding information.
    pub const UNWIND: u32 = 4;
    /// Take unwinding information back.
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
    /// A slot for a new thread; `None` if there are too many.
    pub fn take_thread(&self) -> Option<u32> {
        let next = |index: u32| {
            let thread = self.threads.get(index as usize);
            thread.map_or(0, |thread| thread.next.load(Relaxed))
        };
        take(&self.free, next)
            .or_else(|| fresh(&self.used, THREADS))
            .filter(|index| (*index as usize) < THREADS)
    }

    /// Gives a slot back.
    pub fn give_thread(&self, index: u32) {
        let Some(thread) = self.threads.get(index as usize) else {
            return;
        };
        thread.tid.store(0, Relaxed);
        thread.first.store(0, Relaxed);
        thread.lost.store(0, Relaxed);
        thread.call_pages.store(0, Relaxed);
        thread.uncounted.store(0, Relaxed);
        thread.state.store(0, Release);
        give(&self.free, index, |next| thread.next.store(next, Relaxed));
    }

    /// An empty segment; `None` if all are in use.
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

    /// An empty call page; `None` if all are in use.
    pub fn take_call_page(&self) -> Option<u32> {
        let next = |index: u32| {
            let next = self.next_call_page.get(index as usize);
            next.map_or(0, |next| next.load(Relaxed))
        };
        take(&self.free_call_pages, next)
            .or_else(|| fresh(&self.used_call_pages, CALL_PAGES))
            .filter(|index| (*index as usize) < CALL_PAGES)
    }

    /// Gives a call page back whose bytes are all zero.
    pub fn give_call_page(&self, index: u32) {
        if let Some(own) = self.next_call_page.get(index as usize) {
            give(&self.free_call_pages, index, |next| {
                own.store(next, Relaxed)
            });
        }
    }

    /// Gives a segment back whose bytes are all zero.
    pub fn give_segment(&self, index: u32) {
        if let Some(own) = self.next_segment.get(index as usize) {
            give(&self.free_segments.0, index, |next| {
                own.store(next, Relaxed)
            });
        }
    }
}
