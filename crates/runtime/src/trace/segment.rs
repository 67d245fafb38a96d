//! Segments of the shared memory, which hold the records.

use super::shared::{ticks, wake_controller};
use crate::sys;
use core::arch::asm;
use core::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use core::sync::atomic::{AtomicU32, AtomicU64};
use runtime_abi::trace::{
    Local, Memory, RECORD, RECORDS, SEGMENT, SEGMENTS, SEGMENTS_OFFSET, SPARE, SegmentHead, record,
    state,
};

/// Returns the address of a segment.
fn segment_address(memory: &Memory, index: u64) -> u64 {
    let index = (index as usize).min(SEGMENTS - 1);
    core::ptr::from_ref(memory) as u64 + (SEGMENTS_OFFSET + index * SEGMENT) as u64
}

fn segment_head(memory: &Memory, index: u64) -> &SegmentHead {
    // SAFETY: the head of a segment of the memory, which stays; all of it is atomic.
    unsafe { &*(segment_address(memory, index) as *const SegmentHead) }
}

/// Returns whether the thread's records are discarded for lack of room.
pub fn discards_records(local: &Local) -> bool {
    local.end == local.spill + ((SPARE - 1) * RECORD) as u64
}

/// Directs records to the spill area, which nobody reads.
pub fn discard_records(local: &mut Local) {
    local.end = local.spill + ((SPARE - 1) * RECORD) as u64;
    local.head = local.spill;
}

fn enter_segment(memory: &Memory, local: &mut Local, segment: u32) {
    local.segment = u64::from(segment);
    let first = segment_address(memory, local.segment) + size_of::<SegmentHead>() as u64;
    local.end = first + ((RECORDS - 1) * RECORD) as u64;
    local.head = first;
}

/// Bit set of the segments whose pages are mapped in this process.
static MAPPED: [AtomicU32; SEGMENTS / 32] = [const { AtomicU32::new(0) }; SEGMENTS / 32];

/// Maps a segment's pages by one system call, so that they do not fault between two calls of the
/// target. Kernels before 5.14 cannot do that, and the pages fault.
fn map_pages(memory: &Memory, segment: u32) {
    const MADV_POPULATE_WRITE: usize = 23;
    let bit = 1 << (segment % 32);
    let Some(mapped) = MAPPED.get(segment as usize / 32) else {
        return;
    };
    if mapped.fetch_or(bit, Relaxed) & bit == 0 && !sys::calls_restricted() {
        let from = segment_address(memory, u64::from(segment)) as usize;
        // SAFETY: pages of the shared memory; nothing in them changes.
        unsafe {
            let arguments = [from, SEGMENT, MADV_POPULATE_WRITE, 0, 0, 0];
            sys::call(libc::SYS_madvise, arguments)
        };
    }
}

/// Takes the first segment of a thread. Returns its index + 1, or 0 if there is none.
pub fn first_segment(memory: &Memory, local: &mut Local) -> u32 {
    match memory.take_segment() {
        Some(segment) => {
            enter_segment(memory, local, segment);
            segment + 1
        }
        None => {
            // Without a first segment, later ones cannot be linked. This thread is not recorded.
            local.segment = u64::MAX;
            discard_records(local);
            0
        }
    }
}

/// Continues in another segment if this one is full, or discards records after the end of tracing.
pub fn go_on(memory: &Memory, local: &mut Local) {
    if memory.state.load(Acquire) == state::RUNNING {
        replace_if_full(memory, local);
    } else if local.head > local.end {
        discard_records(local); // nobody reads any more
    }
}

/// Continues in another segment if this one is full.
fn replace_if_full(memory: &Memory, local: &mut Local) {
    if local.head <= local.end {
        return;
    }
    let spilled = discards_records(local);
    let used = local.head;
    count_lost(memory, local);
    let Some(next) = (local.segment != u64::MAX)
        .then(|| memory.take_segment())
        .flatten()
    else {
        if !spilled {
            close_segment(memory, local, used);
        }
        discard_records(local);
        wake_controller(memory);
        return;
    };
    let old = segment_head(memory, local.segment);
    if !spilled {
        close_segment(memory, local, used);
    }
    // A thread's first segment is not mapped in advance: many short threads would leave most of it
    // unused.
    map_pages(memory, next);
    enter_segment(memory, local, next);
    report_lost(memory, local);
    old.next.store(next + 1, Release);
    wake_controller(memory);
}

/// Counts the executions among the discarded records as lost.
pub fn count_lost(memory: &Memory, local: &mut Local) {
    if !discards_records(local) {
        return;
    }
    let records = ((local.head - local.spill) / RECORD as u64).min(2 * SPARE as u64);
    let executions = (0..records).filter(|at| {
        // SAFETY: a record of the thread's own room for those that have none, twice `SPARE` of
        // them.
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

fn close_segment(memory: &Memory, local: &Local, used: u64) {
    let first = segment_address(memory, local.segment) + size_of::<SegmentHead>() as u64;
    let records = used.saturating_sub(first) / RECORD as u64;
    segment_head(memory, local.segment)
        .records
        .store(records as u32, Release);
}

/// Writes a record with the number of lost executions.
pub fn report_lost(_memory: &Memory, local: &mut Local) {
    if local.lost > 0 && !discards_records(local) {
        let (now, lost) = (ticks(), core::mem::take(&mut local.lost));
        put_record(local, now << record::TAG | record::LOST, lost);
    }
}

/// Claims room for records. Returns its address.
pub fn claim_records(local: &mut Local, records: usize) -> u64 {
    let mut at = (records * RECORD) as u64;
    // SAFETY: one instruction, so that a signal handler of this thread claims other room.
    unsafe {
        asm!("xadd qword ptr [{head}], {at}", head = in(reg) &raw mut local.head, at = inout(reg) at, options(nostack));
    }
    at
}

/// Writes one record.
pub fn put_record(local: &mut Local, first: u64, second: u64) {
    write_record(claim_records(local, 1), first, second);
}

/// Writes a record into claimed room.
pub fn write_record(at: u64, first: u64, second: u64) {
    // SAFETY: room for two words that was claimed from the thread's own.
    unsafe {
        AtomicU64::from_ptr((at + 8) as *mut u64).store(second, Relaxed);
        AtomicU64::from_ptr(at as *mut u64).store(first, Release);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::trace::shared::map_memory;

    /// Returns a thread with a first segment and a spill area.
    fn begin_thread(memory: &Memory, spill: &mut [u64]) -> Local {
        // SAFETY: all of it are numbers.
        let mut local: Local = unsafe { core::mem::zeroed() };
        local.spill = spill.as_mut_ptr() as u64;
        assert_eq!(first_segment(memory, &mut local), 1);
        local
    }

    fn put_executions(memory: &Memory, local: &mut Local, count: usize) {
        for _ in 0..count {
            put_record(local, ticks() << record::TAG | 7, 100);
            go_on(memory, local);
        }
    }

    #[test]
    #[cfg_attr(miri, ignore = "assembly")]
    fn records_go_on_in_the_next_segment_and_count_as_lost_where_there_is_none() {
        let memory = map_memory(2);
        let mut spill = vec![0; 2 * SPARE * RECORD / 8];
        let mut local = begin_thread(memory, &mut spill);
        put_executions(memory, &mut local, RECORDS);
        let head = segment_head(memory, 0);
        assert_eq!(
            (head.records.load(Relaxed), head.next.load(Relaxed)),
            (RECORDS as u32, 2)
        );
        put_executions(memory, &mut local, RECORDS);
        assert!(discards_records(&local));
        let head = segment_head(memory, 1);
        assert_eq!(
            (head.records.load(Relaxed), head.next.load(Relaxed)),
            (RECORDS as u32, 0)
        );
        put_executions(memory, &mut local, 3 * SPARE - 1);
        // A record that is no execution does not count as a lost execution.
        put_record(&mut local, record::PERIOD, 2);
        memory.room.store(3, Relaxed);
        go_on(memory, &mut local);
        let lost = 3 * SPARE as u64 - 1;
        assert_eq!(memory.threads[0].lost.load(Relaxed), lost);
        assert_eq!((head.next.load(Relaxed), local.lost), (3, 0));
        let first = segment_address(memory, 2) + size_of::<SegmentHead>() as u64;
        // SAFETY: the first record of a segment.
        let [tag, value] = unsafe { *(first as *const [u64; 2]) };
        assert_eq!((tag & record::ADDRESS, value), (record::LOST, lost));
    }

    #[test]
    #[cfg_attr(miri, ignore = "assembly")]
    fn a_thread_without_a_segment_loses_all_of_its_records() {
        let memory = map_memory(0);
        let mut spill = vec![0; 2 * SPARE * RECORD / 8];
        // SAFETY: all of it are numbers.
        let mut local: Local = unsafe { core::mem::zeroed() };
        local.spill = spill.as_mut_ptr() as u64;
        assert_eq!(first_segment(memory, &mut local), 0);
        put_executions(memory, &mut local, 1000);
        count_lost(memory, &mut local);
        assert_eq!(memory.threads[0].lost.load(Relaxed), 1000);
    }
}
