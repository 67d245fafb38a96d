//! Frames of executions that have not ended.
//!
//! A trampoline takes the frame after the thread's last one, and releases it at its return. That is
//! right if executions end in the reverse order of their begins. Coroutines, copied stacks and long
//! jumps break that order. A frame then stays in place until all later frames have ended. It must
//! not be given to another execution before, because it has the return address of its function.

use super::pointer::{BUSY, replace};
use super::shared::shared_memory;
use crate::sys;
use core::ffi::c_void;
use core::sync::atomic::Ordering::Relaxed;
use runtime_abi::trace::{ENDED, Frame, Local, Memory};

/// Returns whether a frame belongs to a block that is marked in the source. No function returns
/// through such a frame.
pub fn is_marked(frame: &Frame) -> bool {
    frame.return_address == 0
}

/// Returns whether an ending execution is the thread's last one. If so, its frame becomes the last
/// one.
pub fn is_last(memory: &Memory, local: &mut Local, ended: &mut Frame) -> bool {
    let own = &raw const *local as u64;
    let at = &raw const *ended as u64;
    if ended.local == own {
        let behind = at + size_of::<Frame>() as u64;
        // Marked blocks that were entered in the function and not left have ended with it.
        let over = |frame: &Frame| frame.block == ENDED || is_marked(frame);
        if first_with(local, behind, over) == behind {
            local.top = behind;
            return true;
        }
    }
    memory.unordered.fetch_add(1, Relaxed);
    false
}

/// Releases the ended frames at the end. Returns false if there are none.
pub fn reclaim_ended(local: &mut Local) -> bool {
    let first = first_with(local, local.base, |frame| frame.block == ENDED);
    let some = first < local.top;
    local.top = first;
    some
}

/// Returns the address of the first frame, not below `lowest`, from which on `is_so` holds for all
/// frames.
fn first_with(local: &Local, lowest: u64, is_so: impl Fn(&Frame) -> bool) -> u64 {
    let mut at = local.top;
    while at > lowest {
        let before = at - size_of::<Frame>() as u64;
        // SAFETY: a frame of this thread's, between the first and the last in use.
        if !is_so(unsafe { &*(before as *const Frame) }) {
            break;
        }
        at = before;
    }
    at
}

/// Handles a long jump on the thread's stack: the executions that it leaves have ended. A jump
/// deeper into the stack switches between coroutines on one stack. The thread is then no longer
/// traced.
///
/// # Safety
/// `environment` is a `jmp_buf` of the C library.
pub unsafe fn before_jump(environment: *const c_void) {
    const STACK_POINTER: usize = 6;
    // SAFETY: see the caller; the C library hides what it keeps there by the word at fs:0x30.
    let stack = unsafe {
        let guard: u64;
        core::arch::asm!("mov {}, fs:[0x30]", out(reg) guard, options(nostack, readonly, pure));
        (*environment.cast::<u64>().add(STACK_POINTER)).rotate_right(17) ^ guard
    };
    let own = replace(BUSY);
    if own > BUSY {
        // SAFETY: this thread's own, which stays.
        let local = unsafe { &mut *(own as *mut Local) };
        let here = &raw const own as u64;
        if is_own_stack(local, here) && is_own_stack(local, stack) && stack < here {
            if let Some(memory) = shared_memory() {
                memory.unordered.fetch_add(1, Relaxed);
            }
            return;
        }
        if is_own_stack(local, stack) {
            // A marked block that precedes an unfinished function stays. Its stack position is
            // unknown.
            let dead = |frame: &Frame| frame.block == ENDED || frame.stack <= stack;
            let left = |frame: &Frame| dead(frame) || is_marked(frame);
            let mut first = first_with(local, local.base, left);
            while first < local.top {
                // SAFETY: as above.
                if dead(unsafe { &*(first as *const Frame) }) {
                    break;
                }
                first += size_of::<Frame>() as u64;
            }
            local.top = first;
        }
    }
    replace(own);
}

/// Ends tracing in this thread. Executions that have begun still end as usual.
pub fn let_go() {
    if shared_memory().is_some() {
        replace(BUSY);
    }
}

/// Returns whether an address lies on the thread's own stack, not on the stack of a coroutine or a
/// signal handler.
pub fn is_own_stack(local: &Local, address: u64) -> bool {
    address.wrapping_sub(local.stack_low) < local.stack_size
}

/// Returns the lowest address and the size of this thread's stack. The C library stores the
/// thread's descriptor, which the thread pointer addresses, at the end of the stack. Asking the C
/// library for more would allocate memory.
pub fn own_stack(main: (u64, u64), size: u64) -> (u64, u64) {
    if sys::thread_id() == sys::process_id() {
        return main;
    }
    let end: u64;
    // SAFETY: reads the thread pointer.
    unsafe {
        core::arch::asm!("mov {}, fs:[0]", out(reg) end, options(nostack, readonly, pure));
    }
    (end.saturating_sub(size), size)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns a thread with frames of these blocks. The frames numbered in `marked` belong to
    /// marked blocks.
    fn with_frames(blocks: &[u64], marked: &[usize]) -> (Box<Local>, Vec<Frame>) {
        // SAFETY: zeros are a value of both: all of them are numbers.
        let (mut local, zeroed) = unsafe {
            let local: Box<Local> = Box::new(core::mem::zeroed());
            (local, || core::mem::zeroed::<Frame>())
        };
        let own = &raw mut *local as u64;
        let frames = blocks.iter().enumerate().map(|(at, block)| Frame {
            block: *block,
            local: own,
            return_address: u64::from(!marked.contains(&at)),
            ..zeroed()
        });
        let frames: Vec<Frame> = frames.collect();
        local.base = frames.as_ptr() as u64;
        local.top = local.base + size_of_val(frames.as_slice()) as u64;
        (local, frames)
    }

    fn frames_left(local: &Local) -> u64 {
        (local.top - local.base) / size_of::<Frame>() as u64
    }

    fn memory() -> Box<Memory> {
        // SAFETY: zeros are a value of it, and the allocation is the box's.
        unsafe {
            Box::from_raw(std::alloc::alloc_zeroed(core::alloc::Layout::new::<Memory>()).cast())
        }
    }

    #[test]
    fn the_last_execution_takes_what_was_marked_in_it_along() {
        let memory = memory();
        let (mut local, mut frames) = with_frames(&[1, 2, 3, ENDED], &[2]);
        assert!(is_last(&memory, &mut local, &mut frames[1]));
        assert_eq!(frames_left(&local), 2);
        assert_eq!(memory.unordered.load(Relaxed), 0);
    }

    #[test]
    fn a_frame_behind_which_others_live_stays() {
        let memory = memory();
        let (mut local, mut frames) = with_frames(&[1, 2, 3], &[]);
        assert!(!is_last(&memory, &mut local, &mut frames[0]));
        assert_eq!(
            (frames_left(&local), memory.unordered.load(Relaxed)),
            (3, 1)
        );
        // A frame of another thread stays, too.
        frames[2].local += 1;
        assert!(!is_last(&memory, &mut local, &mut frames[2]));
    }

    #[test]
    fn ended_frames_are_given_back_from_the_end() {
        for (blocks, left) in [
            (&[1, ENDED, ENDED][..], 1),
            (&[1, ENDED, 2], 3),
            (&[ENDED, ENDED], 0),
            (&[], 0),
        ] {
            let (mut local, _frames) = with_frames(blocks, &[]);
            assert_eq!(reclaim_ended(&mut local), left < blocks.len() as u64);
            assert_eq!(frames_left(&local), left, "{blocks:?}");
        }
    }

    #[test]
    fn a_stack_has_its_lowest_address_and_not_its_end() {
        let (mut local, _frames) = with_frames(&[], &[]);
        (local.stack_low, local.stack_size) = (0x1000, 0x1000);
        let own = [0xfff, 0x1000, 0x1fff, 0x2000].map(|at| is_own_stack(&local, at));
        assert_eq!(own, [false, true, true, false]);
    }
}
