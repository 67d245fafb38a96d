//! Pipes, event descriptors and sockets within the program.

use super::operation;
use crate::descriptors::{before_sending, is_internal, mark_internal};
use crate::operations::{self, Wait};
use crate::real::real;
use core::ffi::{c_int, c_uint, c_void};

type Bytes = *mut c_void;

/// Operations that send through a descriptor.
macro_rules! sends {
    ($($name:ident($($argument:ident: $type:ty),*) -> $result:ty;)*) => {$(
        #[unsafe(no_mangle)]
        unsafe extern "C-unwind" fn $name(descriptor: c_int, $($argument: $type),*) -> $result {
            before_sending(descriptor, operation!($name, descriptor));
            // SAFETY: the caller upholds the contract of this function.
            unsafe { real!($name(descriptor: c_int, $($argument: $type),*) -> $result) }
        }
    )*};
}

/// Operations that receive through a descriptor.
macro_rules! receives {
    ($($name:ident($($argument:ident: $type:ty),*) -> $result:ty;)*) => {$(
        #[unsafe(no_mangle)]
        unsafe extern "C-unwind" fn $name(descriptor: c_int, $($argument: $type),*) -> $result {
            // A wait for data from outside is no wait in the sense of the rule: the thread pays.
            let wait = is_internal(descriptor).then(|| Wait::begin(operation!($name, descriptor)));
            // SAFETY: the caller upholds the contract of this function.
            let result = unsafe {
                real!($name(descriptor: c_int, $($argument: $type),*) -> $result)
            };
            match wait {
                Some(wait) => wait.end(result >= 0),
                None => operations::settle_current(),
            }
            result
        }
    )*};
}

/// Operations that create internal descriptors: a test of success, and the descriptors.
macro_rules! makes {
    ($($name:ident($($argument:ident: $type:ty),*), |$result:ident| [$($made:expr),*];)*) => {$(
        #[unsafe(no_mangle)]
        unsafe extern "C-unwind" fn $name($($argument: $type),*) -> c_int {
            // SAFETY: the caller upholds the contract of this function.
            unsafe {
                let $result = real!($name($($argument: $type),*) -> c_int);
                if $result >= 0 {
                    $(mark_internal($made, true);)*
                }
                $result
            }
        }
    )*};
}

sends! {
    write(bytes: Bytes, length: usize) -> isize;
    writev(parts: Bytes, count: c_int) -> isize;
    send(bytes: Bytes, length: usize, flags: c_int) -> isize;
    sendto(bytes: Bytes, length: usize, flags: c_int, to: Bytes, to_length: c_uint) -> isize;
    sendmsg(message: Bytes, flags: c_int) -> isize;
    eventfd_write(value: u64) -> c_int;
    shutdown(how: c_int) -> c_int;
}

receives! {
    read(bytes: Bytes, length: usize) -> isize;
    readv(parts: Bytes, count: c_int) -> isize;
    recv(bytes: Bytes, length: usize, flags: c_int) -> isize;
    recvfrom(bytes: Bytes, length: usize, flags: c_int, from: Bytes, from_length: Bytes) -> isize;
    recvmsg(message: Bytes, flags: c_int) -> isize;
    recvmmsg(messages: Bytes, count: c_uint, flags: c_int, time: Bytes) -> c_int;
    accept(from: Bytes, length: Bytes) -> c_int;
    accept4(from: Bytes, length: Bytes, flags: c_int) -> c_int;
    eventfd_read(value: *mut u64) -> c_int;
}

makes! {
    pipe(ends: *mut c_int), |_r| [*ends, *ends.add(1)];
    pipe2(ends: *mut c_int, flags: c_int), |_r| [*ends, *ends.add(1)];
    socketpair(domain: c_int, kind: c_int, protocol: c_int, ends: *mut c_int), |_r| [*ends, *ends.add(1)];
    eventfd(value: c_uint, flags: c_int), |made| [made];
}

#[unsafe(no_mangle)]
unsafe extern "C-unwind" fn close(descriptor: c_int) -> c_int {
    // Closing one end may wake a thread at the other.
    before_sending(descriptor, operation!(close, descriptor));
    mark_internal(descriptor, false);
    // SAFETY: the caller upholds the contract of this function.
    unsafe { real!(close(descriptor: c_int) -> c_int) }
}

#[unsafe(no_mangle)]
unsafe extern "C-unwind" fn dup(descriptor: c_int) -> c_int {
    // SAFETY: the caller upholds the contract of this function.
    let copy = unsafe { real!(dup(descriptor: c_int) -> c_int) };
    mark_internal(copy, is_internal(descriptor));
    copy
}

#[unsafe(no_mangle)]
unsafe extern "C-unwind" fn dup2(descriptor: c_int, copy: c_int) -> c_int {
    // SAFETY: the caller upholds the contract of this function.
    let copy = unsafe { real!(dup2(descriptor: c_int, copy: c_int) -> c_int) };
    mark_internal(copy, is_internal(descriptor));
    copy
}

#[unsafe(no_mangle)]
unsafe extern "C-unwind" fn dup3(descriptor: c_int, copy: c_int, flags: c_int) -> c_int {
    // SAFETY: the caller upholds the contract of this function.
    let copy = unsafe { real!(dup3(descriptor: c_int, copy: c_int, flags: c_int) -> c_int) };
    mark_internal(copy, is_internal(descriptor));
    copy
}
