use crate::contents::{self, Relocations};
use crate::debug_info::DebugInfo;
use crate::demangle::demangle_name;
use crate::elf::{Elf, LoadedSegment};
use crate::error::Error;
use crate::frames::unwind_ranges;
use crate::go_functions;
use crate::input::ImageInput;
use crate::load;
use crate::open;
use crate::search::{self, FoundDebugFile, SymbolOptions};
use crate::symtab::{SymbolEntry, Symbols};
use crate::tables::RawSymbols;
use languages::go::{FunctionTable, GoFrame};
use profile::{
    BuildId, Image, ImageAddress, ImageOffset, Procedure, SourceFrame, UNNAMED_PROCEDURE,
};
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};

/// A procedure as in the symbol table: not demangled.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RawProcedure<'a> {
    /// Its name.
    pub name: &'a [u8],
    /// Its start.
    pub start: ImageOffset,
    /// Its size in bytes; 0 if unknown.
    pub size: u64,
}

impl RawProcedure<'_> {
    /// Returns the procedure with its name demangled.
    pub fn demangle_procedure(&self) -> Procedure {
        Procedure {
            name: demangle_name(&String::from_utf8_lossy(self.name)).into(),
            start: self.start,
            size: self.size,
        }
    }
}

/// An executable or shared library: its procedures, and access to its debug information.
#[derive(Debug)]
pub struct ImageSymbols {
    path: PathBuf,
    elf: Elf,
    symbols: Symbols,
    /// The separate debug file, searched for at once if the image has no symbol table of its own.
    debug_file: Option<(PathBuf, Elf)>,
    complete: bool,
    options: SymbolOptions,
    relocations: OnceLock<Relocations>,
    /// The procedures of the unwind table, by start; read when a place has no other name.
    unwound: OnceLock<Vec<Range<u64>>>,
    /// The table of a Go program; read on the first request for lines.
    go: OnceLock<Option<FunctionTable>>,
}

impl ImageSymbols {
    /// Opens an image and reads its symbol tables, with those of its separate debug file if it was
    /// stripped. Does not read debug information.
    ///
    /// # Errors
    /// If the file cannot be read, is not ELF, or is damaged.
    pub fn open_image(path: &Path, options: &SymbolOptions) -> Result<Self, Error> {
        Self::open_input(path, open::open_input(path)?, options)
    }

    /// Opens the image of a recording: the file at its path if unchanged, else one with its
    /// build-id from the build-id directories or from a server.
    ///
    /// # Errors
    /// [`Error::Gone`] or [`Error::Replaced`] if the file is no longer the recorded one; else as
    /// [`open_image`](Self::open_image).
    pub fn of_recording(image: &Image, options: &SymbolOptions) -> Result<Self, Error> {
        Self::of_this_machine(image, options).or_else(|error| {
            let id = image.build_id.as_ref();
            let path = id.and_then(|id| search::image_of_servers(id, options));
            path.map_or(Err(error), |path| Self::open_image(&path, options))
        })
    }

    /// Opens the image of a recording as [`of_recording`](Self::of_recording) does, without asking
    /// servers.
    pub(crate) fn of_this_machine(image: &Image, options: &SymbolOptions) -> Result<Self, Error> {
        let path = options.path_of(&image.path);
        let wanted = image.build_id.as_ref();
        let failure = match (image.gone, wanted) {
            // A file without a build-id cannot be compared with the recorded one.
            (true, None) => Error::Gone { path },
            _ => match Self::open_image(&path, options) {
                Ok(file) if wanted.is_none() || file.build_id() == wanted => return Ok(file),
                Ok(_) => Error::Replaced { path },
                Err(error) => error,
            },
        };
        let by_id = wanted.and_then(|id| {
            options
                .images_by_id(id)
                .filter_map(|path| Self::open_image(&path, options).ok())
                .find(|file| file.has_code() && file.build_id() == wanted)
        });
        by_id.ok_or(failure)
    }

    /// Opens an image in memory, for instance a vDSO. `name` is its name in errors.
    ///
    /// # Errors
    /// If it is not ELF or is damaged.
    pub fn from_bytes(name: &Path, bytes: Vec<u8>, options: &SymbolOptions) -> Result<Self, Error> {
        Self::open_input(name, ImageInput::Bytes(bytes), options)
    }

    fn open_input(path: &Path, input: ImageInput, options: &SymbolOptions) -> Result<Self, Error> {
        let mut symbols = RawSymbols::default();
        let elf = Elf::read_headers(path, Arc::new(input), &mut symbols)?;
        let mut complete = elf.has_symtab;
        let mut debug_file = None;
        if !elf.has_symtab {
            let found = search::debug_file(path, &elf, options);
            if let Some(FoundDebugFile {
                path,
                elf,
                symbols: more,
            }) = found
            {
                complete = elf.has_symtab;
                symbols.append_symbols(more);
                debug_file = Some((path, elf));
            } else if let Some(bytes) = load::mini_debug_info(path, &elf)? {
                Elf::read_headers(path, Arc::new(ImageInput::Bytes(bytes)), &mut symbols)?;
                complete = true;
            } else if let Some(go) = go_functions::read_functions(&elf) {
                go_functions::add_symbols(&go, &mut symbols);
                complete = true;
            }
        }
        Ok(Self {
            path: path.to_owned(),
            elf,
            symbols: Symbols::new(symbols.candidates, symbols.names),
            debug_file,
            complete,
            options: options.clone(),
            relocations: OnceLock::new(),
            unwound: OnceLock::new(),
            go: OnceLock::new(),
        })
    }

    /// Returns the file.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Returns its build-id, if it has one.
    pub fn build_id(&self) -> Option<&BuildId> {
        self.elf.build_id.as_ref()
    }

    /// Returns whether procedures that are not exported have names too: there is a full symbol
    /// table.
    pub fn is_complete(&self) -> bool {
        self.complete
    }

    /// Returns whether the file has code; a separate debug file has only names.
    pub fn has_code(&self) -> bool {
        self.elf.has_code
    }

    /// Returns the image's address of a position in its file; `None` if that is not loaded.
    pub fn address_of(&self, offset: ImageOffset) -> Option<ImageAddress> {
        // If two segments share a page of the file, the executable one counts.
        let holds = |segment: &&LoadedSegment| {
            offset
                .0
                .checked_sub(segment.offset)
                .is_some_and(|at| at < segment.file_size)
        };
        let holding = || self.elf.segments.iter().filter(holds);
        let segment = holding()
            .find(|segment| segment.executable)
            .or_else(|| holding().next())?;
        let address = segment.address.checked_add(offset.0 - segment.offset)?;
        Some(ImageAddress(address))
    }

    /// Returns the position in the file of an address; `None` if it is not loaded from the file.
    pub fn offset_of(&self, address: ImageAddress) -> Option<ImageOffset> {
        let segment = self.elf.segments.iter().find(|segment| {
            address
                .0
                .checked_sub(segment.address)
                .is_some_and(|at| at < segment.file_size)
        })?;
        segment
            .offset
            .checked_add(address.0 - segment.address)
            .map(ImageOffset)
    }

    /// Fills the buffer with the bytes loaded at an address, with relative relocations applied;
    /// returns false if the file lacks any of them.
    pub fn read_loaded(&self, address: ImageAddress, buffer: &mut [u8]) -> bool {
        let relocations = self
            .relocations
            .get_or_init(|| Relocations::relocations_of(&self.elf));
        contents::read_loaded(&self.elf, relocations, address, buffer)
    }

    /// Returns whether the image is a Go program, whose own table has lines.
    pub(crate) fn has_go_functions(&self) -> bool {
        self.go_functions().is_some()
    }

    fn go_functions(&self) -> Option<&FunctionTable> {
        let read = || go_functions::read_functions(&self.elf);
        self.go.get_or_init(read).as_ref()
    }

    /// Returns the functions at a position with their lines, by the table of a Go program,
    /// innermost inlined call first.
    pub(crate) fn go_frames(&self, offset: ImageOffset) -> Vec<SourceFrame> {
        let place = self.go_functions().zip(self.address_of(offset));
        let frames = place.map_or_else(Vec::new, |(go, address)| {
            go.frames_at(address.0, |at, buffer| {
                go_functions::read_stored(&self.elf, at, buffer)
            })
        });
        let source_frame = |frame: GoFrame| SourceFrame {
            function: frame.function.into(),
            file: frame.file.map(Into::into),
            line: frame.line,
        };
        frames.into_iter().map(source_frame).collect()
    }

    /// Returns the processor of the code: ELF's `e_machine` (62 is x86-64, 183 AArch64).
    pub fn elf_machine(&self) -> u16 {
        self.elf.machine
    }

    /// Returns the procedure at a position, by the symbol tables.
    pub fn procedure_at(&self, offset: ImageOffset) -> Option<RawProcedure<'_>> {
        self.raw_procedure(self.symbols.find(self.address_of(offset)?)?)
    }

    /// Returns the procedure at a position by the unwind table, which stripping keeps. Its name
    /// consists of its address and the build, so that the same place in another build is another
    /// procedure.
    pub fn unwind_procedure(&self, offset: ImageOffset) -> Option<Procedure> {
        let address = self.address_of(offset)?.0;
        let ranges = self.unwound.get_or_init(|| unwind_ranges(&self.elf));
        let after = ranges.partition_point(|range| range.start <= address);
        let range = ranges.get(after.checked_sub(1)?)?;
        let start = self.offset_of(ImageAddress(range.start))?;
        let build = self.build_id().map(BuildId::to_string).unwrap_or_default();
        let build = build.get(..8).map(|id| format!(" {id}"));
        range.contains(&address).then(|| Procedure {
            name: format!(
                "{UNNAMED_PROCEDURE}{:#x}{}]",
                range.start,
                build.unwrap_or_default()
            )
            .into(),
            start,
            size: range.end - range.start,
        })
    }

    /// Returns all procedures of the symbol tables, by address. Aliases are given once; a procedure
    /// inside another one (an alternative entry) follows it.
    pub fn all_procedures(&self) -> impl Iterator<Item = RawProcedure<'_>> {
        self.symbols
            .entries()
            .iter()
            .filter_map(|entry| self.raw_procedure(*entry))
    }

    fn raw_procedure(&self, entry: SymbolEntry) -> Option<RawProcedure<'_>> {
        Some(RawProcedure {
            name: self.symbols.name(entry),
            start: self.offset_of(ImageAddress(entry.start))?,
            size: entry.end - entry.start,
        })
    }

    /// Opens the debug information of the image, or of its separate debug file, which a server may
    /// have. `None` if there is none.
    ///
    /// # Errors
    /// If it is damaged.
    pub fn debug_info(&self) -> Result<Option<DebugInfo>, Error> {
        let open = |path: &Path, elf: &Elf| {
            DebugInfo::open(path.to_owned(), elf, self.path.clone(), &self.options).map(Some)
        };
        if self.elf.has_dwarf() {
            return open(&self.path, &self.elf);
        }
        if let Some((path, elf)) = &self.debug_file {
            return if elf.has_dwarf() {
                open(path, elf)
            } else {
                Ok(None)
            };
        }
        match search::debug_file(&self.path, &self.elf, &self.options) {
            Some(found) if found.elf.has_dwarf() => open(&found.path, &found.elf),
            _ => match search::debug_file_of_servers(&self.elf, &self.options) {
                Some(found) if found.elf.has_dwarf() => open(&found.path, &found.elf),
                _ => Ok(None),
            },
        }
    }
}

impl RawSymbols {
    fn append_symbols(&mut self, more: Self) {
        let base = self.names.len() as u64;
        self.names.extend(more.names);
        self.candidates
            .extend(more.candidates.into_iter().map(|mut candidate| {
                candidate.name += base;
                candidate
            }));
    }
}
