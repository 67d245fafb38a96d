//! User half of v8.h: passes the layout of V8's objects to the kernel, and reads the names of
//! functions.

use crate::processes::threads::process_file;
use languages::v8::{FunctionReader, JsFunction, SharedFunction, V8Layout};
use std::fs::File;
use std::os::unix::fs::FileExt;

/// Returns `struct v8_engine`.
pub(crate) fn engine_bytes(layout: &V8Layout) -> Vec<u8> {
    let words = layout.to_words();
    words.into_iter().flat_map(u16::to_ne_bytes).collect()
}

/// Returns the function of a record, in this process; `seen` holds the bytes that the kernel half
/// read of it. `None` if it no longer exists.
pub(super) fn seen_function(
    pid: u32,
    shared: u64,
    seen: &[u8],
    functions: &mut FunctionReader,
) -> Option<JsFunction> {
    let (name, seen) = seen.split_first_chunk()?;
    let (script, seen) = seen.split_first_chunk()?;
    let (layout, _) = seen.as_chunks::<2>();
    let layout = layout.iter().copied().map(u16::from_ne_bytes);
    let layout: Vec<u16> = layout.collect();
    let layout = V8Layout::from_words(*layout.first_chunk()?);
    let function = SharedFunction {
        shared,
        name: u64::from_ne_bytes(*name),
        script: u64::from_ne_bytes(*script),
    };
    let memory = File::open(process_file(pid, "mem")).ok()?;
    let read = |address: u64, bytes: &mut [u8]| memory.read_exact_at(bytes, address).is_ok();
    functions.read_function(pid, &layout, function, &read)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_kernel_half_reads_as_many_bytes() {
        let layout = V8Layout {
            function_type: 7,
            scope_names: 5,
            ..V8Layout::default()
        };
        let bytes = engine_bytes(&layout);
        assert_eq!(bytes.len(), 28);
        assert_eq!(bytes[16..18], 7_u16.to_ne_bytes());
    }

    #[test]
    fn records_that_are_cut_off_say_nothing() {
        let mut functions = FunctionReader::default();
        let own = std::process::id();
        for length in [0, 15, 16, 43, 44] {
            assert_eq!(
                seen_function(own, 1, &vec![1; length], &mut functions),
                None
            );
        }
    }
}
