//! Coz's profiles, and what is written of them.
#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    let _ = formats::coz::is_coz(bytes);
    let _ = formats::coz::read_coz(bytes);
});
