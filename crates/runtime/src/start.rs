//! The start: before `main`, and before the first thread.

use crate::{attach, own_signal, sample, sys, thread};
use core::ffi::{CStr, c_char, c_int};
use core::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use core::sync::atomic::{AtomicBool, AtomicU32, AtomicU64};
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
    let inherited = unsafe { find_descriptors() };
    #[cfg(target_arch = "x86_64")]
    if let Some(descriptor) = inherited.trace {
        let words = |memory: &'static trace::Memory| SharedWords {
            magic: (&memory.magic, trace::MAGIC),
            pid: &memory.pid,
            state: &memory.state,
        };
        // SAFETY: as above.
        if let Some(memory) = unsafe { take_memory(descriptor, trace::LENGTH, words) } {
            let (high, size) = (arguments as u64, stack_limit());
            crate::trace::start_tracing(memory, (high.saturating_sub(size), size));
        }
    }
    let words = |page: &'static Page| SharedWords {
        magic: (&page.magic, MAGIC),
        pid: &page.pid,
        state: &page.state,
    };
    let page = inherited.page;
    // SAFETY: as above.
    let page = page.and_then(|page| unsafe { take_memory(page, size_of::<Page>(), words) });
    let Some(page) = page else {
        return;
    };
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
    let mapped = core::ptr::from_ref(page).cast_mut();
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

/// Descriptors of shared memory in the environment.
#[derive(Default)]
struct Inherited {
    /// The memory for experiments.
    page: Option<usize>,
    /// The memory for tracing.
    trace: Option<usize>,
}

/// Returns the descriptors of the memory for experiments and for tracing, if there are any.
///
/// # Safety
/// No other code may change the environment meanwhile.
unsafe fn find_descriptors() -> Inherited {
    let mut inherited = Inherited::default();
    // SAFETY: the environment is a list of strings that ends with null.
    unsafe {
        let mut read = environ;
        while !read.is_null() && !(*read).is_null() {
            let entry = CStr::from_ptr(*read).to_bytes();
            if let Some(value) = value_of(entry, VARIABLE) {
                inherited.page = parse_number(value);
            } else if let Some(value) = value_of(entry, trace::VARIABLE) {
                inherited.trace = parse_number(value);
            }
            read = read.add(1);
        }
    }
    inherited
}

/// The words by which a runtime knows its memory, and whether it is awaited.
struct SharedWords {
    /// The first word, with its required value.
    magic: (&'static AtomicU64, u64),
    pid: &'static AtomicU32,
    state: &'static AtomicU32,
}

/// Returns the shared memory behind a descriptor, if this process is the program to measure.
///
/// # Safety
/// No other code may use the environment meanwhile.
unsafe fn take_memory<T>(
    descriptor: usize,
    length: usize,
    words: impl Fn(&'static T) -> SharedWords,
) -> Option<&'static T> {
    let memory = map_shared::<T>(descriptor, length)?;
    let words = words(memory);
    let is_ours = words.magic.0.load(Acquire) == words.magic.1;
    // SAFETY: see the caller.
    if is_ours && unsafe { take_part(descriptor, &words) } {
        return Some(memory);
    }
    unmap_shared(memory, length);
    None
}

/// Maps the shared memory behind a descriptor. Returns `None` if the descriptor's object is shorter
/// than that: a shell may have closed ours, and reused its number.
fn map_shared<T>(descriptor: usize, length: usize) -> Option<&'static T> {
    // SAFETY: zeros are a value; the kernel writes it during the call.
    let size = unsafe {
        let mut found: libc::stat = core::mem::zeroed();
        let arguments = [descriptor, (&raw mut found).addr(), 0, 0, 0, 0];
        if sys::call(libc::SYS_fstat, arguments) < 0 {
            return None;
        }
        found.st_size
    };
    if usize::try_from(size).ok()? < length {
        return None;
    }
    let access = (libc::PROT_READ | libc::PROT_WRITE) as usize;
    let flags = (libc::MAP_SHARED | libc::MAP_NORESERVE) as usize;
    // SAFETY: a new mapping, at an address of the kernel's choice.
    let address = unsafe { sys::call(libc::SYS_mmap, [0, length, access, flags, descriptor, 0]) };
    if address < 0 {
        return None;
    }
    // SAFETY: mapped just now, as long as the object; all of `T` is atomic. It is unmapped only by
    // `unmap_shared`, after its last use.
    Some(unsafe { &*(address as *const T) })
}

/// Unmaps what [`map_shared`] mapped, which is used no more.
fn unmap_shared<T>(memory: &'static T, length: usize) {
    let address = core::ptr::from_ref(memory).addr();
    // SAFETY: exactly the mapping, and the caller does not use it any more.
    unsafe { sys::call(libc::SYS_munmap, [address, length, 0, 0, 0, 0]) };
}

/// Returns whether this process is the program to measure. Then, and in the processes that a shell
/// starts on the way, removes the library from the environment, and closes the descriptor. A shell
/// that may execute the program keeps both.
///
/// # Safety
/// No other code may use the environment meanwhile.
unsafe fn take_part(descriptor: usize, words: &SharedWords) -> bool {
    let state = words.state.load(Acquire);
    let is_awaited = matches!(state, state::LAUNCHED | state::IN_STARTER);
    let is_child = is_awaited && words.pid.load(Acquire) == sys::process_id();
    if is_child && is_starter() {
        words.state.store(state::IN_STARTER, Release);
        return false;
    }
    // SAFETY: see the caller.
    unsafe { clean_environment() };
    // The mapping stays. Closing keeps the program's descriptor numbers as without this library.
    sys::close(descriptor as i32);
    is_child
}

/// Returns whether this process runs a program that executes another one.
fn is_starter() -> bool {
    let mut path = [0_u8; 4096];
    let arguments = [
        libc::AT_FDCWD as usize,
        c"/proc/self/exe".as_ptr().addr(),
        path.as_mut_ptr().addr(),
        path.len(),
        0,
        0,
    ];
    // SAFETY: the kernel writes within the buffer.
    let length = unsafe { sys::call(libc::SYS_readlinkat, arguments) };
    let path = path.get(..usize::try_from(length).unwrap_or(0));
    path.is_some_and(runtime_abi::is_starter_path)
}

/// Removes this library's entries from the environment, so that programs started by the target run
/// without it.
///
/// # Safety
/// No other code may use the environment meanwhile.
unsafe fn clean_environment() {
    // SAFETY: the environment is a list of strings that ends with null; strings are only shortened,
    // in place, and entries only moved forward.
    unsafe {
        let mut read = environ;
        let mut write = environ;
        while !(*read).is_null() {
            let entry = CStr::from_ptr(*read).to_bytes();
            let mut keep = ![VARIABLE, trace::VARIABLE]
                .iter()
                .any(|name| value_of(entry, name).is_some());
            if let Some(value) = value_of(entry, "LD_PRELOAD") {
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
