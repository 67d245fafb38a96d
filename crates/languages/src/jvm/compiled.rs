//! Compiled methods of Java, with the calls inlined at each place.

use super::known_methods::KnownMethods;
use super::method::JavaMethod;
use super::method_layout::{CodeTables, MethodLayout};
use super::packed::PackedNumbers;
use super::tables::JvmMemory;
use std::collections::HashMap;
use std::rc::Rc;

/// Maximum number of bytes read of a table.
const MOST_TABLE: u64 = 1 << 22;
/// Maximum number of methods that a code blob names, and of calls inlined into each other.
const MOST_METHODS: usize = 4096;
const DEEPEST: usize = 64;
/// Maximum number of calls of all places of a code blob, and of bytes read of its methods. In
/// damaged tables each place can lead through many others, to methods with large tables of lines.
const MOST_CALLS: usize = 1 << 17;
const MOST_METHOD_BYTES: usize = 1 << 22;
/// A place of a table: the offset in the code, and its scope (4 bytes each), in 16 bytes.
type Place = [u8; 16];

/// An inlined call: a method, by its number, and the instruction in it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct InlinedCall {
    method: u32,
    /// The instruction in the method; `None` at the method's beginning.
    instruction: Option<u16>,
}

/// A compiled method.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CompiledCode {
    /// The compiled method first, then the inlined ones.
    methods: Vec<Rc<JavaMethod>>,
    /// Ends of the known places (offsets in the code, in order), each with the index of its first
    /// call.
    places: Vec<(u32, u32)>,
    /// The calls of each place, the innermost first; `None` ends them.
    calls: Vec<Option<InlinedCall>>,
    /// Size of its methods that no earlier code had.
    method_bytes: usize,
}

impl CompiledCode {
    /// Returns its approximate size in bytes.
    pub fn memory(&self) -> usize {
        let own = size_of_val(self.methods.as_slice())
            + size_of_val(self.places.as_slice())
            + size_of_val(self.calls.as_slice());
        own + self.method_bytes
    }

    /// Returns the methods at an offset in the code, the innermost first, each with its line.
    pub fn methods_at(&self, offset: u32) -> Vec<(&JavaMethod, u32)> {
        // A place describes the code up to it.
        let behind = self.places.partition_point(|(end, _)| *end < offset);
        let first = self.places.get(behind).map(|(_, first)| *first as usize);
        let calls = first.and_then(|first| self.calls.get(first..));
        let calls = calls.unwrap_or_default().iter().map_while(|call| *call);
        let mut methods: Vec<_> = calls
            .filter_map(|call| {
                let method = self.methods.get(call.method as usize)?;
                Some((&**method, method.line(call.instruction)))
            })
            .collect();
        if let (true, Some(compiled)) = (methods.is_empty(), self.methods.first()) {
            methods.push((compiled, compiled.first_line()));
        }
        methods
    }

    /// Reads the code whose structure begins at an address. `known` has methods that were read
    /// before, by address.
    pub(super) fn read(
        layout: &MethodLayout,
        piece: u64,
        memory: &JvmMemory<'_>,
        known: &mut KnownMethods,
    ) -> Option<Self> {
        let compiled = memory.word(piece.checked_add(layout.piece.method)?)?;
        let mut reader = ScopeReader {
            layout,
            memory,
            known,
            numbers: HashMap::new(),
            code: Self::default(),
        };
        reader.method_number(compiled)?;
        if let Some(tables) = TableBytes::read(&layout.piece.tables, piece, memory) {
            reader.add_places(&tables);
        }
        Some(reader.code)
    }
}

/// The tables of a piece of code.
struct TableBytes {
    places: Vec<u8>,
    scopes: Vec<u8>,
    methods: Vec<u8>,
}

impl TableBytes {
    fn read(tables: &CodeTables, piece: u64, memory: &JvmMemory<'_>) -> Option<Self> {
        let word = |offset: u64| memory.word(piece.checked_add(offset)?);
        let half = |offset: u64| Some(u64::from(memory.half(piece.checked_add(offset)?)?));
        let bytes = |start: u64, end: u64| {
            let length = end
                .checked_sub(start)
                .filter(|length| *length <= MOST_TABLE)?;
            let mut bytes = vec![0; length as usize];
            (memory.read)(start, &mut bytes).then_some(bytes)
        };
        match *tables {
            CodeTables::Within {
                places,
                places_end,
                scopes,
                methods,
            } => {
                let (places, places_end) = (half(places)?, half(places_end)?);
                let (scopes, methods) = (word(scopes)?, half(methods)?);
                let at = |offset: u64| piece.checked_add(offset);
                Some(Self {
                    places: bytes(at(places)?, at(places_end)?)?,
                    scopes: bytes(scopes, at(places)?)?,
                    methods: bytes(at(methods)?, scopes)?,
                })
            }
            CodeTables::Apart {
                unchanging,
                unchanging_size,
                places,
                scopes,
                changing,
                changing_size,
                relocations,
            } => {
                let unchanging_at = word(unchanging)?;
                let at = |offset: u64| unchanging_at.checked_add(offset);
                let (places, scopes) = (at(half(places)?)?, at(half(scopes)?)?);
                let changing = word(changing)?;
                let methods = changing.checked_add(half(relocations)?)?;
                let methods_end = changing.checked_add(half(changing_size)?)?;
                Some(Self {
                    places: bytes(places, scopes)?,
                    scopes: bytes(scopes, at(half(unchanging_size)?)?)?,
                    methods: bytes(methods, methods_end)?,
                })
            }
        }
    }
}

/// Collector of the calls of each place.
struct ScopeReader<'a> {
    layout: &'a MethodLayout,
    memory: &'a JvmMemory<'a>,
    known: &'a mut KnownMethods,
    /// Indices of the methods in this code, by address; `None` if the method could not be read.
    numbers: HashMap<u64, Option<u32>>,
    code: CompiledCode,
}

impl ScopeReader<'_> {
    fn add_places(&mut self, tables: &TableBytes) {
        let mut seen: HashMap<u32, u32> = HashMap::new();
        for place in tables.places.as_chunks().0 {
            let (end, scope) = place_parts(place);
            // The first place is before the code.
            let (Ok(end), true) = (u32::try_from(end), scope > 0) else {
                continue;
            };
            if self.code.calls.len() > MOST_CALLS {
                break;
            }
            let first = *seen.entry(scope).or_insert_with(|| {
                let first = self.code.calls.len() as u32;
                self.add_calls(tables, scope);
                first
            });
            self.code.places.push((end, first));
        }
        self.code.places.sort_by_key(|(end, _)| *end);
    }

    /// Adds the calls from a scope outwards, up to damaged ones.
    fn add_calls(&mut self, tables: &TableBytes, mut scope: u32) {
        for _ in 0..DEEPEST {
            let Some((sender, call)) = self.read_scope(tables, scope) else {
                break;
            };
            self.code.calls.push(Some(call));
            // Scopes of callers are written first.
            if sender == 0 || sender >= scope {
                break;
            }
            scope = sender;
        }
        self.code.calls.push(None);
    }

    fn read_scope(&mut self, tables: &TableBytes, scope: u32) -> Option<(u32, InlinedCall)> {
        let bytes = tables.scopes.get(scope as usize..)?;
        let mut packed = PackedNumbers::new(bytes, self.layout.packed_excess);
        let sender = packed.unsigned()?;
        let index = (packed.unsigned()? as usize).checked_sub(1)?;
        let instruction = packed.unsigned()?;
        let (methods, _) = tables.methods.as_chunks::<8>();
        let method = u64::from_ne_bytes(*methods.get(index)?);
        let call = InlinedCall {
            method: self.method_number(method)?,
            instruction: instruction
                .checked_sub(1)
                .and_then(|at| u16::try_from(at).ok()),
        };
        Some((sender, call))
    }

    /// Returns the number of a method; reads it if it is new.
    fn method_number(&mut self, address: u64) -> Option<u32> {
        if let Some(number) = self.numbers.get(&address) {
            return *number;
        }
        let number = self.add_method(address);
        self.numbers.insert(address, number);
        number
    }

    fn add_method(&mut self, address: u64) -> Option<u32> {
        let number = self.code.methods.len();
        if number >= MOST_METHODS || self.code.method_bytes > MOST_METHOD_BYTES {
            return None;
        }
        let (method, bytes) = self.known.find_or_read(self.layout, address, self.memory)?;
        self.code.method_bytes += bytes;
        self.code.methods.push(method);
        Some(number as u32)
    }
}

fn place_parts(place: &Place) -> (i32, u32) {
    let [e0, e1, e2, e3, s0, s1, s2, s3, ..] = *place;
    let end = i32::from_ne_bytes([e0, e1, e2, e3]);
    (end, u32::from_ne_bytes([s0, s1, s2, s3]))
}
