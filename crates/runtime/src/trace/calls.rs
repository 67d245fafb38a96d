//! Counts of a thread's calls by block, and the choice of calls to record.
//!
//! The trampoline of a block counts down. It records the call at which the count is 0, and asks the
//! runtime at the next call. The counts lie in memory that the controller can read. So the number
//! of calls is exact however the program ends.

use super::segment;
use super::shared::ticks;
use crate::sys;
use core::sync::atomic::AtomicU32;
use core::sync::atomic::Ordering::{Relaxed, Release};
use runtime_abi::trace::{
    BLOCKS, CALL_PAGES_OFFSET, COUNTS, CallCount, CallPage, Local, Memory, PAGE_BLOCKS,
    STACK_PERIOD, record,
};

/// Value instead of a call page's index if there is no page.
const NO_PAGE: u16 = u16::MAX;
/// Size of [`CallPage::left`] in bytes. This part is mapped over a thread's counts.
const LEFT: usize = PAGE_BLOCKS * 4;
/// Value of a count at which the trampoline asks the runtime: -1.
const ASKS: u32 = u32::MAX;

/// Decision about a call at which the trampoline asks.
pub struct Turn {
    /// True if the call is recorded.
    pub recorded: bool,
    /// True if the call's stack is recorded. That may be so even if the call is not recorded.
    pub stack: bool,
}

fn counter_address(memory: &Memory, index: u16) -> usize {
    let offset = CALL_PAGES_OFFSET + usize::from(index) * size_of::<CallPage>();
    core::ptr::from_ref(memory) as usize + offset
}

/// Returns a thread's count of a block.
fn calls_left(local: &Local, block: u32) -> &AtomicU32 {
    let at = core::ptr::from_ref(local) as usize + COUNTS + block as usize % BLOCKS * 4;
    // SAFETY: one of the counts behind the thread's own, which stay as long as it.
    unsafe { &*(at as *const AtomicU32) }
}

/// Counts a call of a block without a trampoline. Returns whether the call is recorded.
pub fn count_call(memory: &Memory, local: &mut Local, block: u32) -> bool {
    let Some(limit) = memory.periods.get(block as usize) else {
        return false;
    };
    let limit = limit.load(Relaxed);
    let own = calls_left(local, block);
    let now = own.load(Relaxed).wrapping_sub(1);
    own.store(now, Relaxed);
    if (now as i32) < 0 || limit > 0 && now >= limit {
        return decide_turn(memory, local, block).recorded;
    }
    limit == 0 || now == 0
}

/// Decides about a call that asks, and sets the number of following calls that do not ask. If not
/// all calls are recorded, three kinds of calls ask: the call after a recorded one, a thread's
/// first call, and the first call after a change of the period.
pub fn decide_turn(memory: &Memory, local: &mut Local, block: u32) -> Turn {
    let limit = memory.periods.get(block as usize);
    let period = (limit.map_or(0, |limit| limit.load(Relaxed)) / 2).max(1);
    let counted = call_count(memory, local, block);
    let same = counted.is_none_or(|counted| counted.period.load(Relaxed).max(1) == period);
    let (recorded, next) = match (period, same) {
        (1, _) => (true, STACK_PERIOD - 1),
        (_, true) => after(random_distance(period), period),
        // A thread's first call is as likely to be recorded as any other.
        (_, false) => after(random_below(period) + 1, period),
    };
    set_calls_left(local, block, next, counted);
    if let Some(counted) = counted {
        counted.period.store(period, Relaxed);
    }
    record_period(memory, local, block, period, counted);
    // Stacks are recorded at the same rate whatever the period.
    let stack = period <= 1 || random_below(STACK_PERIOD) < period;
    Turn { recorded, stack }
}

/// Lets the following calls of a block pass without asking, because nothing is recorded any more.
/// Asking takes longer than many functions.
pub fn let_calls_pass(memory: &Memory, local: &mut Local, block: u32) {
    let counted = call_count(memory, local, block);
    set_calls_left(local, block, i32::MAX as u32, counted);
}

/// Sets the number of calls that do not ask. The count of past calls stays the same.
fn set_calls_left(local: &Local, block: u32, next: u32, counted: Option<&CallCount>) {
    let left = calls_left(local, block);
    let change = i64::from(next).wrapping_sub(i64::from(left.load(Relaxed) as i32));
    left.store(next, Relaxed);
    if let Some(counted) = counted {
        let calls = counted.calls.load(Relaxed).wrapping_add_signed(change);
        counted.calls.store(calls, Relaxed);
    }
}

/// Returns the decision for a call that asks, if the `nth` call from here on is recorded: whether
/// this call is recorded, and the number of calls until the next recorded one. That call does not
/// ask. Asking takes longer than many functions, and a lock function would hold its lock for
/// longer.
fn after(nth: u32, period: u32) -> (bool, u32) {
    match nth {
        1 => (true, random_distance(period)),
        _ => (false, nth - 1),
    }
}

/// Returns a random number of calls from one recorded call to the next. With a constant distance,
/// alternating calls would be sampled unequally.
fn random_distance(period: u32) -> u32 {
    period - period / 2 + random_below(period + 1 - period % 2)
}

/// Writes a record of the period, if the thread's records do not have it yet.
fn record_period(
    memory: &Memory,
    local: &mut Local,
    block: u32,
    period: u32,
    counted: Option<&CallCount>,
) {
    let said = counted.map_or(0, |counted| counted.said.load(Relaxed));
    if said.max(1) == period || segment::discards_records(local) {
        return;
    }
    if let Some(counted) = counted {
        counted.said.store(period, Relaxed);
    }
    let second = u64::from(block) << 32 | u64::from(period);
    segment::put_record(local, ticks() << record::TAG | record::PERIOD, second);
    segment::go_on(memory, local);
}

/// Returns a uniformly distributed number below a limit.
fn random_below(limit: u32) -> u32 {
    // The counter may advance in steps. The high bits of the product depend on all of its bits.
    let mixed = ticks().wrapping_mul(0x9e37_79b9_7f4a_7c15);
    let mixed = (mixed ^ mixed >> 29).wrapping_mul(0xbf58_476d_1ce4_e5b9) >> 32;
    ((mixed * u64::from(limit)) >> 32) as u32
}

/// Returns the shared count of a block's calls. `None` if only the thread itself counts them.
fn call_count<'a>(memory: &'a Memory, local: &mut Local, block: u32) -> Option<&'a CallCount> {
    let part = block as usize / PAGE_BLOCKS;
    let known = local.call_pages.get(part).copied()?;
    let index = match known {
        NO_PAGE => None,
        0 => add_page(memory, local, block),
        known => Some(known - 1),
    }?;
    // SAFETY: inside the memory, which stays; all of it is atomic.
    let page = unsafe { &*(counter_address(memory, index) as *const CallPage) };
    page.blocks.get(block as usize % PAGE_BLOCKS)
}

/// Maps a call page over the thread's counts of this block and its neighbours. The thread has not
/// called any of these before.
#[cold]
fn add_page(memory: &Memory, local: &mut Local, block: u32) -> Option<u16> {
    let part = block as usize / PAGE_BLOCKS;
    let to = core::ptr::from_ref(local) as usize + COUNTS + part * LEFT;
    let index = if sys::calls_restricted() {
        None
    } else {
        memory.take_call_page()
    };
    let mapped = index.filter(|index| {
        let flags = (libc::MREMAP_MAYMOVE | libc::MREMAP_FIXED) as usize;
        let from = counter_address(memory, *index as u16);
        // SAFETY: a length of 0 makes a second mapping of shared memory; it replaces a page of the
        // thread's own that nobody else looks at.
        unsafe { sys::call(libc::SYS_mremap, [from, 0, LEFT, flags, to, 0]) >= 0 }
    });
    let own = local.call_pages.get_mut(part)?;
    let thread = memory.threads.get(local.slot as usize)?;
    let (Some(index), Some(number)) = (mapped, index.and_then(|n| u16::try_from(n).ok())) else {
        *own = NO_PAGE;
        thread.uncounted.store(1, Relaxed);
        if let Some(index) = index {
            memory.give_call_page(index);
        }
        return None;
    };
    *own = number + 1;
    // The call that asks was counted in the page that was replaced.
    calls_left(local, block).store(ASKS, Relaxed);
    if let Some(known) = memory.call_page_part.get(index as usize) {
        known.store(part as u32, Relaxed);
    }
    if let Some(next) = memory.next_call_page.get(index as usize) {
        next.store(thread.call_pages.load(Relaxed), Relaxed);
    }
    thread.call_pages.store(index + 1, Release);
    Some(number)
}

/// Resets the counts, in memory of the thread's own. The former pages belong to the controller now,
/// or to another process.
pub fn reset_counts(local: &mut Local) {
    local.call_pages = [0; BLOCKS / PAGE_BLOCKS];
    let from = core::ptr::from_ref(local) as usize + COUNTS;
    let access = (libc::PROT_READ | libc::PROT_WRITE) as usize;
    let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE | libc::MAP_FIXED;
    let map = [from, BLOCKS * 4, access, flags as usize, usize::MAX, 0];
    // SAFETY: replaces the counts, which only this thread uses.
    unsafe { sys::call(libc::SYS_mmap, map) };
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::trace::local::begin_thread;
    use crate::trace::pointer::{BUSY, replace};
    use crate::trace::shared::map_memory;

    /// Returns the number of calls of a block that the controller would read.
    fn calls_seen(memory: &Memory, local: &Local, block: u32) -> u64 {
        let page = local.call_pages[block as usize / PAGE_BLOCKS] - 1;
        // SAFETY: a call page of the memory.
        let page = unsafe { &*(counter_address(memory, page) as *const CallPage) };
        page.calls(block as usize % PAGE_BLOCKS)
    }

    #[test]
    #[cfg_attr(miri, ignore = "assembly")]
    fn all_calls_are_counted_and_one_in_a_period_is_recorded() {
        let memory = map_memory(8);
        assert!(begin_thread(memory));
        // SAFETY: this thread's own, which stays.
        let local = unsafe { &mut *(replace(BUSY) as *mut Local) };
        let record_calls = |local: &mut Local, block: u32, count: usize| {
            let recorded = (0..count).filter(|_| count_call(memory, local, block));
            recorded.count()
        };
        assert_eq!(record_calls(local, 5, 1000), 1000);
        assert_eq!(calls_seen(memory, local, 5), 1000);
        // The shared memory has twice the period. The period here is ten.
        let block = 3 * PAGE_BLOCKS as u32 + 1;
        memory.periods[block as usize].store(20, Relaxed);
        let recorded = record_calls(local, block, 10_000);
        assert!((900..1100).contains(&recorded), "{recorded}");
        assert_eq!(calls_seen(memory, local, block), 10_000);
        let_calls_pass(memory, local, block);
        assert_eq!(calls_seen(memory, local, block), 10_000);
        // A change of the period does not change the count of calls.
        memory.periods[5].store(200, Relaxed);
        record_calls(local, 5, 500);
        assert_eq!(calls_seen(memory, local, 5), 1500);
    }
}
