//! The mutex by which the runtime knows that its controller lives: the kernel releases it when the
//! controller is killed.

use crate::Error;
use crate::memory::AttachedMemory;
use std::io;
use std::mem::MaybeUninit;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::Relaxed;

/// The mutex, held by the thread that made it, which also releases it.
pub(super) struct Lifeline<M: AttachedMemory> {
    memory: M,
    held: AtomicBool,
}

impl<M: AttachedMemory> Lifeline<M> {
    /// Makes the mutex in memory that is not in use yet, and locks it.
    pub fn hold(memory: M) -> Result<Self, Error> {
        let mut attributes = MaybeUninit::<libc::pthread_mutexattr_t>::uninit();
        let mutex = mutex_of(&memory);
        // SAFETY: the memory is shared, zeroed and large enough; the attributes are initialised
        // first.
        let failed = unsafe {
            let attributes = attributes.as_mut_ptr();
            [
                libc::pthread_mutexattr_init(attributes),
                libc::pthread_mutexattr_setpshared(attributes, libc::PTHREAD_PROCESS_SHARED),
                libc::pthread_mutexattr_setrobust(attributes, libc::PTHREAD_MUTEX_ROBUST),
                libc::pthread_mutex_init(mutex, attributes),
                libc::pthread_mutex_lock(mutex),
            ]
            .into_iter()
            .find(|result| *result != 0)
        };
        match failed {
            Some(number) => Err(Error::System {
                what: "making a lock that is shared".into(),
                source: io::Error::from_raw_os_error(number),
            }),
            None => Ok(Self {
                memory,
                held: AtomicBool::new(true),
            }),
        }
    }

    /// Releases the mutex, so that the runtime leaves.
    pub fn let_go(&self) {
        if self.held.swap(false, Relaxed) {
            // SAFETY: this thread holds it.
            unsafe { libc::pthread_mutex_unlock(mutex_of(&self.memory)) };
        }
    }

    /// Returns whether the runtime has not left yet: it zeroes the memory when it leaves.
    pub fn is_guarded(&self) -> bool {
        self.memory.is_in_use()
    }
}

impl<M: AttachedMemory> Drop for Lifeline<M> {
    fn drop(&mut self) {
        self.let_go();
    }
}

fn mutex_of<M: AttachedMemory>(memory: &M) -> *mut libc::pthread_mutex_t {
    memory.lifeline().as_ptr().cast_mut().cast()
}
