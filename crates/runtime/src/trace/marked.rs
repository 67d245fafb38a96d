//! Blocks marked in the source (section 3.1, manual instrumentation).

use super::pointer::{BUSY, replace};
use super::shared::{shared_memory, ticks};
use super::{calls, frames, local, segment, steps};
use core::ffi::{CStr, c_char};
use core::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed, Release};
use runtime_abi::state;
use runtime_abi::trace::{Frame, Local, Marked, Memory, NAME, record};

const FREE: u32 = 0;
const NAMING: u32 = 1;
const USED: u32 = 2;

/// Returns the number of a marked block, from 1. Returns 0 if nothing is traced.
///
/// # Safety
/// The name is a C string or null.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn vitalfew_block(name: *const c_char) -> u32 {
    let Some(memory) = shared_memory().filter(|_| !name.is_null()) else {
        return 0;
    };
    // SAFETY: see the caller.
    let name = unsafe { CStr::from_ptr(name) }.to_bytes();
    let name = name.get(..NAME - 1).unwrap_or(name);
    let own = replace(BUSY);
    let block = find_block(memory, name);
    replace(own);
    block
}

fn find_block(memory: &Memory, name: &[u8]) -> u32 {
    for marked in &memory.marked {
        let taken = marked.state.compare_exchange(FREE, NAMING, AcqRel, Acquire);
        if taken.is_ok() {
            for (to, from) in marked.name.iter().zip(name) {
                to.store(*from, Relaxed);
            }
            marked.state.store(USED, Release);
        }
        while marked.state.load(Acquire) == NAMING {
            core::hint::spin_loop();
        }
        if has_name(marked, name) {
            if marked.block.load(Acquire) == 0 {
                steps::ask_controller(memory);
            }
            return marked.block.load(Acquire);
        }
    }
    0
}

fn has_name(marked: &Marked, name: &[u8]) -> bool {
    let mut known = marked.name.iter().map(|byte| byte.load(Relaxed));
    let same = name.iter().all(|byte| known.next() == Some(*byte));
    same && known.next() == Some(0)
}

/// Enters a block.
#[unsafe(no_mangle)]
pub extern "C-unwind" fn vitalfew_enter(block: u32) {
    let Some(memory) =
        shared_memory().filter(|memory| memory.state.load(Acquire) == state::RUNNING)
    else {
        return;
    };
    let Some(block) = block.checked_sub(1) else {
        return;
    };
    let mut own = replace(BUSY);
    if own == 0 && local::begin_thread(memory) {
        own = replace(BUSY);
    }
    if own > BUSY {
        // SAFETY: this thread's own, which stays.
        let local = unsafe { &mut *(own as *mut Local) };
        let here = frames::is_own_stack(local, &raw const block as u64);
        if here && calls::count_call(memory, local, block) && local.top < local.limit {
            // SAFETY: a free frame of this thread's.
            let frame = unsafe { &mut *(local.top as *mut Frame) };
            local.top += size_of::<Frame>() as u64;
            frame.return_address = 0;
            frame.stack = u64::MAX;
            frame.block = u64::from(block);
            frame.local = own as u64;
            frame.enter = ticks();
        }
    }
    replace(own);
}

/// Leaves a block. Blocks that were entered in it and not left are dropped.
#[unsafe(no_mangle)]
pub extern "C-unwind" fn vitalfew_leave(block: u32) {
    let (Some(memory), Some(block)) = (shared_memory(), block.checked_sub(1)) else {
        return;
    };
    let own = replace(BUSY);
    if own > BUSY {
        let now = ticks();
        // SAFETY: this thread's own, which stays.
        let local = unsafe { &mut *(own as *mut Local) };
        let mut at = local.top;
        while at > local.base {
            at -= size_of::<Frame>() as u64;
            // SAFETY: a frame of this thread's, between the first and the last in use.
            let frame = unsafe { &*(at as *const Frame) };
            if frame.return_address != 0 {
                break; // an unfinished function
            }
            if frame.block == u64::from(block) {
                local.top = at;
                let duration = now.saturating_sub(frame.enter);
                segment::put_record(local, now << record::TAG | u64::from(block), duration);
                segment::go_on(memory, local);
                break;
            }
        }
    }
    replace(own);
}
