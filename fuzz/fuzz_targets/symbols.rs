//! ELF files with symbols and debug information, asked for everything.
#![no_main]

use libfuzzer_sys::fuzz_target;
use profile::ImageOffset;
use std::path::Path;
use symbols::{ImageSymbols, Options};

fuzz_target!(|bytes: &[u8]| {
    let options = Options { debug_dirs: Vec::new(), root: None };
    let Ok(image) = ImageSymbols::from_bytes(Path::new("image"), bytes.to_vec(), &options) else { return };
    for procedure in image.procedures() {
        let _ = procedure.demangled();
    }
    let debug = image.debug_info().ok().flatten();
    for offset in (0..0x1400).step_by(61).chain([u64::MAX, 1 << 63]).map(ImageOffset) {
        let _ = image.procedure(offset);
        if let (Some(debug), Some(address)) = (&debug, image.address_of(offset)) {
            let _ = debug.frames(address, None);
            let _ = debug.procedure(address);
            let _ = debug.sites(address);
        }
    }
    if let Some(debug) = &debug {
        let _ = debug.for_each_line(|_, _, _| ());
    }
});
