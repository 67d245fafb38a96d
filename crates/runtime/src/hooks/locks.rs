//! Locks, condition variables, semaphores, barriers of POSIX and C11.

use super::{operation, waits, wakes};
use crate::holds::{before_taking, given_back, released, taken, waits_without};
use crate::operations::{self, Wait};
use crate::real::real;
use core::ffi::{c_int, c_void};
use libc::timespec;

type Object = *mut c_void;
type Time = *const timespec;

/// Result of `mtx_timedlock` and similar functions after a timeout.
const THRD_TIMEDOUT: c_int = 4;

/// Returns whether another thread ended the wait, by a POSIX function's result.
fn woken_by_thread(result: c_int) -> bool {
    result != libc::ETIMEDOUT
}

fn woken_c11(result: c_int) -> bool {
    result != THRD_TIMEDOUT
}

fn succeeded(result: c_int) -> bool {
    result == 0
}

/// Locks: no thread waits for a free lock. A thread pays before it acquires one: a thread that
/// stood still while it held the lock would make others wait longer.
macro_rules! locks {
    ($($name:ident, $try:ident, $busy:expr, $by_thread:expr, ($($more:ident: $type:ty),*) $(, until $time:ident)?;)*) => {$(
        #[unsafe(no_mangle)]
        unsafe extern "C-unwind" fn $name(lock: Object, $($more: $type),*) -> c_int {
            // SAFETY: the caller upholds the contract of this function.
            unsafe {
                if crate::thread::current_thread().is_some() {
                    crate::operations::before_waking(operation!($name, lock));
                    let result = real!($try(lock: Object) -> c_int);
                    if result != $busy {
                        taken(lock, result);
                        return result;
                    }
                }
                before_taking();
                let wait = Wait::begin(operation!($name, lock));
                $(
                    let until = crate::program_clock::RealTime::of($time);
                    let $time = until.as_ptr();
                )?
                let result = real!($name(lock: Object $(, $more: $type)*) -> c_int);
                let by_thread: fn(c_int) -> bool = $by_thread;
                wait.end(by_thread(result));
                taken(lock, result);
                result
            }
        }
    )*};
}

/// Functions that try to acquire a lock: on success, others wait for it.
macro_rules! tries {
    ($($name:ident;)*) => {$(
        #[unsafe(no_mangle)]
        unsafe extern "C-unwind" fn $name(lock: Object) -> c_int {
            operations::before_waking(operation!($name, lock));
            // SAFETY: the caller upholds the contract of this function.
            let result = unsafe { real!($name(lock: Object) -> c_int) };
            taken(lock, result);
            result
        }
    )*};
}

/// Functions that release a lock.
macro_rules! unlocks {
    ($($name:ident;)*) => {$(
        #[unsafe(no_mangle)]
        unsafe extern "C-unwind" fn $name(lock: Object) -> c_int {
            operations::before_waking(operation!($name, lock));
            released(lock);
            // SAFETY: the caller's business.
            let result = unsafe { real!($name(lock: Object) -> c_int) };
            given_back();
            result
        }
    )*};
}

/// Waits for a condition: meanwhile the thread does not hold the lock.
macro_rules! condition_waits {
    ($($name:ident(condition: Object, mutex: Object $(, $more:ident: $type:ty)*), $by_thread:expr $(, until $time:ident)?;)*) => {$(
        #[unsafe(no_mangle)]
        unsafe extern "C-unwind" fn $name(condition: Object, mutex: Object $(, $more: $type)*) -> c_int {
            let wait = Wait::begin(operation!($name, condition));
            released(mutex);
            waits_without();
            $(
                // SAFETY: the caller upholds the contract of this function.
                let until = unsafe { crate::program_clock::RealTime::of($time) };
                let $time = until.as_ptr();
            )?
            // SAFETY: the caller upholds the contract of this function.
            let result = unsafe { real!($name(condition: Object, mutex: Object $(, $more: $type)*) -> c_int) };
            let by_thread: fn(c_int) -> bool = $by_thread;
            wait.end(by_thread(result));
            // The thread holds the mutex again even after a timeout.
            taken(mutex, 0);
            result
        }
    )*};
}

locks! {
    pthread_mutex_lock, pthread_mutex_trylock, libc::EBUSY, woken_by_thread, ();
    pthread_mutex_timedlock, pthread_mutex_trylock, libc::EBUSY, woken_by_thread, (time: Time), until time;
    pthread_mutex_clocklock, pthread_mutex_trylock, libc::EBUSY, woken_by_thread, (clock: c_int, time: Time), until time;
    pthread_rwlock_rdlock, pthread_rwlock_tryrdlock, libc::EBUSY, woken_by_thread, ();
    pthread_rwlock_timedrdlock, pthread_rwlock_tryrdlock, libc::EBUSY, woken_by_thread, (time: Time), until time;
    pthread_rwlock_clockrdlock, pthread_rwlock_tryrdlock, libc::EBUSY, woken_by_thread, (clock: c_int, time: Time), until time;
    pthread_rwlock_wrlock, pthread_rwlock_trywrlock, libc::EBUSY, woken_by_thread, ();
    pthread_rwlock_timedwrlock, pthread_rwlock_trywrlock, libc::EBUSY, woken_by_thread, (time: Time), until time;
    pthread_rwlock_clockwrlock, pthread_rwlock_trywrlock, libc::EBUSY, woken_by_thread, (clock: c_int, time: Time), until time;
    pthread_spin_lock, pthread_spin_trylock, libc::EBUSY, woken_by_thread, ();
    mtx_lock, mtx_trylock, 1, woken_c11, ();
    mtx_timedlock, mtx_trylock, 1, woken_c11, (time: Time), until time;
}

condition_waits! {
    pthread_cond_wait(condition: Object, mutex: Object), woken_by_thread;
    pthread_cond_timedwait(condition: Object, mutex: Object, time: Time), woken_by_thread, until time;
    pthread_cond_clockwait(condition: Object, mutex: Object, clock: c_int, time: Time), woken_by_thread, until time;
    cnd_wait(condition: Object, mutex: Object), woken_c11;
    cnd_timedwait(condition: Object, mutex: Object, time: Time), woken_c11, until time;
}

waits! {
    pthread_barrier_wait(barrier: Object) -> c_int, woken_by_thread;
    sem_wait(semaphore: Object) -> c_int, succeeded;
    sem_timedwait(semaphore: Object, time: Time) -> c_int, succeeded, until time;
    sem_clockwait(semaphore: Object, clock: c_int, time: Time) -> c_int, succeeded, until time;
}

tries! {
    pthread_mutex_trylock;
    pthread_rwlock_tryrdlock;
    pthread_rwlock_trywrlock;
    pthread_spin_trylock;
    mtx_trylock;
}

unlocks! {
    pthread_mutex_unlock;
    pthread_rwlock_unlock;
    pthread_spin_unlock;
    mtx_unlock;
}

wakes! {
    pthread_cond_signal(condition: Object) -> c_int;
    pthread_cond_broadcast(condition: Object) -> c_int;
    sem_post(semaphore: Object) -> c_int;
    // A thread that tries may take a semaphore that others wait for.
    sem_trywait(semaphore: Object) -> c_int;
    cnd_signal(condition: Object) -> c_int;
    cnd_broadcast(condition: Object) -> c_int;
}
