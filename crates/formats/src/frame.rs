//! Names of locations.

use crate::write::WriteOptions;
use profile::{
    Image, ImageKind, ImageOffset, Location, Procedure, Recording, Resolution, SymbolTable,
};
use std::borrow::Cow;

/// A function that ran at a location.
pub(crate) struct FrameFunction<'a> {
    /// Its name; never empty.
    pub name: Cow<'a, str>,
    /// Source file of the function.
    pub file: Option<&'a str>,
    /// Executed line, from 1.
    pub line: Option<u32>,
}

/// Names the locations of a recording.
#[derive(Clone, Copy)]
pub(crate) struct Namer<'a> {
    recording: &'a Recording,
    symbols: &'a SymbolTable,
    inline: bool,
}

impl<'a> Namer<'a> {
    pub fn new(recording: &'a Recording, symbols: &'a SymbolTable, options: &WriteOptions) -> Self {
        Self {
            recording,
            symbols,
            inline: options.inline,
        }
    }

    /// Returns the functions at a location, innermost inlined call first; at least one.
    pub fn functions_at(self, location: Location) -> impl Iterator<Item = FrameFunction<'a>> {
        let resolution = self.symbols.get(location);
        let inlined = resolution.map_or(0, |r| r.inlined.len());
        let depths = if self.inline { inlined.max(1) } else { 1 };
        (0..depths).map(move |depth| self.function_at_depth(location, resolution, depth))
    }

    /// Returns the procedure at a location, if it is known.
    pub fn procedure_at(self, location: Location) -> Option<&'a Procedure> {
        self.symbols.procedure(location)
    }

    /// Returns whether inlined calls at the location are separate frames.
    pub fn expands_inlined_calls(self, location: Location) -> bool {
        let resolution = self.symbols.get(location);
        self.inline && resolution.is_some_and(|r| !r.inlined.is_empty())
    }

    /// Returns whether any function is known at the location.
    pub fn knows_location(self, location: Location) -> bool {
        let resolution = self.symbols.get(location);
        resolution.is_some_and(|r| r.procedure.is_some() || !r.inlined.is_empty())
    }

    fn function_at_depth(
        self,
        location: Location,
        resolution: Option<&'a Resolution>,
        depth: usize,
    ) -> FrameFunction<'a> {
        let inlined = resolution.map_or(&[][..], |r| &r.inlined);
        let source = if self.inline {
            inlined.get(depth)
        } else {
            inlined.last()
        };
        let by_debug_info = source.map(|s| &*s.function);
        let by_symbol = resolution
            .and_then(|r| r.procedure.as_ref())
            .map(|p| &*p.name);
        let name = if self.inline {
            by_debug_info.or(by_symbol)
        } else {
            by_symbol.or(by_debug_info)
        };
        FrameFunction {
            name: match name {
                Some(name) if !name.is_empty() => Cow::Borrowed(name),
                _ => unnamed_place(self.recording.image(location.image), location.offset),
            },
            file: source.and_then(|s| s.file.as_deref()),
            line: source.and_then(|s| s.line),
        }
    }
}

/// Returns the name of a place without a symbol.
fn unnamed_place(image: &Image, offset: ImageOffset) -> Cow<'_, str> {
    if image.kind == ImageKind::Unknown {
        return Cow::Borrowed("[unknown]");
    }
    Cow::Owned(format!("{}+{:#x}", base_name(image), offset.0))
}

/// Returns the last component of an image's path; a name in brackets unchanged.
pub fn base_name(image: &Image) -> &str {
    base_of_path(&image.path)
}

/// Returns the last component of a path; a name in brackets unchanged.
pub(crate) fn base_of_path(path: &str) -> &str {
    let base = match path.rsplit_once('/') {
        Some((_, base)) if !path.starts_with('[') => base,
        _ => path,
    };
    if base.is_empty() { "[unknown]" } else { base }
}

/// Returns the name of a process, or a stand-in for an empty one.
pub(crate) fn process_name(name: &str) -> &str {
    if name.is_empty() { "[unknown]" } else { name }
}

/// Returns whether code of this image runs in the kernel.
pub(crate) fn is_kernel(image: &Image) -> bool {
    matches!(image.kind, ImageKind::Kernel | ImageKind::KernelModule)
}
