//! Attaching to running processes: `causal run -p PID`.
//!
//! The controller makes a thread of the process load this library and call [`vitalfew_attach`],
//! which starts a guard thread. The guard installs the hooks ([`slots`]) and the handler of the
//! sampling signal, and waits until the controller leaves or dies. Then it removes them. The
//! library and the memory stay mapped, because threads of the program may still be inside the
//! hooks; no new call reaches them.

#[cfg(target_arch = "x86_64")]
pub mod slots;
#[cfg(target_arch = "x86_64")]
mod tracing;

use crate::{attach, late, own_signal, real, sample, start, sys, thread, thread_event};
use core::ffi::{c_int, c_void};
use core::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use core::sync::atomic::{AtomicBool, AtomicU32, AtomicU64};
use libc::{pthread_mutex_t, pthread_t, timespec};
use runtime_abi::{LIFELINE, MAGIC, Page, state};

/// A session is in progress.
static BUSY: AtomicBool = AtomicBool::new(false);
/// The handler of forks is registered.
static WATCHES_FORKS: AtomicBool = AtomicBool::new(false);

const SECOND: u64 = 1_000_000_000;
/// The time between two checks for newly loaded libraries.
const LOOK_NS: u64 = SECOND;
/// Longest time from the sending of a signal to its delivery.
const GRACE_NS: u64 = 50_000_000;

/// Begins a session, with the memory behind a descriptor; 0 or an error number.
///
/// # Safety
/// The calling thread is one of the program's, has all signals blocked and holds no lock of the
/// allocator or the dynamic linker.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn vitalfew_attach(descriptor: c_int) -> c_int {
    begin_alone(descriptor, begin_session)
}

/// Begins a session, unless one is in progress.
fn begin_alone(descriptor: c_int, begin: fn(c_int) -> c_int) -> c_int {
    late::note_late();
    if BUSY.swap(true, Acquire) {
        return libc::EBUSY;
    }
    let begun = begin(descriptor);
    if begun != 0 {
        BUSY.store(false, Release);
    }
    begun
}

fn begin_session(descriptor: c_int) -> c_int {
    // Threads may still have pointers into the memory of an earlier session, so this one is mapped
    // over it.
    let old = thread::shared_page().map_or(0, |old| core::ptr::from_ref(old) as usize);
    let address = map_memory(old, size_of::<Page>(), descriptor);
    if address < 0 {
        return -address as c_int;
    }
    let mapped = address as *mut Page;
    // SAFETY: mapped just now, as long as a page, and never unmapped; all of it is atomic.
    let page = unsafe { &*mapped };
    if page.magic.load(Acquire) != MAGIC {
        return libc::EPROTO;
    }
    thread::set_page(mapped);
    page.pid.store(sys::process_id(), Relaxed);
    let handler = sample::handle_sample as *const () as u64;
    page.handler.store(handler, Relaxed);
    let made = start_guard(guard_session);
    if made == 0 {
        // The mapping stays.
        sys::close(descriptor);
        page.state.store(state::READY, Release);
        sample::wake_controller(page);
    }
    made
}

/// Maps the memory behind a descriptor, over that of an earlier session (`old`, 0: none). Returns
/// the address, or an error.
fn map_memory(old: usize, length: usize, descriptor: c_int) -> isize {
    let access = (libc::PROT_READ | libc::PROT_WRITE) as usize;
    let place = match old {
        0 => 0,
        _ => libc::MAP_FIXED,
    };
    let flags = (libc::MAP_SHARED | libc::MAP_NORESERVE | place) as usize;
    let map = [old, length, access, flags, descriptor as usize, 0];
    // SAFETY: a new mapping, or one over that of an earlier session.
    unsafe { sys::call(libc::SYS_mmap, map) }
}

type Routine = unsafe extern "C-unwind" fn(*mut c_void) -> *mut c_void;

/// Starts the guard thread.
fn start_guard(routine: Routine) -> c_int {
    let mut made: pthread_t = 0;
    let made = &raw mut made;
    let (attributes, argument) = (
        core::ptr::null::<libc::pthread_attr_t>(),
        core::ptr::null_mut::<c_void>(),
    );
    // SAFETY: the routine takes no argument; the new thread's id is written through the pointer.
    unsafe {
        let result = real::real!(pthread_create(
            made: *mut pthread_t, attributes: *const libc::pthread_attr_t, routine: Routine,
            argument: *mut c_void) -> c_int);
        if result == 0 {
            libc::pthread_detach(*made);
        }
        result
    }
}

/// Runs the guard thread.
unsafe extern "C-unwind" fn guard_session(_: *mut c_void) -> *mut c_void {
    serve_program_only();
    if let Some(page) = thread::shared_page() {
        let lifeline = mutex_in(&page.lifeline);
        if await_start(&page.state, lifeline) {
            let before = enter(page);
            while !take_lifeline(lifeline, LOOK_NS) {
                hook_functions();
            }
            leave(&before);
        }
        let_go(lifeline);
        forget(core::ptr::from_ref(page) as usize, size_of::<Page>());
    }
    BUSY.store(false, Release);
    core::ptr::null_mut()
}

/// Blocks all signals in this thread, so that the program's threads get them, but not those by
/// which the C library reaches every thread.
fn serve_program_only() {
    const CANCEL: u64 = 32;
    const SET_ID: u64 = 33;
    let mask = !(1u64 << (CANCEL - 1) | 1 << (SET_ID - 1));
    let how = libc::SIG_SETMASK as usize;
    let to = &raw const mask as usize;
    let name = c"vitalfew".as_ptr() as usize;
    // SAFETY: mask and name live during the calls.
    unsafe {
        sys::call(libc::SYS_rt_sigprocmask, [how, to, 0, 8, 0, 0]);
        let set_name = libc::PR_SET_NAME as usize;
        sys::call(libc::SYS_prctl, [set_name, name, 0, 0, 0, 0]);
    }
}

/// Waits for the controller to begin; returns false if it has left.
fn await_start(now: &AtomicU32, lifeline: *mut pthread_mutex_t) -> bool {
    loop {
        sys::wait_on(now, state::READY, SECOND / 10);
        if now.load(Acquire) == state::RUNNING {
            return true;
        }
        if take_lifeline(lifeline, 0) {
            return false;
        }
    }
}

/// Installs the hooks and the signal handler. Returns the program's former action of the signal.
fn enter(page: &Page) -> libc::sigaction {
    attach::watch_ends();
    if !WATCHES_FORKS.swap(true, Relaxed) {
        // SAFETY: the function is in this library, which stays mapped.
        unsafe { libc::pthread_atfork(None, None, Some(child_of_fork)) };
    }
    attach::adopt_threads(true);
    let before = own_signal::take_signal(sample::handle_sample as *const () as usize);
    hook_functions();
    page.news.fetch_add(1, core::sync::atomic::Ordering::AcqRel);
    before
}

/// Removes the hooks and the signal handler.
fn leave(before: &libc::sigaction) {
    #[cfg(target_arch = "x86_64")]
    slots::give_back();
    attach::adopt_threads(false);
    thread::begin_session();
    attach::ignore_ends();
    give_signal_back(before);
}

/// Gives the program its action of the signal back.
fn give_signal_back(before: &libc::sigaction) {
    // By default the signal ends the program: what is still on its way goes to nobody.
    // SAFETY: an action of zeros is one; the other one was the program's.
    unsafe {
        let mut ignore: libc::sigaction = core::mem::zeroed();
        ignore.sa_sigaction = libc::SIG_IGN;
        let none = core::ptr::null_mut();
        real::sigaction(thread_event::SIGNAL, &raw const ignore, none);
        sys::sleep_until(sys::now() + GRACE_NS);
        real::sigaction(thread_event::SIGNAL, before, none);
    }
}

/// Releases the lifeline that this thread holds.
fn let_go(mutex: *mut pthread_mutex_t) {
    // SAFETY: this thread holds it.
    unsafe { real::real!(pthread_mutex_unlock(mutex: *mut pthread_mutex_t) -> c_int) };
}

/// Frees shared memory of a session. It then reads as zeros, which tells the controller that the
/// session is over.
fn forget(at: usize, length: usize) {
    const MADV_REMOVE: usize = 9;
    // SAFETY: a mapping of this library, whose fields are all atomic.
    unsafe { sys::call(libc::SYS_madvise, [at, length, MADV_REMOVE, 0, 0, 0]) };
}

fn hook_functions() {
    #[cfg(target_arch = "x86_64")]
    slots::take();
}

fn mutex_in(words: &[AtomicU64; LIFELINE]) -> *mut pthread_mutex_t {
    words.as_ptr().cast_mut().cast()
}

/// Waits at most `at_most_ns` until the controller releases its lifeline, or the kernel does so at
/// its death.
fn take_lifeline(mutex: *mut pthread_mutex_t, at_most_ns: u64) -> bool {
    let mut end = timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    // SAFETY: the controller initialised the mutex before its call; the time lives during the
    // calls.
    let result = unsafe {
        real::clock_gettime(libc::CLOCK_REALTIME, &raw mut end);
        end.tv_sec += (at_most_ns / SECOND) as libc::time_t;
        let end = &raw const end;
        real::real!(pthread_mutex_timedlock(mutex: *mut pthread_mutex_t, end: *const timespec) -> c_int)
    };
    result != libc::ETIMEDOUT
}

/// Runs in a forked child. The guard does not exist there, so nothing removes the hooks, which have
/// no effect without samples. The child can be attached to, unless it has a trace's jumps in its
/// code.
unsafe extern "C" fn child_of_fork() {
    #[cfg(target_arch = "x86_64")]
    let jumps = crate::trace::has_session();
    #[cfg(not(target_arch = "x86_64"))]
    let jumps = false;
    BUSY.fetch_and(jumps, Relaxed);
    // SAFETY: called as that one is.
    unsafe { start::child_of_fork() };
}
