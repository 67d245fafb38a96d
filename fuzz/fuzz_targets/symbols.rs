//! ELF files with symbols and debug information, asked for everything.
#![no_main]

use libfuzzer_sys::fuzz_target;
use profile::ImageOffset;
use std::path::Path;
use symbols::{ImageSymbols, SymbolOptions};

fuzz_target!(|bytes: &[u8]| {
    let options = SymbolOptions {
        debug_dirs: Vec::new(),
        root: None,
        debuginfod: None,
    };
    let Ok(image) = ImageSymbols::from_bytes(Path::new("image"), bytes.to_vec(), &options) else {
        return;
    };
    for procedure in image.all_procedures() {
        let _ = procedure.demangle_procedure();
    }
    let debug = image.debug_info().ok().flatten();
    for offset in (0..0x1400)
        .step_by(61)
        .chain([u64::MAX, 1 << 63])
        .map(ImageOffset)
    {
        let _ = image.procedure_at(offset);
        if let (Some(debug), Some(address)) = (&debug, image.address_of(offset)) {
            let _ = debug.source_frames(address, None);
            let _ = debug.procedure_at(address);
            let _ = debug.sites(address);
        }
    }
    if let Some(debug) = &debug {
        let _ = debug.for_each_line(|_, _, _| ());
    }
});
