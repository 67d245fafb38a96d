use crate::{ImageId, ImageOffset, Location};
use rustc_hash::FxHashMap;
use std::sync::Arc;

/// A symbol stored in the recording, because its code may not be readable later: the kernel, a
/// module, the vDSO, code generated at run time, a deleted file, and all code in a closed epoch of
/// the daemon.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct EmbeddedSymbol {
    /// The image.
    pub image: ImageId,
    /// First byte of the procedure.
    pub start: ImageOffset,
    /// First byte after it; equal to `start` if the size is unknown.
    pub end: ImageOffset,
    /// Its name, not demangled if it comes from a symbol table.
    pub name: String,
}

/// The prefix of names of nameless procedures: `[function at 0x1140 3fa2c18d]` starts at that
/// address of the image with that build-id.
pub const UNNAMED_PROCEDURE: &str = "[function at ";

/// A procedure: a symbol of the image with an extent.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Procedure {
    /// Demangled name.
    pub name: Arc<str>,
    /// Start address, in the image.
    pub start: ImageOffset,
    /// Its size in bytes; 0 if unknown.
    pub size: u64,
}

/// A function at a source line; one place has several if calls were inlined.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct SourceFrame {
    /// Demangled name of the function.
    pub function: Arc<str>,
    /// Source file, as the debug information spells it (directory joined).
    pub file: Option<Arc<str>>,
    /// Source line, from 1.
    pub line: Option<u32>,
}

/// The procedure, line and inlined calls of one location, as far as known.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Resolution {
    /// The procedure that contains it, by the symbol table (or, without one, by the debug
    /// information).
    pub procedure: Option<Procedure>,
    /// The functions at this place by the debug information, innermost inlined call first; the last
    /// one is the procedure itself. Empty without debug information.
    pub inlined: Vec<SourceFrame>,
}

/// Resolutions of the locations of a recording.
#[derive(Clone, Debug, Default)]
pub struct SymbolTable {
    by_location: FxHashMap<Location, Resolution>,
}

impl SymbolTable {
    /// Makes an empty table.
    pub fn new() -> Self {
        Self::default()
    }

    /// Sets the resolution of a location.
    pub fn insert(&mut self, location: Location, resolution: Resolution) {
        self.by_location.insert(location, resolution);
    }

    /// Returns the resolution of a location.
    pub fn get(&self, location: Location) -> Option<&Resolution> {
        self.by_location.get(&location)
    }

    /// Returns the procedure at a location.
    pub fn procedure(&self, location: Location) -> Option<&Procedure> {
        self.get(location)?.procedure.as_ref()
    }

    /// Returns how many locations are known.
    pub fn len(&self) -> usize {
        self.by_location.len()
    }

    /// Returns whether no location is known.
    pub fn is_empty(&self) -> bool {
        self.by_location.is_empty()
    }
}

impl Extend<(Location, Resolution)> for SymbolTable {
    fn extend<T: IntoIterator<Item = (Location, Resolution)>>(&mut self, iter: T) {
        self.by_location.extend(iter);
    }
}
