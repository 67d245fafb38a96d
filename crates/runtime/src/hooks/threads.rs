//! Creation and end of threads and processes, and waits for their ends.

use super::waits;
use crate::operations::{Operation, Wait, settle_before};
use crate::real::real;
use crate::{sys, thread};
use core::ffi::{c_int, c_uint, c_void};
use core::sync::atomic::Ordering::Relaxed;
use libc::{pid_t, pthread_t, timespec};
use runtime_abi::Thread;

type Routine = unsafe extern "C-unwind" fn(*mut c_void) -> *mut c_void;
type RoutineC11 = unsafe extern "C-unwind" fn(*mut c_void) -> c_int;

/// Takes a slot for a thread that this one is about to create. Delays of this thread have delayed
/// the new one too (section 3.4, thread creation).
fn slot_for_child(routine: usize, argument: *mut c_void, stack: u64) -> Option<&'static Thread> {
    let page = thread::shared_page()?;
    let parent = thread::current_thread()?;
    settle_before(parent, Operation::of("the start of a thread", &[routine]));
    let Some(child) = page.take_thread() else {
        page.unmeasured.fetch_add(1, Relaxed);
        return None;
    };
    child.local.store(parent.local.load(Relaxed), Relaxed);
    let blocks_signal = parent.blocks_signal.load(Relaxed);
    child.blocks_signal.store(blocks_signal, Relaxed);
    child.start.store(routine as u64, Relaxed);
    child.argument.store(argument as u64, Relaxed);
    child.stack_low.store(stack, Relaxed);
    Some(child)
}

/// Begins the new thread, whose own frames are below `high`. Returns its start routine and
/// argument.
fn begin_child(slot: *mut c_void, high: u64) -> Option<(u64, *mut c_void)> {
    // SAFETY: the slot that `heir` has taken for this thread.
    let thread = unsafe { slot.cast::<Thread>().as_ref() }?;
    let page = thread::shared_page()?;
    // Until now `stack_low` held the size.
    let size = thread.stack_low.load(Relaxed);
    thread.stack_high.store(high, Relaxed);
    thread.stack_low.store(high.saturating_sub(size), Relaxed);
    let start = thread.start.load(Relaxed);
    let argument = thread.argument.load(Relaxed) as *mut c_void;
    crate::attach::attach_thread(page, thread);
    Some((start, argument))
}

unsafe extern "C-unwind" fn run_child(slot: *mut c_void) -> *mut c_void {
    let mark = 0u64;
    let Some((start, argument)) = begin_child(slot, &raw const mark as u64) else {
        return core::ptr::null_mut();
    };
    // SAFETY: the program's start routine, with its argument.
    unsafe { core::mem::transmute::<usize, Routine>(start as usize)(argument) }
}

unsafe extern "C-unwind" fn enter_c11(slot: *mut c_void) -> c_int {
    let mark = 0u64;
    let Some((start, argument)) = begin_child(slot, &raw const mark as u64) else {
        return 0;
    };
    // SAFETY: as above.
    unsafe { core::mem::transmute::<usize, RoutineC11>(start as usize)(argument) }
}

/// Returns the stack size of a thread with these attributes.
///
/// # Safety
/// `attributes` is null or initialised.
unsafe fn stack_size(attributes: *const libc::pthread_attr_t) -> u64 {
    let mut size = 0;
    // SAFETY: see the caller; the size is written through the pointer.
    let known = !attributes.is_null()
        && unsafe { libc::pthread_attr_getstacksize(attributes, &raw mut size) } == 0;
    if known && size > 0 {
        return size as u64;
    }
    let mut limit = libc::rlimit {
        rlim_cur: 0,
        rlim_max: 0,
    };
    // SAFETY: the limit is written through the pointer.
    unsafe { libc::getrlimit(libc::RLIMIT_STACK, &raw mut limit) };
    // The C library's size where there is no limit.
    limit.rlim_cur.min(8 << 20)
}

#[unsafe(no_mangle)]
unsafe extern "C-unwind" fn pthread_create(
    made: *mut pthread_t,
    attributes: *const libc::pthread_attr_t,
    routine: Routine,
    argument: *mut c_void,
) -> c_int {
    // SAFETY: the caller upholds `pthread_create`'s contract; the new thread gives its slot back.
    unsafe {
        let slot = slot_for_child(routine as usize, argument, stack_size(attributes));
        let (routine, argument) = match slot {
            Some(slot) => (
                run_child as Routine,
                core::ptr::from_ref(slot) as *mut c_void,
            ),
            None => (routine, argument),
        };
        let result = real!(pthread_create(
            made: *mut pthread_t, attributes: *const libc::pthread_attr_t, routine: Routine,
            argument: *mut c_void) -> c_int);
        if result != 0 {
            give_back(slot);
        }
        result
    }
}

#[unsafe(no_mangle)]
unsafe extern "C-unwind" fn thrd_create(
    made: *mut pthread_t,
    routine: RoutineC11,
    argument: *mut c_void,
) -> c_int {
    // SAFETY: as above.
    unsafe {
        let slot = slot_for_child(routine as usize, argument, stack_size(core::ptr::null()));
        let (routine, argument) = match slot {
            Some(slot) => (
                enter_c11 as RoutineC11,
                core::ptr::from_ref(slot) as *mut c_void,
            ),
            None => (routine, argument),
        };
        let result = real!(thrd_create(
            made: *mut pthread_t, routine: RoutineC11, argument: *mut c_void) -> c_int);
        if result != 0 {
            give_back(slot);
        }
        result
    }
}

fn give_back(slot: Option<&'static Thread>) {
    if let (Some(slot), Some(page)) = (slot, thread::shared_page()) {
        page.give_back(slot);
    }
}

fn succeeded(result: c_int) -> bool {
    result == 0
}

waits! {
    pthread_join(joined: pthread_t, value: *mut *mut c_void) -> c_int, succeeded;
    pthread_timedjoin_np(joined: pthread_t, value: *mut *mut c_void, time: *const timespec) -> c_int, succeeded, until time;
    pthread_clockjoin_np(joined: pthread_t, value: *mut *mut c_void, clock: c_int, time: *const timespec) -> c_int, succeeded, until time;
    thrd_join(joined: pthread_t, value: *mut c_int) -> c_int, succeeded;
    // A forked child that runs the same program is measured like a thread.
    wait(status: *mut c_int) -> pid_t, |child| child > 0;
    waitpid(child: pid_t, status: *mut c_int, options: c_int) -> pid_t, |child| child > 0;
    wait3(status: *mut c_int, options: c_int, usage: *mut c_void) -> pid_t, |child| child > 0;
    wait4(child: pid_t, status: *mut c_int, options: c_int, usage: *mut c_void) -> pid_t, |child| child > 0;
    waitid(kind: c_int, child: u32, info: *mut c_void, options: c_int) -> c_int, succeeded;
    // A timer ends these waits.
    sleep(seconds: c_uint) -> c_uint, |_| false;
    usleep(time: c_uint) -> c_int, |_| false;
    nanosleep(time: *const timespec, left: *mut timespec) -> c_int, |_| false;
    thrd_sleep(time: *const timespec, left: *mut timespec) -> c_int, |_| false;
}

/// Replaces `pthread_once`.
#[unsafe(no_mangle)]
unsafe extern "C-unwind" fn pthread_once(
    once: *mut c_int,
    routine: extern "C-unwind" fn(),
) -> c_int {
    const DONE: c_int = 2;
    // SAFETY: the caller upholds `pthread_once`'s contract. A thread that runs the routine itself
    // does not wait. So the hook reads glibc's states for "done" and "in progress".
    unsafe {
        let state = core::sync::atomic::AtomicI32::from_ptr(once).load(Relaxed);
        if state & DONE != 0 || state & 1 == 0 {
            return real!(pthread_once(once: *mut c_int, routine: extern "C-unwind" fn()) -> c_int);
        }
        let wait = Wait::begin(super::operation!(pthread_once, once));
        let result =
            real!(pthread_once(once: *mut c_int, routine: extern "C-unwind" fn()) -> c_int);
        wait.end(true);
        result
    }
}

/// Replaces `dlclose`: other code may get the addresses of a closed library.
#[unsafe(no_mangle)]
unsafe extern "C-unwind" fn dlclose(library: *mut c_void) -> c_int {
    // SAFETY: the caller upholds the contract of this function.
    let result = unsafe { real!(dlclose(library: *mut c_void) -> c_int) };
    if let Some(page) = thread::shared_page() {
        page.unloaded.fetch_add(1, Relaxed);
        crate::sample::wake_controller(page);
    }
    result
}

/// Replaces `_Fork`, whose child runs no fork handlers and must not use its parent's slot.
#[unsafe(no_mangle)]
unsafe extern "C-unwind" fn _Fork() -> pid_t {
    // SAFETY: the caller upholds the contract of this function.
    let child = unsafe { real!(_Fork() -> pid_t) };
    if child == 0
        && let Some(parent) = thread::current_thread()
        && parent.pid.load(Relaxed) != sys::process_id()
    {
        crate::attach::after_fork(parent);
    }
    child
}
