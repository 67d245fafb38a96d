//! Counts of delay that the kernel keeps too, for programs without hooks.
//!
//! A BPF program sees which thread wakes which, and credits the woken one with how far the other one is
//! ([`KernelClock::credit`]). It finds threads by their id, as their signal handler does, which has no thread-local storage. The memory is a
//! BPF map that the program has mapped.

use crate::clock::Clock;
use core::sync::atomic::{
    AtomicU32, AtomicU64,
    Ordering::{AcqRel, Acquire, Relaxed, Release},
};

/// Threads that are told apart so, a power of two. The same in `credits.bpf.c`.
pub const KERNEL_THREADS: usize = 4096;
/// Slots in which a thread can be. The same in `credits.bpf.c`.
const PROBES: usize = 16;

/// A thread; its position is that of its [`crate::Thread`]. The same in `credits.bpf.c`.
#[repr(C)]
pub struct KernelClock {
    /// Its id, 0 while the slot is free; both.
    pub tid: AtomicU32,
    /// The thread has been made, and has not had a sample since; both.
    pub fresh: AtomicU32,
    /// [`crate::Thread::local`] after its last sample; thread.
    pub local: AtomicU64,
    /// The furthest [`Clock`] of the threads that woke this one or created it; kernel.
    pub credit: AtomicU64,
    /// Start of its wait, by the monotonic clock in nanoseconds; 0: it does not wait; kernel.
    pub since: AtomicU64,
    /// Its id as the whole machine knows it, or 0; kernel.
    pub machine_tid: AtomicU64,
}

/// The map.
#[repr(C)]
pub struct KernelClocks {
    /// By thread: see [`KernelClocks::find_thread`].
    pub threads: [KernelClock; KERNEL_THREADS],
}

/// The slot of a thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KernelSlot {
    /// Its position.
    pub position: usize,
    /// The thread had none, or has been made since: it begins.
    pub begins: bool,
}

impl KernelClocks {
    /// The slot of the thread that asks, a new one if it has none; `None`: there is no room.
    pub fn find_thread(&self, tid: u32) -> Option<KernelSlot> {
        let positions = || (0..PROBES).map(move |step| position(tid, step));
        let clocks = |at: usize| self.threads.get(at);
        for at in positions() {
            let clock = clocks(at)?;
            if clock.tid.load(Acquire) == tid {
                let begins = clock.fresh.load(Relaxed) != 0 && clock.fresh.swap(0, AcqRel) != 0;
                let position = at;
                return Some(KernelSlot { position, begins });
            }
        }
        for at in positions() {
            let clock = clocks(at)?;
            let taken = clock.tid.load(Relaxed) == 0
                && (clock.tid.compare_exchange(0, tid, AcqRel, Relaxed)).is_ok();
            if taken {
                clock.credit.store(0, Release);
                let (position, begins) = (at, true);
                return Some(KernelSlot { position, begins });
            }
        }
        None
    }
}

impl KernelClock {
    /// Returns the delay of a thread that has reached `local`, with what it was credited.
    pub fn credited(&self, local: Clock) -> Clock {
        let credit = Clock::unpack(self.credit.load(Acquire));
        let is_ahead = credit.epoch == local.epoch && credit.delay_ns > local.delay_ns;
        if is_ahead { credit } else { local }
    }
}

/// The step-th position at which a thread is looked for.
fn position(tid: u32, step: usize) -> usize {
    let first = tid.wrapping_mul(0x9e37_79b1) >> (32 - KERNEL_THREADS.ilog2());
    (first as usize + step) & (KERNEL_THREADS - 1)
}
