//! Profiles of other tools, of any format.
#![no_main]

use formats::read::{ReadLimits, ReadOptions, read_profile};
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
    let options = ReadOptions {
        limits,
        ..ReadOptions::default()
    };
    if let Ok(profile) = read_profile(&FILE, &options) {
        assert!(!profile.tree.value_types().is_empty());
    }
});
