//! Execution of the steps that the controller has planned.

use super::shared::wake_controller;
use super::{local, unwind};
use crate::sys;
use core::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed};
use runtime_abi::trace::{LENGTH, Memory, Step, state, step};

/// Time limit for the controller's plan for a library.
const PATIENCE_NS: u64 = 10_000_000_000;

/// Executes the steps in the shared memory. Returns whether all succeeded.
pub fn take_steps(memory: &Memory) -> bool {
    let first = memory.steps.load(Acquire);
    for number in 0..memory.step_count.load(Relaxed) {
        let offset = (first + number * size_of::<Step>() as u64) as usize;
        if offset + size_of::<Step>() > LENGTH {
            return false;
        }
        let at = core::ptr::from_ref(memory) as usize + offset;
        // SAFETY: inside the memory, which stays; all of it is atomic.
        let result = take_step(memory, unsafe { &*(at as *const Step) });
        if result < 0 {
            memory.failed_errno.store(-result as i32, Relaxed);
            memory.failed_step.store(number as u32 + 1, Relaxed);
            return false;
        }
    }
    memory.step_count.store(0, Relaxed);
    true
}

fn take_step(memory: &Memory, step: &Step) -> isize {
    let start = core::ptr::from_ref(memory) as usize;
    let length = step.length.load(Relaxed) as usize;
    let address = step.address.load(Relaxed) as usize;
    let value = step.value.load(Relaxed) as usize;
    // SAFETY: the controller has planned the step for this process: what it maps is free, what it
    // writes to is code that it has understood, no thread executes that code now, and none uses
    // what it unmaps.
    unsafe {
        match step.kind.load(Relaxed) {
            step::MAP => map_again(start + value, length, address),
            step::PROTECT => sys::call(libc::SYS_mprotect, [address, length, value, 0, 0, 0]),
            step::COPY => {
                let (from, to) = ((start + value) as *const u8, address as *mut u8);
                core::ptr::copy_nonoverlapping(from, to, length);
                0
            }
            step::UNWIND => {
                unwind::register_unwind_data(address as u64);
                0
            }
            step::FORGET => {
                unwind::forget_unwind_data(address as u64);
                0
            }
            step::UNMAP => sys::call(libc::SYS_munmap, [address, length, 0, 0, 0, 0]),
            step::UNMAP_LOCAL => sys::call(libc::SYS_munmap, [address, local::LENGTH, 0, 0, 0, 0]),
            _ => -(libc::EINVAL as isize),
        }
    }
}

/// Maps a part of the shared memory a second time, as executable code.
unsafe fn map_again(from: usize, length: usize, to: usize) -> isize {
    let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_FIXED_NOREPLACE;
    let reserve = [
        to,
        length,
        libc::PROT_NONE as usize,
        flags as usize,
        usize::MAX,
        0,
    ];
    // SAFETY: nothing is mapped there yet, or the call fails; then our own reservation is replaced.
    // A length of 0 makes a second mapping of shared memory instead of moving it.
    unsafe {
        let reserved = sys::call(libc::SYS_mmap, reserve);
        if reserved < 0 {
            return reserved;
        }
        let flags = (libc::MREMAP_MAYMOVE | libc::MREMAP_FIXED) as usize;
        let mapped = sys::call(libc::SYS_mremap, [from, 0, length, flags, to, 0]);
        if mapped < 0 {
            return mapped;
        }
        let access = (libc::PROT_READ | libc::PROT_EXEC) as usize;
        sys::call(libc::SYS_mprotect, [to, length, access, 0, 0, 0])
    }
}

/// Asks the controller to plan for a newly loaded library, before its code runs, or for a new
/// marked block.
pub fn ask_controller(memory: &Memory) {
    if memory.state.load(Acquire) != state::RUNNING || sys::calls_restricted() {
        return;
    }
    let asked = memory.asked.fetch_add(1, AcqRel).wrapping_add(1);
    wake_controller(memory);
    let end = sys::now() + PATIENCE_NS;
    loop {
        let answered = memory.answered.load(Acquire);
        if answered.wrapping_sub(asked) as i32 >= 0 {
            break;
        }
        let now = sys::now();
        if now >= end || !sys::wait_on(&memory.answered, answered, end - now) {
            return;
        }
    }
    take_steps(memory);
}
