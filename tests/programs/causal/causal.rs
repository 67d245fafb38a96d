//! Parts that the programs in Rust share: a progress point by the interface of coz.h, and work of a known length.
use std::ffi::{CStr, c_char, c_int, c_void};
use std::sync::atomic::{AtomicUsize, Ordering};

unsafe extern "C" {
    fn dlsym(handle: *mut c_void, name: *const c_char) -> *mut c_void;
}

/// Counts a visit of the point of this name.
pub fn count_visit(name: &CStr) {
    type Find = unsafe extern "C" fn(c_int, *const c_char) -> *const AtomicUsize;
    static COUNTER: AtomicUsize = AtomicUsize::new(1);
    let mut counter = COUNTER.load(Ordering::Acquire);
    if counter == 1 {
        // SAFETY: a name that ends in 0; what has it, has this type; and its counters stay.
        counter = unsafe {
            let found = dlsym(std::ptr::null_mut(), c"_coz_get_counter".as_ptr());
            if found.is_null() { 0 } else { std::mem::transmute::<*mut c_void, Find>(found)(1, name.as_ptr()) as usize }
        };
        COUNTER.store(counter, Ordering::Release);
    }
    if counter != 0 {
        // SAFETY: as above.
        unsafe { (*(counter as *const AtomicUsize)).fetch_add(1, Ordering::Relaxed) };
    }
}

/// A chain of `$n` multiplications, each of which waits for the one before, on the line where it is written.
macro_rules! work {
    ($n:expr) => {{ let mut x: u64 = 1; for _ in 0..$n { x = std::hint::black_box(x.wrapping_mul(2862933555777941757).wrapping_add(1)); } }};
}
