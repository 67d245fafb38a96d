//! An image in memory, for examples that visit all of its procedures.

use machine::{LoadedImage, is_never_returning};
use object::{Object, ObjectSegment, ObjectSymbol, SymbolKind};
use profile::ImageAddress;
use std::collections::{BTreeMap, HashSet};

/// Sizes and names of procedures, by start.
pub type Procedures<'a> = BTreeMap<u64, (u64, &'a str)>;

/// Mapped segments of an image, and its procedures that do not return.
pub struct Loaded<'a> {
    segments: Vec<(u64, &'a [u8])>,
    never_return: HashSet<u64>,
}

impl<'a> Loaded<'a> {
    /// Returns the image, and its procedures of known size.
    pub fn of(file: &object::File<'a>) -> Result<(Self, Procedures<'a>), object::Error> {
        let mut loaded = Self {
            segments: Vec::new(),
            never_return: HashSet::new(),
        };
        for segment in file.segments() {
            loaded.segments.push((segment.address(), segment.data()?));
        }
        let mut procedures = BTreeMap::new();
        for symbol in file.symbols().chain(file.dynamic_symbols()) {
            if symbol.kind() != SymbolKind::Text {
                continue;
            }
            let name = symbol.name()?;
            if is_never_returning(name) {
                loaded.never_return.insert(symbol.address());
            }
            if symbol.size() > 0 {
                procedures.insert(symbol.address(), (symbol.size(), name));
            }
        }
        Ok((loaded, procedures))
    }

    /// Returns bytes of the image.
    pub fn bytes(&self, address: u64, size: u64) -> Option<&'a [u8]> {
        self.segments.iter().find_map(|(start, data)| {
            let from = usize::try_from(address.checked_sub(*start)?).ok()?;
            data.get(from..from.checked_add(usize::try_from(size).ok()?)?)
        })
    }
}

impl LoadedImage for Loaded<'_> {
    fn read_loaded(&self, address: ImageAddress, buffer: &mut [u8]) -> bool {
        let bytes = self.bytes(address.0, buffer.len() as u64);
        bytes.is_some_and(|bytes| {
            buffer.copy_from_slice(bytes);
            true
        })
    }

    fn never_returns(&self, target: ImageAddress) -> bool {
        self.never_return.contains(&target.0)
    }
}
