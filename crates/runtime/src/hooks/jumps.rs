//! Long jumps: functions that they skip do not return.

use crate::real::real;
use core::ffi::{c_int, c_void};

/// Defines the hooks of jumps, after checks that the compiler can make.
macro_rules! jumps {
    ($($name:ident)*) => {$(
        #[unsafe(no_mangle)]
        unsafe extern "C-unwind" fn $name(environment: *mut c_void, value: c_int) -> c_int {
            // SAFETY: the caller upholds the contract of this function. It does not return.
            unsafe {
                crate::trace::frames::before_jump(environment);
                real!($name(environment: *mut c_void, value: c_int) -> c_int)
            }
        }
    )*};
}

jumps! { longjmp _longjmp siglongjmp __longjmp_chk }
