//! The memory shared with the runtime, seen from outside.

use crate::Error;
use runtime_abi::trace::{
    CODE, CODE_OFFSET, LENGTH, MAGIC, Memory, SEGMENT, SEGMENTS, SEGMENTS_OFFSET,
};
use std::ops::Deref;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};
use std::ptr::NonNull;
use std::sync::atomic::Ordering::{AcqRel, Acquire, Release};
use std::sync::atomic::{AtomicU32, AtomicU64};
use std::time::Duration;

/// The lowest number that the target gets to see the memory under: out of the way of what shells
/// and scripts use.
const LOWEST_DESCRIPTOR: RawFd = 150;

/// The shared memory object: the head, the segments, the code.
pub(super) struct Shared {
    start: NonNull<Memory>,
    descriptor: OwnedFd,
}

impl Shared {
    /// New memory, all zeros but for its mark.
    pub fn new() -> Result<Self, Error> {
        // SAFETY: the name is a string; the descriptor is new; the mapping is new, and as long as
        // the object.
        let (descriptor, address) = unsafe {
            let memory = libc::memfd_create(c"vitalfew".as_ptr(), libc::MFD_CLOEXEC);
            if memory < 0 {
                return Err(Error::system("making shared memory"));
            }
            let descriptor = OwnedFd::from_raw_fd(memory);
            if libc::ftruncate(memory, LENGTH as libc::off_t) < 0 {
                return Err(Error::system("making shared memory"));
            }
            let access = libc::PROT_READ | libc::PROT_WRITE;
            let flags = libc::MAP_SHARED | libc::MAP_NORESERVE;
            let address = libc::mmap(std::ptr::null_mut(), LENGTH, access, flags, memory, 0);
            (descriptor, address)
        };
        match NonNull::new(address.cast::<Memory>()) {
            Some(start) if address != libc::MAP_FAILED => {
                let shared = Self { start, descriptor };
                shared.magic.store(MAGIC, Release);
                Ok(shared)
            }
            _ => Err(Error::system("mapping shared memory")),
        }
    }

    /// A descriptor that a program executed by us inherits.
    pub fn inheritable(&self) -> Result<OwnedFd, Error> {
        // SAFETY: a plain call on our descriptor; the result is new.
        unsafe {
            let memory = self.descriptor.as_raw_fd();
            let copy = libc::fcntl(memory, libc::F_DUPFD, LOWEST_DESCRIPTOR);
            if copy < 0 {
                return Err(Error::system("copying a descriptor"));
            }
            Ok(OwnedFd::from_raw_fd(copy))
        }
    }

    /// The words of a segment, as pairs.
    pub fn segment(&self, index: u32) -> &[AtomicU64] {
        let index = (index as usize).min(SEGMENTS - 1);
        // SAFETY: inside the mapping, aligned, and any bytes are valid.
        unsafe {
            let at = self
                .start
                .as_ptr()
                .cast::<u8>()
                .add(SEGMENTS_OFFSET + index * SEGMENT);
            std::slice::from_raw_parts(at.cast::<AtomicU64>(), SEGMENT / 8)
        }
    }

    /// Writes into the code; false if that is beyond its end.
    pub fn write_code(&self, offset: usize, bytes: &[u8]) -> bool {
        if offset.checked_add(bytes.len()).is_none_or(|end| end > CODE) {
            return false;
        }
        // SAFETY: inside the mapping; what the target executes is never written again.
        unsafe {
            let to = self.start.as_ptr().cast::<u8>().add(CODE_OFFSET + offset);
            std::ptr::copy_nonoverlapping(bytes.as_ptr(), to, bytes.len());
        }
        true
    }

    /// Sleeps until the runtime has news, at most so long.
    pub fn wait(&self, seen: u32, at_most: Duration) {
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
    pub fn set_state(&self, from: u32, to: u32) -> bool {
        let changed = self
            .state
            .compare_exchange(from, to, AcqRel, Acquire)
            .is_ok();
        self.wake(&self.state);
        changed
    }

    /// Wakes who waits on a word.
    pub fn wake(&self, word: &AtomicU32) {
        // SAFETY: the kernel only uses the address.
        unsafe { libc::syscall(libc::SYS_futex, word.as_ptr(), libc::FUTEX_WAKE, i32::MAX) };
    }
}

impl Deref for Shared {
    type Target = Memory;

    fn deref(&self) -> &Memory {
        // SAFETY: mapped as long as `self` lives; everything in it is atomic, so that the target may
        // write to it meanwhile, and any bytes are valid.
        unsafe { self.start.as_ref() }
    }
}

impl Drop for Shared {
    fn drop(&mut self) {
        // SAFETY: unmaps exactly what `new` mapped; no reference into it outlives `self`.
        unsafe { libc::munmap(self.start.as_ptr().cast(), LENGTH) };
    }
}
