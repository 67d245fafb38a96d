//! The root of the program whose bytes go into a target. Cargo does not build it: the build script
//! of `experiment` compiles it.
#![no_std]
#![no_main]

use core::panic::PanicInfo;

// The program exists for this crate's signal handler.
extern crate freestanding;

/// Panics are impossible: a test of `experiment` checks that this function is not in the image.
#[panic_handler]
fn vitalfew_panic(_: &PanicInfo<'_>) -> ! {
    loop {}
}

/// Satisfies a reference of the compiler's own library. Nothing unwinds.
#[unsafe(no_mangle)]
extern "C" fn rust_eh_personality() {}
