//! Hooks of the C library's functions that may wake a thread (Table 1) or wait (Table 2), and of
//! those by which a program could change the action of the sampling signal.
//!
//! The rule (section 3.4.1): a thread pays before it may wake another one and before it waits.
//! After a wait it is credited if another thread ended the wait, and pays otherwise.

mod clocks;
mod files;
#[cfg(target_arch = "x86_64")]
mod jumps;
mod locks;
mod openmp;
mod polls;
mod signals;
mod syscall;
mod threads;

/// Builds the operation of a hook with these arguments.
macro_rules! operation {
    ($name:ident, $($argument:expr),*) => {
        crate::operations::Operation::of(stringify!($name), &[$($argument as usize),*])
    };
}
pub(crate) use operation;

/// Operations that may wake another thread.
macro_rules! wakes {
    ($($name:ident($($argument:ident: $type:ty),*) -> $result:ty;)*) => {$(
        #[unsafe(no_mangle)]
        unsafe extern "C-unwind" fn $name($($argument: $type),*) -> $result {
            crate::operations::before_waking(crate::hooks::operation!($name, $($argument),*));
            // SAFETY: the caller upholds the contract of this function.
            unsafe { crate::real::real!($name($($argument: $type),*) -> $result) }
        }
    )*};
}
pub(crate) use wakes;

/// Operations that may wait: a test of the result for whether a thread ended the wait, and the
/// deadline by the program's clock.
macro_rules! waits {
    ($($name:ident($($argument:ident: $type:ty),*) -> $result:ty, $by_thread:expr $(, until $time:ident)?;)*) => {$(
        #[unsafe(no_mangle)]
        unsafe extern "C-unwind" fn $name($($argument: $type),*) -> $result {
            let wait = crate::operations::Wait::begin(crate::hooks::operation!($name, $($argument),*));
            $(
                // SAFETY: the caller upholds the contract of this function.
                let until = unsafe { crate::program_clock::RealTime::of($time) };
                let $time = until.as_ptr();
            )?
            // SAFETY: the caller upholds the contract of this function.
            let result = unsafe { crate::real::real!($name($($argument: $type),*) -> $result) };
            let by_thread: fn($result) -> bool = $by_thread;
            wait.end(by_thread(result));
            result
        }
    )*};
}
pub(crate) use waits;
