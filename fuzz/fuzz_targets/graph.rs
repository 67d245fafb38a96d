//! Code: decoder and control-flow graph. The first byte says of which architecture, and what the image holds.
#![no_main]

use libfuzzer_sys::fuzz_target;
use machine::{Architecture, FlowGraph, LoadedImage};
use profile::ImageAddress;

/// Whatever is asked for is there: tables everywhere.
struct Anything(u64);

impl LoadedImage for Anything {
    fn read_loaded(&self, address: ImageAddress, buffer: &mut [u8]) -> bool {
        let value = (address.0 ^ self.0).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 58;
        buffer.fill(0);
        if let Some(first) = buffer.first_mut() {
            *first = value as u8;
        }
        true
    }

    fn never_returns(&self, target: ImageAddress) -> bool {
        target.0 & 7 == self.0 & 7
    }
}

fuzz_target!(|bytes: &[u8]| {
    let Some((seed, code)) = bytes.split_first() else {
        return;
    };
    let architecture = if seed & 1 == 0 {
        Architecture::X86_64
    } else {
        Architecture::Aarch64
    };
    let start = ImageAddress(0x1000);
    let Ok(graph) = FlowGraph::new(architecture, start, code, &Anything(u64::from(*seed))) else {
        return;
    };
    for block in &graph.blocks {
        assert!(block.start < block.end && block.end <= graph.end);
        assert!(!graph.instructions_of(block).is_empty());
    }
    for edge in &graph.edges {
        assert!(
            edge.from
                .into_iter()
                .chain(edge.to)
                .all(|end| end < graph.blocks.len())
        );
    }
});
