//! Reader of the records that the threads of the target have written.

use super::memory::TraceMemory;
use super::solo::Solo;
use super::stacks::TracedStacks;
use super::waiting::ThreadWaits;
use profile::{BlockId, Execution, ThreadIndex, TraceBatch, TraceItem, TracedBlock, TracedThread};
use runtime_abi::trace::{PAGE_BLOCKS, RECORD, RECORDS, SEGMENT, SEGMENTS, SPARE, Thread, record};
use rustc_hash::FxHashMap;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::{Acquire, Relaxed};

/// Number of words of a segment's head, and of a record.
const WORDS: usize = RECORD / 8;
/// Maximum number of segments that are read from a thread at a time. A thread may write faster than
/// we read. Without a limit its reader would never reach the next thread, and would hold all
/// records in memory.
const SEGMENTS_AT_A_TIME: usize = 16;

/// Mode of reading.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Reading {
    /// Reads some records of each thread. More may follow.
    Some,
    /// Reads all records. Nothing will follow.
    Last,
    /// Counts the executions as lost. Nothing will follow.
    Discard,
}

/// Reader of one thread's records.
struct ThreadReader {
    /// Its index in the profile.
    index: ThreadIndex,
    /// The current segment, and the position of the next record in it.
    segment: Option<u32>,
    position: usize,
    /// First argument of the next execution.
    address: u64,
    /// Sampling period of each block: the number of executions that a record represents.
    periods: FxHashMap<BlockId, u32>,
    /// Number of executions that the records report as lost.
    lost: u64,
    /// Time up to which records may be read now.
    until: u64,
}

/// Readers of all threads.
pub(super) struct TraceDrain {
    /// Readers by slot.
    reading: Vec<Option<ThreadReader>>,
    /// The latest thread with each id. Ended threads are kept, because the end of a thread wakes a
    /// thread that joins it.
    by_id: FxHashMap<u32, ThreadIndex>,
    /// Living threads, by id.
    living: FxHashMap<u32, ThreadIndex>,
    /// All threads seen so far.
    pub threads: Vec<TracedThread>,
    pub lost: u64,
    /// Number of records read from all threads.
    pub records_read: u64,
    /// Number of executions read, by block.
    pub executions: Vec<u64>,
    /// Number of executions, by block, that were recorded with the block's present period. Records
    /// of earlier periods do not predict the present rate.
    pub current: Vec<u64>,
    /// Number of calls that the executions represent, by block.
    represented: Vec<u64>,
    /// Number of calls that the threads counted, by block.
    calls: Vec<u64>,
    /// True if a thread could not count all of its calls.
    uncounted: bool,
}

impl TraceDrain {
    pub fn new() -> Self {
        Self {
            reading: Vec::new(),
            living: FxHashMap::default(),
            by_id: FxHashMap::default(),
            threads: Vec::new(),
            lost: 0,
            records_read: 0,
            executions: Vec::new(),
            current: Vec::new(),
            represented: Vec::new(),
            calls: Vec::new(),
            uncounted: false,
        }
    }

    /// Returns the number of threads with a reader.
    pub fn active_threads(&self) -> usize {
        self.reading.iter().flatten().count()
    }

    /// Returns the number of unread records in full segments.
    pub fn unread_records(&self, shared: &TraceMemory) -> u64 {
        let mut full = 0;
        for thread in self.reading.iter().flatten() {
            let mut segment = thread.segment;
            // The loop is bounded by the number of segments: the target may have written anything
            // there.
            while let Some(index) = segment.filter(|_| full < SEGMENTS) {
                let head = shared.segment_words(index).first();
                segment = (head.map_or(0, |word| word.load(Acquire)) as u32).checked_sub(1);
                full += usize::from(segment.is_some());
            }
        }
        (full * RECORDS) as u64
    }

    /// Reads the records, and hands them over by thread. Returns whether more can be read.
    pub fn read_threads(
        &mut self,
        shared: &TraceMemory,
        stacks: &mut TracedStacks,
        waiting: &mut ThreadWaits,
        solo: &Solo,
        how: Reading,
        sink: &mut dyn FnMut(&TraceBatch),
    ) -> bool {
        let all = how != Reading::Some;
        waiting.add_held(solo.turns().take_held());
        let mut is_more = false;
        waiting.tick();
        let now = super::read_tsc();
        let used = (shared.used.load(Acquire) as usize).min(shared.threads.len());
        self.reading
            .resize_with(used.max(self.reading.len()), || None);
        let mut batch = TraceBatch::default();
        for slot in 0..used {
            let Some(thread) = shared.threads.get(slot) else {
                break;
            };
            let state = thread.state.load(Acquire);
            if state == 0 {
                continue;
            }
            let known = self.reading.get_mut(slot).and_then(Option::take);
            let mut reading = known.unwrap_or_else(|| {
                let start = thread.start.load(Relaxed);
                let (pid, tid) = (thread.pid.load(Relaxed), thread.tid.load(Relaxed));
                let index = self.add_thread(pid, tid, thread_name(&thread.name), start);
                waiting.begin(pid, tid, thread.address.load(Relaxed));
                ThreadReader {
                    index,
                    segment: thread.first.load(Relaxed).checked_sub(1),
                    position: 0,
                    address: 0,
                    periods: FxHashMap::default(),
                    lost: 0,
                    until: 0,
                }
            });
            batch.thread = reading.index;
            batch.items.clear();
            let (intervals, until) = solo.turns().take_done(thread.tid.load(Relaxed));
            batch
                .items
                .extend(intervals.into_iter().map(TraceItem::Solo));
            // The records of an ended thread are read completely.
            let is_last = all || state == 2;
            reading.until = if is_last { u64::MAX } else { until };
            let is_cut = self.read_segments(shared, stacks, &mut reading, now, how, &mut batch);
            is_more |= is_cut;
            let ended = state == 2 && !is_cut;
            if ended || all {
                self.lost_at_the_end(thread, &reading, &mut batch);
                self.count_calls(shared, thread, ended);
            }
            let end = if ended { thread.end.load(Relaxed) } else { now };
            if let Some(known) = self.threads.get_mut(reading.index as usize) {
                if ended || all {
                    known.name = thread_name(&thread.name);
                }
                known.end = known.end.max(end);
            }
            let tid = thread.tid.load(Relaxed);
            if !batch.items.is_empty() {
                waiting.merge(tid, &mut batch.items, &self.by_id);
                sink(&batch);
            }
            if ended && !all {
                if let Some(segment) = reading.segment {
                    clear_segment(shared, segment);
                }
                self.living.remove(&tid);
                waiting.end(tid);
                shared.give_thread(slot as u32);
            } else if let Some(to) = self.reading.get_mut(slot) {
                *to = Some(reading);
            }
        }
        is_more
    }

    /// Counts the executions that a thread lost after its last record.
    fn lost_at_the_end(&mut self, thread: &Thread, reading: &ThreadReader, batch: &mut TraceBatch) {
        let lost = thread.lost.load(Relaxed).saturating_sub(reading.lost);
        if lost > 0 {
            self.lost += lost;
            batch.items.push(TraceItem::Lost(lost));
        }
    }

    /// Adds a new thread.
    fn add_thread(&mut self, pid: u32, tid: u32, name: String, start: u64) -> ThreadIndex {
        self.threads.push(TracedThread {
            pid,
            tid,
            name,
            start,
            end: start,
        });
        let index = self.threads.len() as ThreadIndex - 1;
        self.living.insert(tid, index);
        self.by_id.insert(tid, index);
        index
    }

    /// Reads the written segments of a thread, at most [`SEGMENTS_AT_A_TIME`] of them with
    /// [`Reading::Some`]. Returns whether that limit was reached.
    fn read_segments(
        &mut self,
        shared: &TraceMemory,
        stacks: &mut TracedStacks,
        reading: &mut ThreadReader,
        now: u64,
        how: Reading,
        batch: &mut TraceBatch,
    ) -> bool {
        let mut segments = 0;
        while let Some(segment) = reading.segment {
            if how == Reading::Some && segments == SEGMENTS_AT_A_TIME {
                return true;
            }
            segments += 1;
            let words = shared.segment_words(segment);
            if how == Reading::Discard {
                self.discard_records(words, reading, batch);
            } else {
                self.read_records(shared, words, reading, stacks, now, batch);
            }
            // The segment's head has the index of the next segment and the number of records.
            let head = words.first().map_or(0, |word| word.load(Acquire));
            let (next, records) = (head as u32, (head >> 32) as usize);
            if next == 0 || reading.position < records {
                break;
            }
            clear_segment(shared, segment);
            reading.segment = next.checked_sub(1);
            reading.position = 0;
        }
        false
    }

    /// Counts the executions of a segment as lost, from the first record that was not read.
    fn discard_records(
        &mut self,
        words: &[AtomicU64],
        reading: &mut ThreadReader,
        batch: &mut TraceBatch,
    ) {
        let mut discarded = 0;
        while reading.position < RECORDS + SPARE {
            let at = (reading.position + 1) * WORDS;
            let record = words.get(at..).unwrap_or_default();
            let [first, second, ..] = record else { break };
            let first = first.load(Acquire);
            if first == 0 {
                break;
            }
            let (tag, value) = (first & ((1 << record::TAG) - 1), first >> record::TAG);
            reading.position += 1;
            match tag {
                record::ADDRESS | record::PERIOD => {}
                record::LOST => {
                    let lost = second.load(Relaxed);
                    discarded += lost;
                    reading.lost += lost;
                }
                record::STACK => {
                    let count = (value as usize).min(SEGMENT / 8);
                    reading.position += count.div_ceil(WORDS);
                }
                _ => discarded += 1,
            }
        }
        if discarded > 0 {
            self.lost += discarded;
            batch.items.push(TraceItem::Lost(discarded));
        }
    }

    /// Reads the records of a segment up to the first one that is not written yet.
    fn read_records(
        &mut self,
        shared: &TraceMemory,
        words: &[AtomicU64],
        reading: &mut ThreadReader,
        stacks: &mut TracedStacks,
        now: u64,
        batch: &mut TraceBatch,
    ) {
        let ThreadReader {
            position,
            address,
            periods,
            lost,
            until,
            ..
        } = reading;
        let word = |at: usize| words.get(at).map_or(0, |word| word.load(Relaxed));
        while *position < RECORDS + SPARE {
            let at = (*position + 1) * WORDS;
            let Some(first) = words
                .get(at)
                .map(|word| word.load(Acquire))
                .filter(|w| *w != 0)
            else {
                break;
            };
            let second = word(at + 1);
            let (tag, value) = (first & ((1 << record::TAG) - 1), first >> record::TAG);
            let is_timed = !matches!(tag, record::ADDRESS | record::PERIOD | record::STACK);
            if is_timed && whole_time(now, value) > *until {
                break;
            }
            *position += 1;
            self.records_read += 1;
            match tag {
                record::ADDRESS => *address = second,
                record::LOST => {
                    self.lost += second;
                    *lost += second;
                    batch.items.push(TraceItem::Lost(second));
                }
                record::PERIOD => {
                    let (block, period) = ((second >> 32) as BlockId, second as u32);
                    periods.insert(block, period);
                    batch.items.push(TraceItem::Period { block, period });
                }
                record::STACK => {
                    let count = (value as usize).min(SEGMENT / 8);
                    let raw: Vec<u64> = (0..count).map(|n| word(at + WORDS + n)).collect();
                    *position += count.div_ceil(WORDS);
                    let places = stacks.unwind(&raw);
                    if !places.is_empty() {
                        let block = second as BlockId;
                        batch.items.push(TraceItem::Stack { block, places });
                    }
                }
                _ => {
                    let unwound = tag == record::UNWOUND;
                    let (block, duration) = if unwound {
                        ((second >> 44) as BlockId, second & ((1 << 44) - 1))
                    } else {
                        (tag as BlockId, second)
                    };
                    let period = if periods.is_empty() {
                        1
                    } else {
                        periods.get(&block).copied().unwrap_or(1)
                    };
                    self.count_execution(shared, block, period);
                    batch.items.push(TraceItem::Execution(Execution {
                        block,
                        unwound,
                        leave: whole_time(now, value),
                        duration,
                        address: std::mem::take(address),
                    }));
                }
            }
        }
    }

    /// Counts a recorded execution, which represents `period` executions.
    fn count_execution(&mut self, shared: &TraceMemory, block: BlockId, period: u32) {
        let at = block as usize;
        let (Some(read), Some(current), Some(represented), Some(limit)) = (
            self.executions.get_mut(at),
            self.current.get_mut(at),
            self.represented.get_mut(at),
            shared.periods.get(at),
        ) else {
            return;
        };
        *read += 1;
        *represented += u64::from(period);
        *current += u64::from((limit.load(Relaxed) / 2).max(1) == period);
    }

    /// Adds the calls that a thread has counted. If the thread has ended, frees the memory of its
    /// counts.
    fn count_calls(&mut self, shared: &TraceMemory, thread: &Thread, ended: bool) {
        self.uncounted |= thread.uncounted.load(Relaxed) != 0;
        for (index, first, page) in shared.call_pages_of(thread) {
            let calls = self.calls.get_mut(first..).unwrap_or_default();
            for (number, sum) in calls.iter_mut().enumerate().take(PAGE_BLOCKS) {
                *sum = sum.saturating_add(page.calls(number));
                if ended {
                    page.clear(number);
                }
            }
            if ended {
                shared.give_call_page(index);
            }
        }
    }

    /// Sets the number of blocks.
    pub fn set_blocks(&mut self, blocks: usize) {
        for counts in [
            &mut self.executions,
            &mut self.current,
            &mut self.represented,
            &mut self.calls,
        ] {
            counts.resize(blocks.max(counts.len()), 0);
        }
    }

    /// Sets the call counts of each block, and limits the ends of threads to the end of tracing.
    pub fn settle_counts(&mut self, end: u64, blocks: &mut [TracedBlock]) {
        for thread in &mut self.threads {
            thread.end = thread.end.min(end).max(thread.start);
        }
        let counts = self.calls.iter().zip(&self.represented);
        for (block, (calls, represented)) in blocks.iter_mut().zip(counts) {
            block.calls = if self.uncounted { 0 } else { *calls };
            block.represented = *represented;
        }
    }
}

/// Returns the time nearest to `now` whose low 44 bits are `low`.
fn whole_time(now: u64, low: u64) -> u64 {
    let difference = (low.wrapping_sub(now) << record::TAG) as i64 >> record::TAG;
    now.wrapping_add(difference as u64)
}

/// Clears a segment and frees it.
fn clear_segment(shared: &TraceMemory, segment: u32) {
    for word in shared.segment_words(segment) {
        word.store(0, Relaxed);
    }
    shared.give_segment(segment);
}

fn thread_name(words: &[AtomicU64; 2]) -> String {
    let bytes: Vec<u8> = words
        .iter()
        .flat_map(|word| word.load(Relaxed).to_le_bytes())
        .collect();
    let end = bytes
        .iter()
        .position(|byte| *byte == 0)
        .unwrap_or(bytes.len());
    String::from_utf8_lossy(bytes.get(..end).unwrap_or_default()).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_whole_again() {
        for now in [1 << 50, (1 << 50) - 1, 123 << 44, (124 << 44) - 5] {
            for time in [now - 1000, now, now + 1000] {
                assert_eq!(whole_time(now, time & ((1 << 44) - 1)), time);
            }
        }
    }
}
