//! Made-up memory of a JVM, for tests.

use super::tables::{JvmMemory, PublishedStructures};
use std::cell::RefCell;
use std::collections::HashMap;

/// A published field: structure, name, type, offset, address (0 if it is not static).
pub(super) type PublishedField<'a> = (&'a str, &'a str, &'a str, u64, u64);

/// Memory of single bytes; all others are unmapped.
pub(super) struct MadeUp {
    bytes: RefCell<HashMap<u64, u8>>,
    symbols: HashMap<String, u64>,
    next: u64,
}

impl Default for MadeUp {
    fn default() -> Self {
        Self {
            bytes: RefCell::default(),
            symbols: HashMap::new(),
            next: 1 << 16,
        }
    }
}

impl MadeUp {
    /// Stores bytes at a new address.
    pub fn put(&mut self, bytes: &[u8]) -> u64 {
        let at = self.next;
        self.put_at(at, bytes);
        self.next += bytes.len().next_multiple_of(8) as u64 + 64;
        at
    }

    pub fn put_at(&mut self, at: u64, bytes: &[u8]) {
        let numbered = (at..).zip(bytes.iter().copied());
        self.bytes.borrow_mut().extend(numbered);
    }

    pub fn text(&mut self, text: &str) -> u64 {
        let mut bytes = text.as_bytes().to_vec();
        bytes.resize(bytes.len() + 9, 0);
        self.put(&bytes)
    }

    fn export(&mut self, name: &str, value: u64) {
        let at = self.put(&value.to_ne_bytes());
        self.symbols.insert(name.to_owned(), at);
    }

    /// Publishes fields, and the sizes of types.
    pub fn publish(&mut self, fields: &[PublishedField<'_>], sizes: &[(&str, u64)]) {
        let mut table = Vec::new();
        for (structure, name, kind, offset, address) in fields {
            for text in [structure, name, kind] {
                table.extend(self.text(text).to_ne_bytes());
            }
            for word in [u64::from(*address > 0), *offset, *address] {
                table.extend(word.to_ne_bytes());
            }
        }
        table.resize(table.len() + 48, 0);
        let table = self.put(&table);
        self.export("gHotSpotVMStructs", table);
        let mut types = Vec::new();
        for (name, size) in sizes {
            types.extend(self.text(name).to_ne_bytes());
            types.extend(size.to_ne_bytes());
        }
        types.resize(types.len() + 16, 0);
        let types = self.put(&types);
        self.export("gHotSpotVMTypes", types);
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
            self.export(&format!("gHotSpotVM{name}"), value);
        }
    }

    pub fn with_memory<T>(&self, read: impl FnOnce(&JvmMemory<'_>) -> T) -> T {
        let at = |address: u64, bytes: &mut [u8]| {
            let there = self.bytes.borrow();
            bytes
                .iter_mut()
                .zip(address..)
                .all(|(byte, at)| there.get(&at).map(|there| *byte = *there).is_some())
        };
        read(&JvmMemory { read: &at })
    }

    pub fn published(&self, structures: &[&str]) -> Option<PublishedStructures> {
        let symbol = |name: &str| self.symbols.get(name).copied();
        self.with_memory(|memory| PublishedStructures::read(memory, &symbol, structures))
    }

    /// Calls `look` with each byte overwritten in turn.
    pub fn damage_each_byte(&self, look: impl Fn(&Self)) {
        let mut places: Vec<u64> = self.bytes.borrow().keys().copied().collect();
        places.sort_unstable();
        for at in places {
            for byte in [0, 0xff] {
                let old = self.bytes.borrow_mut().insert(at, byte);
                look(self);
                self.bytes.borrow_mut().extend(old.map(|old| (at, old)));
            }
        }
    }
}
