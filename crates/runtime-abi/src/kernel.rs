//! Delay counts that the kernel keeps too, for programs without hooks.
//!
//! A BPF program sees which thread wakes which, and credits the woken thread with the waker's count
//! ([`KernelClock::credit`]). It finds threads by their id, as their signal handler does, which has
//! no thread-local storage. The memory is a BPF map that is mapped into the program.

use crate::clock::Clock;
use core::sync::atomic::{
    AtomicU32, AtomicU64,
    Ordering::{AcqRel, Acquire, Relaxed, Release},
};

/// Maximum number of threads, a power of two. The same in `credits.bpf.c`.
pub const KERNEL_THREADS: usize = 4096;
/// Number of slots that one thread may occupy (hash probes). The same in `credits.bpf.c`.
const PROBES: usize = 16;

/// A thread, at the same index as its [`crate::Thread`]. The same in `credits.bpf.c`.
#[repr(C)]
pub struct KernelClock {
    /// Thread id, 0 while the slot is free; both.
    pub tid: AtomicU32,
    /// 1 from the thread's creation to its first sample; both.
    pub fresh: AtomicU32,
    /// [`crate::Thread::local`] after its last sample; thread.
    pub local: AtomicU64,
    /// The furthest [`Clock`] of the threads that woke or created this one; kernel.
    pub credit: AtomicU64,
    /// Start of the current wait, by the monotonic clock in nanoseconds, 0 while the thread runs;
    /// kernel.
    pub since: AtomicU64,
    /// Thread id in the root PID namespace, or 0; kernel.
    pub machine_tid: AtomicU64,
}

/// The map.
#[repr(C)]
pub struct KernelClocks {
    /// By thread: see [`KernelClocks::find_thread`].
    pub threads: [KernelClock; KERNEL_THREADS],
}

/// The slot of a thread, as [`KernelClocks::find_thread`] found it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KernelSlot {
    /// Index of the slot.
    pub position: usize,
    /// True if the slot is new, or the thread was created since the last look.
    pub begins: bool,
}

impl KernelClocks {
    /// Finds the slot of thread `tid`, or takes a free one; `None`: all its slots are occupied.
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
    /// Returns the later of `local` and the credit given to the thread.
    pub fn credited(&self, local: Clock) -> Clock {
        let credit = Clock::unpack(self.credit.load(Acquire));
        let is_ahead = credit.epoch == local.epoch && credit.delay_ns > local.delay_ns;
        if is_ahead { credit } else { local }
    }
}

/// Returns the slot index of probe number `step`.
fn position(tid: u32, step: usize) -> usize {
    let first = tid.wrapping_mul(0x9e37_79b1) >> (32 - KERNEL_THREADS.ilog2());
    (first as usize + step) & (KERNEL_THREADS - 1)
}
