//! The start: before `main`, and before the first thread.

use crate::{attach, own_signal, sample, sys, thread};
use core::ffi::{CStr, c_char, c_int};
use core::sync::atomic::AtomicBool;
use core::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use runtime_abi::{MAGIC, Page, VARIABLE, state, trace};

/// Assumed size of the main thread's stack where there is no limit.
const LARGEST_STACK: u64 = 64 << 20;
/// Time limit for the controller to start the target.
const PATIENCE_NS: u64 = 10_000_000_000;

static STARTED: AtomicBool = AtomicBool::new(false);

/// Mark by which the controller recognises a runtime of its own build in the file.
#[used]
static MARK: [u8; 24] = runtime_abi::layout::MARK;

#[used]
#[unsafe(link_section = ".init_array")]
static CONSTRUCTOR: unsafe extern "C" fn(c_int, *const *const c_char, *mut *mut c_char) =
    start_runtime;

#[cfg(target_arch = "x86_64")]
#[used]
#[unsafe(link_section = ".fini_array")]
static DESTRUCTOR: extern "C" fn() = crate::trace::note_exit;

unsafe extern "C" {
    static mut environ: *mut *mut c_char;
}

/// Starts the runtime; the dynamic linker calls this.
unsafe extern "C" fn start_runtime(_: c_int, arguments: *const *const c_char, _: *mut *mut c_char) {
    if STARTED.swap(true, Relaxed) {
        return;
    }
    // SAFETY: no other code runs yet that could change the environment; after a late load it is
    // only read.
    let (descriptor, traced) = unsafe { take_environment() };
    #[cfg(target_arch = "x86_64")]
    if let Some(descriptor) = traced {
        let (high, size) = (arguments as u64, stack_limit());
        crate::trace::start_tracing(descriptor, (high.saturating_sub(size), size));
    }
    let Some(descriptor) = descriptor else {
        return;
    };
    let length = size_of::<Page>();
    let access = (libc::PROT_READ | libc::PROT_WRITE) as usize;
    let map = [0, length, access, libc::MAP_SHARED as usize, descriptor, 0];
    // SAFETY: a new mapping, at an address of the kernel's choice.
    let address = unsafe { sys::call(libc::SYS_mmap, map) };
    // The mapping stays. Closing keeps the program's descriptor numbers as without this library.
    sys::close(descriptor as i32);
    if address < 0 {
        return;
    }
    let mapped = address as *mut Page;
    // SAFETY: mapped just now, as long as a page, and never unmapped; all of it is atomic.
    let page = unsafe { &*mapped };
    if page.magic.load(Acquire) != MAGIC {
        return;
    }
    page.pid.store(sys::process_id(), Relaxed);
    let handler = sample::handle_sample as *const () as u64;
    page.handler.store(handler, Relaxed);
    page.state.store(state::READY, Release);
    sample::wake_controller(page);
    let end = sys::now() + PATIENCE_NS;
    while page.state.load(Acquire) == state::READY {
        let now = sys::now();
        if now >= end || !sys::wait_on(&page.state, state::READY, end - now) {
            page.state.store(state::OFF, Release);
        }
    }
    if page.state.load(Acquire) != state::RUNNING {
        return;
    }
    thread::set_page(mapped);
    prepare_threads();
    #[cfg(target_arch = "x86_64")]
    crate::attached::slots::take_openmp();
    if let Some(main) = page.take_thread() {
        // The kernel puts the arguments above the first frame: the main thread's stack ends there.
        let high = arguments as u64;
        main.stack_high.store(high, Relaxed);
        main.stack_low
            .store(high.saturating_sub(stack_limit()), Relaxed);
        main.local.store(0, Relaxed);
        let blocks_signal = u32::from(own_signal::unblock_signal());
        main.blocks_signal.store(blocks_signal, Relaxed);
        attach::attach_thread(page, main);
    }
}

/// Installs what later threads need: the hooks of forks and thread ends, and the signal handler.
pub fn prepare_threads() {
    attach::watch_ends();
    own_signal::take_signal(sample::handle_sample as *const () as usize);
    // SAFETY: the function is ours and stays.
    unsafe { libc::pthread_atfork(None, None, Some(child_of_fork)) };
}

/// Bytes that the main thread's stack may take.
pub fn stack_limit() -> u64 {
    let mut limit = libc::rlimit {
        rlim_cur: 0,
        rlim_max: 0,
    };
    // SAFETY: the limit is written through the pointer.
    unsafe { libc::getrlimit(libc::RLIMIT_STACK, &raw mut limit) };
    match limit.rlim_cur {
        0 | libc::RLIM_INFINITY => LARGEST_STACK,
        bytes => bytes,
    }
}

pub unsafe extern "C" fn child_of_fork() {
    if let Some(parent) = thread::current_thread() {
        attach::after_fork(parent);
    }
}

/// Removes this library's entries from the environment, so that programs started by the target run
/// without it. Returns the descriptors of the memory for experiments and for tracing, if there are
/// any.
///
/// # Safety
/// No other code may use the environment meanwhile.
unsafe fn take_environment() -> (Option<usize>, Option<usize>) {
    let (mut descriptor, mut traced) = (None, None);
    // SAFETY: see the caller.
    if !unsafe { is_started_by_us() } {
        return (None, None);
    }
    // SAFETY: the environment is a list of strings that ends with null; strings are only shortened,
    // in place, and entries only moved forward.
    unsafe {
        let mut read = environ;
        let mut write = environ;
        while !(*read).is_null() {
            let entry = CStr::from_ptr(*read).to_bytes();
            let mut keep = true;
            if let Some(value) = value_of(entry, VARIABLE) {
                descriptor = parse_number(value);
                keep = false;
            } else if let Some(value) = value_of(entry, trace::VARIABLE) {
                traced = parse_number(value);
                keep = false;
            } else if let Some(value) = value_of(entry, "LD_PRELOAD") {
                // This library stands first in the list; the user's own preloads follow.
                match value.iter().position(|byte| *byte == b':') {
                    Some(colon) => {
                        let rest = &value[colon + 1..];
                        core::ptr::copy(rest.as_ptr(), value.as_ptr().cast_mut(), rest.len() + 1);
                    }
                    None => keep = false,
                }
            }
            if keep {
                *write = *read;
                write = write.add(1);
            }
            read = read.add(1);
        }
        *write = core::ptr::null_mut();
    }
    (descriptor, traced)
}

/// Returns whether the environment has an entry for this library, which may also be loaded into a
/// running program.
///
/// # Safety
/// No other code may change the environment meanwhile.
unsafe fn is_started_by_us() -> bool {
    // SAFETY: the environment is a list of strings that ends with null.
    unsafe {
        let mut read = environ;
        while !read.is_null() && !(*read).is_null() {
            let entry = CStr::from_ptr(*read).to_bytes();
            if [VARIABLE, trace::VARIABLE]
                .iter()
                .any(|name| value_of(entry, name).is_some())
            {
                return true;
            }
            read = read.add(1);
        }
    }
    false
}

fn value_of<'a>(entry: &'a [u8], name: &str) -> Option<&'a [u8]> {
    entry.strip_prefix(name.as_bytes())?.strip_prefix(b"=")
}

fn parse_number(digits: &[u8]) -> Option<usize> {
    let digit = |byte: &u8| byte.is_ascii_digit().then(|| usize::from(byte - b'0'));
    digits.iter().try_fold(0usize, |sum, byte| {
        sum.checked_mul(10)?.checked_add(digit(byte)?)
    })
}
