//! The memory shared with the runtime, from the controller's side.

use crate::Error;
use runtime_abi::{LIFELINE, MAGIC, Page};
use std::ffi::CString;
use std::ops::Deref;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};
use std::ptr::NonNull;

use std::sync::atomic::Ordering::{AcqRel, Acquire, Release};
use std::sync::atomic::{AtomicU32, AtomicU64};
use std::time::Duration;

/// Lowest descriptor number of the memory in the target, above those that shells and scripts use.
const LOWEST_DESCRIPTOR: RawFd = 150;

/// Name of the memory in the mappings of programs without hooks.
pub(crate) const COUNTS: &str = "vitalfew-counts";

/// A shared memory object, mapped.
pub(crate) struct SharedObject {
    start: NonNull<u8>,
    length: usize,
    descriptor: OwnedFd,
}

impl SharedObject {
    /// Allocates zeroed bytes; untouched pages take no memory.
    pub fn new(length: usize) -> Result<Self, Error> {
        Self::named("vitalfew", length)
    }

    /// Allocates zeroed bytes under a name that lists of mappings show.
    pub fn named(name: &str, length: usize) -> Result<Self, Error> {
        let name = CString::new(name).unwrap_or_default();
        // SAFETY: the name is a string; the descriptor is new.
        let descriptor = unsafe {
            let memory = libc::memfd_create(name.as_ptr(), libc::MFD_CLOEXEC);
            if memory < 0 {
                return Err(Error::system_error("making shared memory"));
            }
            OwnedFd::from_raw_fd(memory)
        };
        Self::in_file(descriptor, length)
    }

    /// Maps a file in memory, after setting its length.
    pub fn in_file(descriptor: OwnedFd, length: usize) -> Result<Self, Error> {
        let memory = descriptor.as_raw_fd();
        // SAFETY: the mapping is new, and as long as the object.
        let address = unsafe {
            if libc::ftruncate(memory, length as libc::off_t) < 0 {
                return Err(Error::system_error("making shared memory"));
            }
            let access = libc::PROT_READ | libc::PROT_WRITE;
            let flags = libc::MAP_SHARED | libc::MAP_NORESERVE;
            libc::mmap(std::ptr::null_mut(), length, access, flags, memory, 0)
        };
        match NonNull::new(address.cast::<u8>()) {
            Some(start) if address != libc::MAP_FAILED => Ok(Self {
                start,
                length,
                descriptor,
            }),
            _ => Err(Error::system_error("mapping shared memory")),
        }
    }

    /// Returns the first byte.
    pub fn first_byte(&self) -> NonNull<u8> {
        self.start
    }

    /// Returns the descriptor.
    pub fn descriptor(&self) -> RawFd {
        self.descriptor.as_raw_fd()
    }

    /// Writes the first bytes, which are not in use yet.
    pub fn write(&self, bytes: &[u8]) {
        let length = bytes.len().min(self.length);
        // SAFETY: the mapping is as long, and no other code uses it yet.
        unsafe { std::ptr::copy_nonoverlapping(bytes.as_ptr(), self.start.as_ptr(), length) };
    }

    /// Returns one more descriptor of the same object.
    pub fn another_descriptor(&self) -> Result<OwnedFd, Error> {
        let descriptor = self.descriptor.try_clone();
        descriptor.map_err(Error::wrap_io("copying a descriptor"))
    }

    /// Returns a descriptor that an executed program inherits.
    pub fn inheritable_descriptor(&self) -> Result<OwnedFd, Error> {
        // SAFETY: a plain call on an owned descriptor; the result is new.
        unsafe {
            let memory = self.descriptor.as_raw_fd();
            let mut limit = std::mem::zeroed::<libc::rlimit>();
            libc::getrlimit(libc::RLIMIT_NOFILE, &raw mut limit);
            let allowed = limit.rlim_cur.min(i32::MAX as u64) as i32;
            let copy = libc::fcntl(memory, libc::F_DUPFD, LOWEST_DESCRIPTOR.min(allowed / 2));
            if copy < 0 {
                return Err(Error::system_error(format!(
                    "copying a descriptor with {allowed} open files allowed (ulimit -n)"
                )));
            }
            Ok(OwnedFd::from_raw_fd(copy))
        }
    }
}

impl Drop for SharedObject {
    fn drop(&mut self) {
        // SAFETY: unmaps exactly the mapping that `new` made; no reference into it outlives `self`.
        unsafe { libc::munmap(self.start.as_ptr().cast(), self.length) };
    }
}

/// The words by which the runtime and its controller wait for each other.
#[derive(Clone, Copy)]
pub(crate) struct WaitWords<'a> {
    /// The state of the target.
    pub state: &'a AtomicU32,
    /// Changes when the controller has news to read.
    pub news: &'a AtomicU32,
    /// The controller sleeps on `news`.
    pub waiting: &'a AtomicU32,
}

impl WaitWords<'_> {
    /// Sleeps until the runtime has news, at most `at_most`.
    pub fn wait_for_news(self, seen: u32, at_most: Duration) {
        let time = libc::timespec {
            tv_sec: at_most.as_secs() as libc::time_t,
            tv_nsec: at_most.subsec_nanos().into(),
        };
        self.waiting.store(1, Release);
        // SAFETY: word and time live during the call.
        unsafe {
            let word = self.news.as_ptr();
            libc::syscall(
                libc::SYS_futex,
                word,
                libc::FUTEX_WAIT,
                seen,
                &raw const time,
            );
        }
        self.waiting.store(0, Release);
    }

    /// Changes the state and wakes the runtime if it waits for that.
    pub fn set_state(self, from: u32, to: u32) {
        let _ = (self.state).compare_exchange(from, to, AcqRel, Acquire);
        wake_waiters(self.state);
    }
}

/// Wakes the threads that wait on a word.
pub(crate) fn wake_waiters(word: &AtomicU32) {
    // SAFETY: the kernel only uses the address.
    unsafe { libc::syscall(libc::SYS_futex, word.as_ptr(), libc::FUTEX_WAKE, i32::MAX) };
}

/// Memory shared with an attached process.
pub(crate) trait AttachedMemory: Sized {
    /// The runtime's function that begins a session with this memory.
    const ENTRY: &'static str;

    /// Maps a file in memory that another process made.
    fn in_file(file: OwnedFd) -> Result<Self, Error>;
    /// Maps the same memory once more.
    fn another(&self) -> Result<Self, Error>;
    /// Returns the room for a mutex.
    fn lifeline(&self) -> &[AtomicU64; LIFELINE];
    /// Returns whether the memory is in use: when the runtime leaves, its mark becomes zero.
    fn is_in_use(&self) -> bool;
}

/// The shared page.
pub(crate) struct CausalMemory(SharedObject);

impl CausalMemory {
    /// Allocates new memory, all zeros except for its mark.
    pub fn new() -> Result<Self, Error> {
        let memory = Self(SharedObject::new(size_of::<Page>())?);
        memory.magic.store(MAGIC, Release);
        Ok(memory)
    }

    /// Allocates the memory for a program without hooks, under a name of its own in the mappings.
    pub fn without_hooks() -> Result<Self, Error> {
        let memory = Self(SharedObject::named(COUNTS, size_of::<Page>())?);
        memory.magic.store(MAGIC, Release);
        Ok(memory)
    }

    /// Returns one more descriptor of the memory.
    pub fn another_descriptor(&self) -> Result<OwnedFd, Error> {
        self.0.another_descriptor()
    }

    /// Returns a descriptor that an executed program inherits.
    pub fn inheritable_descriptor(&self) -> Result<OwnedFd, Error> {
        self.0.inheritable_descriptor()
    }

    /// Returns the descriptor of the memory.
    pub fn descriptor(&self) -> RawFd {
        self.0.descriptor()
    }

    /// Returns the words by which the two sides wait for each other.
    pub fn wait_words(&self) -> WaitWords<'_> {
        WaitWords {
            state: &self.state,
            news: &self.news,
            waiting: &self.waiting,
        }
    }
}

/// Frees the shared memory behind a descriptor, even while a program has it mapped: it then reads
/// as zeros there.
pub(crate) fn forget_contents(memory: &OwnedFd) {
    let kind = libc::FALLOC_FL_PUNCH_HOLE | libc::FALLOC_FL_KEEP_SIZE;
    let length = size_of::<Page>() as libc::off_t;
    // SAFETY: a plain call; the fields of the memory are atomic, and zeros are valid.
    unsafe { libc::fallocate(memory.as_raw_fd(), kind, 0, length) };
}

impl AttachedMemory for CausalMemory {
    const ENTRY: &'static str = "vitalfew_attach";

    fn in_file(file: OwnedFd) -> Result<Self, Error> {
        let memory = Self(SharedObject::in_file(file, size_of::<Page>())?);
        memory.magic.store(MAGIC, Release);
        Ok(memory)
    }

    fn another(&self) -> Result<Self, Error> {
        Self::in_file(self.0.another_descriptor()?)
    }

    fn lifeline(&self) -> &[AtomicU64; LIFELINE] {
        &self.lifeline
    }

    fn is_in_use(&self) -> bool {
        self.magic.load(Acquire) == MAGIC
    }
}

impl Deref for CausalMemory {
    type Target = Page;

    fn deref(&self) -> &Page {
        // SAFETY: mapped as long as `self` lives, as long as a page. All fields are atomic, so that
        // the target may write to them meanwhile, and any bytes are valid.
        unsafe { self.0.first_byte().cast().as_ref() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use runtime_abi::selection::Steps;
    use runtime_abi::{Place, Rule, THREADS};
    use std::collections::{BTreeMap, BTreeSet};
    use std::sync::atomic::Ordering::Relaxed;

    #[test]
    fn slots_of_threads_are_given_once_and_again() {
        let memory = CausalMemory::new().unwrap();
        let taken: Vec<_> = std::iter::from_fn(|| memory.take_thread()).collect();
        assert_eq!(taken.len(), THREADS);
        let different: BTreeSet<_> = taken.iter().map(|t| std::ptr::from_ref(*t)).collect();
        assert_eq!(different.len(), THREADS);
        for thread in &taken {
            thread.tid.store(1, Relaxed);
            memory.give_back(thread);
        }
        let page: &Page = &memory;
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    for _ in 0..10_000 {
                        let slot = page.take_thread().unwrap();
                        assert_eq!(slot.tid.swap(1, Relaxed), 0, "given twice");
                        page.give_back(slot);
                    }
                });
            }
        });
        assert_eq!(std::iter::from_fn(|| memory.take_thread()).count(), THREADS);
    }

    fn place() -> impl Strategy<Value = Place> {
        let offset = || prop::option::of(-32_767i16..);
        let rule = (any::<bool>(), any::<u16>(), offset(), offset());
        prop_oneof![
            Just(Place::End),
            any::<u32>().prop_map(Place::Fragment),
            rule.prop_map(
                |(fp, cfa, return_address, frame_pointer)| Place::Caller(Rule {
                    from_frame_pointer: fp,
                    cfa,
                    return_address,
                    frame_pointer,
                })
            ),
        ]
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(20))]
        #[test]
        fn places_are_found_again(
            places in prop::collection::vec((1u64..1 << 47, place()), 1..2000)
        ) {
            let memory = CausalMemory::new().unwrap();
            let mut all = BTreeMap::new();
            for (address, place) in places {
                prop_assert!(memory.set_place(address, place, Steps(address)));
                all.insert(address, place);
            }
            for (address, place) in all {
                let found = memory.place_with_steps(address);
                prop_assert_eq!(memory.place(address), Some(place));
                prop_assert_eq!(found, Some((place, Steps(address))));
            }
            prop_assert_eq!(memory.place(1 << 50), None);
        }
    }
}
