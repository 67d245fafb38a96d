//! The user half of hotspot.h: passes the code heaps of JVMs to the kernel, and reads descriptions
//! of their code.

use crate::processes::jvm::{NamedJvms, RunningJvm};
use languages::jvm::{
    CodeCache, JavaCode, JavaCodeReader, JavaReadBudget, MOST_HEAPS, MethodLayout, SeenCode,
};
use rustc_hash::FxHashMap;

/// Bytes of `struct hotspot`.
const HOTSPOT: usize = 24 * MOST_HEAPS + 24 + 24;
/// Maximum number of JVMs whose methods are remembered.
const MOST_READERS: usize = 64;

/// Returns `struct hotspot` of a process; `started` is its start, in clock ticks since boot.
/// Without a layout its methods have no names.
pub(crate) fn hotspot_bytes(
    cache: &CodeCache,
    methods: Option<&MethodLayout>,
    started: u64,
) -> Vec<u8> {
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
    let seen = methods.and_then(MethodLayout::seen_offsets);
    bytes.extend(
        seen.unwrap_or_default()
            .into_iter()
            .flat_map(u16::to_ne_bytes),
    );
    bytes.extend([
        cache.segment_bits,
        u8::from(cache.short_complete),
        u8::from(cache.code_is_offset),
    ]);
    bytes.resize(HOTSPOT, 0);
    bytes
}

/// Reads descriptions of code from JVMs.
#[derive(Default)]
pub(super) struct JavaReaders {
    named: NamedJvms,
    /// Readers by process and start time; `None` if the methods of that JVM cannot be read.
    jvms: FxHashMap<(u32, u64), Option<(RunningJvm, JavaCodeReader)>>,
    /// Limit on the reading of all JVMs together.
    budget: JavaReadBudget,
}

impl JavaReaders {
    /// Creates readers for these JVMs.
    pub fn new(named: NamedJvms) -> Self {
        Self {
            named,
            ..Self::default()
        }
    }

    /// Returns the number of code blobs that were not read in full, because the budget was spent.
    pub fn unread(&self) -> u64 {
        self.budget.unread()
    }

    /// Returns the code of a record, in this process; `seen` holds the words that the kernel half
    /// read beside its address. `None` if the code no longer exists.
    pub fn seen_code(&mut self, pid: u32, address: u64, seen: &[u8]) -> Option<JavaCode> {
        let (words, _) = seen.as_chunks::<8>();
        let word = |index: usize| Some(u64::from_ne_bytes(*words.get(index)?));
        let (is_interpreted, second, started) = (word(0)? != 0, word(1)?, word(2)?);
        if self.jvms.len() >= MOST_READERS && !self.jvms.contains_key(&(pid, started)) {
            self.jvms.clear();
        }
        let open = || {
            let layout = self.named.layout_of(pid, started)?;
            let jvm = RunningJvm::open(pid).filter(|jvm| jvm.started == started)?;
            Some((jvm, JavaCodeReader::new(layout)))
        };
        let known = self.jvms.entry((pid, started)).or_insert_with(open);
        let (jvm, reader) = known.as_mut()?;
        let code = if is_interpreted {
            SeenCode::Interpreted {
                method: address,
                constant: second,
            }
        } else {
            SeenCode::Piece {
                block: address,
                method: second,
            }
        };
        let budget = &mut self.budget;
        jvm.with_memory(|memory| reader.read_code(code, memory, budget))
    }
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
        let bytes = hotspot_bytes(&cache, None, 6);
        assert_eq!(bytes.len(), HOTSPOT);
        let word = |at: usize| u64::from_ne_bytes(*bytes[8 * at..].first_chunk().unwrap());
        assert_eq!([word(0), word(4), word(8)], [1, 2, 3]);
        assert_eq!([word(12), word(13), word(14)], [4, 5, 6]);
        assert_eq!(bytes[128..137], [16, 0, 0, 0, 0, 0, 0, 0, 7]);
    }

    #[test]
    fn records_that_are_cut_off_say_nothing() {
        let mut readers = JavaReaders::default();
        let own = std::process::id();
        for length in [0, 7, 23, 24, 40] {
            assert_eq!(readers.seen_code(own, 1, &vec![1; length]), None);
        }
    }
}
