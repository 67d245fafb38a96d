//! Lines and inlined calls: DWARF, read unit by unit on lookups.

use crate::abbreviations;
use crate::demangle::demangle_name;
use crate::elf::Elf;
use crate::error::Error;
use crate::load;
use crate::open;
use crate::search::{self, SymbolOptions};
use crate::section::{Meter, SectionReader};
use crate::tables::RawSymbols;
use addr2line::{Context, LookupContinuation, LookupResult, SplitDwarfLoad};
use gimli::{Dwarf, DwarfPackage, Reader as _, UnitRef};
use profile::{ImageAddress, SourceFrame};
use rustc_hash::FxHashMap;
use std::cell::{OnceCell, RefCell};
use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::ops::Range;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// A function in the debug information.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DebugProcedure {
    /// Its name, demangled.
    pub name: Arc<str>,
    /// Its addresses; for a function in several pieces, those of the piece at the requested
    /// address.
    pub range: Range<ImageAddress>,
}

/// A row of the line table: from this address to the next row.
pub(crate) struct LineRow {
    pub start: u64,
    /// Line; 0 outside of code, or for code without a line.
    pub line: u64,
    pub discriminator: u64,
}

/// A unit, by the id of its `.dwo` file, or by its position.
pub(crate) type UnitKey = (bool, u64);

/// The debug information of one image, from [`crate::ImageSymbols::debug_info`].
///
/// It caches parsed data, and belongs to one thread at a time: one thread can open it and another
/// one use it.
pub struct DebugInfo {
    /// The file that contains it, which need not be the image.
    pub(crate) path: PathBuf,
    image_path: PathBuf,
    dwarf: Arc<Dwarf<SectionReader>>,
    pub(crate) context: Context<SectionReader>,
    pub(crate) meter: Arc<Meter>,
    package: OnceCell<Option<DwarfPackage<SectionReader>>>,
    missing: RefCell<BTreeSet<PathBuf>>,
    texts: RefCell<FxHashMap<String, Arc<str>>>,
    procedures: RefCell<FxHashMap<UnitKey, Arc<[Range<u64>]>>>,
    pub(crate) rows: RefCell<FxHashMap<UnitKey, Arc<[LineRow]>>>,
}

// One thread may open it, which takes long for large programs, and another one use it.
const _: () = {
    const fn assert_send<T: Send>() {}
    assert_send::<DebugInfo>();
};

impl DebugInfo {
    /// Opens the debug information. `path` is the file of `elf`, `image_path` that of the described
    /// image.
    pub(crate) fn open(
        path: PathBuf,
        elf: &Elf,
        image_path: PathBuf,
        options: &SymbolOptions,
    ) -> Result<Self, Error> {
        let meter = Meter::new();
        let mut dwarf = load::load_dwarf(&path, elf, &meter)?;
        if let Some(shared) = search::shared_debug_file(&path, elf, options) {
            dwarf.set_sup(load::load_dwarf(&shared.path, &shared.elf, &meter)?);
        }
        // Units from one assembler run may share their abbreviations.
        dwarf.populate_abbreviations_cache(gimli::AbbreviationsCacheStrategy::Duplicates);
        let dwarf = Arc::new(dwarf);
        let context = Context::from_arc_dwarf(Arc::clone(&dwarf))
            .map_err(|error| load::debug_error(&path, &meter, error))?;
        Ok(Self {
            path,
            image_path,
            dwarf,
            context,
            meter,
            package: OnceCell::new(),
            missing: RefCell::default(),
            texts: RefCell::default(),
            procedures: RefCell::default(),
            rows: RefCell::default(),
        })
    }

    /// Returns the file with the debug information.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Returns the split debug information (`.dwo`, `.dwp`) that was needed so far and not found.
    pub fn missing_split_files(&self) -> Vec<PathBuf> {
        self.missing.borrow().iter().cloned().collect()
    }

    /// Returns the functions at an address, innermost inlined call first. Empty if the debug
    /// information does not cover the address. `procedure` names the function if only its line is
    /// known (assembly).
    ///
    /// # Errors
    /// If the debug information of that place is damaged.
    pub fn source_frames(
        &self,
        address: ImageAddress,
        procedure: Option<&Arc<str>>,
    ) -> Result<Vec<SourceFrame>, Error> {
        self.meter.start();
        self.find_frames(address, procedure)
            .map_err(|error| load::debug_error(&self.path, &self.meter, error))
    }

    fn find_frames(
        &self,
        address: ImageAddress,
        procedure: Option<&Arc<str>>,
    ) -> gimli::Result<Vec<SourceFrame>> {
        let mut found = Vec::new();
        if address.0 == u64::MAX {
            return Ok(found);
        }
        let mut frames = self.complete_lookup(self.context.find_frames(address.0))?;
        while let Some(frame) = frames.next()? {
            let function = match &frame.function {
                Some(function) => self.shared_text(&demangle_name(&function.raw_name()?)),
                None => match procedure {
                    Some(procedure) => Arc::clone(procedure),
                    None => self.shared_text("[unknown]"),
                },
            };
            let location = frame.location.as_ref();
            found.push(SourceFrame {
                function,
                file: location
                    .and_then(|l| l.file)
                    .map(|file| self.shared_text(file)),
                line: location.and_then(|l| l.line),
            });
        }
        Ok(found)
    }

    /// Returns the name and address range of the function at an address, for images without
    /// symbols.
    ///
    /// # Errors
    /// If the debug information of that place is damaged.
    pub fn procedure_at(&self, address: ImageAddress) -> Result<Option<DebugProcedure>, Error> {
        self.meter.start();
        let found = self.find_procedure(address);
        found.map_err(|error| load::debug_error(&self.path, &self.meter, error))
    }

    fn find_procedure(&self, address: ImageAddress) -> gimli::Result<Option<DebugProcedure>> {
        let Some((key, unit)) = self.unit_of(address) else {
            return Ok(None);
        };
        let known = self.procedures.borrow().get(&key).map(Arc::clone);
        let ranges = match known {
            Some(ranges) => ranges,
            None => {
                let ranges = subprogram_ranges(&unit)?;
                self.procedures
                    .borrow_mut()
                    .insert(key, Arc::clone(&ranges));
                ranges
            }
        };
        let index = ranges.partition_point(|range| range.start <= address.0);
        let Some(range) = index.checked_sub(1).and_then(|index| ranges.get(index)) else {
            return Ok(None);
        };
        if address.0 >= range.end {
            return Ok(None);
        }
        let outermost = self.find_frames(address, None)?.pop();
        Ok(outermost.map(|frame| DebugProcedure {
            name: frame.function,
            range: ImageAddress(range.start)..ImageAddress(range.end),
        }))
    }

    /// Returns the unit of an address.
    pub(crate) fn unit_of(
        &self,
        address: ImageAddress,
    ) -> Option<(UnitKey, UnitRef<'_, SectionReader>)> {
        if address.0 == u64::MAX {
            return None;
        }
        let unit = self.complete_lookup(self.context.find_dwarf_and_unit(address.0))?;
        let key = match unit.dwo_id {
            Some(id) => (true, id.0),
            None => (
                false,
                unit.debug_info_offset().map_or(0, |offset| offset.0 as u64),
            ),
        };
        Some((key, unit))
    }

    /// Calls `visit` with every piece of the line table: addresses, file and line. Pieces of one
    /// line come in no particular order, and repeatedly.
    ///
    /// # Errors
    /// If the line table is damaged; the pieces before the damage have been visited.
    pub fn for_each_line(
        &self,
        mut visit: impl FnMut(Range<ImageAddress>, &str, u32),
    ) -> Result<(), Error> {
        self.meter.start();
        crate::lines::visit_lines(&self.dwarf, &mut visit)
            .map_err(|error| load::debug_error(&self.path, &self.meter, error))
    }

    /// Loads split debug information until a lookup has all that it needs.
    pub(crate) fn complete_lookup<L>(&self, mut lookup: LookupResult<L>) -> L::Output
    where
        L: LookupContinuation<Buf = SectionReader>,
    {
        loop {
            lookup = match lookup {
                LookupResult::Output(output) => return output,
                LookupResult::Load { load, continuation } => {
                    continuation.resume(self.load_split(&load))
                }
            };
        }
    }

    fn load_split(
        &self,
        load: &SplitDwarfLoad<SectionReader>,
    ) -> Option<Arc<Dwarf<SectionReader>>> {
        if let Some(package) = self.split_package()
            && let Ok(Some(unit)) = package.find_cu(load.dwo_id, &load.parent)
            && abbreviations::check_abbreviations(&unit, &self.meter).is_ok()
        {
            return Some(Arc::new(unit));
        }
        let name = path_of(load.path.as_ref()?)?;
        let stated = match load.comp_dir.as_ref().and_then(path_of) {
            Some(dir) => dir.join(&name),
            None => name,
        };
        // At the compiler's place, or moved together with the image.
        let beside = self.image_path.parent().zip(stated.file_name());
        let beside = beside.map(|(dir, name)| dir.join(name));
        let found = std::iter::once(stated.clone())
            .chain(beside)
            .find_map(|path| {
                let elf = open::open_elf(&path, &mut RawSymbols::default()).ok()?;
                let dwarf = load::load_split_dwarf(&path, &elf, &load.parent, &self.meter).ok()?;
                // A later build may have written another file to the same place.
                let header = dwarf.units().next().ok()??;
                (dwarf.unit(header).ok()?.dwo_id == Some(load.dwo_id)).then(|| Arc::new(dwarf))
            });
        if found.is_none() {
            self.missing.borrow_mut().insert(stated);
        }
        found
    }

    fn split_package(&self) -> Option<&DwarfPackage<SectionReader>> {
        let open = || {
            [&self.image_path, &self.path].into_iter().find_map(|path| {
                let mut name = path.clone().into_os_string();
                name.push(".dwp");
                let path = PathBuf::from(name);
                let elf = open::open_elf(&path, &mut RawSymbols::default()).ok()?;
                load::load_dwarf_package(&path, &elf, &self.meter).ok()
            })
        };
        self.package.get_or_init(open).as_ref()
    }

    /// Returns a shared copy of a text, so that each text is stored once.
    pub(crate) fn shared_text(&self, text: &str) -> Arc<str> {
        let mut texts = self.texts.borrow_mut();
        if let Some(known) = texts.get(text) {
            return Arc::clone(known);
        }
        let new: Arc<str> = text.into();
        texts.insert(text.to_owned(), Arc::clone(&new));
        new
    }
}

fn path_of(reader: &SectionReader) -> Option<PathBuf> {
    let bytes = reader.to_slice().ok()?;
    (!bytes.contains(&0)).then(|| OsStr::from_bytes(&bytes).into())
}

/// Returns the address ranges of all functions of a unit, by start.
fn subprogram_ranges(unit: &gimli::UnitRef<'_, SectionReader>) -> gimli::Result<Arc<[Range<u64>]>> {
    let mut found = Vec::new();
    let mut entries = unit.entries();
    while let Some(entry) = entries.next_dfs()? {
        if entry.tag() != gimli::DW_TAG_subprogram {
            continue;
        }
        let mut ranges = unit.die_ranges(entry)?;
        while let Some(range) = ranges.next()? {
            if range.begin < range.end {
                found.push(range.begin..range.end);
            }
        }
    }
    found.sort_unstable_by_key(|range| (range.start, range.end));
    Ok(found.into())
}
