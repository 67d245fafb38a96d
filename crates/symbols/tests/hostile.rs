//! Damaged images through all readers: an error or a wrong answer is allowed, but no panic, hang or
//! unbounded memory.

use profile::{ImageAddress, ImageOffset};
use proptest::prelude::*;
use std::path::Path;
use std::time::{Duration, Instant};
use symbols::{ImageSymbols, SymbolOptions, build_id_of_bytes, parse_jitdump, parse_perf_map};

const FIXTURES: &[&[u8]] = &[
    include_bytes!("fixtures/dwarf5"),
    include_bytes!("fixtures/dwarf4"),
    include_bytes!("fixtures/clang5"),
    include_bytes!("fixtures/zlib"),
    include_bytes!("fixtures/zlib-gnu"),
    include_bytes!("fixtures/zstd"),
    include_bytes!("fixtures/nosymbols"),
    include_bytes!("fixtures/mini"),
    include_bytes!("fixtures/shapes"),
    include_bytes!("fixtures/split.dwo"),
    include_bytes!("fixtures/packed5"),
    include_bytes!("fixtures/packed5.dwp"),
];

/// Much more time than any damaged fixture took, in a debug build on a busy machine.
const TIME: Duration = Duration::from_secs(20);

fn nowhere() -> SymbolOptions {
    SymbolOptions {
        debug_dirs: Vec::new(),
        root: None,
        debuginfod: None,
    }
}

/// Asks an image for everything.
fn exercise(bytes: &[u8]) {
    let start = Instant::now();
    let name = Path::new("damaged");
    let _ = build_id_of_bytes(name, bytes.to_vec());
    if let Ok(image) = ImageSymbols::from_bytes(name, bytes.to_vec(), &nowhere()) {
        let mut last = 0;
        for procedure in image.all_procedures() {
            let _ = procedure.demangle_procedure();
            last = last.max(procedure.start.0);
        }
        let debug = image.debug_info().ok().flatten();
        let far = [u64::MAX, u64::MAX - 1, 1 << 63, last];
        for offset in (0..0x1400).step_by(7).chain(far).map(ImageOffset) {
            let _ = image.procedure_at(offset);
            let Some(debug) = &debug else { continue };
            for address in [image.address_of(offset), Some(ImageAddress(offset.0))] {
                let Some(address) = address else { continue };
                let _ = image.offset_of(address);
                let _ = debug.source_frames(address, None);
                let _ = debug.procedure_at(address);
                let _ = debug.sites(address);
            }
        }
        if let Some(debug) = &debug {
            let _ = debug.for_each_line(|_, _, _| ());
        }
    }
    let took = start.elapsed();
    assert!(took < TIME, "{took:?}");
}

#[test]
fn sound_fixtures_are_read() {
    for bytes in FIXTURES {
        exercise(bytes);
    }
}

#[test]
fn cut_short_everywhere() {
    for bytes in [FIXTURES[0], FIXTURES[3]] {
        // Every length up to the first headers, then at intervals.
        let lengths = (0..2048).chain((2048..bytes.len()).step_by(61));
        for len in lengths {
            exercise(&bytes[..len]);
        }
    }
}

proptest! {
    #[test]
    fn flipped_bytes(
        fixture in 0..FIXTURES.len(),
        flips in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..24),
    ) {
        let mut bytes = FIXTURES[fixture].to_vec();
        for (index, value) in flips {
            let at = index.index(bytes.len());
            bytes[at] = value;
        }
        exercise(&bytes);
    }

    /// Debug information and section headers are in the second half; damage there goes deeper.
    #[test]
    fn flipped_bytes_of_debug_information(
        fixture in 0..FIXTURES.len(),
        flips in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..8),
    ) {
        let mut bytes = FIXTURES[fixture].to_vec();
        let from = if bytes.len() > 13_000 { 12_300 } else { 0 };
        for (index, value) in flips {
            let at = from + index.index(bytes.len() - from);
            bytes[at] = value;
        }
        exercise(&bytes);
    }

    #[test]
    fn moved_pieces(
        fixture in 0..FIXTURES.len(),
        from in any::<prop::sample::Index>(),
        to in any::<prop::sample::Index>(),
        len in 1_usize..4000,
    ) {
        let mut bytes = FIXTURES[fixture].to_vec();
        let (from, to) = (from.index(bytes.len()), to.index(bytes.len()));
        let len = len.min(bytes.len() - from.max(to));
        bytes.copy_within(from..from + len, to);
        exercise(&bytes);
    }

    #[test]
    fn random_bytes(mut bytes in prop::collection::vec(any::<u8>(), 0..4000), elf in any::<bool>()) {
        if elf && bytes.len() > 64 {
            bytes[..64].copy_from_slice(&FIXTURES[0][..64]);
        }
        exercise(&bytes);
        let _ = parse_jitdump(Path::new("damaged"), &bytes);
        let _ = parse_perf_map(&String::from_utf8_lossy(&bytes));
    }
}
