//! The functions of an image, with all their names.

use super::hazards::Hazard;
use crate::trace::relocate::TraceRefusal;
use object::elf::{STT_FUNC, STT_GNU_IFUNC};
use object::read::elf::{ElfFile64, FileHeader, Sym};
use object::{Endianness, Object, ObjectSegment};
use profile::{BuildId, ImageOffset};
use rustc_hash::FxHashMap;
use std::path::Path;
use symbols::ImageSymbols;

/// A function of an image.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct TracedFunction {
    /// Names from the symbol tables. The first one is the name in reports.
    pub names: Vec<String>,
    /// Start offset, in the file.
    pub offset: ImageOffset,
    /// Size in bytes.
    pub size: u64,
    /// True for the resolver of an indirect function.
    pub indirect: bool,
}

/// An executable or library.
pub(super) struct TracedImage {
    /// Its path in the target.
    pub path: String,
    pub build_id: Option<BuildId>,
    /// Functions, ordered by offset.
    pub functions: Vec<TracedFunction>,
    /// Reason against tracing any program with this image.
    pub hazard: Option<Hazard>,
}

impl TracedImage {
    /// Reads the symbol tables of a file, or those of its separate debug file.
    pub fn open_image(path: &str, file: &Path) -> Result<Self, symbols::Error> {
        let symbols = ImageSymbols::open_image(file, &symbols::SymbolOptions::default())?;
        let mut found: FxHashMap<u64, TracedFunction> = FxHashMap::default();
        let bytes = std::fs::read(file).unwrap_or_default();
        let elf = ElfFile64::<Endianness>::parse(bytes.as_slice()).ok();
        if let Some(elf) = &elf {
            read_symbol_tables(elf, &mut found);
        }
        for raw in symbols.all_procedures() {
            let name = String::from_utf8_lossy(raw.name).into_owned();
            if name.ends_with("@plt") {
                continue; // a synthetic name for an entry of the procedure linkage table
            }
            let function = found.entry(raw.start.0).or_insert_with(|| TracedFunction {
                names: Vec::new(),
                offset: raw.start,
                size: raw.size,
                indirect: false,
            });
            // The name that reports show comes first.
            function.names.retain(|known| *known != name);
            function.names.insert(0, name);
        }
        let mut functions: Vec<TracedFunction> = found.into_values().collect();
        // A part of a function that is reached by a jump has no return address on top of the stack.
        functions.retain(|function| !function.names.iter().any(|name| is_part(name)));
        functions.sort_by_key(|function| function.offset);
        let defines = |name: &str| {
            let mut names = functions.iter().flat_map(|function| &function.names);
            names.any(|known| known == name)
        };
        let hazard = elf.and_then(|elf| Hazard::hazard_of_image(path, &elf, &defines));
        Ok(Self {
            path: path.to_owned(),
            build_id: symbols.build_id().cloned(),
            hazard,
            functions,
        })
    }
}

fn is_part(name: &str) -> bool {
    name.ends_with(".cold") || name.contains(".cold.")
}

/// Adds the functions of both symbol tables.
fn read_symbol_tables(elf: &ElfFile64<'_, Endianness>, found: &mut FxHashMap<u64, TracedFunction>) {
    let header = elf.elf_header();
    let (Ok(endian), data) = (header.endian(), elf.data()) else {
        return;
    };
    let Ok(sections) = header.sections(endian, data) else {
        return;
    };
    for kind in [object::elf::SHT_DYNSYM, object::elf::SHT_SYMTAB] {
        let Ok(table) = sections.symbols(endian, data, kind) else {
            continue;
        };
        for symbol in table.iter() {
            let kind = symbol.st_type();
            let Ok(name) = table.symbol_name(endian, symbol) else {
                continue;
            };
            if kind != STT_FUNC && kind != STT_GNU_IFUNC || name.is_empty() {
                continue;
            }
            let name = String::from_utf8_lossy(name).into_owned();
            if symbol.st_shndx(endian) == object::elf::SHN_UNDEF {
                continue;
            }
            let (address, size) = (symbol.st_value(endian), symbol.st_size(endian));
            let Some(offset) = file_offset(elf, address) else {
                continue;
            };
            let function = found.entry(offset).or_insert_with(|| TracedFunction {
                names: Vec::new(),
                offset: ImageOffset(offset),
                size,
                indirect: kind == STT_GNU_IFUNC,
            });
            function.size = function.size.max(size);
            if !function.names.contains(&name) {
                function.names.push(name);
            }
        }
    }
}

fn file_offset(elf: &ElfFile64<'_, Endianness>, address: u64) -> Option<u64> {
    elf.segments().find_map(|segment| {
        let (offset, size) = segment.file_range();
        let at = address.checked_sub(segment.address())?;
        (at < size).then(|| offset + at)
    })
}

/// Functions that must not be traced: they return more than once, leave their stack, or inspect
/// their return address.
const SPECIAL: [&str; 29] = [
    "setjmp",
    "_setjmp",
    "sigsetjmp",
    "__sigsetjmp",
    "vfork",
    "__vfork",
    "clone",
    "__clone",
    "clone3",
    "__clone_internal",
    "getcontext",
    "setcontext",
    "swapcontext",
    "makecontext",
    "__start_context",
    "__tls_get_addr",
    "__restore_rt",
    "dlsym",
    "dlvsym",
    "dlopen",
    "dlmopen",
    "_start",
    "_init",
    "_fini",
    "start_thread",
    "__morestack",
    "mcount",
    "__fentry__",
    "__register_frame",
];
/// Prefixes of the names of further special functions.
const SPECIAL_PREFIXES: [&str; 2] = ["_dl_", "__libc_start"];

/// Returns the reason for refusing a function before its code is read.
pub(super) fn refusal_of(function: &TracedFunction) -> Option<TraceRefusal> {
    let special = |name: &String| {
        SPECIAL.contains(&name.as_str())
            || SPECIAL_PREFIXES
                .iter()
                .any(|prefix| name.starts_with(prefix))
    };
    if function.indirect {
        Some(TraceRefusal::Indirect)
    } else if function.names.iter().any(special) {
        Some(TraceRefusal::Special)
    } else if function.size == 0 {
        Some(TraceRefusal::NoSize)
    } else {
        None
    }
}
