//! The user half of hotspot.h: says where a JVM has its code.

use languages::jvm::{CodeCache, MOST_HEAPS};

/// Bytes of `struct hotspot`.
const HOTSPOT: usize = 24 * MOST_HEAPS + 24 + 16;

/// Returns `struct hotspot`, of a process that started so many clock ticks after the machine.
pub(crate) fn hotspot_bytes(cache: &CodeCache, started: u64) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(HOTSPOT);
    let mut heaps = cache.heaps.clone();
    heaps.resize_with(MOST_HEAPS, Default::default);
    bytes.extend(heaps.iter().flat_map(|heap| heap.start.to_ne_bytes()));
    bytes.extend(heaps.iter().flat_map(|heap| heap.end.to_ne_bytes()));
    bytes.extend(heaps.iter().flat_map(|heap| heap.segments.to_ne_bytes()));
    let [start, end] = cache.interpreter;
    bytes.extend([start, end, started].into_iter().flat_map(u64::to_ne_bytes));
    for near in [
        cache.used,
        cache.frame_words,
        cache.frame_complete,
        cache.code,
        cache.structure,
    ] {
        bytes.extend(near.to_ne_bytes());
    }
    bytes.extend([
        cache.segment_bits,
        u8::from(cache.short_complete),
        u8::from(cache.code_is_offset),
    ]);
    bytes.resize(HOTSPOT, 0);
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;
    use languages::jvm::CodeHeap;

    #[test]
    fn the_kernel_half_reads_as_many_bytes() {
        let heap = CodeHeap {
            start: 1,
            end: 2,
            segments: 3,
        };
        let cache = CodeCache {
            heaps: vec![heap],
            interpreter: [4, 5],
            structure: 16,
            segment_bits: 7,
            ..CodeCache::default()
        };
        let bytes = hotspot_bytes(&cache, 6);
        assert_eq!(bytes.len(), HOTSPOT);
        let word = |at: usize| u64::from_ne_bytes(*bytes[8 * at..].first_chunk().unwrap());
        assert_eq!([word(0), word(4), word(8)], [1, 2, 3]);
        assert_eq!([word(12), word(13), word(14)], [4, 5, 6]);
        assert_eq!(bytes[128..131], [16, 0, 7]);
    }
}
