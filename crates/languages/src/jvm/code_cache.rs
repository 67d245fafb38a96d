//! Where HotSpot has its compiled code, and how large the frames of that are.
//!
//! Compiled code keeps no frame pointer, but each piece of it (a *code blob*) says how large its frame is. Pieces lie in a few
//! heaps, each with a map of its segments, by which the piece that an address lies in is found. Where all of that is, the JVM
//! publishes for debuggers: a table of its structures (`gHotSpotVMStructs`), with the address of each static field.

use crate::ElfImage;
use std::collections::HashMap;

/// The most heaps that are looked at: HotSpot has one or three.
pub const MOST_HEAPS: usize = 4;
/// Entries of a table of the JVM, at most: JDK 25 has 3,600.
const MOST_ENTRIES: u64 = 20_000;
/// The longest name of a structure or a field that is read.
const LONGEST_NAME: usize = 64;
/// The longest head of a piece of code that is read: what is asked for lies in it.
pub const HEAD: u16 = 128;

/// A part of the heap for code: addresses.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CodeHeap {
    /// Its first byte.
    pub start: u64,
    /// The byte behind all that it may grow to.
    pub end: u64,
    /// Its map of segments: a byte for each, how far to go back to where a piece begins.
    pub segments: u64,
}

/// How the frame of a piece of code is found. Offsets in bytes are from where the heap's block begins, all below [`HEAD`].
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CodeCache {
    /// At most [`MOST_HEAPS`].
    pub heaps: Vec<CodeHeap>,
    /// A segment has two to this power of bytes.
    pub segment_bits: u8,
    /// Whether the block is in use (a byte).
    pub used: u16,
    /// The size of the frame in words (4 bytes); 0: it has none of a fixed size.
    pub frame_words: u16,
    /// From where on in its code the frame is there (bytes).
    pub frame_complete: u16,
    /// True if that has 2 bytes rather than 4.
    pub short_complete: bool,
    /// Where the code begins.
    pub code: u16,
    /// True if that is an offset of 4 bytes from the structure, rather than an address.
    pub code_is_offset: bool,
    /// Where the structure begins.
    pub structure: u16,
    /// The interpreter's code: its first byte, and the one behind it.
    pub interpreter: [u64; 2],
}

/// A field of one of the JVM's structures.
#[derive(Clone, Debug)]
struct Field {
    kind: String,
    /// Its offset, or of a static one its address.
    place: u64,
}

/// The memory of a process in which a JVM runs.
pub struct JvmMemory<'a> {
    /// Reads so many bytes at an address, or says that they are not there.
    pub read: &'a dyn Fn(u64, &mut [u8]) -> bool,
}

impl JvmMemory<'_> {
    fn word(&self, address: u64) -> Option<u64> {
        let mut bytes = [0; 8];
        (self.read)(address, &mut bytes).then(|| u64::from_ne_bytes(bytes))
    }

    fn half(&self, address: u64) -> Option<u32> {
        let mut bytes = [0; 4];
        (self.read)(address, &mut bytes).then(|| u32::from_ne_bytes(bytes))
    }

    /// A text that ends with a zero. It may lie at the end of what is mapped.
    fn text(&self, address: u64) -> Option<String> {
        let mut bytes = Vec::new();
        while bytes.len() < LONGEST_NAME {
            let mut piece = [0; 8];
            (self.read)(address.checked_add(bytes.len() as u64)?, &mut piece).then_some(())?;
            match piece.iter().position(|byte| *byte == 0) {
                None => bytes.extend(piece),
                Some(end) => {
                    bytes.extend(piece.get(..end)?);
                    break;
                }
            }
        }
        String::from_utf8(bytes).ok()
    }
}

/// The tables of a JVM's structures.
struct Tables<'a> {
    memory: &'a JvmMemory<'a>,
    /// The values of the exported symbols that say how entries are laid out.
    symbol: &'a dyn Fn(&str) -> Option<u64>,
}

impl Tables<'_> {
    fn value(&self, symbol: &str) -> Option<u64> {
        self.memory.word((self.symbol)(symbol)?)
    }

    /// Calls for each entry of a table, which ends with one without a name.
    fn each_entry(
        &self,
        table: &str,
        entry: &str,
        name: &str,
        mut each: impl FnMut(u64, String),
    ) -> Option<()> {
        let stride = self.value(&format!("{entry}ArrayStride"))?;
        let name = self.value(&format!("{entry}{name}Offset"))?;
        let start = self.value(table)?;
        for number in 0..MOST_ENTRIES {
            let at = start.checked_add(number.checked_mul(stride)?)?;
            match self.memory.word(at.checked_add(name)?)? {
                0 => break,
                text => each(at, self.memory.text(text).unwrap_or_default()),
            }
        }
        Some(())
    }

    /// The fields of these structures.
    fn fields(&self, structures: &[&str]) -> Option<HashMap<(String, String), Field>> {
        let entry = "gHotSpotVMStructEntry";
        let offset_of = |part: &str| self.value(&format!("{entry}{part}Offset"));
        let (name, kind) = (offset_of("FieldName")?, offset_of("TypeString")?);
        let (is_static, offset) = (offset_of("IsStatic")?, offset_of("Offset")?);
        let address = offset_of("Address")?;
        let mut fields = HashMap::new();
        self.each_entry("gHotSpotVMStructs", entry, "TypeName", |at, structure| {
            if !structures.contains(&structure.as_str()) {
                return;
            }
            let text = |part| self.memory.text(self.memory.word(at.wrapping_add(part))?);
            let found = || {
                let place = match self.memory.half(at.wrapping_add(is_static))? {
                    0 => offset,
                    _ => address,
                };
                let place = self.memory.word(at.wrapping_add(place))?;
                let kind = text(kind)?;
                Some((text(name)?, Field { kind, place }))
            };
            if let Some((name, field)) = found() {
                fields.insert((structure, name), field);
            }
        })?;
        Some(fields)
    }

    /// The size of a structure in bytes.
    fn size_of(&self, structure: &str) -> Option<u64> {
        let entry = "gHotSpotVMTypeEntry";
        let size = self.value(&format!("{entry}SizeOffset"))?;
        let mut found = None;
        self.each_entry("gHotSpotVMTypes", entry, "TypeName", |at, name| {
            if name == structure {
                found = self.memory.word(at.wrapping_add(size));
            }
        })?;
        found
    }
}

impl CodeCache {
    /// Reads where a running JVM has its code; `base` is what addresses in the process are more than in its library `image`.
    /// `None` if it does not say so, or has not begun yet.
    pub fn read<'data, R: object::ReadRef<'data>>(
        image: &ElfImage<'data, R>,
        base: u64,
        memory: &JvmMemory<'_>,
    ) -> Option<Self> {
        let symbol = |name: &str| Some(image.exported_symbol(name)?.0.wrapping_add(base));
        Self::of_tables(&Tables {
            memory,
            symbol: &symbol,
        })
    }

    fn of_tables(tables: &Tables<'_>) -> Option<Self> {
        let fields = tables.fields(&[
            "CodeCache",
            "CodeHeap",
            "VirtualSpace",
            "HeapBlock::Header",
            "CodeBlob",
            "GrowableArrayBase",
            "GenericGrowableArray",
            "GrowableArray<int>",
            "AbstractInterpreter",
            "StubQueue",
        ])?;
        let field =
            |structure: &str, name: &str| fields.get(&(structure.to_owned(), name.to_owned()));
        let place = |structure: &str, name: &str| Some(field(structure, name)?.place);
        let memory = tables.memory;
        let structure = tables.size_of("HeapBlock")?;
        // Offsets beside the head of a piece would not be read.
        let near = |offset: u64| {
            u16::try_from(offset)
                .ok()
                .filter(|offset| *offset <= HEAD - 8)
        };
        let of_blob = |name: &str| near(structure.checked_add(place("CodeBlob", name)?)?);
        let code_is_offset = field("CodeBlob", "_code_begin").is_none();
        let code = match code_is_offset {
            false => of_blob("_code_begin")?,
            true => of_blob("_code_offset")?,
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
    use super::*;
    use std::cell::RefCell;

    /// The memory of a JVM that has one heap, at 4096; what a test changes is `words`.
    struct MadeUp {
        words: RefCell<HashMap<u64, u8>>,
        symbols: HashMap<String, u64>,
        next: u64,
    }

    impl MadeUp {
        fn put(&mut self, bytes: &[u8]) -> u64 {
            let at = self.next;
            let numbered = (at..).zip(bytes.iter().copied());
            self.words.borrow_mut().extend(numbered);
            self.next += bytes.len().next_multiple_of(8) as u64 + 64;
            at
        }

        fn text(&mut self, text: &str) -> u64 {
            let mut bytes = text.as_bytes().to_vec();
            bytes.resize(bytes.len() + 9, 0);
            self.put(&bytes)
        }

        fn export(&mut self, name: &str, value: u64) {
            let at = self.put(&value.to_ne_bytes());
            self.symbols.insert(name.to_owned(), at);
        }

        /// A table of fields: structure, name, type, offset, address.
        fn new(heaps: u32) -> Self {
            let mut made = Self {
                words: RefCell::default(),
                symbols: HashMap::new(),
                next: 1 << 16,
            };
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
            let fields = [
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
            let mut table = Vec::new();
            for (structure, name, kind, offset, address) in fields {
                for text in [structure, name, kind] {
                    table.extend(made.text(text).to_ne_bytes());
                }
                for word in [u64::from(address > 0), offset, address] {
                    table.extend(word.to_ne_bytes());
                }
            }
            table.resize(table.len() + 48, 0);
            let table = made.put(&table);
            made.export("gHotSpotVMStructs", table);
            let block = made.text("HeapBlock");
            let types: Vec<u8> = [block, 8, 0, 0]
                .into_iter()
                .flat_map(u64::to_ne_bytes)
                .collect();
            let types = made.put(&types);
            made.export("gHotSpotVMTypes", types);
            for (name, value) in [
                ("StructEntryArrayStride", 48),
                ("StructEntryTypeNameOffset", 0),
                ("StructEntryFieldNameOffset", 8),
                ("StructEntryTypeStringOffset", 16),
                ("StructEntryIsStaticOffset", 24),
                ("StructEntryOffsetOffset", 32),
                ("StructEntryAddressOffset", 40),
                ("TypeEntryArrayStride", 16),
                ("TypeEntryTypeNameOffset", 0),
                ("TypeEntrySizeOffset", 8),
            ] {
                made.export(&format!("gHotSpotVM{name}"), value);
            }
            made
        }

        fn read(&self) -> Option<CodeCache> {
            let read = |address: u64, bytes: &mut [u8]| {
                let words = self.words.borrow();
                bytes
                    .iter_mut()
                    .zip(address..)
                    .all(|(byte, at)| words.get(&at).map(|there| *byte = *there).is_some())
            };
            CodeCache::of_tables(&Tables {
                memory: &JvmMemory { read: &read },
                symbol: &|name| self.symbols.get(name).copied(),
            })
        }
    }

    #[test]
    fn what_the_jvm_publishes_says_where_code_is() {
        let cache = MadeUp::new(1).read().unwrap();
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
        assert_eq!(MadeUp::new(0).read(), None, "no heap yet");
        let made = MadeUp::new(1);
        let mut places: Vec<u64> = made.words.borrow().keys().copied().collect();
        places.sort_unstable();
        // Any damage is read as far as it goes, within bounds.
        for at in places {
            for byte in [0, 0xff] {
                let old = made.words.borrow_mut().insert(at, byte).unwrap();
                if let Some(cache) = made.read() {
                    assert!(cache.heaps.len() <= MOST_HEAPS && cache.frame_words < HEAD);
                }
                made.words.borrow_mut().insert(at, old);
            }
        }
    }
}
