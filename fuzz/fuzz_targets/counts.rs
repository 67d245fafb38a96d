//! Counts of other tools: gcov, lcov, perf's branch stacks, callgrind.
#![no_main]

use formats::counts::read_counts;
use formats::read::ReadLimits;
use libfuzzer_sys::fuzz_target;
use std::path::PathBuf;
use std::sync::LazyLock;

/// perf.data is read twice, from a file.
static FILE: LazyLock<PathBuf> =
    LazyLock::new(|| format!("/dev/shm/vitalfew-fuzz-{}", std::process::id()).into());

fuzz_target!(|bytes: &[u8]| {
    std::fs::write(&*FILE, bytes).expect("room in /dev/shm");
    let limits = ReadLimits {
        memory: 64 << 20,
        ..ReadLimits::default()
    };
    let _ = read_counts(&FILE, &limits);
});
