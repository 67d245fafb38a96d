//! Our own files: recordings, traces, results. Checksums hold most mutations off; tests of the crate damage what is
//! behind them.
#![no_main]

use libfuzzer_sys::fuzz_target;
use std::path::PathBuf;
use std::sync::LazyLock;

static FILE: LazyLock<PathBuf> =
    LazyLock::new(|| format!("/dev/shm/vitalfew-fuzz-{}", std::process::id()).into());

fuzz_target!(|bytes: &[u8]| {
    std::fs::write(&*FILE, bytes).expect("room in /dev/shm");
    let _ = store::read_file(&FILE);
    let _ = store::read_causal(&FILE);
    let _ = store::read_interference(&FILE);
    let Ok(mut trace) = store::TraceReader::open_trace(&FILE) else {
        return;
    };
    while let Ok(Some(_)) = trace.next_batch() {}
});
