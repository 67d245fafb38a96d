//! The functions that we stand in front of.

use crate::link_map;
use core::ffi::{CStr, c_int, c_void};
use core::sync::atomic::{AtomicPtr, Ordering::Relaxed};

/// A function behind ours of the same name, looked up when it is first needed.
pub struct Real {
    name: &'static CStr,
    address: AtomicPtr<c_void>,
}

impl Real {
    /// The function of this name.
    pub const fn new(name: &'static CStr) -> Self {
        Self {
            name,
            address: AtomicPtr::new(core::ptr::null_mut()),
        }
    }

    /// Its address; null if the C library has no such function.
    pub fn address(&self) -> *mut c_void {
        let known = self.address.load(Relaxed);
        if !known.is_null() {
            return known;
        }
        let found = link_map::function_behind(self.name);
        self.address.store(found, Relaxed);
        found
    }
}

/// Calls the function behind ours.
macro_rules! real {
    ($name:ident($($argument:ident: $type:ty),*) -> $result:ty) => {{
        static REAL: crate::real::Real = crate::real::Real::new(
            match core::ffi::CStr::from_bytes_with_nul(concat!(stringify!($name), "\0").as_bytes()) {
                Ok(name) => name,
                Err(_) => c"",
            },
        );
        // SAFETY: the C library's function of that name has this signature. It may be ended by a
        // cancellation of the thread, which unwinds.
        core::mem::transmute::<
            *mut core::ffi::c_void,
            unsafe extern "C-unwind" fn($($type),*) -> $result,
        >(REAL.address())($($argument),*)
    }};
}
pub(crate) use real;

/// The C library's `sigaction`.
///
/// # Safety
/// As that.
pub unsafe fn sigaction(
    signal: c_int,
    new: *const libc::sigaction,
    old: *mut libc::sigaction,
) -> c_int {
    // SAFETY: see the caller.
    unsafe {
        real!(sigaction(signal: c_int, new: *const libc::sigaction, old: *mut libc::sigaction) -> c_int)
    }
}

/// The C library's `clock_gettime`.
///
/// # Safety
/// As that.
pub unsafe fn clock_gettime(clock: libc::clockid_t, time: *mut libc::timespec) -> c_int {
    // SAFETY: see the caller.
    unsafe { real!(clock_gettime(clock: libc::clockid_t, time: *mut libc::timespec) -> c_int) }
}
