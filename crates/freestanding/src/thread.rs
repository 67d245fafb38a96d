//! The current thread, found by its id.

use crate::sys;
use core::sync::atomic::AtomicPtr;
use core::sync::atomic::Ordering::{Acquire, Relaxed};
use runtime_abi::kernel::{KernelClock, KernelClocks};
use runtime_abi::{Clock, Page, Thread};

/// Addresses of the memory shared with the controller, which writes them before it installs the
/// handler.
#[repr(C)]
pub struct Shared {
    page: AtomicPtr<Page>,
    clocks: AtomicPtr<KernelClocks>,
}

/// The addresses for this process, in the symbol by which the controller finds them.
#[unsafe(export_name = "vitalfew_shared")]
pub static SHARED: Shared = Shared {
    page: AtomicPtr::new(core::ptr::null_mut()),
    clocks: AtomicPtr::new(core::ptr::null_mut()),
};

/// Returns the memory shared with the controller.
pub fn shared_page() -> Option<&'static Page> {
    // SAFETY: null, or a mapping that stays.
    unsafe { SHARED.page.load(Acquire).as_ref() }
}

/// A thread, with the kernel's counts for it.
pub struct CurrentThread {
    pub thread: &'static Thread,
    pub clock: &'static KernelClock,
}

/// Finds this thread; `None`: no slot is free.
pub fn current_thread(page: &'static Page) -> Option<CurrentThread> {
    // SAFETY: null, or a mapping that stays.
    let clocks = unsafe { SHARED.clocks.load(Acquire).as_ref() }?;
    let tid = sys::thread_id();
    let Some(slot) = clocks.find_thread(tid) else {
        page.unmeasured.fetch_add(1, Relaxed);
        return None;
    };
    let thread = page.threads.get(slot.position)?;
    let clock = clocks.threads.get(slot.position)?;
    if slot.begins {
        let made = clock.credit.load(Acquire);
        // A thread that ran before measuring began owes nothing for the time before.
        let local = match made {
            0 => page.global.0.load(Relaxed),
            made => made,
        };
        thread.local.store(local, Relaxed);
        // The whole stack may be read: see `stack_memory`.
        thread.stack_low.store(0, Relaxed);
        thread.stack_high.store(u64::MAX, Relaxed);
        thread.standing.store(0, Relaxed);
        thread.begin(sys::process_id(), tid);
    }
    Some(CurrentThread { thread, clock })
}

impl CurrentThread {
    /// Adopts the credit that the kernel gave this thread.
    pub fn take_credit(&self) {
        let local = Clock::unpack(self.thread.local.load(Relaxed));
        let credited = self.clock.credited(local);
        self.thread.local.store(credited.pack(), Relaxed);
    }

    /// Publishes this thread's delay count to the kernel.
    pub fn leave_count(&self) {
        let local = self.thread.local.load(Relaxed);
        self.clock.local.store(local, Relaxed);
    }
}
