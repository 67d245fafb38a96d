//! The items of a chunk as columns of variable-length numbers, so that similar values are adjacent.
//!
//! A number has seven bits in a byte, the low ones first; the top bit says that more follow. Times
//! are differences to the thread's previous item, addresses to that of the block's previous
//! execution. "Previous" starts anew with each chunk.

use profile::{Execution, SoloInterval, ThreadIndex, TraceBatch, TraceHead, TraceItem, Wait};
use rustc_hash::FxHashMap;

/// Number of columns. In their order in the chunk: runs (thread, number of items), tokens (kind of
/// an item, and its block), durations, gaps (its time: `gap_before`), addresses, and the rest
/// (waits, stacks, periods, losses, intervals alone).
const COLUMNS: usize = 6;
/// Columns of further arguments behind that of addresses, up to version 4.
const OLD_ARGUMENTS: std::ops::Range<usize> = 5..7;

/// Low bits of a token.
const EXECUTION: u64 = 0;
const EXECUTION_WITH_ADDRESS: u64 = 1;
const WAIT: u64 = 2;
const STACK: u64 = 3;
const PERIOD: u64 = 4;
const LOST: u64 = 5;
/// A sample of an event, up to version 4: skipped.
const EVENT: u64 = 6;
const SOLO: u64 = 7;

/// Size of the memory of addresses, which executions of blocks with equal low bits share.
const REMEMBERED: usize = 256;

/// State carried over from the previous items.
#[derive(Debug)]
struct Before {
    leaves: FxHashMap<ThreadIndex, u64>,
    /// The last leave of the run's thread.
    leave: u64,
    addresses: Box<[u64; REMEMBERED]>,
}

impl Default for Before {
    fn default() -> Self {
        Self {
            leaves: FxHashMap::default(),
            leave: 0,
            addresses: Box::new([0; REMEMBERED]),
        }
    }
}

impl Before {
    /// Forgets the previous chunk.
    fn forget_chunk(&mut self) {
        self.leaves.clear();
        self.addresses.fill(0);
    }

    #[inline]
    fn address_of(&mut self, block: u32) -> Option<&mut u64> {
        self.addresses.get_mut(block as usize % REMEMBERED)
    }
}

/// Columns that are being filled.
#[derive(Debug, Default)]
pub(crate) struct Columns {
    columns: [Vec<u8>; COLUMNS],
    before: Before,
    items: usize,
}

impl Columns {
    /// Returns the number of items.
    pub fn item_count(&self) -> usize {
        self.items
    }

    /// Returns the length in bytes.
    pub fn byte_length(&self) -> usize {
        self.columns.iter().map(Vec::len).sum()
    }

    /// Adds items of a thread.
    pub fn add_items(&mut self, thread: ThreadIndex, items: &[TraceItem]) {
        if items.is_empty() {
            return;
        }
        self.items += items.len();
        let [runs, tokens, durations, gaps, addresses, others] = &mut self.columns;
        put_varint(runs, thread.into());
        put_varint(runs, items.len() as u64);
        let before = &mut self.before;
        before.leave = before.leaves.get(&thread).copied().unwrap_or(0);
        for item in items {
            match item {
                TraceItem::Execution(execution) => {
                    let kind = match execution.address {
                        0 => EXECUTION,
                        _ => EXECUTION_WITH_ADDRESS,
                    };
                    let block = u64::from(execution.block) << 1 | u64::from(execution.unwound);
                    put_varint(tokens, block << 3 | kind);
                    put_varint(durations, execution.duration);
                    put_varint(gaps, gap_before(execution, before.leave));
                    before.leave = execution.leave;
                    if kind == EXECUTION_WITH_ADDRESS
                        && let Some(last) = before.address_of(execution.block)
                    {
                        let change = execution.address.wrapping_sub(*last);
                        put_varint(addresses, zigzag_encode(change));
                        *last = execution.address;
                    }
                }
                TraceItem::Wait(wait) => {
                    put_varint(tokens, u64::from(is_by_machine(wait)) << 3 | WAIT);
                    put_wait(others, wait, before.leave);
                }
                TraceItem::Stack { block, places } => {
                    put_varint(tokens, u64::from(*block) << 3 | STACK);
                    put_varint(others, places.len() as u64);
                    places
                        .iter()
                        .for_each(|place| put_varint(others, (*place).into()));
                }
                TraceItem::Period { block, period } => {
                    put_varint(tokens, u64::from(*block) << 3 | PERIOD);
                    put_varint(others, (*period).into());
                }
                TraceItem::Lost(lost) => {
                    put_varint(tokens, LOST);
                    put_varint(others, *lost);
                }
                TraceItem::Solo(solo) => {
                    put_varint(tokens, u64::from(solo.placebo) << 3 | SOLO);
                    let mut last = before.leave;
                    for time in solo_times(solo) {
                        put_varint(others, zigzag_encode(time.wrapping_sub(last)));
                        last = time;
                    }
                    put_varint(others, solo.busy.into());
                }
            }
        }
        before.leaves.insert(thread, before.leave);
    }

    /// Returns the chunk: the lengths of the columns, and the columns. Begins anew.
    pub fn take_chunk(&mut self) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(self.byte_length() + 5 * COLUMNS);
        self.columns
            .iter()
            .for_each(|column| put_varint(&mut bytes, column.len() as u64));
        for column in &mut self.columns {
            bytes.append(column);
        }
        self.items = 0;
        self.before.forget_chunk();
        bytes
    }
}

/// Encodes the time of an execution, relative to the previous item. If it begins after that item:
/// the time from the item to its beginning. If it contains the item: the time from the item to its
/// end. Both are small numbers; the last bit tells which. If the clock ran backwards, the
/// difference modulo 2⁶⁴ is of the second kind, in the remaining bits: such a leave is exact modulo
/// 2⁶³.
#[inline]
fn gap_before(execution: &Execution, before: u64) -> u64 {
    let since = execution.leave.wrapping_sub(before);
    match since.checked_sub(execution.duration) {
        Some(gap) if gap < 1 << 62 => gap << 1,
        _ => since << 1 | 1,
    }
}

#[inline]
fn leave_time(gap: u64, duration: u64, before: u64) -> u64 {
    let since = match gap & 1 {
        0 => (gap >> 1).wrapping_add(duration),
        _ => ((gap as i64) >> 1) as u64,
    };
    before.wrapping_add(since)
}

/// Encodes a difference modulo 2⁶⁴, so that small ones of both signs are small numbers.
#[inline]
fn zigzag_encode(difference: u64) -> u64 {
    let difference = difference as i64;
    (difference << 1 ^ difference >> 63) as u64
}

#[inline]
fn zigzag_decode(value: u64) -> u64 {
    value >> 1 ^ (value & 1).wrapping_neg()
}

#[inline]
fn put_varint(to: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        to.push(value as u8 | 0x80);
        value >>= 7;
    }
    to.push(value as u8);
}

/// Returns whether other processes caused a part of a wait.
fn is_by_machine(wait: &Wait) -> bool {
    wait.taken > 0 || wait.held > 0
}

fn solo_times(solo: &SoloInterval) -> [u64; 6] {
    let SoloInterval {
        before,
        alone,
        after,
        ..
    } = *solo;
    [before.0, before.1, alone.0, alone.1, after.0, after.1]
}

fn put_wait(to: &mut Vec<u8>, wait: &Wait, before: u64) {
    put_varint(to, zigzag_encode(wait.start.wrapping_sub(before)));
    put_varint(to, zigzag_encode(wait.end.wrapping_sub(wait.start)));
    put_varint(to, wait.queued);
    if is_by_machine(wait) {
        put_varint(to, wait.taken);
        put_varint(to, wait.held);
    }
    put_varint(to, wait.preempted.into());
    for option in [wait.system_call, wait.waker, wait.waker_block] {
        put_varint(to, option.map_or(0, |value| u64::from(value) + 1));
    }
}

/// A column that is being read.
#[derive(Clone, Copy)]
struct ColumnCursor<'a>(&'a [u8]);

/// The damage of a chunk.
type Wrong = String;

/// The top bits of eight bytes.
const TOPS: u64 = 0x8080_8080_8080_8080;

impl ColumnCursor<'_> {
    #[inline]
    fn read_number(&mut self) -> Result<u64, Wrong> {
        match self.0 {
            [byte, rest @ ..] if *byte < 0x80 => {
                self.0 = rest;
                Ok((*byte).into())
            }
            _ => self.long_number(),
        }
    }

    /// Reads eight bytes at once, if the number ends in them.
    #[inline]
    fn long_number(&mut self) -> Result<u64, Wrong> {
        let Some(eight) = self.0.first_chunk() else {
            return self.last_number();
        };
        let x = u64::from_le_bytes(*eight);
        let ends = !x & TOPS;
        let used = ends.trailing_zeros() as usize / 8 + 1;
        let Some(rest) = self.0.get(used..).filter(|_| ends != 0) else {
            return self.last_number();
        };
        self.0 = rest;
        // Seven bits of each byte, then 14 of two, then 28 of four.
        let x = x & (ends ^ ends.wrapping_sub(1)) & !TOPS;
        let x = x & 0x007f_007f_007f_007f | (x & 0x7f00_7f00_7f00_7f00) >> 1;
        let x = x & 0x0000_3fff_0000_3fff | (x & 0x3fff_0000_3fff_0000) >> 2;
        Ok(x & 0x0fff_ffff | (x & 0x0fff_ffff_0000_0000) >> 4)
    }

    /// Reads a number at the end of a column, or of more than eight bytes.
    #[cold]
    fn last_number(&mut self) -> Result<u64, Wrong> {
        let mut value = 0;
        for (at, byte) in self.0.iter().enumerate().take(10) {
            if at == 9 && *byte > 1 {
                break;
            }
            value |= u64::from(byte & 0x7f) << (7 * at);
            if *byte < 0x80 {
                self.0 = self.0.get(at + 1..).unwrap_or_default();
                return Ok(value);
            }
        }
        Err("a number has no end".to_owned())
    }

    fn read_index(&mut self, end: usize, what: &str) -> Result<u32, Wrong> {
        let value = self.read_number()?;
        check_within(value, end, what)
    }

    /// Reads a number, or nothing.
    fn read_option(&mut self) -> Result<Option<u32>, Wrong> {
        match self.read_number()?.checked_sub(1) {
            None => Ok(None),
            Some(value) => check_within(value, usize::MAX, "number").map(Some),
        }
    }
}

fn check_within(value: u64, end: usize, what: &str) -> Result<u32, Wrong> {
    match u32::try_from(value) {
        Ok(index) if (index as usize) < end => Ok(index),
        _ => Err(format!("there is no {what} {value}")),
    }
}

/// Number of items decoded at a time, so that they and the data that they index fit into a small
/// cache.
const AT_ONCE: u64 = 512;

/// A chunk that is being read. Its memory is reused for the next.
#[derive(Debug, Default)]
pub(crate) struct TraceDecoder {
    /// The chunk.
    pub bytes: Vec<u8>,
    /// The unread range of each column.
    columns: [(usize, usize); COLUMNS],
    before: Before,
    /// Number of unread items of the run.
    left: u64,
    /// The items read last.
    pub batch: TraceBatch,
}

impl TraceDecoder {
    /// Begins with the chunk that `bytes` now holds, of a trace of this version.
    pub fn start_chunk(&mut self, version: u32) -> Result<(), Wrong> {
        let skipped = if version < 5 { OLD_ARGUMENTS } else { 0..0 };
        let mut all = ColumnCursor(&self.bytes);
        let lengths = (0..COLUMNS + skipped.len()).map(|_| all.read_number());
        let lengths: Vec<u64> = lengths.collect::<Result<_, _>>()?;
        let mut from = self.bytes.len() - all.0.len();
        let mut columns = self.columns.iter_mut();
        for (at, length) in lengths.into_iter().enumerate() {
            let end = usize::try_from(length).ok();
            let end = end.and_then(|length| from.checked_add(length));
            let Some(end) = end.filter(|end| *end <= self.bytes.len()) else {
                return Err("a column is longer than the chunk".to_owned());
            };
            if !skipped.contains(&at)
                && let Some(column) = columns.next()
            {
                *column = (from, end);
            }
            from = end;
        }
        if from < self.bytes.len() {
            return Err("a chunk has more than its items".to_owned());
        }
        self.before.forget_chunk();
        self.left = 0;
        Ok(())
    }

    /// Reads the next items of a thread into `batch`; false at the end of the chunk.
    pub fn next_items(&mut self, head: &TraceHead) -> Result<bool, Wrong> {
        let mut columns = [ColumnCursor(&[]); COLUMNS];
        for (column, (from, end)) in columns.iter_mut().zip(self.columns) {
            column.0 = self.bytes.get(from..end).unwrap_or_default();
        }
        let [runs, rest @ ..] = &mut columns;
        self.batch.items.clear();
        if self.left == 0 {
            if runs.0.is_empty() {
                return if rest.iter().all(|column| column.0.is_empty()) {
                    Ok(false)
                } else {
                    Err("a chunk has more than its items".to_owned())
                };
            }
            let thread = runs.read_index(head.threads.len(), "thread")?;
            self.left = runs.read_number()?;
            let [tokens, ..] = rest;
            // Each takes at least a byte.
            if self.left > tokens.0.len() as u64 {
                let length = self.left;
                return Err(format!("a run of {length} items is longer than the chunk"));
            }
            self.batch.thread = thread;
            self.before.leave = self.before.leaves.get(&thread).copied().unwrap_or(0);
        }
        let n = self.left.min(AT_ONCE);
        self.batch.items.reserve(n as usize);
        read_items(rest, n, &mut self.before, head, &mut self.batch.items)?;
        self.left -= n;
        if self.left == 0 {
            let thread = self.batch.thread;
            self.before.leaves.insert(thread, self.before.leave);
        }
        for ((from, end), column) in self.columns.iter_mut().zip(columns) {
            *from = *end - column.0.len();
        }
        Ok(true)
    }
}

/// Reads the next `n` items of a run.
fn read_items(
    columns: &mut [ColumnCursor<'_>; COLUMNS - 1],
    n: u64,
    before: &mut Before,
    head: &TraceHead,
    to: &mut Vec<TraceItem>,
) -> Result<(), Wrong> {
    let [tokens, durations, gaps, addresses, others] = columns;
    for _ in 0..n {
        let token = tokens.read_number()?;
        let of = token >> 3;
        to.push(match token & 7 {
            kind @ (EXECUTION | EXECUTION_WITH_ADDRESS) => {
                let block = check_within(of >> 1, head.blocks.len(), "block")?;
                let duration = durations.read_number()?;
                before.leave = leave_time(gaps.read_number()?, duration, before.leave);
                let mut address = 0;
                if kind == EXECUTION_WITH_ADDRESS
                    && let Some(last) = before.address_of(block)
                {
                    *last = last.wrapping_add(zigzag_decode(addresses.read_number()?));
                    address = *last;
                }
                TraceItem::Execution(Execution {
                    block,
                    unwound: of & 1 == 1,
                    leave: before.leave,
                    duration,
                    address,
                })
            }
            STACK => TraceItem::Stack {
                block: check_within(of, head.blocks.len(), "block")?,
                places: read_places(others, head)?,
            },
            PERIOD => TraceItem::Period {
                block: check_within(of, head.blocks.len(), "block")?,
                period: others.read_index(usize::MAX, "period")?,
            },
            WAIT if of <= 1 => TraceItem::Wait(read_wait(others, before.leave, of == 1)?),
            LOST if of == 0 => TraceItem::Lost(others.read_number()?),
            EVENT => {
                others.read_number()?;
                others.read_number()?;
                continue;
            }
            SOLO if of <= 1 => TraceItem::Solo(read_solo(others, before.leave, of == 1)?),
            _ => return Err(format!("there is no item {token}")),
        });
    }
    Ok(())
}

fn read_places(others: &mut ColumnCursor<'_>, head: &TraceHead) -> Result<Vec<u32>, Wrong> {
    let length = others.read_number()?;
    if length > others.0.len() as u64 {
        return Err(format!(
            "a stack of {length} places is longer than the chunk"
        ));
    }
    (0..length)
        .map(|_| others.read_index(head.places.len(), "place"))
        .collect()
}

fn read_solo(
    others: &mut ColumnCursor<'_>,
    before: u64,
    placebo: bool,
) -> Result<SoloInterval, Wrong> {
    let (mut last, mut times) = (before, [0; 6]);
    for time in &mut times {
        last = last.wrapping_add(zigzag_decode(others.read_number()?));
        *time = last;
    }
    let [a, b, c, d, e, f] = times;
    Ok(SoloInterval {
        before: (a, b),
        alone: (c, d),
        after: (e, f),
        placebo,
        busy: others.read_index(usize::MAX, "number of threads")?,
    })
}

fn read_wait(others: &mut ColumnCursor<'_>, before: u64, by_machine: bool) -> Result<Wait, Wrong> {
    let start = before.wrapping_add(zigzag_decode(others.read_number()?));
    let end = start.wrapping_add(zigzag_decode(others.read_number()?));
    let queued = others.read_number()?;
    let (taken, held) = if by_machine {
        (others.read_number()?, others.read_number()?)
    } else {
        (0, 0)
    };
    Ok(Wait {
        start,
        end,
        queued,
        taken,
        held,
        preempted: others.read_index(2, "kind of wait")? == 1,
        system_call: others.read_option()?,
        waker: others.read_option()?,
        waker_block: others.read_option()?,
    })
}
