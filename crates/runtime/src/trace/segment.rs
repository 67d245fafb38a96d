//! Where records go.

use super::tell;
use crate::sys;
use core::arch::asm;
use core::sync::atomic::Ordering::{Relaxed, Release};
use core::sync::atomic::{AtomicU32, AtomicU64};
use runtime_abi::trace::{
    Local, Memory, RECORD, RECORDS, SEGMENT, SEGMENTS, SEGMENTS_OFFSET, SPARE, SegmentHead, record,
};

/// Address of a segment, whose index is one.
fn address(memory: &Memory, index: u64) -> u64 {
    let index = (index as usize).min(SEGMENTS - 1);
    core::ptr::from_ref(memory) as u64 + (SEGMENTS_OFFSET + index * SEGMENT) as u64
}

fn head(memory: &Memory, index: u64) -> &SegmentHead {
    // SAFETY: the head of a segment of the memory, which stays; all of it is atomic.
    unsafe { &*(address(memory, index) as *const SegmentHead) }
}

/// Returns whether the thread's records find no room.
pub fn spills(local: &Local) -> bool {
    local.end == local.spill + ((SPARE - 1) * RECORD) as u64
}

/// Lets records go where nobody reads them.
pub fn spill(local: &mut Local) {
    local.end = local.spill + ((SPARE - 1) * RECORD) as u64;
    local.head = local.spill;
}

fn enter(memory: &Memory, local: &mut Local, segment: u32) {
    local.segment = u64::from(segment);
    let first = address(memory, local.segment) + size_of::<SegmentHead>() as u64;
    local.end = first + ((RECORDS - 1) * RECORD) as u64;
    local.head = first;
}

/// Segments whose pages are mapped here, a bit each.
static MAPPED: [AtomicU32; SEGMENTS / 32] = [const { AtomicU32::new(0) }; SEGMENTS / 32];

/// Has a segment's pages mapped by one system call, where each would be a fault between two calls of the
/// target's. Where the kernel (before 5.14) cannot, they are faults.
fn map(memory: &Memory, segment: u32) {
    const MADV_POPULATE_WRITE: usize = 23;
    let bit = 1 << (segment % 32);
    let Some(mapped) = MAPPED.get(segment as usize / 32) else {
        return;
    };
    if mapped.fetch_or(bit, Relaxed) & bit == 0 && !sys::filtered() {
        let from = address(memory, u64::from(segment)) as usize;
        // SAFETY: pages of the shared memory; nothing in them changes.
        unsafe {
            let arguments = [from, SEGMENT, MADV_POPULATE_WRITE, 0, 0, 0];
            sys::call(libc::SYS_madvise, arguments)
        };
    }
}

/// The first segment of a thread: its index + 1, 0 if there is none.
pub fn first(memory: &Memory, local: &mut Local) -> u32 {
    match memory.take_segment() {
        Some(segment) => {
            enter(memory, local, segment);
            segment + 1
        }
        None => {
            // Nothing can be appended to nothing: this thread is not recorded.
            local.segment = u64::MAX;
            spill(local);
            0
        }
    }
}

/// Goes on in another segment, if this one is full.
pub fn full(memory: &Memory, local: &mut Local) {
    if local.head <= local.end {
        return;
    }
    let spilled = spills(local);
    let used = local.head;
    count_lost(memory, local);
    let Some(next) = (local.segment != u64::MAX)
        .then(|| memory.take_segment())
        .flatten()
    else {
        if !spilled {
            close(memory, local, used);
        }
        spill(local);
        tell(memory);
        return;
    };
    let old = head(memory, local.segment);
    if !spilled {
        close(memory, local, used);
    }
    // Not of a thread's first one: most of it stays unused where threads are many and short.
    map(memory, next);
    enter(memory, local, next);
    report_lost(memory, local);
    old.next.store(next + 1, Release);
    tell(memory);
}

/// Counts what was written where nobody reads it: the records of executions, but none of what belongs to them.
pub fn count_lost(memory: &Memory, local: &mut Local) {
    if !spills(local) {
        return;
    }
    let records = ((local.head - local.spill) / RECORD as u64).min(2 * SPARE as u64);
    let executions = (0..records).filter(|at| {
        // SAFETY: a record of the thread's own room for those that have none, twice `SPARE` of them.
        let first = unsafe { *((local.spill + at * RECORD as u64) as *const u64) };
        let tag = first & ((1 << record::TAG) - 1);
        tag < record::BLOCKS_END || tag == record::UNWOUND
    });
    let executions = executions.count() as u64;
    local.head = local.spill;
    local.lost += executions;
    if let Some(thread) = memory.threads.get(local.slot as usize) {
        thread.lost.fetch_add(executions, Relaxed);
    }
}

fn close(memory: &Memory, local: &Local, used: u64) {
    let first = address(memory, local.segment) + size_of::<SegmentHead>() as u64;
    let records = used.saturating_sub(first) / RECORD as u64;
    head(memory, local.segment)
        .records
        .store(records as u32, Release);
}

/// Writes down what was lost.
pub fn report_lost(_memory: &Memory, local: &mut Local) {
    if local.lost > 0 && !spills(local) {
        let (now, lost) = (super::ticks(), core::mem::take(&mut local.lost));
        put(local, now << record::TAG | record::LOST, lost);
    }
}

/// Claims room for records: their address.
pub fn claim(local: &mut Local, records: usize) -> u64 {
    let mut at = (records * RECORD) as u64;
    // SAFETY: one instruction, so that a signal handler of this thread claims other room.
    unsafe {
        asm!("xadd qword ptr [{head}], {at}", head = in(reg) &raw mut local.head, at = inout(reg) at, options(nostack));
    }
    at
}

/// Writes one record.
pub fn put(local: &mut Local, first: u64, second: u64) {
    write(claim(local, 1), first, second);
}

/// Writes a record that was claimed.
pub fn write(at: u64, first: u64, second: u64) {
    // SAFETY: room for two words that was claimed from the thread's own.
    unsafe {
        AtomicU64::from_ptr((at + 8) as *mut u64).store(second, Relaxed);
        AtomicU64::from_ptr(at as *mut u64).store(first, Release);
    }
}
