//! OpenMP as GCC compiles it. Its library busy-waits and waits in futexes of its own, which the
//! other hooks do not see: a thread waits from the end of its part of a parallel region to the
//! start of its part of the next one. These hooks replace the library's functions
//! ([`crate::attached::slots::take_openmp`]), so their names differ.

#![expect(non_snake_case, reason = "the names are OpenMP's")]

use super::operation;
use crate::operations::{self, Operation, Wait};
use crate::real::real;
use crate::thread;
use core::ffi::{c_long, c_uint, c_void};
use core::sync::atomic::Ordering::Relaxed;

type Body = unsafe extern "C-unwind" fn(*mut c_void);
type Data = *mut c_void;

/// A parallel region, on the stack of the thread that starts it.
struct Region {
    body: Body,
    data: Data,
    operation: Operation,
}

impl Region {
    /// Begins the region: the starting thread waits until the others have taken their parts.
    fn begin(body: Body, data: Data) -> Self {
        let operation = operation!(GOMP_parallel, body);
        begin_wait(operation);
        Self {
            body,
            data,
            operation,
        }
    }
}

/// Runs a thread's part of a region.
unsafe extern "C-unwind" fn run_part(region: *mut c_void) {
    // SAFETY: `parallels` passed the region, which lives until all parts have ended.
    let region = unsafe { &*region.cast::<Region>() };
    let operation = region.operation;
    end_wait(operation);
    // SAFETY: as the compiler made it.
    unsafe { (region.body)(region.data) };
    // Next, the thread waits for the other parts or for the next region.
    begin_wait(operation);
}

fn begin_wait(operation: Operation) {
    if let Some(thread) = thread::current_thread() {
        operations::begin_wait(thread, operation);
    }
}

/// Ends the wait before a part; a new thread has not waited.
fn end_wait(operation: Operation) {
    if let Some(thread) = thread::current_thread()
        && thread.waits.load(Relaxed) > 0
    {
        operations::end_wait(thread, operation, true);
    }
}

macro_rules! parallels {
    ($($name:ident($($more:ident: $type:ty),*);)*) => {$(
        #[unsafe(export_name = concat!("vitalfew_", stringify!($name)))]
        unsafe extern "C-unwind" fn $name(body: Body, data: Data, threads: c_uint $(, $more: $type)*) {
            let region = Region::begin(body, data);
            let (body, data) = (run_part as Body, core::ptr::from_ref(&region) as Data);
            // SAFETY: the caller upholds the contract of this function.
            unsafe {
                real!($name(body: Body, data: Data, threads: c_uint $(, $more: $type)*) -> ());
            }
            end_wait(region.operation);
        }
    )*};
}

parallels! {
    GOMP_parallel(flags: c_uint);
    GOMP_parallel_sections(count: c_uint, flags: c_uint);
    GOMP_parallel_loop_static(start: c_long, end: c_long, step: c_long, chunk: c_long, flags: c_uint);
    GOMP_parallel_loop_dynamic(start: c_long, end: c_long, step: c_long, chunk: c_long, flags: c_uint);
    GOMP_parallel_loop_guided(start: c_long, end: c_long, step: c_long, chunk: c_long, flags: c_uint);
    GOMP_parallel_loop_runtime(start: c_long, end: c_long, step: c_long, flags: c_uint);
    GOMP_parallel_loop_nonmonotonic_dynamic(start: c_long, end: c_long, step: c_long, chunk: c_long, flags: c_uint);
    GOMP_parallel_loop_nonmonotonic_guided(start: c_long, end: c_long, step: c_long, chunk: c_long, flags: c_uint);
    GOMP_parallel_loop_nonmonotonic_runtime(start: c_long, end: c_long, step: c_long, flags: c_uint);
    GOMP_parallel_loop_maybe_nonmonotonic_runtime(start: c_long, end: c_long, step: c_long, flags: c_uint);
}

/// Functions that may wait for other threads of the team.
macro_rules! team_waits {
    ($($name:ident($($argument:ident: $type:ty),*) -> $result:ty;)*) => {$(
        #[unsafe(export_name = concat!("vitalfew_", stringify!($name)))]
        unsafe extern "C-unwind" fn $name($($argument: $type),*) -> $result {
            let wait = Wait::begin(operation!($name, $($argument),*));
            // SAFETY: the caller upholds the contract of this function.
            let result = unsafe { real!($name($($argument: $type),*) -> $result) };
            wait.end(true);
            result
        }
    )*};
}

/// Functions that others may wait for.
macro_rules! team_wakes {
    ($($name:ident($($argument:ident: $type:ty),*);)*) => {$(
        #[unsafe(export_name = concat!("vitalfew_", stringify!($name)))]
        unsafe extern "C-unwind" fn $name($($argument: $type),*) {
            operations::before_waking(operation!($name, $($argument),*));
            // SAFETY: the caller upholds the contract of this function.
            unsafe { real!($name($($argument: $type),*) -> ()) }
        }
    )*};
}

team_waits! {
    GOMP_barrier() -> ();
    GOMP_loop_end() -> ();
    GOMP_sections_end() -> ();
    GOMP_taskwait() -> ();
    GOMP_critical_start() -> ();
    GOMP_critical_name_start(lock: *mut *mut c_void) -> ();
    GOMP_atomic_start() -> ();
    GOMP_ordered_start() -> ();
    GOMP_single_copy_start() -> *mut c_void;
    omp_set_lock(lock: *mut c_void) -> ();
    omp_set_nest_lock(lock: *mut c_void) -> ();
}

team_wakes! {
    GOMP_critical_end();
    GOMP_critical_name_end(lock: *mut *mut c_void);
    GOMP_atomic_end();
    GOMP_ordered_end();
    GOMP_single_copy_end(data: *mut c_void);
    GOMP_loop_end_nowait();
    GOMP_sections_end_nowait();
    omp_unset_lock(lock: *mut c_void);
    omp_unset_nest_lock(lock: *mut c_void);
}
