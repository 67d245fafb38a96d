//! The controller's view of the memory shared with the runtime.

use crate::Error;
use crate::memory::{AttachedMemory, SharedObject, WaitWords};
use runtime_abi::LIFELINE;
use runtime_abi::trace::{
    CALL_PAGES, CALL_PAGES_OFFSET, CODE, CODE_OFFSET, CallPage, LENGTH, MAGIC, Memory, PAGE_BLOCKS,
    SEGMENT, SEGMENTS, SEGMENTS_OFFSET, Thread,
};
use std::ops::Deref;
use std::os::fd::OwnedFd;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};

/// The shared memory object: a head, segments, call pages and code.
pub(super) struct TraceMemory(SharedObject);

impl TraceMemory {
    /// Creates new memory, all zeros except for the magic number. Records may take `room` bytes of
    /// it.
    pub fn new(room: u64) -> Result<Self, Error> {
        let shared = Self(SharedObject::new(LENGTH)?);
        shared.set_room(room);
        shared.magic.store(MAGIC, Release);
        Ok(shared)
    }

    /// Sets the number of bytes that records may take.
    pub fn set_room(&self, room: u64) {
        let segments = (room / SEGMENT as u64).clamp(1, SEGMENTS as u64);
        self.room.store(segments as u32, Relaxed);
    }

    /// Returns a descriptor that an executed program inherits.
    pub fn inheritable_descriptor(&self) -> Result<OwnedFd, Error> {
        self.0.inheritable_descriptor()
    }

    /// Returns another descriptor of the same object.
    pub fn another_descriptor(&self) -> Result<OwnedFd, Error> {
        self.0.another_descriptor()
    }

    /// Returns the words by which the two sides wait for each other.
    pub fn wait_words(&self) -> WaitWords<'_> {
        WaitWords {
            state: &self.state,
            news: &self.news,
            waiting: &self.waiting,
        }
    }

    /// Returns the words of a segment.
    pub fn segment_words(&self, index: u32) -> &[AtomicU64] {
        let index = (index as usize).min(SEGMENTS - 1);
        // SAFETY: inside the mapping, aligned, and any bytes are valid.
        unsafe {
            let at = self.0.first_byte().add(SEGMENTS_OFFSET + index * SEGMENT);
            std::slice::from_raw_parts(at.as_ptr().cast::<AtomicU64>(), SEGMENT / 8)
        }
    }

    /// Returns a page of call counts.
    fn call_page(&self, index: u32) -> Option<&CallPage> {
        let offset = CALL_PAGES_OFFSET + index as usize * size_of::<CallPage>();
        // SAFETY: inside the mapping, aligned; everything in it is atomic, and any bytes are valid.
        ((index as usize) < CALL_PAGES)
            .then(|| unsafe { self.0.first_byte().add(offset).cast::<CallPage>().as_ref() })
    }

    /// Returns the call pages of a thread, each with its index and its first block.
    pub fn call_pages_of(&self, thread: &Thread) -> impl Iterator<Item = (u32, usize, &CallPage)> {
        let mut next = thread.call_pages.load(Acquire);
        // The loop is bounded by the number of pages: the target may have written anything there.
        (0..CALL_PAGES).map_while(move |_| {
            let index = next.checked_sub(1)?;
            let part = self.call_page_part.get(index as usize)?;
            next = self.next_call_page.get(index as usize)?.load(Relaxed);
            let first = part.load(Relaxed) as usize * PAGE_BLOCKS;
            Some((index, first, self.call_page(index)?))
        })
    }

    /// Writes into the code area. Returns false if the bytes do not fit.
    pub fn write_code(&self, offset: usize, bytes: &[u8]) -> bool {
        if offset.checked_add(bytes.len()).is_none_or(|end| end > CODE) {
            return false;
        }
        // SAFETY: inside the mapping; what the target executes is never written again.
        unsafe {
            let to = self.0.first_byte().add(CODE_OFFSET + offset);
            std::ptr::copy_nonoverlapping(bytes.as_ptr(), to.as_ptr(), bytes.len());
        }
        true
    }
}

impl AttachedMemory for TraceMemory {
    const ENTRY: &'static str = "vitalfew_attach_trace";

    fn in_file(file: OwnedFd) -> Result<Self, Error> {
        let memory = Self(SharedObject::in_file(file, LENGTH)?);
        memory.magic.store(MAGIC, Release);
        Ok(memory)
    }

    fn another(&self) -> Result<Self, Error> {
        Self::in_file(self.another_descriptor()?)
    }

    fn lifeline(&self) -> &[AtomicU64; LIFELINE] {
        &self.lifeline
    }

    fn is_in_use(&self) -> bool {
        self.magic.load(Acquire) == MAGIC
    }
}

impl Deref for TraceMemory {
    type Target = Memory;

    fn deref(&self) -> &Memory {
        // SAFETY: mapped as long as `self` lives; everything in it is atomic, so that the target
        // may write to it meanwhile, and any bytes are valid.
        unsafe { self.0.first_byte().cast().as_ref() }
    }
}
