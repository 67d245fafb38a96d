//! HotSpot's heaps of compiled code, and the sizes of that code's frames.
//!
//! Compiled code keeps no frame pointer, but each *code blob* contains its frame size. Blobs are in
//! a few heaps, each with a map of its segments, which leads to the blob at an address. The JVM
//! publishes the layout of all this for debuggers: a table of its structures (`gHotSpotVMStructs`),
//! with the address of each static field.

use super::tables::{JvmMemory, PublishedStructures};

/// Maximum number of heaps that are read: HotSpot has one or three.
pub const MOST_HEAPS: usize = 4;
/// Bytes of a code blob's head that are read, which contain all needed fields.
pub const HEAD: u16 = 128;

/// A heap for code, by its addresses.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CodeHeap {
    /// Its first byte.
    pub start: u64,
    /// First byte after the largest size of the heap.
    pub end: u64,
    /// Its map of segments: a byte for each, the number of segments to go back to the start of a
    /// blob.
    pub segments: u64,
}

/// Offsets to the frame size of a code blob, in bytes from the start of the heap's block, all below
/// [`HEAD`].
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CodeCache {
    /// Heaps, at most [`MOST_HEAPS`].
    pub heaps: Vec<CodeHeap>,
    /// Size of a segment, as a power of two of bytes.
    pub segment_bits: u8,
    /// Offset of the flag that the block is in use (a byte).
    pub used: u16,
    /// Offset of the frame's size in words (a field of 4 bytes; 0: no fixed size).
    pub frame_words: u16,
    /// Offset of the field with the offset in the code from which the frame is complete.
    pub frame_complete: u16,
    /// True if that field has 2 bytes rather than 4.
    pub short_complete: bool,
    /// Offset of the field with the start of the code.
    pub code: u16,
    /// True if that field is an offset of 4 bytes from the structure, rather than an address.
    pub code_is_offset: bool,
    /// Offset of the structure in the block.
    pub structure: u16,
    /// The interpreter's code: its first byte, and the first byte after it.
    pub interpreter: [u64; 2],
}

/// The JVM's structures with the addresses of code.
pub(super) const CODE_STRUCTURES: [&str; 11] = [
    "CodeCache",
    "CodeHeap",
    "VirtualSpace",
    "HeapBlock",
    "HeapBlock::Header",
    "CodeBlob",
    "GrowableArrayBase",
    "GenericGrowableArray",
    "GrowableArray<int>",
    "AbstractInterpreter",
    "StubQueue",
];

impl CodeCache {
    /// Reads the code addresses of a running JVM. `None` if it does not publish them, or has not
    /// started yet.
    pub(super) fn read(published: &PublishedStructures, memory: &JvmMemory<'_>) -> Option<Self> {
        let field = |structure: &str, name: &str| published.field(structure, name);
        let place = |structure: &str, name: &str| published.place(structure, name);
        let structure = published.size_of("HeapBlock")?;
        // Offsets outside of a blob's head would not be read.
        let near = |offset: u64| {
            u16::try_from(offset)
                .ok()
                .filter(|offset| *offset <= HEAD - 8)
        };
        let of_blob = |name: &str| near(structure.checked_add(place("CodeBlob", name)?)?);
        let code_is_offset = field("CodeBlob", "_code_begin").is_none();
        let code = if code_is_offset {
            of_blob("_code_offset")?
        } else {
            of_blob("_code_begin")?
        };

        let array = memory.word(place("CodeCache", "_heaps")?)?;
        let length =
            place("GrowableArrayBase", "_len").or_else(|| place("GenericGrowableArray", "_len"))?;
        let count = memory.half(array.wrapping_add(length))? as usize;
        let data = memory.word(array.wrapping_add(place("GrowableArray<int>", "_data")?))?;
        let (low, high) = (
            place("VirtualSpace", "_low_boundary")?,
            place("VirtualSpace", "_high_boundary")?,
        );
        let (code_space, segment_space) =
            (place("CodeHeap", "_memory")?, place("CodeHeap", "_segmap")?);
        let bits = place("CodeHeap", "_log2_segment_size")?;
        let mut heaps = Vec::new();
        let mut segment_bits = None;
        for number in 0..count.min(MOST_HEAPS) as u64 {
            let heap = memory.word(data.wrapping_add(8 * number))?;
            let of_space =
                |space: u64, end: u64| memory.word(heap.wrapping_add(space).wrapping_add(end));
            heaps.push(CodeHeap {
                start: of_space(code_space, low)?,
                end: of_space(code_space, high)?,
                segments: of_space(segment_space, low)?,
            });
            segment_bits = Some(memory.half(heap.wrapping_add(bits))?);
        }
        let segment_bits = u8::try_from(segment_bits?).ok().filter(|bits| *bits < 32)?;
        let queue = memory.word(place("AbstractInterpreter", "_code")?)?;
        let interpreter = memory.word(queue.wrapping_add(place("StubQueue", "_stub_buffer")?))?;
        let length = memory.half(queue.wrapping_add(place("StubQueue", "_buffer_limit")?))?;
        Some(Self {
            heaps,
            segment_bits,
            used: near(place("HeapBlock::Header", "_used")?)?,
            frame_words: of_blob("_frame_size")?,
            frame_complete: of_blob("_frame_complete_offset")?,
            short_complete: field("CodeBlob", "_frame_complete_offset")?.kind == "int16_t",
            code,
            code_is_offset,
            structure: near(structure)?,
            interpreter: [interpreter, interpreter.wrapping_add(length.into())],
        })
    }
}

#[cfg(test)]
mod tests {
    use super::super::made_up::{MadeUp, PublishedField};
    use super::*;

    /// Makes a JVM with this number of heaps, at 4096.
    fn jvm(heaps: u32) -> MadeUp {
        let mut made = MadeUp::default();
        let heap: Vec<u8> = [4096_u64, 8192, 512, 0, 7]
            .into_iter()
            .flat_map(u64::to_ne_bytes)
            .collect();
        let heap = made.put(&heap);
        let pointers = made.put(&heap.to_ne_bytes());
        let mut array = [0; 16];
        array[..4].copy_from_slice(&heaps.to_ne_bytes());
        array[8..].copy_from_slice(&pointers.to_ne_bytes());
        let array = made.put(&array);
        let array = made.put(&array.to_ne_bytes());
        let queue = made.put(&[0x100_u64.to_ne_bytes(), 0x20_u64.to_ne_bytes()].concat());
        let queue = made.put(&queue.to_ne_bytes());
        let fields: [PublishedField<'_>; 15] = [
            ("CodeCache", "_heaps", "", 0, array),
            ("GrowableArrayBase", "_len", "int", 0, 0),
            ("GrowableArray<int>", "_data", "int*", 8, 0),
            ("CodeHeap", "_memory", "", 0, 0),
            ("CodeHeap", "_segmap", "", 16, 0),
            ("CodeHeap", "_log2_segment_size", "int", 32, 0),
            ("VirtualSpace", "_low_boundary", "", 0, 0),
            ("VirtualSpace", "_high_boundary", "", 8, 0),
            ("HeapBlock::Header", "_used", "bool", 4, 0),
            ("CodeBlob", "_frame_size", "int", 44, 0),
            ("CodeBlob", "_frame_complete_offset", "int16_t", 54, 0),
            ("CodeBlob", "_code_offset", "int", 36, 0),
            ("AbstractInterpreter", "_code", "", 0, queue),
            ("StubQueue", "_stub_buffer", "", 0, 0),
            ("StubQueue", "_buffer_limit", "int", 8, 0),
        ];
        made.publish(&fields, &[("HeapBlock", 8)]);
        made
    }

    fn read(made: &MadeUp) -> Option<CodeCache> {
        let published = made.published(&CODE_STRUCTURES)?;
        made.with_memory(|memory| CodeCache::read(&published, memory))
    }

    #[test]
    fn what_the_jvm_publishes_says_where_code_is() {
        let cache = read(&jvm(1)).unwrap();
        let heap = CodeHeap {
            start: 4096,
            end: 8192,
            segments: 512,
        };
        assert_eq!((cache.heaps, cache.segment_bits), (vec![heap], 7));
        assert_eq!((cache.used, cache.structure), (4, 8));
        assert_eq!((cache.frame_words, cache.frame_complete), (52, 62));
        assert!(cache.short_complete && cache.code_is_offset);
        assert_eq!(cache.interpreter, [0x100, 0x120]);
    }

    #[test]
    fn a_jvm_that_has_not_begun_or_is_damaged_has_no_code() {
        assert_eq!(read(&jvm(0)), None, "no heap yet");
        // Damaged data are read as far as possible, within bounds.
        jvm(1).damage_each_byte(|made| {
            if let Some(cache) = read(made) {
                assert!(cache.heaps.len() <= MOST_HEAPS && cache.frame_words < HEAD);
            }
        });
    }
}
