//! Holding of threads: all threads but one stand still for a moment, to measure the speed of that
//! one alone.
//!
//! The controller interrupts threads in user mode by [`SIGNAL`]. A thread that owns a lock runs on
//! until it releases the lock. Each held thread continues by itself at [`Hold::until`], so that no
//! thread is held longer if the controller dies.

use super::pointer::{BUSY, current};
use super::shared::{shared_memory, ticks};
use crate::{own_signal, sys};
use core::ffi::c_void;
use core::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed, Release};
use libc::SYS_futex;
use runtime_abi::trace::{HELD, HeldThread, Hold, Local, Memory, Thread, hold};

/// Sleeping time of a held thread while the end of the hold is unknown.
const NAP_NS: u64 = 50_000;

/// Installs our handler of the signal. Returns the program's former action.
pub fn take_signal(memory: &Memory) -> libc::sigaction {
    let handler = handle_interrupt as *const ();
    let before = own_signal::take_signal(handler as usize);
    memory.hold.handler.store(handler as u64, Release);
    before
}

/// Returns this thread's slot.
pub fn own_slot() -> Option<&'static Thread> {
    let memory = shared_memory()?;
    let own = current();
    if own <= BUSY {
        return None;
    }
    // SAFETY: this thread's own, which is never unmapped while it lives.
    let local = unsafe { &*(own as *const Local) };
    memory.threads.get(local.slot as usize)
}

/// Counts a lock that this thread has acquired.
pub fn lock_taken() {
    if let Some(thread) = own_slot() {
        let locks = thread.locks.load(Relaxed).saturating_add(1);
        thread.locks.store(locks, Relaxed);
    }
}

/// Ends the count of a lock that this thread has released.
pub fn lock_given_back() {
    if let Some(thread) = own_slot() {
        // The thread may have acquired the lock before it was traced.
        let locks = thread.locks.load(Relaxed).saturating_sub(1);
        thread.locks.store(locks, Relaxed);
    }
}

/// Stands still if threads are held, this thread owns no lock, and it is not the subject. Threads
/// that wait for locks run too briefly to be interrupted.
pub fn stand_if_held() {
    let (Some(memory), Some(thread)) = (shared_memory(), own_slot()) else {
        return;
    };
    let hold = &memory.hold;
    let number = hold.number.load(Acquire);
    // The subject must not be slowed down.
    if number == 0 || thread.tid.load(Relaxed) == hold.subject.load(Relaxed) {
        return;
    }
    let stood = thread.stood.load(Relaxed) == number;
    if stood || thread.locks.load(Relaxed) > 0 || sys::calls_restricted() {
        return;
    }
    // A forked child shares the memory and has no entry. It is not held.
    if let Some(entry) = own_entry(hold) {
        stand_still(hold, entry, number);
    }
}

fn holds_lock() -> bool {
    own_slot().is_some_and(|thread| thread.locks.load(Relaxed) > 0)
}

fn own_entry(hold: &Hold) -> Option<&HeldThread> {
    let own = sys::thread_id();
    let used = (hold.count.load(Acquire) as usize).min(HELD);
    let mut used = hold.threads.iter().take(used);
    used.find(|thread| thread.tid.load(Relaxed) == own)
}

/// Handles the signal.
unsafe extern "C" fn handle_interrupt(
    _: libc::c_int,
    _: *mut libc::siginfo_t,
    context: *mut c_void,
) {
    let Some(memory) = shared_memory() else {
        return;
    };
    let hold = &memory.hold;
    let number = hold.number.load(Acquire);
    if number == 0 || sys::calls_restricted() {
        return;
    }
    let Some(entry) = own_entry(hold) else {
        return;
    };
    // SAFETY: the kernel hands a handler with SA_SIGINFO a `ucontext_t`.
    if holds_lock() || unsafe { is_in_allocator(hold, context.cast()) } {
        entry.asked.store(number, Release);
        return;
    }
    stand_still(hold, entry, number);
}

/// Returns whether the signal interrupted the allocator. A thread that sleeps there for a lock does
/// not count.
///
/// # Safety
/// `context` is the pointer that the kernel hands to a handler.
unsafe fn is_in_allocator(hold: &Hold, context: *const libc::ucontext_t) -> bool {
    // SAFETY: see the caller.
    let registers = unsafe { &(*context).uc_mcontext.gregs };
    let pc = registers[libc::REG_RIP as usize] as u64;
    let [start, end] = &hold.allocator;
    let waits = registers[libc::REG_RAX as usize] == SYS_futex;
    (start.load(Relaxed)..end.load(Relaxed)).contains(&pc) && !waits
}

/// Stands still until the hold ends.
fn stand_still(hold: &Hold, entry: &HeldThread, number: u32) {
    if let Some(slot) = own_slot() {
        slot.stood.store(number, Relaxed);
    }
    entry.until.store(0, Relaxed);
    entry.since.store(ticks(), Relaxed);
    entry.stood.store(number, Release);
    let manner = hold.manner.load(Relaxed);
    while hold.number.load(Acquire) == number {
        let settled = hold.settled.load(Acquire) == number;
        let left = hold.until.load(Relaxed).saturating_sub(ticks());
        if left == 0 {
            break;
        }
        let left_ns = left * 1000 / u64::from(hold.ticks_per_us.load(Relaxed).max(1));
        match manner {
            hold::SLEEP if settled => sys::sleep_until(sys::now() + left_ns),
            hold::SLEEP => sys::sleep_until(sys::now() + NAP_NS.min(left_ns)),
            _ => core::hint::spin_loop(),
        }
    }
    let now = ticks();
    let _ = hold.left.compare_exchange(0, now, AcqRel, Relaxed);
    entry.until.store(now, Release);
}
