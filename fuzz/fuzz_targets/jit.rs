//! What runtimes say about the code that they generate.
#![no_main]

use libfuzzer_sys::fuzz_target;
use std::path::Path;

fuzz_target!(|bytes: &[u8]| {
    let _ = symbols::parse_jitdump(Path::new("jit.dump"), bytes);
    let _ = symbols::parse_perf_map(&String::from_utf8_lossy(bytes));
});
