//! The C library's functions that the hooks replace.

use crate::link_map;
use core::ffi::{CStr, c_int, c_void};
use core::sync::atomic::{AtomicPtr, Ordering::Relaxed};

/// The function that a hook replaces, looked up at its first use.
pub struct Real {
    name: &'static CStr,
    address: AtomicPtr<c_void>,
}

impl Real {
    /// Names the function.
    pub const fn new(name: &'static CStr) -> Self {
        Self {
            name,
            address: AtomicPtr::new(core::ptr::null_mut()),
        }
    }

    /// Returns its address; null if the C library has no such function.
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

/// Calls the function that a hook replaces.
macro_rules! real {
    ($name:ident($($argument:ident: $type:ty),*) -> $result:ty) => {{
        static REAL: crate::real::Real = crate::real::Real::new(
            match core::ffi::CStr::from_bytes_with_nul(concat!(stringify!($name), "\0").as_bytes()) {
                Ok(name) => name,
                Err(_) => c"",
            },
        );
        // SAFETY: the C library's function of that name has this signature. A cancellation of the
        // thread may end it, which unwinds.
        core::mem::transmute::<
            *mut core::ffi::c_void,
            unsafe extern "C-unwind" fn($($type),*) -> $result,
        >(REAL.address())($($argument),*)
    }};
}
pub(crate) use real;

/// Calls the C library's `sigaction`.
///
/// # Safety
/// As for `sigaction`.
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

/// Calls the C library's `clock_gettime`.
///
/// # Safety
/// As for `clock_gettime`.
pub unsafe fn clock_gettime(clock: libc::clockid_t, time: *mut libc::timespec) -> c_int {
    // SAFETY: see the caller.
    unsafe { real!(clock_gettime(clock: libc::clockid_t, time: *mut libc::timespec) -> c_int) }
}
