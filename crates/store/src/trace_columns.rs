//! The items of a chunk as columns of variable-length numbers, so that like stands beside like.
//!
//! A number has seven bits in a byte, the low ones first; the top bit says that more follow. Times are
//! differences to the item before in the thread, arguments to those of the block's execution before. What
//! is said here of "before" begins anew with each chunk.

use profile::{Execution, TRACED_ARGUMENTS, ThreadIndex, TraceBatch, TraceHead, TraceItem, Wait};
use rustc_hash::FxHashMap;

/// The columns, in their order in the chunk: runs (thread, how many items), tokens (what an item is, of which
/// block), durations, gaps (when it was: `gap`), three of arguments, and all else (waits, stacks, periods, losses).
const COLUMNS: usize = 8;
const RUNS: usize = 0;

/// Low bits of a token.
const EXECUTION: u64 = 0;
const EXECUTION_WITH_ARGUMENTS: u64 = 1;
const WAIT: u64 = 2;
const STACK: u64 = 3;
const PERIOD: u64 = 4;
const LOST: u64 = 5;

/// Executions of blocks whose numbers are alike in their last bits share the memory of arguments.
const REMEMBERED: usize = 256;

/// What is remembered of the items before.
#[derive(Debug)]
struct Before {
    leaves: FxHashMap<ThreadIndex, u64>,
    /// That of the run's thread.
    leave: u64,
    arguments: Box<[[u64; TRACED_ARGUMENTS]; REMEMBERED]>,
}

impl Default for Before {
    fn default() -> Self {
        Self {
            leaves: FxHashMap::default(),
            leave: 0,
            arguments: Box::new([[0; TRACED_ARGUMENTS]; REMEMBERED]),
        }
    }
}

impl Before {
    #[inline]
    fn arguments(&mut self, block: u32) -> Option<&mut [u64; TRACED_ARGUMENTS]> {
        self.arguments.get_mut(block as usize % REMEMBERED)
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
    /// How many items are in it.
    pub fn items(&self) -> usize {
        self.items
    }

    /// How long it is.
    pub fn bytes(&self) -> usize {
        self.columns.iter().map(Vec::len).sum()
    }

    /// Adds what a thread did.
    pub fn add(&mut self, thread: ThreadIndex, items: &[TraceItem]) {
        if items.is_empty() {
            return;
        }
        self.items += items.len();
        let [runs, tokens, durations, gaps, a, b, c, others] = &mut self.columns;
        put(runs, thread.into());
        put(runs, items.len() as u64);
        let before = &mut self.before;
        before.leave = before.leaves.get(&thread).copied().unwrap_or(0);
        for item in items {
            match item {
                TraceItem::Execution(execution) => {
                    let named = execution.arguments != [0; TRACED_ARGUMENTS];
                    let block = u64::from(execution.block) << 1 | u64::from(execution.unwound);
                    put(
                        tokens,
                        block << 3
                            | if named {
                                EXECUTION_WITH_ARGUMENTS
                            } else {
                                EXECUTION
                            },
                    );
                    put(durations, execution.duration);
                    put(gaps, gap(execution, before.leave));
                    before.leave = execution.leave;
                    if named && let Some(last) = before.arguments(execution.block) {
                        let columns = [&mut *a, &mut *b, &mut *c];
                        for ((to, value), last) in
                            columns.into_iter().zip(execution.arguments).zip(last)
                        {
                            put(to, signed(value.wrapping_sub(*last)));
                            *last = value;
                        }
                    }
                }
                TraceItem::Wait(wait) => {
                    put(tokens, WAIT);
                    put_wait(others, wait, before.leave);
                }
                TraceItem::Stack { block, places } => {
                    put(tokens, u64::from(*block) << 3 | STACK);
                    put(others, places.len() as u64);
                    places.iter().for_each(|place| put(others, (*place).into()));
                }
                TraceItem::Period { block, period } => {
                    put(tokens, u64::from(*block) << 3 | PERIOD);
                    put(others, (*period).into());
                }
                TraceItem::Lost(lost) => {
                    put(tokens, LOST);
                    put(others, *lost);
                }
            }
        }
        before.leaves.insert(thread, before.leave);
    }

    /// The chunk: the lengths of the columns, and the columns. Begins anew.
    pub fn take(&mut self) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(self.bytes() + 5 * COLUMNS);
        self.columns
            .iter()
            .for_each(|column| put(&mut bytes, column.len() as u64));
        for column in &mut self.columns {
            bytes.append(column);
        }
        self.items = 0;
        self.before.leaves.clear();
        self.before.arguments.fill([0; TRACED_ARGUMENTS]);
        bytes
    }
}

/// When an execution was. One that begins behind the item before: from there to its beginning. One that contains it:
/// from there to its end. Both are small numbers; the last bit tells which. Clocks that go backwards
/// are differences modulo 2⁶⁴ of the second kind, in the bits that are left: such a leave is kept to 2⁶³.
#[inline]
fn gap(execution: &Execution, before: u64) -> u64 {
    let since = execution.leave.wrapping_sub(before);
    match since.checked_sub(execution.duration) {
        Some(gap) if gap < 1 << 62 => gap << 1,
        _ => since << 1 | 1,
    }
}

#[inline]
fn leave(gap: u64, duration: u64, before: u64) -> u64 {
    let since = match gap & 1 {
        0 => (gap >> 1).wrapping_add(duration),
        _ => ((gap as i64) >> 1) as u64,
    };
    before.wrapping_add(since)
}

/// A difference modulo 2⁶⁴: small ones of both signs are small numbers.
#[inline]
fn signed(difference: u64) -> u64 {
    let difference = difference as i64;
    (difference << 1 ^ difference >> 63) as u64
}

#[inline]
fn unsigned(value: u64) -> u64 {
    value >> 1 ^ (value & 1).wrapping_neg()
}

#[inline]
fn put(to: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        to.push(value as u8 | 0x80);
        value >>= 7;
    }
    to.push(value as u8);
}

fn put_wait(to: &mut Vec<u8>, wait: &Wait, before: u64) {
    put(to, signed(wait.start.wrapping_sub(before)));
    put(to, signed(wait.end.wrapping_sub(wait.start)));
    put(to, wait.queued);
    put(to, wait.preempted.into());
    for option in [wait.system_call, wait.waker, wait.waker_block] {
        put(to, option.map_or(0, |value| u64::from(value) + 1));
    }
}

/// A column that is being read.
struct Cursor<'a>(&'a [u8]);

/// What is wrong with a chunk.
type Wrong = String;

impl Cursor<'_> {
    #[inline]
    fn number(&mut self) -> Result<u64, Wrong> {
        match self.0 {
            [byte, rest @ ..] if *byte < 0x80 => {
                self.0 = rest;
                Ok((*byte).into())
            }
            [low, high, rest @ ..] if *high < 0x80 => {
                self.0 = rest;
                Ok(u64::from(*low & 0x7f) | u64::from(*high) << 7)
            }
            _ => self.long_number(),
        }
    }

    fn long_number(&mut self) -> Result<u64, Wrong> {
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

    fn index(&mut self, end: usize, what: &str) -> Result<u32, Wrong> {
        let value = self.number()?;
        within(value, end, what)
    }

    /// A number, or nothing.
    fn option(&mut self) -> Result<Option<u32>, Wrong> {
        match self.number()?.checked_sub(1) {
            None => Ok(None),
            Some(value) => within(value, usize::MAX, "number").map(Some),
        }
    }
}

fn within(value: u64, end: usize, what: &str) -> Result<u32, Wrong> {
    match u32::try_from(value) {
        Ok(index) if (index as usize) < end => Ok(index),
        _ => Err(format!("there is no {what} {value}")),
    }
}

/// The items of a chunk. Each takes at least a byte of it.
pub(crate) fn decode(bytes: &[u8], head: &TraceHead) -> Result<Vec<TraceBatch>, Wrong> {
    let mut all = Cursor(bytes);
    let mut lengths = [0; COLUMNS];
    for length in &mut lengths {
        *length = all.number()?;
    }
    let mut rest = all.0;
    let mut columns = [const { Cursor(&[]) }; COLUMNS];
    for (column, length) in columns.iter_mut().zip(lengths) {
        let cut = usize::try_from(length)
            .ok()
            .and_then(|at| rest.split_at_checked(at));
        let Some((own, next)) = cut else {
            return Err("a column is longer than the chunk".to_owned());
        };
        (column.0, rest) = (own, next);
    }
    let mut batches = Vec::new();
    let mut before = Before::default();
    while columns.get(RUNS).is_some_and(|runs| !runs.0.is_empty()) {
        batches.push(run(&mut columns, &mut before, head)?);
    }
    if !rest.is_empty() || columns.iter().any(|column| !column.0.is_empty()) {
        return Err("a chunk has more than its items".to_owned());
    }
    Ok(batches)
}

fn run(
    columns: &mut [Cursor<'_>; COLUMNS],
    before: &mut Before,
    head: &TraceHead,
) -> Result<TraceBatch, Wrong> {
    let [runs, tokens, durations, gaps, a, b, c, others] = columns;
    let thread = runs.index(head.threads.len(), "thread")?;
    let length = runs.number()?;
    if length > tokens.0.len() as u64 {
        return Err(format!("a run of {length} items is longer than the chunk"));
    }
    let mut items = Vec::with_capacity(length as usize);
    before.leave = before.leaves.get(&thread).copied().unwrap_or(0);
    for _ in 0..length {
        let token = tokens.number()?;
        let of = token >> 3;
        let item = match token & 7 {
            kind @ (EXECUTION | EXECUTION_WITH_ARGUMENTS) => {
                let block = within(of >> 1, head.blocks.len(), "block")?;
                let duration = durations.number()?;
                before.leave = leave(gaps.number()?, duration, before.leave);
                let mut arguments = [0; TRACED_ARGUMENTS];
                if kind == EXECUTION_WITH_ARGUMENTS
                    && let Some(last) = before.arguments(block)
                {
                    for (column, last) in
                        [&mut *a, &mut *b, &mut *c].into_iter().zip(last.iter_mut())
                    {
                        *last = last.wrapping_add(unsigned(column.number()?));
                    }
                    arguments = *last;
                }
                TraceItem::Execution(Execution {
                    block,
                    unwound: of & 1 == 1,
                    leave: before.leave,
                    duration,
                    arguments,
                })
            }
            STACK => TraceItem::Stack {
                block: within(of, head.blocks.len(), "block")?,
                places: places(others, head)?,
            },
            PERIOD => TraceItem::Period {
                block: within(of, head.blocks.len(), "block")?,
                period: others.index(usize::MAX, "period")?,
            },
            WAIT if of == 0 => TraceItem::Wait(wait(others, before.leave)?),
            LOST if of == 0 => TraceItem::Lost(others.number()?),
            _ => return Err(format!("there is no item {token}")),
        };
        items.push(item);
    }
    before.leaves.insert(thread, before.leave);
    Ok(TraceBatch { thread, items })
}

fn places(others: &mut Cursor<'_>, head: &TraceHead) -> Result<Vec<u32>, Wrong> {
    let length = others.number()?;
    if length > others.0.len() as u64 {
        return Err(format!(
            "a stack of {length} places is longer than the chunk"
        ));
    }
    (0..length)
        .map(|_| others.index(head.places.len(), "place"))
        .collect()
}

fn wait(others: &mut Cursor<'_>, before: u64) -> Result<Wait, Wrong> {
    let start = before.wrapping_add(unsigned(others.number()?));
    let end = start.wrapping_add(unsigned(others.number()?));
    Ok(Wait {
        start,
        end,
        queued: others.number()?,
        preempted: others.index(2, "kind of wait")? == 1,
        system_call: others.option()?,
        waker: others.option()?,
        waker_block: others.option()?,
    })
}
