//! Waits for several descriptors at once. The result does not tell which of them is internal (epoll
//! returns data that the program chose). But the runtime knows whether the program has sent data to
//! itself meanwhile.

use super::operation;
use crate::descriptors::sent_count;
use crate::operations::Wait;
use crate::real::real;
use core::ffi::{c_int, c_ulong, c_void};

type Pointer = *mut c_void;

macro_rules! polls {
    ($($name:ident($($argument:ident: $type:ty),*);)*) => {$(
        #[unsafe(no_mangle)]
        unsafe extern "C-unwind" fn $name($($argument: $type),*) -> c_int {
            let (wait, before) = (Wait::begin(operation!($name, $($argument),*)), sent_count());
            // SAFETY: the caller upholds the contract of this function.
            let result = unsafe { real!($name($($argument: $type),*) -> c_int) };
            wait.end(result > 0 && sent_count() != before);
            result
        }
    )*};
}

polls! {
    poll(polled: Pointer, count: c_ulong, timeout: c_int);
    ppoll(polled: Pointer, count: c_ulong, timeout: Pointer, mask: Pointer);
    select(count: c_int, read: Pointer, write: Pointer, except: Pointer, timeout: Pointer);
    pselect(count: c_int, read: Pointer, write: Pointer, except: Pointer, timeout: Pointer, mask: Pointer);
    epoll_wait(epoll: c_int, events: Pointer, most: c_int, timeout: c_int);
    epoll_pwait(epoll: c_int, events: Pointer, most: c_int, timeout: c_int, mask: Pointer);
    epoll_pwait2(epoll: c_int, events: Pointer, most: c_int, timeout: Pointer, mask: Pointer);
}
